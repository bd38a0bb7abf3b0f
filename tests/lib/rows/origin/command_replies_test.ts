// Commands of rows and their replies, over a database in memory.
import { deleteIn } from "../../../support/rows/delete_in.ts";
import { assertEquals, assertRejects } from "@std/assert";
import { type Edit, SQLITE_MEMORY } from "../../../../lib/databases/base/backend.ts";
import { EVERY_ROW } from "../../../../lib/databases/views/key_set.ts";
import { keySet } from "../../../support/rows/key_sets.ts";
import { SqliteBackend } from "../../../../lib/databases/sqlite/backend.ts";
import { Flows } from "../../../../lib/rows/flows/flows.ts";
import { TokenStates } from "../../../../lib/rows/flows/token_states.ts";
import { positionOf } from "../../../../lib/rows/follow/follow_command.ts";
import type { Follower } from "../../../../lib/rows/follow/follower.ts";
import type { NodeServer } from "../../../../lib/rows/nodes/node_server.ts";
import { RowCommands } from "../../../../lib/rows/origin/row_commands.ts";
import { StepRunner } from "../../../../lib/rows/origin/step_runner.ts";
import { RowWrite } from "../../../../lib/rows/flows/row_write.ts";
import { latin1Bytes, latin1Text } from "../../../../store/base/bytes.ts";
import { createSharedMemory, Memory } from "../../../../store/memory/memory.ts";
import { formatCache } from "../../../../store/row_cache.ts";
import { storeOptions } from "../../../support/store.ts";

const EPOCH = 1;
/** Of the first update token. */
const ID = EPOCH * 2 ** 32 + 1;
const BAD = "CLIENT_ERROR bad command line format\r\n";
const ERROR = "ERROR\r\n";
const LONG_KEY = "k".repeat(251);

/** An origin's commands; writes go to the database one after the other. */
class Setting implements AsyncDisposable {
  readonly states = new TokenStates(EPOCH, 100, 100, () => 0);
  readonly flows = new Flows(this.states, 0);
  readonly backend = new SqliteBackend(SQLITE_MEMORY);
  readonly runner: StepRunner;
  readonly commands: RowCommands;
  readonly writes: RowWrite[] = [];
  /** Longest reply. */
  bytesMax = 1_000_000;
  readonly asked: unknown[] = [];
  /** Of the waits for the log. */
  readonly signals: AbortSignal[] = [];
  isInTime = true;
  hasRight = true;
  end = 12n;

  constructor({ follows = false, hasNodes = false } = {}) {
    const rows = { rows: { prefixes: [""], expiry: "refuse" as const } };
    const cache = formatCache(new Memory(createSharedMemory(storeOptions(rows))));
    this.runner = new StepRunner(this.backend, () => Promise.resolve());
    this.runner.delete = deleteIn(cache);
    const wait = (position: bigint, ms: number, signal: AbortSignal): Promise<boolean> => {
      this.signals.push(signal);
      this.asked.push(["wait", position, ms]);
      return Promise.resolve(this.isInTime);
    };
    const nodeServer = {
      states: [{ name: "one", state: "member", ageMs: 12.6, fetched: 3 }],
      forget: (name: string) => name === "one",
      execute: (words: readonly string[], block: Uint8Array) => {
        this.asked.push([...words, latin1Text(block)]);
        return Promise.resolve("NODE 0\r\n");
      },
    } as unknown as NodeServer;
    const hasRight = (): boolean => this.hasRight;
    const right = {
      get isValid(): boolean {
        return hasRight();
      },
      source: "the database",
    };
    this.commands = new RowCommands(
      this.flows,
      this.runner,
      hasNodes ? nodeServer : null,
      follows
        ? {
          follower: { wait } as unknown as Follower,
          waitForNow: (ms, signal) => wait(this.end, ms, signal!),
          right,
        }
        : null,
      (_, length) => length <= this.bytesMax,
    );
  }

  /** @param request With LF between its line and its value. */
  async ask(request: string, signal = new AbortController().signal): Promise<string> {
    const addWrite = (write: RowWrite): void => {
      this.writes.push(write);
      this.runner.run(this.flows.write([write])).then(([reply]) => write.answer(reply!));
    };
    return latin1Text(await this.commands.execute(latin1Bytes(request), addWrite, signal));
  }

  async check(cases: readonly (readonly [request: string, reply: string])[]): Promise<void> {
    for (const [request, reply] of cases) assertEquals(await this.ask(request), reply, request);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.backend.close();
  }
}

