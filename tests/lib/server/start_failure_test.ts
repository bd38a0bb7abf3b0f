import { assertEquals, assertThrows } from "@std/assert";
import { UserFileError } from "../../../lib/auth/user_file.ts";
import { StateError } from "../../../lib/journal/state_folder.ts";
import { DescriptorError } from "../../../lib/net/descriptors.ts";
import { IoUringError, ListenError, TlsError } from "../../../lib/net/transport.ts";
import { DatabaseThreadError } from "../../../lib/rows/database_thread.ts";
import { listenFailure, logStartFailure } from "../../../lib/server/start_failure.ts";
import { ThreadError } from "../../../lib/server/threads.ts";
import { SnapshotError } from "../../../lib/snapshot/snapshot_format.ts";
import { serverOptions } from "../../support/command_line.ts";
import { loggedBy } from "../../support/log.ts";

const TCP = { kind: "tcp", hostname: "127.0.0.1", port: 80, protocol: "auto" } as const;

/** Returns the exit status of a failed start, and the first line that it writes. */
function failed(error: unknown, ...argv: readonly string[]): [status: number, line: string] {
  let status = 0;
  const lines = loggedBy("text", 0, () => {
    status = logStartFailure(error, serverOptions(...argv));
  });
  return [status, lines[0]!];
}

Deno.test("each failure of a start has its exit status, and a line that says why", () => {
  const cases: readonly (readonly [Error, number, string])[] = [
    [
      new ListenError(TCP, "EADDRNOTAVAIL", ""),
      71,
      "fatal: cannot listen on 127.0.0.1:80: this host has no such address (EADDRNOTAVAIL); ip " +
      "address lists its addresses",
    ],
    [new ThreadError("no memory"), 71, "fatal: cannot start a thread: no memory"],
    [new TlsError("other"), 64, "fatal: -Z (--enable-ssl): other"],
    [
      new IoUringError("not permitted"),
      71,
      "fatal: cannot use io_uring: not permitted; --io-uring=auto serves without it",
    ],
    [new StateError("a folder"), 71, "fatal: a folder"],
    [
      new UserFileError("/u", "bad line"),
      71,
      `fatal: ${new UserFileError("/u", "bad line").message}`,
    ],
    [new SnapshotError("no snapshot"), 71, "fatal: no snapshot"],
    [new DatabaseThreadError("no table", true), 64, "fatal: no table"],
    [new DatabaseThreadError("no database", false), 71, "fatal: no database"],
    [new RangeError("too large"), 64, "leased: too large"],
  ];
  for (const [error, status, line] of cases) assertEquals(failed(error), [status, line]);
  const descriptors = new DescriptorError(100, 50);
  assertEquals(failed(descriptors), [71, `fatal: ${descriptors.message}`]);
  assertThrows(() => logStartFailure(new Error("a fault"), serverOptions()), Error, "a fault");
});

Deno.test("an error of TLS names the option to change, and the file that it needs", () => {
  const certificate = "the certificate in /c (--ssl-chain-cert)";
  const chain = "/c (--ssl-chain-cert) must be a readable PEM file of certificates";
  const ownKey = `name the file with the key of ${certificate} with --ssl-key (-o ssl_key)`;
  const otherKey = "/k (--ssl-key) must be a key in PEM, without a pass phrase, and belong to " +
    certificate;
  const ciphers = "openssl ciphers -v lists what --ssl-ciphers takes";
  const admin = "the admin port takes names of ciphers in --ssl-ciphers, no groups such as " +
    "ECDHE+AESGCM; or serve it without TLS: --admin notls:<port>";
  const cases: readonly (readonly [message: string, remedy: string, withKey?: string])[] = [
    ["Error loading the certificate chain: x", chain],
    ["Error loading the key: x", ownKey, otherKey],
    ["Error validating the certificate: x", ownKey, otherKey],
    ["Error validating the certificate: No certificates found", chain],
    [
      "Error loading the CA certificate: x",
      "/a (--ssl-ca-cert) must be a PEM file of certificates",
    ],
    ["Error setting the cipher(s) of --admin: x", admin],
    ["Error setting the provided cipher(s)", ciphers],
    ["cannot load OpenSSL", ""],
  ];
  const tls = ["-Z", "-o", "ssl_chain_cert=/c,ssl_ca_cert=/a"];
  for (const [message, remedy, withKey = remedy] of cases) {
    const text = (shown: string): string =>
      `fatal: -Z (--enable-ssl): ${message}${shown === "" ? "" : `; ${shown}`}`;
    assertEquals(failed(new TlsError(message), ...tls), [64, text(remedy)]);
    assertEquals(failed(new TlsError(message), ...tls, "-o", "ssl_key=/k"), [64, text(withKey)]);
  }
});

Deno.test("a port that is in use, or not permitted, names the option of its listener", () => {
  const options = serverOptions("--admin", "9150", "--counter-port", "9");
  const reasonOf = (listen: ListenError["listen"], code: string): unknown => {
    const { message, fields } = listenFailure(new ListenError(listen, code, "?"), options);
    assertEquals(message, `cannot listen on ${fields["address"]}: ${fields["reason"]}`);
    return fields["reason"];
  };
  const inUse = (flag: string, family: string, port: number): string =>
    `another process uses this port (EADDRINUSE); choose another with ${flag}, or find the ` +
    `process: ss ${family}lnp 'sport = :${port}'`;
  assertEquals(reasonOf(options.admin!, "EADDRINUSE"), inUse("--admin", "-t", 9150));
  assertEquals(
    reasonOf(options.counterListens[0]!, "EADDRINUSE"),
    inUse("--counter-port", "-t", 9),
  );
  assertEquals(reasonOf(TCP, "EADDRINUSE"), inUse("-p or -l", "-t", 80));
  assertEquals(reasonOf({ ...TCP, kind: "udp" }, "EADDRINUSE"), inUse("-U", "-u", 80));
  const below = "permission denied (EACCES); ports below 1024 need root or CAP_NET_BIND_SERVICE, " +
    "or choose another with -p or -l";
  const policy = "permission denied (EACCES); check the security policy of this host";
  assertEquals(reasonOf({ ...TCP, port: 1023 }, "EACCES"), below);
  assertEquals(reasonOf({ ...TCP, port: 1024 }, "EACCES"), policy);
  const unix = { kind: "unix", path: "/run/l/sock", mode: 0o700, protocol: "auto" } as const;
  const another = (code: string): string =>
    `another server listens on this path, or the file is no socket (${code}); stop that server, ` +
    "remove the file, or choose another path with -s";
  assertEquals(reasonOf(unix, "EADDRINUSE"), another("EADDRINUSE"));
  assertEquals(reasonOf(unix, "EEXIST"), another("EEXIST"));
  assertEquals(reasonOf(unix, "ENOTDIR"), "/run/l is not a folder; choose another path with -s");
  assertEquals(reasonOf(unix, "EIO"), "?");
  const json = loggedBy("json", 0, () => {
    logStartFailure(new ListenError(TCP, "EIO", "cannot listen on 127.0.0.1:80: a cause"), options);
  }).map((line) => JSON.parse(line));
  assertEquals(json.map(({ event, address, code, reason }) => [event, address, code, reason]), [
    ["cannot_listen", "127.0.0.1:80", "EIO", "a cause"],
  ]);
});
