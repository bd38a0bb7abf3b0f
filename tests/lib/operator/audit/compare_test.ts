// An audit's counts and reports, beside a cache and an origin that the test plays.
import { assertEquals, assertObjectMatch, assertRejects } from "@std/assert";
import { PeerError } from "../../../../lib/peers/peer.ts";
import { auditCache, type AuditCounts, noCounts } from "../../../../lib/operator/audit/audit.ts";
import {
  type Cached,
  CacheView,
  type ListedKey,
} from "../../../../lib/operator/audit/cache_view.ts";
import { readAuditCommand } from "../../../../lib/operator/audit/options.ts";
import { type Committed, OriginView } from "../../../../lib/operator/audit/origin_view.ts";
import { Report } from "../../../../lib/operator/audit/report.ts";
import { captured } from "../../../support/sessions/captured.ts";
import { ScriptedPeer } from "../../../support/servers/scripted_peer.ts";
import { until } from "../../../support/servers/server_process.ts";

const OPTIONS = { timeoutMs: 60_000, login: null, caCert: null };

function item(value: string, id = "1", more: Partial<Cached> = {}): Cached {
  return { flags: 0, bytes: value.length, sha256: value, id, ...more };
}

function row(value: string | null, more: Partial<Cached> = {}): Committed {
  const digest = value === null ? null : { flags: 0, bytes: value.length, sha256: value, ...more };
  return { value: digest, version: "3", mark: "C" };
}

/** The answers to each look at a key; the last one stays. */
type Looks<Answer> = Readonly<Record<string, readonly Answer[]>>;

class World {
  readonly counts = noCounts();
  readonly differences: string[] = [];
  readonly progress: number[] = [];
  readonly asked: string[] = [];

  #next<Answer>(looks: Looks<Answer>, who: string, keys: readonly string[]): Promise<Answer[]> {
    this.asked.push(`${who} ${keys.length > 3 ? keys.length : keys.join(" ")}`);
    return Promise.resolve(keys.map((key) => {
      const left = looks[key] as Answer[];
      return left.length > 1 ? left.shift()! : left[0]!;
    }));
  }

  async audit(
    listed: readonly (string | null)[],
    items: Looks<Cached | null>,
    rows: Looks<Committed>,
    prefix = "",
  ): Promise<AuditCounts> {
    const cache = {
      keys: async function* (): AsyncGenerator<ListedKey> {
        for (const key of await Promise.resolve(listed)) yield { key };
      },
      look: (keys: readonly string[]) => this.#next(items, "look", keys),
    } as unknown as CacheView;
    const origin = {
      read: (keys: readonly string[]) => this.#next(rows, "read", keys),
    } as unknown as OriginView;
    await auditCache(cache, origin, prefix, this.counts, {
      difference: ({ key, cached, committed }) =>
        this.differences.push(`${key} ${cached.sha256} ${committed.value?.sha256}`),
      progress: (keys) => this.progress.push(keys),
    });
    return this.counts;
  }
}

/** The findings of one key, by the looks at the item and at the row. */
const CASES: readonly (readonly [
  what: string,
  items: readonly (Cached | null)[],
  rows: readonly Committed[],
  counted: keyof AuditCounts,
  asked: number,
])[] = [
  ["the same", [item("a")], [row("a")], "equal", 2],
  ["another value", [item("a")], [row("b")], "different", 4],
  ["other flags", [item("a")], [row("a", { flags: 1 })], "different", 4],
  ["another length", [item("a")], [row("a", { bytes: 2 })], "different", 4],
  ["a row that does not exist", [item("a")], [row(null)], "different", 4],
  ["an item that is not there", [null], [row("a")], "gone", 1],
  ["an item that goes", [item("a"), null], [row("b")], "gone", 4],
  ["a row that was committed meanwhile", [item("a")], [row("b"), row("a")], "equal", 3],
  [
    "an item that was stored again, and is right",
    [item("a"), item("b", "2")],
    [row("b")],
    "equal",
    5,
  ],
  [
    "an item that was stored again, and is wrong",
    [item("a"), item("c", "2")],
    [row("b")],
    "different",
    6,
  ],
  [
    "an item of the same id with another value",
    [item("a"), item("b", "1"), item("b", "1")],
    [row("c")],
    "different",
    6,
  ],
  [
    "an item that is stored again all the time",
    ["1", "2", "3", "4", "5", "6"].map((id) => item("a", id)),
    [row("b")],
    "unsettled",
    10,
  ],
];