async function opened(options = {}): Promise<Setting> {
  const setting = new Setting(options);
  await setting.backend.takeOver();
  return setting;
}

Deno.test("update tokens: get, write, delete, read", async () => {
  await using setting = await opened();
  await setting.check([
    ["token get k", `TOKEN ${ID}\r\n`],
    ["uget k", "NONE k 0 N\r\nEND\r\n"],
    [`uput k 7 3 ${ID}\none`, "STORED 1\r\n"],
    [`uput k 7 3 ${ID}\none`, "STORED 1\r\n"],
    ["uget k l", "VALUE k 7 3 1 C\r\none\r\nNONE l 0 C\r\nEND\r\n"],
    ["token get k me", `TOKEN ${ID + 1}\r\n`],
    ["token get k me", `TOKEN ${ID + 1}\r\n`],
    ["token get k you", `TOKEN ${ID + 2}\r\n`],
    ["token list", `TOKEN k ${ID + 1} idle me\r\nTOKEN k ${ID + 2} idle you\r\nEND\r\n`],
    ["token list l", "END\r\n"],
    [`token revoke k ${ID + 2}`, "OK 1\r\n"],
    [`udelete k ${ID + 2}`, "REVOKED\r\n"],
    [`udelete k ${ID + 1}`, "DELETED 2\r\n"],
    ["uget k", "NONE k 2 C\r\nEND\r\n"],
    ["token get a", `TOKEN ${ID + 3}\r\n`],
    ["token list", `TOKEN a ${ID + 3} idle -\r\nEND\r\n`],
    [`token release a ${ID + 3}`, "OK\r\n"],
    [`token release a ${ID + 3}`, "NOT_FOUND\r\n"],
    [`uput a 0 0 ${ID + 3}\n`, "NOT_FOUND\r\n"],
    ["token revoke a", "OK 0\r\n"],
    [`token resolve k ${ID + 1}`, "STORED 2\r\n"],
    [`token resolve k ${ID + 3}`, "NOT_FOUND\r\n"],
    // Blanks at the ends, and several between words; a CR of the line's end; no answer is wanted.
    ["  token   get  b  noreply ", `TOKEN ${ID + 4}\r\n`],
    [`uput b 4294967295 2 ${ID + 4}\r\n\r\n`, "STORED 1\r\n"],
    ["uget b\r", "VALUE b 4294967295 2 1 C\r\n\r\n\r\nEND\r\n"],
  ]);
  const [first, second] = setting.writes as [RowWrite, RowWrite];
  const { key, writerTokenId, connection, bytes } = first;
  assertEquals([key, writerTokenId, connection, bytes], ["k", ID, 0, 3]);
  assertEquals(second.edit, { flags: 7, data: latin1Bytes("one") });
  assertEquals(setting.writes.map(({ bytes }) => bytes), [3, 3, 0, 0, 0, 2]);
});

Deno.test("a token whose write is under way is busy for all but the question for its end", async () => {
  await using setting = await opened();
  setting.states.get("k", "");
  setting.states.beginPut("k", ID);
  await setting.check([
    [`uput k 0 1 ${ID}\nx`, "BUSY\r\n"],
    [`token release k ${ID}`, "BUSY\r\n"],
    [`token revoke k ${ID}`, "BUSY\r\n"],
    ["token list k", `TOKEN k ${ID} busy -\r\nEND\r\n`],
    ["token get k", `TOKEN ${ID + 1}\r\n`],
    // One of both.
    ["token revoke k", "OK 1\r\n"],
  ]);
  setting.states.endPut("k", ID, { kind: "unknown" });
  await assertRejects(() => setting.ask(`token resolve k ${ID}`), Error, "did not write it");
  assertEquals(setting.states.counts().idle, 1);
});

