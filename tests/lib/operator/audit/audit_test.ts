import { assert, assertEquals, assertLess, assertMatch, assertStringIncludes } from "@std/assert";
import { createDatabase, testDatabases } from "../../../support/servers/databases.ts";
import { Certificates, tlsArguments } from "../../../support/servers/certificates.ts";
import { startNode, startOrigin } from "../../../support/servers/origin_process.ts";
import { ScriptedPeer, type ScriptedReply } from "../../../support/servers/scripted_peer.ts";
import {
  Client,
  leastPermissions,
  MAIN,
  ServerProcess,
} from "../../../support/servers/server_process.ts";
import { textLogin, USER_LINES } from "../../../support/sessions/auth_requests.ts";
import { textOf } from "../../../support/sessions/side.ts";

const OK = 0;
const DIFFERENT = 1;
const USAGE = 64;
const UNAVAILABLE = 69;
const OS_ERROR = 71;

/** `printf one | sha256sum` */
const SHA256_OF_ONE = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
/** `printf bad | sha256sum` */
const SHA256_OF_BAD = "2f05d4b689d270cafb02285f35f44866f7dc8a2d368a3f9d1124373eeab31fb1";

interface Audited {
  readonly code: number;
  readonly lines: readonly string[];
  readonly stderr: string;
}

/** The flags of `deno task audit`, for 127.0.0.1 and temporary files only. */
const FLAGS = ["run", "--no-prompt", "--allow-net=127.0.0.1", "--allow-read=/tmp", MAIN, "audit"];