for (const [what, items, rows, counted, asked] of CASES) {
  Deno.test(`an audit of ${what} counts it as ${counted}`, async () => {
    const world = new World();
    const counts = await world.audit(["k"], { k: [...items] }, { k: [...rows] });
    assertEquals(counts, { ...noCounts(), keys: 1, [counted]: 1 });
    assertEquals(world.differences.length, counted === "different" ? 1 : 0);
    assertEquals(world.asked.length, asked, world.asked.join("; "));
  });
}

Deno.test("each item that is not there any more counts as gone, and the others are compared", async () => {
  const world = new World();
  const items = { a: [null], b: [item("b")], c: [null], d: [null], e: [item("e")] };
  const rows = { b: [row("b")], e: [row("other")] };
  const counts = await world.audit(Object.keys(items), items, rows);
  assertEquals(counts, { ...noCounts(), keys: 5, gone: 3, equal: 1, different: 1 });
  assertEquals(world.differences, ["e e other"]);
});

Deno.test("an audit looks at 64 keys together, of the prefix only, and says how many it has seen", async () => {
  const world = new World();
  const keys = Array.from({ length: 130 }, (_, at) => `a${at}`);
  const listed = [null, "b", ...keys, "b2", null];
  const items = Object.fromEntries(keys.map((key) => [key, [item("a")]]));
  const rows = Object.fromEntries(keys.map((key) => [key, [row("a")]]));
  assertEquals(await world.audit(listed, items, rows, "a"), {
    ...noCounts(),
    keys: 134,
    equal: 130,
    foreign: 2,
  });
  assertEquals(world.asked, [
    "look 64",
    "read 64",
    "look 64",
    "read 64",
    "look a128 a129",
    "read a128 a129",
  ]);
  assertEquals(world.progress, [66, 130, 134]);
  const none = new World();
  await none.audit(["b"], {}, {}, "a");
  assertEquals([none.asked, none.progress, none.counts.keys], [[], [1], 1]);
});

Deno.test("the rows of items that are there are compared with their own items", async () => {
  const world = new World();
  const counts = await world.audit(
    ["gone", "one", "two"],
    { gone: [null], one: [item("1")], two: [item("2")] },
    { one: [row("1")], two: [row("3")] },
  );
  assertEquals(counts, { ...noCounts(), keys: 3, gone: 1, equal: 1, different: 1 });
  assertEquals(world.asked.slice(0, 2), ["look gone one two", "read one two"]);
  assertEquals(world.differences, ["two 2 3"]);
});

// --- what a cache and an origin say ------------------------------------------------------------------

async function withCache(
  replies: Readonly<Record<string, string>>,
  run: (cache: CacheView) => Promise<void>,
): Promise<void> {
  await using peer = new ScriptedPeer((line) => [replies[line] ?? "ERROR\r\n"]);
  const cache = await CacheView.connect({ hostname: "127.0.0.1", port: peer.port }, OPTIONS);
  await run(cache);
  cache.close();
}

async function keysOf(cache: CacheView): Promise<(string | null)[]> {
  const keys: (string | null)[] = [];
  for await (const { key } of cache.keys()) keys.push(key);
  return keys;
}

const LIST = "lru_crawler mgdump hash";

