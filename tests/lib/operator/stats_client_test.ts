import { assertEquals, assertRejects } from "@std/assert";
import { bytesText, printable } from "../../../lib/operator/output.ts";
import { groupsOf, numberOf, StatsClient } from "../../../lib/operator/stats_client.ts";
import { readTargets } from "../../../lib/operator/targets.ts";
import { PeerError } from "../../../lib/peers/peer.ts";
import { ScriptedPeer, type ScriptedReply } from "../../support/servers/scripted_peer.ts";

/** Asks a server that answers each line as `reply` says. */
async function withClient(
  reply: (line: string) => ScriptedReply,
  use: (client: StatsClient, name: string) => Promise<void>,
  timeoutMs = 10_000,
): Promise<void> {
  await using server = new ScriptedPeer(reply);
  const address = { hostname: "127.0.0.1", port: server.port };
  const client = await StatsClient.connect(address, { timeoutMs, login: null, caCert: null });
  try {
    await use(client, `127.0.0.1:${server.port}`);
  } finally {
    client.close();
  }
}

Deno.test("a table has the statistics of its reply; values may be empty or have blanks", async () => {
  const asked: string[] = [];
  await withClient((line) => {
    asked.push(line);
    return ["STAT pid 7\r\nSTAT empty\r\nSTAT blank \r\nSTAT text a b  c\r\nnoise\r\nEND\r\n"];
  }, async (client) => {
    assertEquals([...(await client.table())!], [
      ["pid", "7"],
      ["empty", ""],
      ["blank", ""],
      ["text", "a b  c"],
    ]);
    await client.table("items");
  });
  assertEquals(asked, ["stats", "stats items"]);
});

Deno.test("a server without a table answers with an error; one that wants a password says so", async () => {
  for (const reply of ["ERROR", "CLIENT_ERROR no such table", "SERVER_ERROR out of memory"]) {
    await withClient(() => [`${reply}\r\n`], async (client) => {
      assertEquals(await client.table("rows"), null);
      // The connection serves on.
      assertEquals(await client.lines("stats detail dump"), null);
    });
  }
  await withClient(() => ["CLIENT_ERROR unauthenticated\r\n"], async (client, name) => {
    const error = await assertRejects(() => client.table(), PeerError);
    assertEquals(error.message, `${name}: asks for a password: add --login`);
  });
});

Deno.test("a reply that goes on for ever is given up by its length, and by its time", async () => {
  const line = `STAT ${"x".repeat(1000)} 1\r\n`;
  await withClient(
    function* (): Generator<string> {
      for (let sent = 0; sent < 20_000_000; sent += line.length) yield line.repeat(100);
    },
    async (client, name) => {
      const error = await assertRejects(() => client.table(), PeerError);
      assertEquals(error.message, `${name}: answers stats with more than 16777216 bytes`);
    },
  );
  await withClient(() => ["STAT a 1\r\n"], async (client, name) => {
    const error = await assertRejects(() => client.table(), PeerError);
    assertEquals(error.message, `${name}: no reply within 40 ms`);
  }, 40);
});

Deno.test("a number is decimal digits; anything else is unknown", () => {
  const table = new Map(Object.entries({
    ...{ whole: "12", negative: "-3", decimal: "0.25", empty: "", text: "on", hex: "0x10" },
    ...{ exponent: "1e3", blank: " 1", point: "1.", zero: "0" },
  }));
  const read = (name: string): number => numberOf(table, name);
  assertEquals(["whole", "negative", "decimal", "zero"].map(read), [12, -3, 0.25, 0]);
  for (const name of ["empty", "text", "hex", "exponent", "blank", "point", "absent"]) {
    assertEquals(read(name), NaN, name);
  }
  assertEquals(numberOf(null, "whole"), NaN);
});

Deno.test("groups are the names before the last colon, behind a prefix", () => {
  const table = new Map(Object.entries({
    ...{ "items:1:number": "5", "items:1:age": "6", "items:12:number": "7", active_slabs: "8" },
    ...{ "text:get": "9", ":odd": "10" },
  }));
  const groups = (prefix?: string): Record<string, Record<string, string>> =>
    Object.fromEntries(
      [...groupsOf(table, prefix)].map(([name, group]) => [name, Object.fromEntries(group)]),
    );
  assertEquals(groups("items:"), {
    "1": { number: "5", age: "6" },
    "12": { number: "7" },
  });
  assertEquals(groups(), {
    "items:1": { number: "5", age: "6" },
    "items:12": { number: "7" },
    text: { get: "9" },
    "": { odd: "10" },
  });
  assertEquals(groupsOf(null).size, 0);
});

Deno.test("sizes have binary units and a digit behind the point, bytes none", () => {
  const texts: readonly (readonly [number, string])[] = [
    [0, "0 B"],
    [1023, "1023 B"],
    [1024, "1.0 KiB"],
    [1536, "1.5 KiB"],
    [2 ** 20 - 1, "1024.0 KiB"],
    [2 ** 20, "1.0 MiB"],
    [64 * 2 ** 20, "64.0 MiB"],
    [2 ** 30, "1.0 GiB"],
    [2 ** 40, "1.0 TiB"],
    [2048 * 2 ** 40, "2048.0 TiB"],
  ];
  for (const [bytes, text] of texts) assertEquals(bytesText(bytes), text);
});

Deno.test("only printable ASCII is printed as it is", () => {
  assertEquals(printable(" ~az\x1f\x7f\x80\x9b\u00e9\t\n"), " ~az???????");
});

Deno.test("targets are addresses or paths; each mistake names its text or its file", async () => {
  const folder = await Deno.makeTempDir();
  const login = `${folder}/login`;
  await Deno.writeTextFile(login, "ann:a:b\n");
  await Deno.writeTextFile(`${folder}/ca.pem`, "PEM");
  const values = {
    server: ["h:1", "[::1]:2", "/run/x", "./x"],
    login: "",
    timeoutMs: 7,
    caCert: "",
  };
  const read = (
    given: Partial<typeof values>,
  ): readonly [ReturnType<typeof readTargets>, string[]] => {
    const errors: string[] = [];
    return [readTargets({ ...values, ...given }, errors), errors];
  };
  assertEquals(read({}), [{
    addresses: [
      { hostname: "h", port: 1 },
      { hostname: "::1", port: 2 },
      { path: "/run/x" },
      { path: "./x" },
    ],
    dial: { timeoutMs: 7, login: null, caCert: null },
  }, []]);
  const [targets] = read({ login, caCert: `${folder}/ca.pem` });
  assertEquals(targets.dial.login, { user: "ann", password: "a:b" });
  assertEquals(targets.dial.caCert, "PEM");
  for (const server of ["h", "h:0", "h:65536", ":1"]) {
    const [, errors] = read({ server: [server] });
    assertEquals(errors.length, 1, server);
    assertEquals(errors[0]!.startsWith(`"${server}": `), true, errors[0]);
    assertEquals(errors[0]!.endsWith(", or the path of a Unix socket, with a slash"), true);
  }
  const [, errors] = read({ login: `${folder}/none`, caCert: `${folder}/absent` });
  assertEquals(errors.map((error) => error.split(":")[0]), [
    `--login ${folder}/none`,
    `--ca-cert ${folder}/absent`,
  ]);
  await Deno.remove(folder, { recursive: true });
});