Deno.test("commands with too many, too few or bad words are refused, and do nothing", async () => {
  await using setting = await opened({ follows: true, hasNodes: true });
  const big = "9007199254740992";
  await setting.check([
    ...[
      "",
      "nothing",
      "uput",
      "udelete",
      "uput k 0 1",
      "udelete k",
      "uget",
      "uget @10.0.0.1:1",
      "uget @10.0.0.1:1 k",
      "uread",
    ]
      .map((line): [string, string] => [line, line === "" || line === "nothing" ? ERROR : BAD]),
    [`uget ${LONG_KEY}`, BAD],
    [`uget ${LONG_KEY.slice(1)}`, `NONE ${LONG_KEY.slice(1)} 0 C\r\nEND\r\n`],
    [`uput ${LONG_KEY} 0 1 1\nx`, BAD],
    ["uput k 0 2 1\nx", BAD],
    ["uput k 4294967296 1 1\nx", BAD],
    ["uput k -1 1 1\nx", BAD],
    ["uput k 0x1 1 1\nx", BAD],
    ["uput k 0 1 1 1\nx", BAD],
    [`uput k 0 1 ${big}\nx`, BAD],
    ["uput k 0 1 \nx", BAD],
    ["udelete k 1 1", BAD],
    ["udelete k x", BAD],
    ["token", ERROR],
    ["token get", ERROR],
    ["token put k", ERROR],
    ["token get k a b", BAD],
    [`token get ${LONG_KEY}`, BAD],
    [
      `token get k ${"o".repeat(65)}`,
      "CLIENT_ERROR invalid owner: up to 64 printable ASCII characters\r\n",
    ],
    [`token get k ${"o".repeat(64)}`, `TOKEN ${ID}\r\n`],
    ["token get k \x7f", "CLIENT_ERROR invalid owner: up to 64 printable ASCII characters\r\n"],
    ["token release k", BAD],
    ["token release k -1", BAD],
    ["token revoke k x", BAD],
    ["token resolve k", BAD],
    ["follow", ERROR],
    ["follow now", ERROR],
    ["follow wait now 1 1", ERROR],
    ["follow wait now 60001", BAD],
    ["follow wait now", BAD],
    ["follow wait x 1", BAD],
    ["nodes forget", ERROR],
    ["nodes forget a b", ERROR],
    ["nodes list", ERROR],
    ["caches", ERROR],
  ]);
  assertEquals([setting.writes.length, setting.asked], [0, []]);
});

Deno.test("follow wait: the end of the log or a position, and whether it was in time", async () => {
  await using setting = await opened({ follows: true });
  await setting.check([["follow wait now 60000", "OK\r\n"], ["follow wait 1/A 0", "OK\r\n"]]);
  setting.isInTime = false;
  await setting.check([["follow wait 77 5", "TIMEOUT\r\n"]]);
  assertEquals(setting.asked, [["wait", 12n, 60_000], ["wait", (1n << 32n) + 10n, 0], [
    "wait",
    77n,
    5,
  ]]);
  const { signal } = new AbortController();
  await setting.ask("follow wait now 1", signal);
  assertEquals(setting.signals.at(-1), signal, "a wait ends with its connection");
  setting.isInTime = true;
  // Another origin may serve by now, and not have followed the log so far.
  setting.hasRight = false;
  await assertRejects(
    () => setting.ask("follow wait now 1"),
    Error,
    "rows are not available: no confirmation from the database",
  );
  await using other = await opened();
  await assertRejects(
    () => other.ask("follow wait now 1"),
    Error,
    "the server does not follow the log: no --follow",
  );
});

Deno.test("positions of a log", () => {
  const texts = ["0/0", "FFFFFFFF/ffffffff", "2/1", "0", "9223372036854775807"];
  assertEquals(texts.map(positionOf), [0n, 2n ** 64n - 1n, 2n ** 33n + 1n, 0n, 2n ** 63n - 1n]);
  for (
    const text of ["", "-1", "1/", "/1", "g/1", "1/123456789", "1 ", "0x1", "1/2/3", "1".repeat(20)]
  ) {
    assertEquals(positionOf(text), null, text);
  }
});

Deno.test("nodes lists nodes and forgets them; stats has the lines of rows", async () => {
  await using setting = await opened({ hasNodes: true });
  await setting.check([
    ["nodes", "NODE one member 13 3\r\nEND\r\n"],
    ["nodes forget one", "OK\r\n"],
    ["nodes forget two", "NOT_FOUND\r\n"],
  ]);
  await setting.ask("uget a b");
  await setting.ask("token get a");
  await setting.ask("uget a");
  const stats = (await setting.ask("stats rows")).split("\r\n");
  assertEquals(stats.slice(-2), ["END", ""]);
  const wanted = {
    ...{ epoch: 1, deposed: 0, nodes_member: 1, nodes_silent: 0, nodes_lost: 0, tokens_idle: 1 },
    ...{
      gets_cacheable: 2,
      gets_uncacheable: 1,
      database_read_count: 2,
      database_read_failures: 0,
    },
  };
  for (const [name, value] of Object.entries(wanted)) {
    assertEquals(stats.includes(`STAT ${name} ${value}`), true, `${name}: ${stats}`);
  }
});