Deno.test("a cache's list: keys, keys in base64, and those that text cannot carry", async () => {
  const long = "k".repeat(250);
  const lines = ["OK", "mg a", `mg ${long}`, `mg ${long}k`, "mg eA== b", "mg YSBi b", "mg !! b"];
  await withCache({ [LIST]: `${lines.join("\r\n")}\r\nEN\r\n` }, async (cache) => {
    assertEquals(await keysOf(cache), ["a", long, null, "x", null, null]);
  });
  await withCache({ [LIST]: "EN\r\n" }, async (cache) => assertEquals(await keysOf(cache), []));
  for (const line of ["mg a c", "OK", "key=a", "mg"]) {
    await withCache({ [LIST]: `mg a\r\n${line}\r\nEN\r\n` }, async (cache) => {
      await assertRejects(() => keysOf(cache), PeerError, `answers ${LIST} with "${line}"`);
    });
  }
});

Deno.test("a list may have two keys for each item and a thousand more, asked for when it has so many", async () => {
  const list = (keys: number): string => `${"mg k\r\n".repeat(keys)}EN\r\n`;
  const stats = "STAT pid 1\r\nSTAT curr_items 3\r\nSTAT x curr_items 9\r\nEND\r\n";
  await withCache({ [LIST]: list(1006), stats }, async (cache) => {
    assertEquals([(await keysOf(cache)).length, await cache.count()], [1006, 3]);
  });
  await withCache({ [LIST]: list(1007), stats }, async (cache) => {
    const message = "lists 1007 keys and more, but has only 3 items (curr_items)";
    await assertRejects(() => keysOf(cache), PeerError, message);
  });
  await withCache({ stats: `${"STAT a 1\r\n".repeat(999)}END\r\n` }, async (cache) => {
    assertEquals(await cache.count(), 0);
  });
  await withCache({ stats: "STAT a 1\r\n".repeat(1000) }, async (cache) => {
    await assertRejects(() => cache.count(), PeerError, "sends more than 1000 statistics");
  });
  await withCache({ stats: "END x\r\n" }, async (cache) => {
    await assertRejects(() => cache.count(), PeerError, 'answers stats with "END x"');
  });
});

Deno.test("items are looked at in the order of the keys, and a reply for another key is refused", async () => {
  const of = (key: string): string => `mg ${key} k f c v u`;
  const value = "VA 3 kb f5 c77\r\none\r\n";
  const replies = {
    [of("a")]: "EN\r\n",
    [of("b")]: value,
    [of("x")]: "VA 0 keA== f0 c1 b\r\n\r\n",
  };
  await withCache(replies, async (cache) => {
    const [gone, one, coded] = await cache.look(["a", "b", "x"]);
    const { flags, bytes, id } = one!;
    assertEquals([gone, flags, bytes, id, coded!.bytes], [null, 5, 3, "77", 0]);
    assertEquals(one!.sha256, "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed");
  });
  for (
    const line of ["HD kb f5 c7", "VA 3 ka f5 c7", "VA 3 kb c7", "VA 3 kb f5", "VA 3 kb f-1 c7"]
      .concat("VA 3 kb f12345678901 c7", "VA 3 kb f5 cx", "VA 3 keA== f5 c7")
  ) {
    await withCache({ [of("b")]: `${line}\r\none\r\n` }, async (cache) => {
      await assertRejects(() => cache.look(["b"]), PeerError, `answers mg with "${line}"`);
    });
  }
});

Deno.test("an origin's rows: values, absent ones, and replies of another form", async () => {
  const ask = async (reply: string): Promise<Committed[]> => {
    await using peer = new ScriptedPeer(() => [reply]);
    const view = await OriginView.connect({ hostname: "127.0.0.1", port: peer.port }, OPTIONS);
    try {
      return await view.read(["a", "b"]);
    } finally {
      view.close();
    }
  };
  const [a, b] = await ask("VALUE a 7 3 12 N\r\none\r\nNONE b 0 C\r\nEND\r\n") as [
    Committed,
    Committed,
  ];
  assertEquals([a.value?.flags, a.value?.bytes, a.version, a.mark], [7, 3, "12", "N"]);
  assertEquals(b, { value: null, version: "0", mark: "C" });
  const rest = "NONE b 0 C\r\nEND\r\n";
  for (
    const [reply, line] of [
      [`NONE b 0 C\r\n${rest}`, "NONE b 0 C"],
      [`NONE a 0 C x\r\n${rest}`, "NONE a 0 C x"],
      [`VALUE a 7 0 12\r\n\r\n${rest}`, "VALUE a 7 0 12"],
      [`VALUE a -7 0 12 C\r\n\r\n${rest}`, "VALUE a -7 0 12 C"],
      [`VALUE b 7 0 12 C\r\n\r\n${rest}`, "VALUE b 7 0 12 C"],
      ["NONE a 0 C\r\nNONE b 0 C\r\nNONE c 0 C\r\n", "NONE c 0 C"],
    ]
  ) await assertRejects(() => ask(reply!), PeerError, `answers uread with "${line}"`);
});

