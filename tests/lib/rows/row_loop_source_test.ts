// The loop of the database thread before a source that the test plays: lanes, answers and errors.
import { assert, assertEquals } from "@std/assert";
import type { Read } from "../../../lib/rows/flows/flows.ts";
import { RowWrite, type WriteReply } from "../../../lib/rows/flows/row_write.ts";
import { RowLoop } from "../../../lib/rows/row_loop.ts";
import type { RowSource } from "../../../lib/rows/row_source.ts";
import { ByteRegion, latin1Bytes, latin1Text } from "../../../store/base/bytes.ts";
import { checkStore } from "../../../store/check/check.ts";
import { NO_ITEM } from "../../../store/memory/item.ts";
import { createSharedMemory, Memory } from "../../../store/memory/memory.ts";
import { REQUEST } from "../../../store/memory/request_layout.ts";
import { StoreMode } from "../../../store/operation.ts";
import { Outcome } from "../../../store/outcome.ts";
import { formatCache, RowKind } from "../../../store/row_cache.ts";
import { type RequestSlot, RequestState } from "../../../store/rows/row_requests.ts";
import { keyIn, storeOptions } from "../../support/store.ts";

/** Turns of the event loop in which everything has happened that can. */
const TURNS = 6;

interface Asked<Answer> {
  readonly keys: string;
  answer(answer: Answer): void;
  fail(reason: string): void;
}

class Setting implements AsyncDisposable {
  readonly cache = formatCache(
    new Memory(
      createSharedMemory(
        storeOptions({ rows: { prefixes: [""], expiry: "column" }, leaseEntries: 100 }),
      ),
    ),
  );
  readonly reads: Asked<readonly Read[]>[] = [];
  readonly writes: Asked<readonly WriteReply[]>[] = [];
  readonly commands: Asked<Uint8Array<ArrayBuffer>>[] = [];
  endText: string | null = null;
  stops = 0;
  readonly loop: RowLoop;
  readonly #ended: Promise<void>;
  readonly #values = new Map<RequestSlot, Uint8Array>();
  isEnded = false;

  constructor(keepsExpiry = false) {
    // deno-lint-ignore no-this-alias -- for the getter
    const setting = this;
    const source: RowSource = {
      get endText() {
        return setting.endText;
      },
      groupsMax: 4,
      read: (keys) => ask(this.reads, keys.join()),
      isSlow: (key) => key.startsWith("slow"),
      refusalOf: (key) => key === "view" ? "the keys are of a view" : null,
      write: (group) => ask(this.writes, group.map(({ key }) => key).join()),
      command: (request, addWrite) => {
        const line = latin1Text(request);
        if (!line.startsWith("uput ")) return ask(this.commands, line);
        return new Promise((resolve) => {
          const answer = ({ kind }: WriteReply): void => resolve(latin1Bytes(`${kind}\r\n`));
          const [key, sinceMs] = [line.slice("uput ".length), performance.now()];
          // Later: the loop has nothing to do meanwhile.
          setTimeout(
            () =>
              addWrite(new RowWrite({ key, edit: "delete", writerTokenId: 7, sinceMs, answer })),
            0,
          );
        });
      },
      stop: () => void this.stops++,
    };
    this.loop = new RowLoop(this.cache, source, keepsExpiry);
    this.cache.rows!.valueOf = ({ slot }) => this.#values.get(slot)!;
    this.#ended = this.loop.run().then(() => void (this.isEnded = true));
  }

  /** Submits a request, as a connection does. */
  async ask(kind: RowKind, key: string, value = "", owner = 1): Promise<RequestSlot> {
    const { cache } = this;
    const { requests } = cache.rows!;
    const region = new ByteRegion(latin1Bytes(key).slice().buffer);
    cache.enter();
    const slot = requests.take(kind, keyIn(cache, region, key.length), owner, 0);
    this.#values.set(slot, latin1Bytes(value));
    requests.setWord(slot, REQUEST.MODE, StoreMode.SET);
    requests.submit(slot);
    requests.await(slot);
    cache.leave();
    await this.settle();
    return slot;
  }

  async read(...keys: string[]): Promise<RequestSlot[]> {
    const slots: RequestSlot[] = [];
    for (const key of keys) slots.push(await this.ask(RowKind.READ, key));
    return slots;
  }

  async settle(): Promise<void> {
    for (let turn = 0; turn < TURNS; turn++) await new Promise((next) => setTimeout(next, 0));
  }