Deno.test("a change after uget has said C is unsafe, unless its writer holds a token", async () => {
  await using setting = await opened();
  const { flows, states } = setting;
  const unsafe = (): number => flows.ugetKeys.unsafe;
  const set = async (key: string): Promise<void> => {
    const write = new RowWrite({ key, edit: { flags: 0, data: new Uint8Array() } });
    await setting.runner.run(flows.write([write]));
  };
  await setting.ask("uget k l m");
  await setting.ask("uget k");
  assertEquals(unsafe(), 0, "readers do no harm");
  await set("other");
  assertEquals(unsafe(), 0, "nobody has asked for it");
  await set("k");
  assertEquals([unsafe(), flows.ugetKeys.firstUnsafe], [1, "k"]);
  await set("k");
  assertEquals(unsafe(), 1, "nobody has asked since");
  const [, id] = (await setting.ask("token get l")).trim().split(" ");
  await setting.check([[`uput l 0 1 ${id}\nx`, "STORED 1\r\n"]]);
  assertEquals(unsafe(), 1, "its writer has deleted it");
  flows.noteChanges(keySet("l"), -Infinity);
  assertEquals(unsafe(), 1);
  await setting.ask("uget l");
  flows.noteChanges(keySet("l"), -Infinity);
  assertEquals(unsafe(), 1, "the log names the own write once more");
  flows.noteChanges(keySet("l", "m", "m"), Infinity);
  assertEquals([unsafe(), flows.ugetKeys.firstUnsafe], [3, "k"]);
  await setting.ask("uread k");
  await set("k");
  assertEquals(unsafe(), 3, "uread keeps nothing");
  await setting.runner.run(flows.read(["n"]));
  await set("n");
  assertEquals(unsafe(), 3, "a node, or the own cache");
  // With a token out, the answer is N; the holder deletes what was read before.
  await setting.ask("uget o");
  states.get("o", "");
  await setting.ask("uget o");
  flows.noteChanges(keySet("o"), Infinity);
  assertEquals(unsafe(), 3);
  const held = states.get("p", "");
  await setting.ask("uget p");
  states.release("p", held);
  await set("p");
  assertEquals(unsafe(), 3, "the answer was N");
  await setting.ask("uget view:1 view:2 row:1");
  flows.noteChanges(keySet("view:*"), Infinity);
  assertEquals(unsafe(), 5);
  flows.noteChanges(EVERY_ROW, Infinity);
  assertEquals(unsafe(), 6, "row:1; o has a token");
});

Deno.test("a write that changes nothing is not unsafe; a change during the read is", async () => {
  await using setting = await opened();
  const { flows } = setting;
  const write = (edit: Edit): Promise<unknown> =>
    setting.runner.run(flows.write([new RowWrite({ key: "k", edit })]));
  await setting.ask("uget k");
  await write(() => null);
  assertEquals(flows.ugetKeys.unsafe, 0);
  const read = flows.uget(["k"]);
  read.next();
  await write("delete");
  assertEquals(flows.ugetKeys.unsafe, 1);
  flows.isSuspended = true;
  await setting.ask("uget k");
  await write("delete");
  assertEquals(flows.ugetKeys.unsafe, 1, "the answer was N");
});

Deno.test("a node forwards commands of writers, and none of administrators", async () => {
  await using setting = await opened({ hasNodes: true });
  const forward = (line: string): Promise<string> =>
    setting.ask(`node command s 0 ${line.length}\n${line}`);
  assertEquals(await forward("uget k"), "NODE 17\r\nNONE k 0 C\r\nEND\r\n");
  assertEquals(await forward("token get k"), `NODE ${`TOKEN ${ID}\r\n`.length}\r\nTOKEN ${ID}\r\n`);
  assertEquals(await forward(`uput k 0 1 ${ID}\nx`), "NODE 10\r\nSTORED 1\r\n");
  assertEquals(await forward("uread k"), "NODE 25\r\nVALUE k 0 1 1 C\r\nx\r\nEND\r\n");
  assertEquals(await forward("  nodes "), "NODE 27\r\nNODE one member 13 3\r\nEND\r\n");
  const [{ bytes }] = setting.writes as [RowWrite];
  assertEquals(bytes, 1);
  for (
    const line of [
      "token list",
      "token revoke k",
      "token resolve k 1",
      "nodes forget one",
      "caches",
    ]
      .concat("stats rows", "node poll s 0 0", "node command s 0 4", "")
  ) await assertRejects(() => forward(line), Error, "this command is for the origin");
  assertEquals(await setting.ask("node poll s 3 2\nab"), "NODE 0\r\n");
  assertEquals(setting.asked, [["poll", "s", "3", "2", "ab"]]);
  await using without = await opened();
  assertEquals(await without.ask("node poll s 0 0"), ERROR);
});

