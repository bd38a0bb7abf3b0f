import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { BentoDriver } from "../../../lib/client/adapters/bentocache.ts";
import { KeyvStore } from "../../../lib/client/adapters/keyv.ts";
import { shown } from "../../../lib/client/checks.ts";
import {
  bytesCodec,
  Cache,
  Client,
  type ClientOptions,
  Commands,
  compressed,
  jsonCodec,
  Namespace,
  Section,
  textCodec,
} from "../../../lib/client/mod.ts";
import { ScriptedPeer } from "../../support/servers/scripted_peer.ts";

// A careless user: every public method with wrong arguments, one at a time. Each rejects with an error that names the
// argument and its value, and nothing is sent.

/** Wrong values of an argument, and its name in messages. */
interface Wrong {
  readonly name: string;
  readonly values: readonly unknown[];
  /** The values are parts of the argument, which this makes whole. */
  readonly whole?: (value: unknown) => unknown;
}

const NOT_OBJECTS = [null, 5, "x", true, [], Symbol("s"), 10n];
const NOT_TEXTS = [undefined, null, 5, NaN, true, {}, ["k"], new Map(), Symbol("s"), 10n, () => {}];
const NOT_FUNCTIONS = [undefined, null, 5, "x", {}, Promise.resolve(1)];
const NOT_BYTES = [undefined, null, 5, "text", [1, 2], new ArrayBuffer(2), new Uint16Array(2), {}];
const NOT_LISTS = [null, 5, "text", {}, true, Symbol("s")];
const BAD_KEYS = [
  ...["", " ", "a b", "a\r\n", "a\nb", "\0", "a\x7f", "\t", "x".repeat(251), "ä".repeat(126)],
  ...["\ud800", "a\udc00b", "\udc00\ud800"],
];
const NOT_WHOLE = [
  ...[null, -1, 0.5, NaN, Infinity, -Infinity, 2 ** 53, "5", "x", true, {}, [5], 5n],
  ...["", "1.5s", "-1s", "1w", "5 s", "5S", "1h30m", "9999999999999999d"],
];
const NOT_IDS = [
  ...["", "0", "00", "-1", "+1", "1.5", "1e3", "0x10", " 1", "1\n", "1\r\nflush_all", "abc", "１"],
  ...[`${2n ** 64n}`, "9".repeat(21)],
];

const key: Wrong = { name: "key", values: [...NOT_TEXTS, ...BAD_KEYS] };
const keys: readonly Wrong[] = [
  { name: "keys", values: [undefined, ...NOT_LISTS] },
  { ...key, whole: (value) => ["good", value, "fine"] },
];
const options: readonly Wrong[] = [
  { name: "options", values: NOT_OBJECTS },
  {
    name: "is not known",
    values: ["ttl", "Signal", "", "0"],
    whole: (name) => ({ [`${name}`]: 1 }),
  },
  {
    name: "signal",
    values: [null, 5, "x", {}, new AbortController()],
    whole: (signal) => ({ signal }),
  },
];

function option(name: string, values: readonly unknown[]): Wrong {
  return { name, values, whole: (value) => ({ [name]: value }) };
}

const ttlSec = option("ttlSec", NOT_WHOLE);
const storeOptions = [...options, ttlSec];
const limitMs = option("limitMs", [...NOT_WHOLE, 3_600_001]);
const tags = [
  option("tags", NOT_LISTS),
  { name: "tag", values: [...NOT_TEXTS, ...BAD_KEYS], whole: (tag: unknown) => ({ tags: [tag] }) },
];
const loadOptions = [
  ...storeOptions,
  ...tags,
  ...["absentSec", "graceSec", "refreshSec"].map((name) => option(name, NOT_WHOLE)),
  ...["waitMs", "softMs", "backoffMs"].map((name) => option(name, [...NOT_WHOLE, 3_600_001])),
  option("hardMs", [...NOT_WHOLE, 0, 3_600_001]),
  option("leaseSec", [...NOT_WHOLE, 0, 3_601]),
];
const putOptions = [
  ...[options[0]!, options[1]!, limitMs, ...tags],
  option("form", [null, 5, "token", "Leases", ["tokens"]]),
  option("isRolledBack", [null, 5, "x", true]),
  option("namespaces", NOT_LISTS),
  {
    name: "namespace",
    values: ["n", null, {}, 5],
    whole: (each: unknown) => ({ namespaces: [each] }),
  },
];
const lockOptions = [...options, option("waitMs", [...NOT_WHOLE, 3_600_001])];
const textOrKeys: readonly Wrong[] = [
  { name: "key", values: BAD_KEYS },
  { name: "keys", values: [undefined, null, 5, {}, true] },
  { ...key, whole: (value) => ["good", value, "fine"] },
];
const textOrTags = textOrKeys.map((wrong) => ({
  ...wrong,
  name: wrong.name.replace("key", "tag"),
}));
const bytes: Wrong = { name: "value", values: NOT_BYTES };
const fn: Wrong = { name: "fn", values: NOT_FUNCTIONS };
const load: Wrong = { name: "load", values: NOT_FUNCTIONS };
const leaseSec: Wrong = { name: "leaseSec", values: [undefined, ...NOT_WHOLE] };
/** For JSON. */
const value: Wrong = { name: "JSON", values: [undefined, Symbol("s"), () => {}] };

