import { assertEquals } from "@std/assert";
import { readCommand } from "../../../lib/cli/command.ts";
import { PROCESS_INFO, serverOptions } from "../../support/command_line.ts";

function errors(...argv: string[]): readonly string[] {
  const read = readCommand(argv, PROCESS_INFO);
  return read.kind === "refuse" ? read.errors : [];
}

Deno.test("-Y allows the text protocol only, -S the binary one, and -B auto both", () => {
  const protocols = (...argv: string[]): string[] => {
    const { wireProtocol, listens } = serverOptions("-l", "127.0.0.1,proto[ascii]:[::1]", ...argv);
    const ofListens = listens.map((listen) => listen.kind === "udp" ? "" : listen.protocol);
    return [wireProtocol, ...ofListens];
  };
  assertEquals(protocols(), ["auto", "auto", "ascii"]);
  assertEquals(protocols("-Y", "f"), ["ascii", "ascii", "ascii"]);
  assertEquals(protocols("-Y", "f", "-S"), ["binary", "binary", "ascii"]);
  assertEquals(protocols("-Y", "f", "-S", "-B", "auto"), ["auto", "auto", "ascii"]);
  const options = serverOptions("-Y", "f", "-S", "--auth-timeout", "5");
  assertEquals([options.authFile, options.enableSasl, options.authTimeoutSec], ["f", true, 5]);
});

Deno.test("listeners that could not ask for a password are refused", () => {
  assertEquals(errors("-S"), ["-S (--enable-sasl): needs -Y (--auth-file), the file of the users"]);
  assertEquals(errors("-Y", "f", "-S", "-B", "ascii"), [
    "-S (--enable-sasl) and -B (--protocol) ascii: SASL is of the binary protocol",
  ]);
  assertEquals(errors("-Y", "f", "-B", "binary"), [
    "-Y (--auth-file) and -B (--protocol) binary: add -S (--enable-sasl) for the binary protocol, or leave -B out",
  ]);
  assertEquals(errors("-Y", "f", "-l", "proto[binary]:127.0.0.1"), [
    "-Y (--auth-file) and -l (--listen) 127.0.0.1:11211: add -S (--enable-sasl) for the binary protocol, or leave -l out",
  ]);
  assertEquals(errors("-Y", "f", "-U", "11211"), [
    "-U (--udp-port): UDP has no authentication; leave out -U, or -Y (--auth-file)",
  ]);
});

Deno.test("--require-auth refuses addresses that other hosts can reach without a password", () => {
  const open = (address: string, remedy: string): string =>
    `--require-auth: other hosts can reach ${address}, and need no password; ${remedy}, or listen on 127.0.0.1`;
  assertEquals(errors("--require-auth", "-l", "0.0.0.0,127.0.0.1"), [
    open("0.0.0.0:11211", "add -Y (--auth-file)"),
  ]);
  assertEquals(errors("--require-auth", "-Y", "f", "-l", "0.0.0.0", "--counter-port", "11215"), [
    open("0.0.0.0:11215", "counters have no authentication: leave --counter-port out"),
  ]);
  assertEquals(errors("--require-auth", "--admin", "*:9150"), [
    open("0.0.0.0:9150", "metrics have no authentication: leave --admin out"),
  ]);
  assertEquals(errors("--require-auth", "--admin", "9150"), []);
  assertEquals(errors("--require-auth"), []);
  assertEquals(errors("--require-auth", "-s", "/tmp/x"), []);
  assertEquals(errors("--require-auth", "-Y", "f", "-l", "0.0.0.0"), []);
});