  /** The keys of each group that the source has got. */
  get groups(): string[] {
    return this.reads.map(({ keys }) => keys);
  }

  /** `<outcome> <version> <value>`, or the text of an error; null: there is no answer. */
  answerOf(slot: RequestSlot): string | null {
    const { requests } = this.cache.rows!;
    if (requests.stateOf(slot) !== RequestState.DONE) return null;
    const outcome = requests.outcomeOf(slot);
    if (outcome === Outcome.ROW_ERROR) return new TextDecoder().decode(requests.textOf(slot));
    const item = requests.word(slot, REQUEST.RESULT);
    const value = item === NO_ITEM ? "" : ` ${this.#textOf(item)}`;
    return `${nameOf(outcome)} ${requests.word(slot, REQUEST.VERSION_LOW)}${value}`;
  }

  #textOf(item: number): string {
    const bytes = new Uint8Array(this.cache.valueLength(item));
    this.cache.copyValue(item, 0, bytes.length, new ByteRegion(bytes.buffer), 0);
    return new TextDecoder().decode(bytes);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.loop.stop();
    while (!this.isEnded) {
      // Answers the requests that a test has left.
      for (const { fail } of [...this.reads, ...this.writes, ...this.commands]) fail("over");
      await this.settle();
    }
    await this.#ended;
    checkStore(this.cache.memory);
  }
}

function ask<Answer>(list: Asked<Answer>[], keys: string): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  list.push({ keys, answer: resolve, fail: (reason) => reject(new Error(reason)) });
  return promise;
}

function nameOf(outcome: Outcome): string {
  return Object.entries(Outcome).find(([, each]) => each === outcome)![0];
}

function readOf(value: string | null, more: Partial<Read> = {}): Read {
  const row = value === null ? null : { flags: 0, version: 4, data: latin1Bytes(value) };
  return { row, version: 4, epoch: 1, cacheable: false, ...more };
}

Deno.test("three groups of reads are under way; later ones gather, those that may be slow for themselves", async () => {
  await using rows = new Setting();
  const slots = await rows.read("a", "b", "c", "d", "e", "slow1", "slow2");
  assertEquals(rows.groups, ["a", "b", "c", "slow1", "slow2"]);
  rows.reads[1]!.answer([readOf("of b")]);
  await rows.settle();
  assertEquals(rows.groups.slice(5), ["d,e"]);
  assertEquals([rows.answerOf(slots[1]!), rows.answerOf(slots[0]!)], ["OK 0 of b", null]);
  for (const { keys, answer } of rows.reads) {
    answer(keys.split(",").map((key) => readOf(key === "e" ? null : `of ${key}`)));
  }
  await rows.settle();
  assertEquals(slots.map((slot) => rows.answerOf(slot)), [
    ...["OK 0 of a", "OK 0 of b", "OK 0 of c", "OK 0 of d", "NOT_FOUND 0"],
    ...["OK 0 of slow1", "OK 0 of slow2"],
  ]);
});

Deno.test("a key is read once at a time; who asks meanwhile is answered by a later read, or fails with it", async () => {
  await using rows = new Setting();
  const [first] = await rows.read("a");
  const [second, third] = await rows.read("a", "a");
  assertEquals(rows.groups, ["a"]);
  rows.reads[0]!.answer([readOf("old")]);
  await rows.settle();
  assertEquals(rows.groups, ["a", "a"], "what was read before they asked may be old");
  assertEquals([first, second].map((slot) => rows.answerOf(slot!)), ["OK 0 old", null]);
  const [fourth] = await rows.read("a");
  rows.reads[1]!.fail("the database\nis away");
  await rows.settle();
  assertEquals(
    [second, third, fourth].map((slot) => rows.answerOf(slot!)),
    new Array(3).fill("the database is away"),
  );
  assertEquals([rows.groups.length, rows.loop.problem], [2, "the database\nis away"]);
  const [fifth] = await rows.read("a");
  rows.reads[2]!.answer([readOf("new")]);
  await rows.settle();
  assertEquals([rows.answerOf(fifth!), rows.loop.problem], ["OK 0 new", null]);
});