/** The arguments of a method: right values, and for each what is wrong. */
type Arguments = readonly (readonly [right: unknown, wrongs: readonly Wrong[]])[];

const nothing = (): void => {};
const isGiven = (value: unknown): boolean => value !== undefined;
const COMMANDS: Record<string, Arguments> = {
  get: [["k", [key]], [undefined, options]],
  gets: [["k", [key]], [undefined, options]],
  getAndTouch: [["k", [key]], [5, [{ ...ttlSec, whole: (each) => each }]], [undefined, options]],
  getMany: [[["k"], keys], [undefined, options]],
  set: [["k", [key]], ["v", [value]], [undefined, storeOptions]],
  setMany: [
    [[["k", "v"]], [
      { name: "entries", values: [undefined, ...NOT_LISTS] },
      {
        name: "entry",
        values: [undefined, null, 5, "kv", {}],
        whole: (entry) => [["k", 1], entry],
      },
      { ...key, whole: (each) => [["good", 1], [each, 2], ["fine", 3]] },
      { ...value, whole: (each) => [["good", 1], ["k", each]] },
    ]],
    [undefined, storeOptions],
  ],
  add: [["k", [key]], ["v", [value]], [undefined, storeOptions]],
  replace: [["k", [key]], ["v", [value]], [undefined, storeOptions]],
  append: [["k", [key]], [Uint8Array.of(1), [bytes]], [undefined, options]],
  prepend: [["k", [key]], [Uint8Array.of(1), [bytes]], [undefined, options]],
  cas: [
    ["k", [key]],
    ["v", [value]],
    ["5", [{ name: "cas", values: [...NOT_TEXTS, ...NOT_IDS] }]],
    [undefined, storeOptions],
  ],
  delete: [["k", [key]], [undefined, options]],
  deleteMany: [[["k"], keys], [undefined, options]],
  touch: [["k", [key]], [5, [{ ...ttlSec, whole: (each) => each }]], [undefined, options]],
  increment: [
    ["k", [key]],
    [1, [{ name: "delta", values: NOT_WHOLE.filter((each) => each !== -1) }]],
    [undefined, [...storeOptions, option("initial", NOT_WHOLE)]],
  ],
  meta: [
    ["mg", [{ name: "command", values: [undefined, null, 5, "mn", "MG", "mg k v\r\nmg", ["mg"]] }]],
    ["k", [key]],
    [["v"], [
      { name: "flags", values: NOT_LISTS },
      {
        name: "flag",
        values: [
          ...NOT_TEXTS,
          "",
          "b",
          "k",
          "q",
          "O5",
          "v\r\nflush_all",
          "T 5",
          "ü",
          "v".repeat(65),
        ],
        whole: (flag) => ["v", flag],
      },
      { name: "flags", values: [16], whole: () => new Array(16).fill("v") },
    ]],
    [undefined, [{ name: "value", values: [null, 5, "text", Uint8Array.of(1)] }]],
    [undefined, options],
  ],
  getss: [
    ["k", [key]],
    [5, [leaseSec]],
    [5, [{ name: "leaseFlag", values: [undefined, ...NOT_WHOLE, 2 ** 32] }]],
    [undefined, options],
  ],
  deletess: [["k", [key]], [5, [leaseSec]], [undefined, options]],
};
const CLIENT: Record<string, Arguments> = {
  lock: [["k", [key]], [undefined, lockOptions]],
  takeToken: [
    ["k", [key]],
    ["owner", [{ name: "owner", values: [...NOT_TEXTS, ...BAD_KEYS, "ä", "x".repeat(65)] }]],
    [undefined, options],
  ],
  releaseToken: [
    ["k", [key]],
    ["5", [{ name: "token", values: [...NOT_TEXTS, ...NOT_IDS] }]],
    [undefined, options],
  ],
  stats: [["items", [{ name: "group", values: [...NOT_TEXTS, ...BAD_KEYS].filter(Boolean) }]]],
};
const CACHE: Record<string, Arguments> = {
  getOrLoad: [["k", [key]], [nothing, [load]], [undefined, loadOptions]],
  getOrLoadMany: [[["k"], keys], [nothing, [load]], [undefined, loadOptions]],
  put: [
    ["k", textOrKeys],
    [nothing, [{ name: "commit", values: NOT_FUNCTIONS }]],
    [undefined, putOptions],
  ],
  getOrLoadEntry: [["k", [key]], [nothing, [load]], [undefined, loadOptions]],
  putRow: [["k", [key]], ["v", [{ ...value, values: [Symbol("s"), nothing] }]], [
    undefined,
    [options[0]!, options[1]!, limitMs],
  ]],
  invalidate: [["k", textOrKeys], [5, [{ ...limitMs, whole: (each) => each }]]],
  invalidateTags: [["t", textOrTags], [5, [{ ...limitMs, whole: (each) => each }]]],
  withLock: [["k", [key]], [nothing, [fn]], [undefined, lockOptions]],
  compareAndSwap: [["k", [key]], [nothing, [fn]], [undefined, storeOptions]],
};
const NAMESPACE: Record<string, Arguments> = {
  // Undefined means all.
  invalidate: [
    ["k", textOrKeys.map((wrong) => ({ ...wrong, values: wrong.values.filter(isGiven) }))],
    [5, [{ ...limitMs, whole: (each) => each }]],
  ],
};
const ADAPTER_KEY: Wrong = {
  name: "key",
  values: [...NOT_TEXTS, "\ud800", "a\udc00b".repeat(100)],
};
const ADAPTER_KEYS: Wrong = { ...ADAPTER_KEY, whole: (each) => ["good", each] };
const NOT_KEYS: Wrong = { name: "keys", values: [undefined, ...NOT_LISTS] };
const TEXT: Wrong = { name: "value", values: NOT_TEXTS };
const TTL_MS: Wrong = { name: "ttlMs", values: [-1, NaN, Infinity, "5", {}, true, 5n] };
const KEYV: Record<string, Arguments> = {
  get: [["k", [ADAPTER_KEY]]],
  getMany: [[["k"], [ADAPTER_KEYS, NOT_KEYS]]],
  set: [["k", [ADAPTER_KEY]], ["v", [TEXT]], [5, [TTL_MS]]],
  delete: [["k", [ADAPTER_KEY]]],
  deleteMany: [[["k"], [ADAPTER_KEYS, NOT_KEYS]]],
  has: [["k", [ADAPTER_KEY]]],
};
const BENTO: Record<string, Arguments> = {
  get: KEYV.get!,
  pull: KEYV.get!,
  set: KEYV.set!,
  delete: KEYV.delete!,
  deleteMany: KEYV.deleteMany!,
};