Deno.test("a report has a line for each difference and each cache", async () => {
  const write = (): void => {
    const report = new Report();
    report.start("c:1", 5);
    report.progress(1);
    report.difference("c:1", { key: "a%", cached: item("x", "9"), committed: row("y") });
    report.difference("c:1", { key: "b", cached: item("x", "9"), committed: row(null) });
    report.end("c:1", { ...noCounts(), keys: 2, different: 2 });
    report.abandon();
  };
  const { stdout } = await captured(write, 10);
  const cached = "cached_id=9 cached_flags=0 cached_bytes=1 cached_sha256=x";
  assertEquals(stdout.split("\n"), [
    `difference cache=c:1 key=a%25 ${cached} row_version=3 row_flags=0 row_bytes=1 row_sha256=y mark=C`,
    `difference cache=c:1 key=b ${cached} row_version=3 row_flags=- row_bytes=- row_sha256=- mark=C`,
    "audited cache=c:1 keys=2 equal=0 different=2 gone=0 unsettled=0 foreign=0",
    "",
  ]);
});

Deno.test("the options of an audit", () => {
  const info = { version: "1.2.3" } as Parameters<typeof readAuditCommand>[1];
  const read = (...argv: string[]): ReturnType<typeof readAuditCommand> =>
    readAuditCommand(argv, info);
  const some = read("--origin", "h:1", "--cache", "[::1]:2", "--cache", "c:3", "--prefix", "a:");
  if (some.kind !== "run") throw new Error("no options");
  assertObjectMatch(some.options as unknown as Record<string, unknown>, {
    origin: { hostname: "h", port: 1 },
    caches: [{ hostname: "::1", port: 2 }, { hostname: "c", port: 3 }],
    ...{ originLogin: "", cacheLogin: "", originCaCert: "", cacheCaCert: "" },
    prefix: "a:",
    logFormat: "text",
  });
  const files = ["origin-login", "cache-login", "origin-ca-cert", "cache-ca-cert"];
  const named = read(...files.flatMap((name) => [`--${name}`, `/${name}`]), "--timeout", "77");
  if (named.kind !== "run") throw new Error("no options");
  const { originLogin, cacheLogin, originCaCert, cacheCaCert } = named.options;
  assertEquals(
    [originLogin, cacheLogin, originCaCert, cacheCaCert],
    files.map((name) => `/${name}`),
  );
  assertEquals([named.options.timeoutMs, named.options.caches], [77, []]);
  const bad = read("--origin", "h", "--cache", ":2");
  const places = bad.kind === "refuse" && bad.errors.map((error) => error.replace(/: .*/, ""));
  assertEquals(places, ['--origin "h"', '--cache ":2"']);
  const help = read("--help");
  assertEquals(
    help.kind === "print" && help.text.split("\n")[0],
    "leased 1.2.3: compares caches with the database behind an origin",
  );
});

Deno.test("a cache that takes one connection and refuses the login of the next leaves none open", async () => {
  let logins = 0;
  await using peer = new ScriptedPeer((line) => {
    if (!line.startsWith("u ")) return [];
    return [++logins === 1 ? "STORED\r\n" : "CLIENT_ERROR authentication failure\r\n"];
  });
  const options = { ...OPTIONS, login: { user: "u", password: "p" } };
  const address = { hostname: "127.0.0.1", port: peer.port };
  await assertRejects(() => CacheView.connect(address, options), PeerError, "the login of user u");
  assertEquals(peer.connections, 2);
  await until(() => peer.open === 0);
});