Deno.test("a value that may be kept is read once; a problem of one key is its own", async () => {
  await using rows = new Setting();
  const before = await rows.read("x", "y", "z");
  const [a, b] = await rows.read("a", "b");
  for (const { answer } of rows.reads.slice(0, 3)) answer([readOf(null)]);
  await rows.settle();
  assertEquals(rows.groups[3], "a,b");
  rows.reads[3]!.answer([
    readOf("of a", { cacheable: true }),
    readOf(null, { problem: "view\nb" }),
  ]);
  await rows.settle();
  assertEquals([a, b].map((slot) => rows.answerOf(slot!)), ["OK 0 of a", "view b"]);
  assertEquals([rows.loop.problem, before.length], [null, 3]);
});

Deno.test("a deposed origin answers no read, whatever the database says", async () => {
  await using rows = new Setting();
  const [slot] = await rows.read("a");
  rows.endText = "another server has taken over";
  rows.reads[0]!.answer([readOf("a")]);
  await rows.settle();
  assertEquals(rows.answerOf(slot!), "another server has taken over");
});

Deno.test("a touch of a table without times is a read, and one with times a write", async () => {
  await using rows = new Setting();
  const here = await rows.ask(RowKind.TOUCH, "a");
  const gone = await rows.ask(RowKind.TOUCH, "b");
  rows.reads[0]!.answer([readOf("one")]);
  rows.reads[1]!.answer([readOf(null)]);
  await rows.settle();
  assertEquals([rows.answerOf(here), rows.answerOf(gone)], ["TOUCHED 4 one", "NOT_FOUND 0"]);
  assertEquals(rows.writes.length, 0);
  await using timed = new Setting(true);
  await timed.ask(RowKind.TOUCH, "a");
  assertEquals([timed.reads.length, timed.writes.map(({ keys }) => keys)], [0, ["a"]]);
  timed.writes[0]!.answer([{ kind: "locked" }]);
});

/** The source's result of a write, the client's reply, and the problem that it leaves. */
const REPLIES: readonly (readonly [WriteReply, answer: string, problem: string | null])[] = [
  [{ kind: "committed", version: 9 }, "STORED 9", null],
  [
    { kind: "refused", row: { flags: 0, version: 6, data: new Uint8Array() } },
    "STORED 6",
    "before",
  ],
  [{ kind: "refused", row: null }, "STORED 0", "before"],
  [{ kind: "locked" }, "LOCKED 0", "before"],
  [{ kind: "unknown", reason: "no\nanswer" }, "outcome unknown: no answer", "no\nanswer"],
  [{ kind: "failed", reason: "the disk\nis full" }, "the disk is full", "the disk\nis full"],
  [{ kind: "revoked" }, "revoked", "before"],
];

for (const [reply, answer, problem] of REPLIES) {
  Deno.test(`a write that is ${reply.kind} is answered ${answer}`, async () => {
    await using rows = new Setting();
    rows.loop.problem = "before";
    const slot = await rows.ask(RowKind.STORE, "a", "x");
    assertEquals([rows.writes[0]!.keys, rows.answerOf(slot)], ["a", null]);
    rows.writes[0]!.answer([reply]);
    await rows.settle();
    assertEquals([rows.answerOf(slot), rows.loop.problem], [answer, problem]);
  });
}

Deno.test("the value of a write counts as copied until the write is answered, whatever the answer", async () => {
  await using rows = new Setting();
  const serverRows = rows.cache.rows!;
  const take = serverRows.take.bind(serverRows);
  const copied: number[] = [];
  serverRows.take = (max, copiedBytes) => {
    copied.push(copiedBytes!);
    return take(max, copiedBytes).map((request) => ({ ...request, valueLength: 100 }));
  };
  for (const [reply] of REPLIES) {
    await rows.ask(RowKind.STORE, "a", "x".repeat(100));
    assertEquals(copied.at(-1), 100);
    rows.writes.at(-1)!.answer([reply]);
    await rows.settle();
    serverRows.requests.ring();
    await rows.settle();
    assertEquals(copied.at(-1), 0, reply.kind);
  }
});

Deno.test("writes gather while one is under way; those that are postponed go again, before later ones", async () => {
  await using rows = new Setting();
  const [one, two, three] = [
    await rows.ask(RowKind.STORE, "a", "1", 1),
    await rows.ask(RowKind.STORE, "a", "2", 2),
    await rows.ask(RowKind.STORE, "a", "3", 3),
  ];
  assertEquals(rows.writes.map(({ keys }) => keys), ["a"]);
  rows.writes[0]!.answer([{ kind: "postponed" }]);
  await rows.settle();
  assertEquals([rows.writes[1]!.keys, rows.answerOf(one)], ["a,a,a", null]);
  const postponed = { kind: "postponed" } as const;
  rows.writes[1]!.answer([{ kind: "committed", version: 1 }, postponed, postponed]);
  await rows.settle();
  assertEquals([one, two].map((slot) => rows.answerOf(slot)), ["STORED 1", null]);
  assertEquals(rows.writes[2]!.keys, "a,a");
  rows.writes[2]!.fail("gone");
  await rows.settle();
  assertEquals([two, three].map((slot) => rows.answerOf(slot)), ["gone", "gone"]);
});