/** Calls a method with each wrong argument. @returns The faults of the errors. */
async function callWrong(target: object, method: string, args: Arguments): Promise<string[]> {
  const faults: string[] = [];
  const call = (target as Record<string, (...args: unknown[]) => unknown>)[method]!;
  for (const [position, [, wrongs]] of args.entries()) {
    for (const { name, values, whole = (value: unknown) => value } of wrongs) {
      for (const value of values) {
        const given = args.map(([right]) => right);
        given[position] = whole(value);
        const place = `${target.constructor.name}.${method}, ${name} ${shown(value)}`;
        try {
          const result = call.apply(target, given);
          if (!(result instanceof Promise)) faults.push(`${place}: no promise`);
          faults.push(`${place}: ${shown(await result)}`);
        } catch (error) {
          const { message } = error as Error;
          const isNamed = message.includes(name) && message.includes(shown(value).slice(0, 250));
          const hasRange = /expected |allowed|it is empty|JSON cannot|only ms/.test(message);
          const isType = error instanceof RangeError || error instanceof TypeError;
          if (!(isNamed && hasRange && isType)) faults.push(`${place}: ${error}`);
        }
      }
    }
  }
  return faults;
}

/** Gives the table to an object, whose requests go to a server that answers none but the last. */
async function careless(
  open: (
    address: string,
  ) => readonly [target: object, client: AsyncDisposable, last: () => unknown],
  table: Record<string, Arguments>,
): Promise<string[]> {
  const lines: string[] = [];
  await using peer = new ScriptedPeer((line) => {
    lines.push(line);
    return line.startsWith("mg ") ? [`EN ${/O\d+$/.exec(line)![0]}\r\n`] : [];
  });
  const [target, client, last] = open(`127.0.0.1:${peer.port}`);
  await using _ = client;
  for (const [method, args] of Object.entries(table)) {
    assertEquals(await callWrong(target, method, args), []);
  }
  await last();
  return lines;
}