function spawnAudit(origin: number, args: readonly string[]): Deno.ChildProcess {
  return new Deno.Command(Deno.execPath(), {
    args: [...FLAGS, "--origin", `127.0.0.1:${origin}`, ...args],
    env: { NO_COLOR: "1" },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

async function endOf(child: Deno.ChildProcess): Promise<Audited> {
  const { code, stdout, stderr } = await child.output();
  const lines = textOf(stdout).split("\n").filter((line) => line !== "");
  return { code, lines, stderr: textOf(stderr) };
}

function audit(origin: number, ...args: readonly string[]): Promise<Audited> {
  return endOf(spawnAudit(origin, args));
}

/** The counts of the line `audited`, as numbers by name. */
function countsOf(line: string | undefined): Record<string, number> {
  const pairs = [...(line ?? "").matchAll(/ (\w+)=(\d+)(?= |$)/g)];
  return Object.fromEntries(pairs.map(([, name, count]) => [name!, Number(count)]));
}

async function connect(servers: readonly ServerProcess[]): Promise<Client[]> {
  return await Promise.all(servers.map((server) => server.connect()));
}

testDatabases("an audit finds what was set behind the origin's back", async (database) => {
  await using first = await ServerProcess.start();
  await using second = await ServerProcess.start();
  await using origin = await startOrigin(database);
  const [client, one, two] = await connect([origin, first, second]) as [Client, Client, Client];
  try {
    for (const key of ["same", "value", "flags", "gone%1"]) {
      await client.ask(`set ${key} 5 0 3\r\none\r\n`, "STORED\r\n");
    }
    await client.ask("delete gone%1\r\n", "DELETED\r\n");
    const caches = ["--cache", `127.0.0.1:${first.port},127.0.0.1:${second.port}`];
    assertEquals((await audit(origin.port, ...caches)).code, OK, "empty caches");
    await one.ask("set same 5 0 3\r\none\r\n", "STORED\r\n");
    await one.ask("set value 5 0 3\r\nbad\r\n", "STORED\r\n");
    await two.ask("set same 5 0 3\r\none\r\n", "STORED\r\n");
    await two.ask("set flags 6 0 3\r\none\r\n", "STORED\r\n");
    await two.ask("set gone%1 5 0 3\r\none\r\n", "STORED\r\n");
    await two.ask("set never 5 0 0\r\n\r\n", "STORED\r\n");
    await two.ask("ms c3BhY2UgZA== 1 b\r\nx\r\n", "HD\r\n");
    const { code, lines, stderr } = await audit(origin.port, ...caches);
    assertEquals([code, stderr], [DIFFERENT, ""]);
    const [inFirst, firstCounts, ...rest] = lines;
    assertMatch(
      inFirst!,
      new RegExp(
        `^difference cache=127.0.0.1:${first.port} key=value cached_id=\\d+ cached_flags=5 ` +
          `cached_bytes=3 cached_sha256=${SHA256_OF_BAD} row_version=1 row_flags=5 row_bytes=3 ` +
          `row_sha256=${SHA256_OF_ONE} mark=C$`,
      ),
    );
    assertEquals(countsOf(firstCounts), {
      ...{ keys: 2, equal: 1, different: 1, gone: 0, unsettled: 0, foreign: 0 },
    });
    assertEquals(countsOf(rest.at(-1)), {
      ...{ keys: 5, equal: 1, different: 3, gone: 0, unsettled: 0, foreign: 1 },
    });
    const absent = "row_flags=- row_bytes=- row_sha256=- mark=C";
    const found = rest.slice(0, -1).toSorted((a, b) => a.localeCompare(b));
    assertMatch(found[0]!, / key=flags .* cached_flags=6 .* row_flags=5 /);
    assertMatch(found[1]!, new RegExp(` key=gone%251 .* row_version=2 ${absent}$`));
    assertMatch(found[2]!, new RegExp(` key=never .* row_version=0 ${absent}$`));
    const prefixed = await audit(origin.port, ...caches, "--prefix", "sa");
    assertEquals(prefixed.code, OK, prefixed.lines.join("\n"));
    const chosen = await audit(origin.port, "--cache", `127.0.0.1:${first.port}`);
    assertEquals([chosen.code, chosen.lines.length], [DIFFERENT, 2]);
  } finally {
    for (const each of [client, one, two]) each[Symbol.dispose]();
  }
});

/** Fills a cache with a row, if it may: as a client does that knows leases. */
async function fillCache(
  cache: Client,
  origin: Client,
  key: string,
): Promise<void> {
  await cache.send(`lease-get ${key}\r\n`);
  const lease = /^LVALUE \S+ (\d+)/.exec(await cache.until("END\r\n"))?.[1] ?? "0";
  await origin.send(`uget ${key}\r\n`);
  const row = /^VALUE \S+ 0 (\d+) \d+ C\r\n(.+)\r\n/.exec(await origin.until("END\r\n"));
  if (row === null || lease.length === 1) return;
  await cache.send(`lease-set ${key} ${lease} 0 0 ${row[1]}\r\n${row[2]}\r\n`);
  await cache.until("\r\n");
}

testDatabases("by default, the origin and its nodes are compared", async (database) => {
  await using origin = await startOrigin(database);
  await using node = await startNode([origin]);
  await using named = await startNode([origin], ["--node-name", "anna"]);
  for (const server of [origin, node, named]) {
    using client = await server.connect();
    await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
  }
  for (const server of [origin, node, named]) {
    using client = await server.connect();
    await client.ask("get k\r\n", "VALUE k 0 3\r\none\r\nEND\r\n");
  }
  const { code, lines, stderr } = await audit(origin.port);
  assertEquals([code, lines.length], [OK, 2], stderr);
  assertStringIncludes(lines[0]!, `audited cache=127.0.0.1:${origin.port} keys=1 equal=1 `);
  assertStringIncludes(lines[1]!, `audited cache=127.0.0.1:${node.port} keys=1 equal=1 `);
  using client = await origin.connect();
  await client.ask("set k 0 0 3\r\ntwo\r\n", "STORED\r\n");
  await client.send("stats rows\r\n");
  assertStringIncludes(await client.until("END\r\n"), "STAT uget_unsafe 0\r\n");
});

testDatabases("an audit of keys that change all the time finds nothing", async (database) => {
  await using origin = await startOrigin(database);
  await using node = await startNode([origin]);
  const KEYS = 40;
  let isOver = false;
  const change = async (number: number): Promise<void> => {
    using client = await origin.connect();
    for (let turn = 0; !isOver; turn++) {
      const key = `k${(7 * turn + number) % KEYS}`;
      const value = `${number}.${turn}`;
      await client.ask(`set ${key} 0 0 ${value.length}\r\n${value}\r\n`, "STORED\r\n");
    }
  };
  const read = async (server: ServerProcess): Promise<void> => {
    using client = await server.connect();
    for (let turn = 0; !isOver; turn++) {
      await client.send(`get k${turn % KEYS}\r\n`);
      await client.until("END\r\n");
    }
  };
  const clients = [change(0), change(1), read(origin), read(node)];
  let compared = 0;
  for (let audits = 0; audits < 6 || compared === 0; audits++) {
    const { code, lines, stderr } = await audit(origin.port);
    assertEquals(code, OK, lines.join("\n") + stderr);
    compared += countsOf(lines.at(-1))["equal"]!;
  }
  isOver = true;
  await Promise.all(clients);
});

Deno.test("an audit authenticates to origin and caches", async () => {
  await using database = await createDatabase("SQLite");
  const { folder } = database;
  const users = `${folder}/users`;
  await Deno.writeTextFile(users, USER_LINES);
  await Deno.writeTextFile(`${folder}/admin`, "ann:nna\n");
  await Deno.writeTextFile(`${folder}/reader`, "carl:lrac\n");
  await using cache = await ServerProcess.start({
    args: ["-Y", users],
    permissions: [`--allow-read=${folder}`, ...leastPermissions("portable")],
  });
  const cacheLogin = ["--cache-login", `${folder}/admin`];
  await using origin = await startOrigin(database, ["-Y", users]);
  using client = await origin.connect();
  await client.ask(
    `${textLogin("ann", "nna")}set k 0 0 1\r\nv\r\nget k\r\n`,
    "STORED\r\nSTORED\r\nVALUE k 0 1\r\nv\r\nEND\r\n",
  );
  using reader = await cache.connect();
  await reader.ask(textLogin("ann", "nna"), "STORED\r\n");
  await fillCache(reader, client, "k");
  const originLogin = ["--origin-login", `${folder}/reader`];
  const caches = ["--cache", `127.0.0.1:${cache.port}`, ...cacheLogin];
  const { code, lines, stderr } = await audit(origin.port, ...originLogin, ...caches);
  assertEquals([code, countsOf(lines[0])["equal"]], [OK, 1], stderr);
  const own = await audit(origin.port, ...originLogin, ...cacheLogin);
  assertEquals([own.code, countsOf(own.lines[0])["equal"]], [OK, 1], own.stderr);
  const without = await audit(origin.port, ...cacheLogin);
  assertEquals(without.code, UNAVAILABLE);
  assertStringIncludes(without.stderr, "CLIENT_ERROR unauthenticated");
  const reading = await audit(origin.port, ...originLogin, "--cache-login", `${folder}/reader`);
  assertEquals(reading.code, UNAVAILABLE);
  assertStringIncludes(reading.stderr, "CLIENT_ERROR not permitted");
  const missing = await audit(origin.port, "--origin-login", `${folder}/none`);
  assertEquals(missing.code, OS_ERROR);
  assertStringIncludes(missing.stderr, `${folder}/none`);
});

Deno.test("an audit reaches origin and caches over TLS, and verifies their certificates", async () => {
  await using database = await createDatabase("SQLite");
  const { folder } = database;
  await Deno.writeTextFile(`${folder}/users`, USER_LINES);
  await Deno.writeTextFile(`${folder}/admin`, "ann:nna\n");
  const certificates = new Certificates(folder);
  const own = certificates.make("localhost");
  const other = certificates.make("other");
  await using cache = await ServerProcess.start({
    args: [...tlsArguments(own), "-Y", `${folder}/users`],
    permissions: [`--allow-read=${folder}`, ...leastPermissions("portable")],
  });
  const cacheOptions = ["--cache-login", `${folder}/admin`, "--cache-ca-cert", own.certPath];
  const listener = ["-Z", "--ssl-chain-cert", own.certPath, "--ssl-key", own.keyPath];
  {
    await using origin = await startOrigin(database, listener);
    using client = new Client(
      await Deno.connectTls({ hostname: "127.0.0.1", port: origin.port, caCerts: [own.cert] }),
    );
    await client.ask(
      "set k 0 0 3\r\none\r\nget k\r\n",
      "STORED\r\nVALUE k 0 3\r\none\r\nEND\r\n",
    );
    using reader = new Client(
      await Deno.connectTls({ hostname: "127.0.0.1", port: cache.port, caCerts: [own.cert] }),
    );
    await reader.ask(textLogin("ann", "nna"), "STORED\r\n");
    await fillCache(reader, client, "k");
    const { code, lines, stderr } = await audit(
      origin.port,
      ...["--cache", `127.0.0.1:${cache.port}`, ...cacheOptions],
      "--origin-ca-cert",
      own.certPath,
    );
    assertEquals([code, countsOf(lines[0])["equal"]], [OK, 1], stderr);
    const unverified = await audit(origin.port, "--origin-ca-cert", other.certPath);
    assertEquals(unverified.code, UNAVAILABLE);
    assertMatch(unverified.stderr, /127\.0\.0\.1:\d+: .*certificate/);
    const unknown = await audit(
      origin.port,
      ...["--cache", `127.0.0.1:${cache.port}`, "--origin-ca-cert", own.certPath],
      ...["--cache-login", `${folder}/admin`, "--cache-ca-cert", other.certPath],
    );
    assertEquals(unknown.code, UNAVAILABLE);
    assertMatch(unknown.stderr, /127\.0\.0\.1:\d+: .*certificate/);
    const itself = await audit(origin.port, "--origin-ca-cert", own.certPath);
    assertEquals([itself.code, countsOf(itself.lines[0])["equal"]], [OK, 1], itself.stderr);
    const missing = await audit(origin.port, "--cache-ca-cert", `${folder}/none`);
    assertEquals(missing.code, OS_ERROR);
    assertStringIncludes(missing.stderr, `${folder}/none`);
  }
});

// --- scripted peers ------------------------------------------------------------------------------

const ROW = "VALUE KEY 0 3 7 C\r\none\r\n";

/** An origin that has the same row for every key. */
function* rows(line: string): ScriptedReply {
  const [command, ...keys] = line.split(" ");
  assertEquals(command, "uread");
  yield keys.map((key) => ROW.replace("KEY", key)).join("") + "END\r\n";
}

interface CacheScript {
  /** Replies to the first `stats` and to later ones: `curr_items`. */
  readonly items?: readonly number[];
  /** Replies to `lru_crawler mgdump hash`. */
  readonly list: () => ScriptedReply;
  /** Replies to one `mg`. */
  readonly item?: (key: string) => ScriptedReply;
}

/** Audits a scripted cache and a scripted origin. */
async function auditScript(script: CacheScript): Promise<Audited> {
  await using cache = new ScriptedPeer(cacheReplies(script));
  await using origin = new ScriptedPeer(rows);
  return await audit(origin.port, "--cache", `127.0.0.1:${cache.port}`, "--timeout", "2000");
}

function cacheReplies(
  { list, item = goodItem, items = [] }: CacheScript,
): (line: string) => ScriptedReply {
  const left = [...items];
  return (line) => {
    if (line === "stats") return [`STAT curr_items ${left.shift()}\r\nEND\r\n`];
    return line.startsWith("mg ") ? item(line.split(" ")[1]!) : list();
  };
}

function* goodItem(key: string): ScriptedReply {
  yield `VA 3 k${key} f0 c5\r\none\r\n`;
}

/** A list of so many keys, or without end. */
function* manyKeys(count = Infinity): ScriptedReply {
  yield "OK\r\n";
  for (let key = 0; key < count; key++) yield `mg k${key}\r\n`;
  yield "EN\r\n";
}

/** A list of one key. */
function* oneKey(): ScriptedReply {
  yield "OK\r\nmg k\r\nEN\r\n";
}

Deno.test("an audit knows a key in base64", async () => {
  for (const line of ["mg k", "mg aw== b"]) {
    for (const item of ["kk", "kaw== b"]) {
      const { code, lines, stderr } = await auditScript({
        list: () => [`OK\r\n${line}\r\nEN\r\n`],
        item: () => [`VA 3 ${item} f0 c5\r\none\r\n`],
      });
      assertEquals([code, countsOf(lines[0])["equal"]], [OK, 1], stderr);
    }
  }
});

Deno.test("an audit compares what scripted peers say", async () => {
  const { code, lines } = await auditScript({ list: oneKey });
  assertEquals(code, OK);
  assertEquals(countsOf(lines[0])["equal"], 1);
});

Deno.test("an item that is stored again between all looks is no difference", async () => {
  let id = 1;
  const { code, lines } = await auditScript({
    list: oneKey,
    item: (key) => [`VA 3 k${key} f0 c${++id}\r\nbad\r\n`],
  });
  assertEquals(code, OK);
  assertEquals(countsOf(lines[0])["unsettled"], 1);
});

Deno.test("an item that is stored again between two looks, and then stays, is a difference", async () => {
  let looks = 0;
  const { lines } = await auditScript({
    list: oneKey,
    item: (key) => [`VA 3 k${key} f0 c${++looks === 1 ? 1 : 2}\r\nbad\r\n`],
  });
  const { different, unsettled } = countsOf(lines.at(-1));
  assertEquals([different, unsettled], [1, 0]);
});

Deno.test("an item that is removed before the second look is no difference", async () => {
  let looks = 0;
  const { code, lines } = await auditScript({
    list: oneKey,
    item: (key) => [++looks === 1 ? `VA 3 k${key} f0 c5\r\nbad\r\n` : "EN\r\n"],
  });
  assertEquals(code, OK);
  assertEquals(countsOf(lines[0])["gone"], 1);
});

Deno.test("a cache that grows while it is audited is audited as a whole", async () => {
  const KEYS = 2000;
  const { code, lines, stderr } = await auditScript({
    list: () => manyKeys(KEYS),
    items: [1, KEYS / 2].map((items) => items + 100),
  });
  assertEquals([code, countsOf(lines[0])["equal"]], [OK, KEYS], stderr);
});

const HOSTILE: readonly (readonly [name: string, script: CacheScript, message: RegExp])[] = [
  ["lists a key without an end", {
    list: () => ["OK\r\nmg ", "k".repeat(1_000_000)],
  }, /sends a line longer than 2048 bytes/],
  [
    "lists keys without end",
    { list: () => manyKeys(), items: [5, 0] },
    /: lists 1011 keys and more, but has only 0 items \(curr_items\)$/m,
  ],
  ["lists something else", { list: () => ["OK\r\nkey=k exp=0\r\n"] }, /answers lru_crawler mgdump/],
  ["refuses to list", { list: () => ["ERROR mgdump not allowed\r\n"] }, /"ERROR mgdump not allow/],
  ["dies in its list", { list: () => ["OK\r\nmg k\r\n", "close"] }, /closed the connection/],
  ["stops in its list", { list: () => ["OK\r\nmg k\r\n"] }, /no reply within 2000 ms/],
  ["announces a huge value", {
    list: oneKey,
    item: () => ["VA 99999999999 kk f0 c5\r\n"],
  }, /announces a value of 99999999999 bytes/],
  ["announces a value of no length", {
    list: oneKey,
    item: () => ["VA x kk f0 c5\r\n"],
  }, /announces a value of x bytes/],
  ["sends a longer value", {
    list: oneKey,
    item: () => ["VA 3 kk f0 c5\r\none more\r\n"],
  }, /announces a value of 3 bytes, and sends another length/],
  ["sends another key", {
    list: oneKey,
    item: () => ["VA 3 kother f0 c5\r\none\r\n"],
  }, /answers mg with "VA 3 kother/],
  ["dies in a value", {
    list: oneKey,
    item: () => ["VA 3 kk f0 c5\r\no", "close"],
  }, /closed the connection/],
];
for (const [name, script, message] of HOSTILE) {
  Deno.test(`an audit ends when a cache ${name}`, async () => {
    const { code, stderr, lines } = await auditScript(script);
    assertEquals([code, lines], [UNAVAILABLE, []], stderr);
    assertMatch(stderr, message);
    assertLess(stderr.length, 1000);
  });
}

Deno.test("differences found before a cache dies are reported", async () => {
  const keys = Array.from({ length: 100 }, (_, number) => `mg k${number}\r\n`).join("");
  const { code, lines, stderr } = await auditScript({
    list: () => [`OK\r\n${keys}`, "close"],
    item: (key) => [`VA 3 k${key} f0 c5\r\nbad\r\n`],
  });
  assertEquals([code, lines.length], [DIFFERENT, 64], "the batch that was complete");
  assertMatch(stderr, /closed the connection/);
});

Deno.test("the other caches are compared when one is away", async () => {
  await using away = new ScriptedPeer(() => []);
  const { port } = away;
  await away[Symbol.asyncDispose]();
  await using cache = await ServerProcess.start();
  await using origin = new ScriptedPeer(rows);
  const caches = `127.0.0.1:${port},127.0.0.1:${cache.port}`;
  const { code, lines, stderr } = await audit(origin.port, "--cache", caches);
  assertEquals([code, lines.length], [UNAVAILABLE, 1], stderr);
  assertStringIncludes(lines[0]!, `audited cache=127.0.0.1:${cache.port} keys=0 `);
  assertStringIncludes(stderr, `leased: 127.0.0.1:${port}: `);
});

Deno.test("an origin that is away, or fails, ends the audit", async () => {
  await using cache = await ServerProcess.start();
  using client = await cache.connect();
  await client.ask("set k 0 0 1\r\nx\r\n", "STORED\r\n");
  const address = `127.0.0.1:${cache.port}`;
  await using failing = new ScriptedPeer(() => ["SERVER_ERROR no database\r\n"]);
  const { port } = failing;
  const failed = await audit(port, "--cache", address, "--log-format", "json");
  assertEquals([failed.code, failed.lines], [UNAVAILABLE, []]);
  const event = JSON.parse(failed.stderr);
  assertEquals(event.event, "audit_failed");
  assertStringIncludes(event.message, 'answers uread with "SERVER_ERROR no database"');
  await failing[Symbol.asyncDispose]();
  for (const args of [[], ["--cache", address]]) {
    const away = await audit(port, ...args);
    assertEquals([away.code, away.lines], [UNAVAILABLE, []]);
    assertStringIncludes(away.stderr, `leased: 127.0.0.1:${port}: `);
  }
});

// --- bounds --------------------------------------------------------------------------------------

/** The most memory that a process has had, in KiB (Linux). */
function peakKib(pid: number): number {
  return Number(/VmHWM:\s+(\d+)/.exec(Deno.readTextFileSync(`/proc/${pid}/status`))![1]);
}

Deno.test("many keys and long values do not stay in memory", async () => {
  const MANY = 20_000;
  const LONG_MIB = 400;
  const GROWTH_KIB_MAX = LONG_MIB * 1024 / 2;
  const piece = new Uint8Array(1024 * 1024);
  let pid = 0;
  let startKib = 0;
  let endKib = 0;
  function* list(): ScriptedReply {
    startKib = peakKib(pid);
    yield "OK\r\n";
    const keys = Array.from({ length: MANY }, (_, key) => `mg ${key}${"k".repeat(200)}\r\n`);
    yield `${keys.join("")}mg long\r\nEN\r\n`;
  }
  function* item(key: string): ScriptedReply {
    if (key !== "long") return yield* goodItem(key);
    yield `VA ${LONG_MIB * piece.length} klong f0 c5\r\n`;
    for (let count = 0; count < LONG_MIB; count++) yield piece;
    endKib = peakKib(pid);
    yield "\r\n";
  }
  await using cache = new ScriptedPeer(cacheReplies({ list, item, items: [MANY] }));
  await using origin = new ScriptedPeer(rows);
  const child = spawnAudit(origin.port, ["--cache", `127.0.0.1:${cache.port}`]);
  pid = child.pid;
  const { code, lines, stderr } = await endOf(child);
  assertEquals(code, DIFFERENT, stderr);
  assertEquals(countsOf(lines.at(-1))["equal"], MANY);
  assert(startKib > 0);
  assertLess(endKib - startKib, GROWTH_KIB_MAX);
});

// --- terminal and command line -------------------------------------------------------------------

Deno.test("a terminal shows the progress below the lines", async () => {
  await using cache = await ServerProcess.start();
  using client = await cache.connect();
  await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
  await client.ask("set l 0 0 3\r\nbad\r\n", "STORED\r\n");
  await using origin = new ScriptedPeer(rows);
  const args = ["--origin", `127.0.0.1:${origin.port}`, "--cache", `127.0.0.1:${cache.port}`];
  const command = ["stty cols 120;", Deno.execPath(), ...FLAGS, ...args].join(" ");
  const { code, stdout } = await new Deno.Command("script", {
    args: ["-qec", command, "/dev/null"],
    stdin: "null",
  }).output();
  const printed = textOf(stdout);
  assertEquals(code, DIFFERENT, printed);
  assertMatch(printed, /127\.0\.0\.1:\d+ 2\/2 keys/);
  assertMatch(printed, /difference cache=\S+ key=l /);
  assertMatch(printed, /audited cache=.* keys=2 equal=1 different=1 /);
});

Deno.test("leased audit names mistakes in its options, and describes them", async () => {
  const wrong = await audit(0, "--cache", "nowhere", "--timeout", "0", "--cashe", "x");
  assertEquals([wrong.code, wrong.lines], [USAGE, []]);
  assertMatch(wrong.stderr, /--origin "127.0.0.1:0": must be host:port/);
  assertMatch(wrong.stderr, /--cache "nowhere": must be host:port/);
  assertMatch(wrong.stderr, /--timeout.* must be a whole number from 1 to/);
  assertMatch(wrong.stderr, /unknown option --cashe; did you mean --cache\?/);
  const help = await audit(1, "--help");
  assertEquals(help.code, OK);
  assertMatch(help.lines.join("\n"), /Usage: leased audit \[options\][^]*Exit status:\n {2}0 /);
});

Deno.test("a missing permission is named with the flags that grant it, and a command", async () => {
  const audit = async (flags: readonly string[], args: readonly string[]): Promise<string> => {
    const { code, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "--no-prompt", ...flags, MAIN, "audit", ...args],
      env: { NO_COLOR: "1" },
    }).output();
    assertEquals(code, 77);
    return textOf(stderr);
  };
  const origin = ["--origin", "127.0.0.1:1"];
  const all = await audit([], origin);
  assertStringIncludes(
    all,
    "not permitted to ask the origin (--origin): add --allow-net=127.0.0.1:1, or",
  );
  assertStringIncludes(all, `\n  deno run --allow-net ${MAIN} audit --origin 127.0.0.1:1\n`);
  const caches = "--cache=127.0.0.1:2,127.0.0.1:3";
  const some = await audit(["--allow-net=127.0.0.1:1"], [...origin, caches]);
  assertStringIncludes(some, "add --allow-net=127.0.0.1:2,127.0.0.1:3, or use deno task audit");
  assertStringIncludes(some, `--allow-net=127.0.0.1:1,127.0.0.1:2,127.0.0.1:3 ${MAIN} audit`);
  const login = await audit(["--allow-net"], [...origin, "--cache-login=/etc/none"]);
  assertStringIncludes(login, "not permitted to read /etc/none: add --allow-read=/etc/none, or");
});