Deno.test("a key that cannot be written is refused without its source", async () => {
  await using rows = new Setting();
  const slot = await rows.ask(RowKind.STORE, "view", "x");
  assertEquals([rows.answerOf(slot), rows.writes.length], ["the keys are of a view", 0]);
});

Deno.test("commands are answered with their replies, or with an error in one line", async () => {
  await using rows = new Setting();
  const good = await rows.ask(RowKind.COMMAND, "", "token get k");
  const bad = await rows.ask(RowKind.COMMAND, "", "nodes");
  assertEquals(rows.commands.map(({ keys }) => keys), ["token get k", "nodes"]);
  rows.commands[0]!.answer(latin1Bytes("TOKEN 1\r\n"));
  rows.commands[1]!.fail("no\nlist");
  await rows.settle();
  assertEquals([rows.answerOf(good), rows.answerOf(bad)], ["OK 0 TOKEN 1\r\n", "no list"]);
});

Deno.test("a write of a command goes at once, though the loop sleeps, and so does the next one", async () => {
  await using rows = new Setting();
  for (const [index, key] of ["a", "b"].entries()) {
    const slot = await rows.ask(RowKind.COMMAND, "", `uput ${key}`);
    assertEquals([rows.writes.length, rows.writes[index]!.keys], [index + 1, key]);
    rows.writes[index]!.answer([{ kind: "committed", version: 1 }]);
    await rows.settle();
    assertEquals(rows.answerOf(slot), "OK 0 committed\r\n");
  }
});

Deno.test("few writes wait for the group under way for a while only", async () => {
  await using rows = new Setting();
  await rows.ask(RowKind.STORE, "a", "1", 1);
  const other = await rows.ask(RowKind.STORE, "b", "2", 2);
  while (rows.writes.length < 2) await rows.settle();
  assertEquals(rows.writes.map(({ keys }) => keys), ["a", "b"]);
  rows.writes[1]!.answer([{ kind: "committed", version: 1 }]);
  await rows.settle();
  assertEquals(rows.answerOf(other), "STORED 1");
});

Deno.test("three commands that read rows are executed at once; others do not wait for them", async () => {
  await using rows = new Setting();
  const slots: RequestSlot[] = [];
  for (const line of ["uget 1", "uget 2", "uget 3", "uget 4", "token get k", "uget 5"]) {
    slots.push(await rows.ask(RowKind.COMMAND, "", line));
  }
  const running = (): string[] => rows.commands.map(({ keys }) => keys);
  assertEquals(running(), ["uget 1", "uget 2", "uget 3", "token get k"]);
  rows.commands[3]!.answer(latin1Bytes("TOKEN 1\r\n"));
  await rows.settle();
  assertEquals(running().length, 4, "that was in no lane");
  rows.commands[1]!.answer(latin1Bytes("END\r\n"));
  await rows.settle();
  assertEquals(running().slice(4), ["uget 4"]);
  for (const { answer } of [...rows.commands]) answer(latin1Bytes("END\r\n"));
  await rows.settle();
  assertEquals(running().slice(5), ["uget 5"]);
  rows.commands[5]!.answer(latin1Bytes("END\r\n"));
  await rows.settle();
  assert(slots.every((slot) => rows.answerOf(slot) !== null));
});

Deno.test("a loop that stops tells its source, and ends when everything is answered", async () => {
  const rows = new Setting();
  const [slot] = await rows.read("a");
  const write = await rows.ask(RowKind.STORE, "b", "x");
  rows.loop.stop();
  await rows.settle();
  assertEquals([rows.stops, rows.isEnded], [1, false]);
  rows.reads[0]!.answer([readOf("a")]);
  await rows.settle();
  assertEquals(rows.isEnded, false);
  rows.writes[0]!.answer([{ kind: "committed", version: 1 }]);
  await rows.settle();
  assertEquals([rows.answerOf(slot!), rows.answerOf(write), rows.isEnded], [
    "OK 0 a",
    "STORED 1",
    true,
  ]);
});