Deno.test("every method with every wrong argument: rejects, names it, sends nothing", async () => {
  const lines = await careless((address) => {
    const cache = new Cache(address, { replyMs: 20_000 });
    return [cache, cache, () => cache.get("k")];
  }, { ...COMMANDS, ...CLIENT, ...CACHE });
  assertEquals(lines, ["mg k v f O1"]);
});

Deno.test("methods of a namespace, of a section and of adapters with wrong arguments", async () => {
  const inNamespace = await careless((address) => {
    const cache = new Cache(address, { replyMs: 20_000 });
    return [cache.namespace("n"), cache, () => cache.get("k")];
  }, { ...COMMANDS, ...CLIENT, ...CACHE, invalidate: NAMESPACE.invalidate! });
  assertEquals(inNamespace, ["mg k v f O1"]);
  const last = ["mg =k v f O1", "mg @#", "mg @#"];
  for (const [Store, table] of [[KeyvStore, KEYV], [BentoDriver, BENTO]] as const) {
    const lines = await careless((address) => {
      const options = { replyMs: 20_000 };
      const store = Store === KeyvStore
        ? new KeyvStore(address, options)
        : new BentoDriver({ servers: address, ...options });
      const closer = { [Symbol.asyncDispose]: () => store.disconnect() };
      return [store, closer, () => store.get("k")];
    }, table);
    assertEquals(lines.map((line) => line.startsWith("mg @") ? "mg @#" : line), last.slice(0, 2));
  }
});

Deno.test("the tables of wrong arguments have every method that takes some", () => {
  const WITHOUT_ARGUMENTS = ["constructor", "close", "unref", "clear", "disconnect"];
  const OTHERS = [
    ...["call", "encode", "serverOf", "serverNameOf", "namespace"],
    ...["isUp", "on", "off"],
  ];
  const missing = (owner: { prototype: object; name: string }, table: object): string[] =>
    Object.getOwnPropertyNames(owner.prototype)
      .filter((name) => ![...WITHOUT_ARGUMENTS, ...OTHERS].includes(name) && !(name in table));
  assertEquals(missing(Commands, COMMANDS), []);
  assertEquals(missing(Client, CLIENT), []);
  assertEquals(missing(Cache, CACHE), []);
  assertEquals(missing(Namespace, NAMESPACE), []);
  assertEquals(missing(Section, {}), []);
  assertEquals(missing(KeyvStore, KEYV), []);
  assertEquals(missing(BentoDriver, BENTO), []);
});