Deno.test("a deposed origin serves no node", async () => {
  await using setting = await opened({ hasNodes: true });
  await setting.backend.takeOver();
  await setting.ask("uget k");
  await assertRejects(() => setting.ask("node poll s 0 0"), Error, "epoch 2 replaced epoch 1");
});

Deno.test("a reply as long as a value is sent, a longer one refused; a client that has gone is read for no more", async () => {
  await using setting = await opened();
  const whole = "NONE k 0 C\r\n".repeat(9);
  setting.bytesMax = whole.length;
  const keys = (count: number): string => new Array(count).fill("k").join(" ");
  assertEquals(await setting.ask(`uget ${keys(9)}`), `${whole}END\r\n`);
  await assertRejects(() => setting.ask(`uget ${keys(10)}`), Error, "longer than a value may be");
  const reads = setting.runner.times.readRows.count;
  await assertRejects(() => setting.ask(`uget ${keys(9)}`, AbortSignal.abort()));
  assertEquals(setting.runner.times.readRows.count, reads);
});

Deno.test("noreply is the last word of any command, and no argument of it", async () => {
  await using setting = await opened({ hasNodes: true, follows: true });
  await setting.check([
    ["token get k noreply", `TOKEN ${ID}\r\n`],
    ["token list noreply", `TOKEN k ${ID} idle -\r\nEND\r\n`],
    ["token list k noreply", `TOKEN k ${ID} idle -\r\nEND\r\n`],
    [`uput k 0 1 ${ID} noreply\nx`, "STORED 1\r\n"],
    ["token get k noreply", `TOKEN ${ID + 1}\r\n`],
    [`udelete k ${ID + 1} noreply`, "DELETED 2\r\n"],
    ["uget k noreply", "NONE k 2 C\r\nEND\r\n"],
    ["nodes noreply", "NODE one member 13 3\r\nEND\r\n"],
    ["nodes forget one noreply", "OK\r\n"],
    ["follow wait now 1 noreply", "OK\r\n"],
    // The word alone is a key.
    ["uget noreply k", "NONE noreply 0 C\r\nNONE k 2 C\r\nEND\r\n"],
  ]);
});

Deno.test("keys and reasons put no line of their own into replies", async () => {
  await using setting = await opened();
  setting.states.get("a b\n%", "me");
  await setting.check([["token list", `TOKEN a%20b%0A%25 ${ID} idle me\r\nEND\r\n`]]);
  const reason = "one\r\nSTORED 1";
  for (const kind of ["unknown", "failed"] as const) {
    const addWrite = (write: RowWrite): void => write.answer({ kind, reason });
    const { signal } = new AbortController();
    const error = await assertRejects(() =>
      setting.commands.execute(latin1Bytes(`uput k 0 1 ${ID}\nx`), addWrite, signal)
    );
    const { message } = error as Error;
    assertEquals([/[\r\n]/.test(message), message.startsWith("outcome unknown: ")], [
      false,
      kind === "unknown",
    ]);
  }
});

Deno.test("an origin knows nothing of tokens of the one that has taken over", async () => {
  await using setting = await opened();
  const id = ID + 2 ** 32;
  const reason = "the token is of an origin that has taken over";
  for (const request of [`token release k ${id}`, `token revoke k ${id}`]) {
    await assertRejects(() => setting.ask(request), Error, reason);
  }
  const writes = [`uput k 0 1 ${id}\nv`, `udelete k ${id}`, `token resolve k ${id}`];
  await setting.check(writes.map((request) => [request, "NOT_FOUND\r\n"]));
  setting.backend.readEpoch = () => Promise.resolve(2);
  for (const request of writes) {
    await assertRejects(() => setting.ask(request), Error, `outcome unknown: ${reason}`);
  }
});

Deno.test("uget and uread of a key whose view cannot be read are errors, and not NONE", async () => {
  await using setting = await opened();
  const { readMany } = setting.backend;
  setting.backend.readMany = async (keys) => {
    const found = await readMany.call(setting.backend, keys);
    return found.map((each) => ({ ...each, problem: "view a:{id}: it is\r\ntoo slow" }));
  };
  for (const command of ["uget", "uread"]) {
    await assertRejects(() => setting.ask(`${command} a:1`), Error, "view a:{id}: it is");
  }
});