Deno.test("names of servers, groups of keys and options are checked when they are given", () => {
  for (const each of [...NOT_TEXTS, ...BAD_KEYS]) {
    const client = new Cache("a");
    assertThrows(() => client.serverNameOf(each as string), Error, "key");
    if (each !== "") assertThrows(() => client.namespace(each as string), Error, "name");
    assertThrows(
      () => new Client({ host: "a", port: 1 } as unknown as string),
      TypeError,
      "host:port",
    );
    for (const method of ["on", "off"] as const) {
      assertThrows(
        () => client[method](each as "up", () => {}),
        RangeError,
        `event ${shown(each)}`,
      );
    }
  }
  for (const each of NOT_FUNCTIONS) {
    assertThrows(() => new Client("a").on("up", each as () => void), TypeError, "listener");
  }
  const servers = [
    ...[undefined, null, 5, true, "", "a b", "a:", "a:0", "a:65536", "a:99999999", "a:x", ":5"],
    ...["[::1", "a\n", "a/b", "/", "a\0", "/a\0", {}, [[]], { server: 5, weight: 1 }, ["a", null]],
  ];
  for (const each of servers) {
    assertThrows(() => new Client(each as string), Error, "server");
    if (each === undefined) continue;
    assertThrows(() => new Client("b").isUp(each as string), Error, "server");
  }
  for (const weight of [undefined, null, -1, 0, 0.5, NaN, Infinity, 2 ** 32, "1"]) {
    const weighted = [{ server: "a", weight: weight as number }, { server: "b", weight: 1 }];
    assertThrows(() => new Client(weighted), Error, `weight of a:11211 ${shown(weight)}`);
  }
  const times = [...NOT_WHOLE, 0, 3_600_001];
  const wrong: Record<string, readonly unknown[]> = {
    connectMs: times,
    replyMs: times,
    connections: [...NOT_WHOLE, 0, 65],
    queueBytesMax: [...NOT_WHOLE, 0],
    valueBytesMax: [...NOT_WHOLE, 0, 2 ** 30 + 1],
    whenDown: [null, 5, "misses", ["miss"]],
    prefix: [...NOT_TEXTS.filter(isGiven), ...BAD_KEYS.filter(Boolean), "x".repeat(201)],
    ttlSec: NOT_WHOLE,
    codec: [null, 5, "json", {}, { encode: nothing }, { decode: nothing }],
    tls: [null, 5, "x", true, [], { ca: 5 }],
    login: [
      ...[null, 5, "anna", []],
      ...NOT_TEXTS.map((user) => ({ user, password: "p" })),
      ...["", "a b", "a\r\n"].map((user) => ({ user, password: "p" })),
      ...[undefined, 5, "", "a b", "\n"].map((password) => ({ user: "u", password })),
      ...[null, 5, "plain", ""].map((mechanism) => ({ user: "u", password: "p", mechanism })),
      ...["", "a\0b"].map((user) => ({ user, password: "p", mechanism: "PLAIN" })),
      ...["", "\0"].map((password) => ({ user: "u", password, mechanism: "PLAIN" })),
    ],
  };
  for (const [name, values] of Object.entries(wrong)) {
    for (const each of values) {
      const options = { [name]: each } as unknown as ClientOptions<unknown>;
      const what = name === "tls" ? "" : name;
      assertThrows(() => new Client("a", options), Error, what);
    }
  }
  for (const each of NOT_OBJECTS) {
    assertThrows(() => new Client("a", each as ClientOptions<unknown>), TypeError, "options");
  }
  assertThrows(() => compressed(jsonCodec, { minBytes: NaN }), RangeError, "minBytes NaN");
  assertThrows(() => compressed(jsonCodec, { maxBytes: 0 }), RangeError, "maxBytes 0");
  assertThrows(() => compressed(undefined as unknown as typeof jsonCodec), TypeError, "codec");
});

Deno.test("values that are none for their codec are refused, whatever the codec returns", async () => {
  const refusedBy = async (codec: unknown, value: unknown, message: string): Promise<void> => {
    const client = new Client("127.0.0.1:1", { codec } as ClientOptions<unknown>);
    const error = await assertRejects(() => client.set("k", value), Error, message);
    assert(error instanceof TypeError || error instanceof RangeError, `${error}`);
  };
  for (const each of NOT_TEXTS) await refusedBy(textCodec, each, `value ${shown(each)}`);
  for (const each of NOT_BYTES) await refusedBy(bytesCodec, each, `value ${shown(each)}`);
  await refusedBy(textCodec, "\ud800", "surrogate");
  await refusedBy(jsonCodec, 5n, "BigInt");
  const decode = nothing;
  await refusedBy({ decode, encode: () => ({ bytes: "text", flags: 0 }) }, 1, 'value "text"');
  for (const flags of [undefined, -1, 0.5, NaN, "5", 0x2_0000, 2 ** 32]) {
    const encode = (): object => ({ bytes: new Uint8Array(1), flags });
    await refusedBy({ decode, encode }, 1, `flags ${shown(flags)}`);
  }
});

Deno.test("a signal that has aborted: nothing is sent, nothing is loaded", async () => {
  const lines: string[] = [];
  await using peer = new ScriptedPeer((line) => {
    lines.push(line);
    return [`EN ${/O\d+$/.exec(line)![0]}\r\n`];
  });
  await using cache = new Cache(`127.0.0.1:${peer.port}`, { replyMs: 20_000 });
  const reason = new Error("enough");
  const signal = AbortSignal.abort(reason);
  const isReason = async (promise: Promise<unknown>): Promise<void> =>
    assertEquals(await promise.catch((error) => error), reason);
  await isReason(cache.get("k", { signal }));
  await isReason(cache.set("k", 1, { signal }));
  await isReason(cache.setMany([["k", 1]], { signal }));
  await isReason(cache.lock("k", { signal }));
  await isReason(cache.getOrLoad("k", nothing as () => string, { signal }));
  await isReason(cache.getOrLoadMany(["k"], () => new Map(), { signal }));
  assertEquals(await cache.get("k"), undefined);
  assertEquals([lines, cache.counters.loads], [["mg k v f O1"], 0]);
});

Deno.test("shown() cuts a text that has more than 300 characters", () => {
  const quoted = (length: number): string => "x".repeat(length - 2);
  assertEquals(shown(quoted(300)), `"${quoted(300)}"`);
  assertEquals(shown(quoted(301)), `"${quoted(301)}…`);
});
