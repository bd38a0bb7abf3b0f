import { keySet } from "../../../support/rows/key_sets.ts";
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { mock } from "node:test";
import type { Read } from "../../../../lib/rows/flows/flows.ts";
import { NodeServer } from "../../../../lib/rows/nodes/node_server.ts";
import { NodeList } from "../../../../lib/rows/flows/node_list.ts";
import { waitFor } from "../../../../lib/rows/flows/takeover.ts";
import * as wire from "../../../../lib/rows/nodes/wire.ts";
import { latin1Bytes, latin1Text } from "../../../../store/base/bytes.ts";

// The real nodeServer of an origin, whose clock and timers the test moves.

const MEMBER_MS = 2000;
const DRIFT_SHARE = 0.1;
const NOTHING = new Uint8Array();
const OVER = "NOT_FOUND\r\n";

class Origin implements Disposable {
  nowMs = 0;
  readonly messages: string[] = [];
  read: (keys: readonly string[]) => Promise<readonly Read[]> = () => Promise.resolve([]);
  readonly nodeServer: NodeServer;

  constructor() {
    mock.timers.enable({ apis: ["setTimeout"] });
    let secrets = 0;
    this.nodeServer = new NodeServer(
      new NodeList(() => `secret${++secrets}`, MEMBER_MS, DRIFT_SHARE),
      {
        right: { isTimed: false, deadlineMs: 0, nowMs: () => this.nowMs },
        own: { invalidate: (keys) => keys.map(() => true), expel: () => {} },
        memberMs: MEMBER_MS,
        prefixes: [""],
        expiry: "refuse",
        fits: () => true,
        read: (keys) => this.read(keys),
        noteNodes: () => Promise.resolve(true),
        report: ({ message }) => this.messages.push(message),
      },
    );
  }

  [Symbol.dispose](): void {
    mock.timers.reset();
  }

  /** Moves clock and timers, and lets everything happen that then can. */
  async tick(ms: number): Promise<void> {
    this.nowMs += ms;
    mock.timers.tick(ms);
    await settled();
  }

  async delete(): Promise<void> {
    await this.nodeServer.delete(keySet("k"));
  }

  async ask(
    verb: string,
    session: string,
    number = "0",
    block = NOTHING,
    signal?: AbortSignal,
  ): Promise<string> {
    const words = [verb, session, number, String(block.length)];
    return latin1Text(await this.nodeServer.execute(words, block, () => {}, signal));
  }

  /** @returns The session. */
  async join(name: string, old = ""): Promise<string> {
    const join = {
      version: wire.WIRE_VERSION,
      name,
      session: old,
      prefixes: [""],
      expiry: "refuse",
    };
    const reply = await this.ask("join", "-", "0", latin1Bytes(JSON.stringify(join)));
    return wire.unpackJoined(blockOf(reply)).session;
  }

  async poll(session: string, confirmed: number): Promise<ReturnType<typeof wire.unpackDue>> {
    const reply = await this.ask("poll", session, String(confirmed));
    return wire.unpackDue(blockOf(reply), confirmed, MEMBER_MS);
  }
}

/** Lets all promises go on that can. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
}

function blockOf(reply: string): Uint8Array {
  return latin1Bytes(reply.slice(reply.indexOf("\n") + 1));
}

/** The state of a promise, and its value. */
function watched<T>(promise: Promise<T>): { value: T | undefined } {
  const result: { value: T | undefined } = { value: undefined };
  void promise.then((value) => result.value = value);
  return result;
}

Deno.test("a join answers the question of the session that it ends: it is over", async () => {
  using origin = new Origin();
  const first = await origin.join("one");
  const question = watched(origin.ask("poll", first));
  await settled();
  assertEquals(question.value, undefined);
  // Nobody else's join does.
  await origin.join("one", "1-guessed");
  await settled();
  assertEquals(question.value, undefined);
  const second = await origin.join("one", first);
  await settled();
  assertEquals(question.value, OVER);
  assertEquals(await origin.ask("leave", first), "NODE 0\r\n");
  assertEquals(origin.nodeServer.states.map(({ state }) => state), ["member", "member"]);
  assertEquals(second, "3-secret3");
});

Deno.test("of two questions of one session the first is answered at once, and both are renewals", async () => {
  using origin = new Origin();
  const session = await origin.join("one");
  const first = watched(origin.ask("poll", session));
  await settled();
  const second = watched(origin.ask("poll", session));
  await settled();
  assertMatch(first.value!, /^NODE 16\r\n/);
  assertEquals(second.value, undefined);
  const deletion = watched(origin.delete().then(() => true));
  await settled();
  const due = wire.unpackDue(blockOf(second.value!), 0, MEMBER_MS);
  assertEquals([due.seq, due.keys], [1, ["k"]]);
  assertEquals(deletion.value, undefined);
  void origin.ask("poll", session, "1");
  await settled();
  assertEquals(deletion.value, true);
});

Deno.test("a session that is not one's own, or a number that was not sent, does nothing", async () => {
  using origin = new Origin();
  const session = await origin.join("one");
  const deletion = watched(origin.delete().then(() => true));
  for (
    const guess of ["-", "1-1", "1-", "1-secret2", "2-secret1", session.slice(0, -1), `${session}x`]
  ) {
    assertEquals(await origin.ask("poll", guess, "1"), OVER, guess);
    assertEquals(await origin.ask("leave", guess), "NODE 0\r\n", guess);
  }
  await assertRejects(
    () => origin.ask("poll", session, "1"),
    RangeError,
    "node one confirms deletion 1; it was sent those up to 0",
  );
  assertEquals((await origin.poll(session, 0)).seq, 1);
  for (const number of ["2", "9007199254740991"]) {
    await assertRejects(() => origin.ask("poll", session, number), RangeError, number);
  }
  for (const number of ["-1", "1.5", "1e9", "NaN", "Infinity", "99999999999999999999", ""]) {
    await assertRejects(
      () => origin.ask("poll", session, number),
      wire.WireError,
      `the number of a deletion is ${number}, and must be 0 to 9007199254740991`,
    );
  }
  await settled();
  assertEquals(deletion.value, undefined);
  // Its node may still do it.
  void origin.ask("poll", session, "1");
  await settled();
  assertEquals(deletion.value, true);
});

/** A node that asks all the time and confirms nothing: how long a write waits for it. */
async function delayOf(origin: Origin, session: string, stepMs: number): Promise<number> {
  const startMs = origin.nowMs;
  const deletion = watched(origin.delete().then(() => true));
  while (deletion.value === undefined) {
    await origin.ask("poll", session);
    await origin.tick(stepMs);
  }
  return origin.nowMs - startMs;
}

/** Joins as soon as the origin lets it. @returns The session, and how long it had to wait. */
async function joinLate(origin: Origin, name: string): Promise<[string, number]> {
  const startMs = origin.nowMs;
  for (;;) {
    try {
      return [await origin.join(name), origin.nowMs - startMs];
    } catch (error) {
      assertEquals((error as Error).message, wire.WAIT_TEXT);
      await origin.tick(10);
    }
  }
}

Deno.test("a node that never confirms delays a write once, for its time and the margin; then it waits, longer each time", async () => {
  using origin = new Origin();
  let session = await origin.join("one");
  const waits: number[] = [];
  for (let round = 0; round < 9; round++) {
    const delayMs = await delayOf(origin, session, 20);
    assert(delayMs <= waitFor(MEMBER_MS, DRIFT_SHARE) + 20, `${delayMs}`);
    assertMatch(origin.messages.at(-1)!, /node one is lost: .*, in \d+ ms at the earliest$/);
    // The next write does not wait.
    const next = watched(origin.delete().then(() => true));
    await settled();
    assertEquals(next.value, true);
    assertEquals(await origin.ask("poll", session), OVER);
    // Nor does another node.
    await origin.ask("leave", await origin.join("other"));
    let waitMs: number;
    [session, waitMs] = await joinLate(origin, "one");
    waits.push(waitMs);
  }
  assertEquals(waits, [250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 32_000]);
});

Deno.test("a node that confirms is not kept waiting by one that has taken its name", async () => {
  using origin = new Origin();
  const honest = await origin.join("one");
  const hostile = await origin.join("one");
  const deletion = watched(origin.delete().then(() => true));
  let confirmed = 0;
  for (let waitedMs = 0; deletion.value === undefined; waitedMs += 100) {
    assert(waitedMs <= 2 * MEMBER_MS);
    const question = origin.poll(honest, confirmed);
    await origin.tick(100);
    // Its question has waited for long enough: it is answered.
    mock.timers.tick(MEMBER_MS);
    confirmed = Math.max(confirmed, (await question).seq);
  }
  await assertRejects(() => origin.join("one"), Error, wire.WAIT_TEXT);
  await assertRejects(() => origin.join("one", hostile), Error, wire.WAIT_TEXT);
  await assertRejects(() => origin.join("one", "1-guessed"), Error, wire.WAIT_TEXT);
  assertMatch(await origin.join("one", honest), /^\d+-secret\d+$/);
});

Deno.test("a node that leaves lets the writes go on that wait for it", async () => {
  using origin = new Origin();
  const session = await origin.join("one");
  const other = await origin.join("other");
  const deletion = watched(origin.delete().then(() => true));
  await origin.ask("leave", session);
  await settled();
  assertEquals(deletion.value, undefined);
  await origin.ask("leave", other);
  await settled();
  assertEquals(deletion.value, true);
});

Deno.test("nodes forget ends the wait of a node", async () => {
  using origin = new Origin();
  await delayOf(origin, await origin.join("one"), 20);
  await assertRejects(() => origin.join("one"), Error, wire.WAIT_TEXT);
  assert(origin.nodeServer.forget("one"));
  await origin.join("one");
});

Deno.test("a read of a node ends with its connection, between two slices", async () => {
  using origin = new Origin();
  const session = await origin.join("one");
  const controller = new AbortController();
  const slices: number[] = [];
  origin.read = (keys) => {
    slices.push(keys.length);
    if (slices.length === 2) controller.abort(new Error("the client has gone"));
    return Promise.resolve(
      keys.map(() => ({ row: null, version: 0, cacheable: false, epoch: 1 })),
    );
  };
  const keys = wire.packKeys(Array.from({ length: 100 }, (_, n) => `k${n}`));
  await assertRejects(
    () => origin.ask("read", session, "0", keys, controller.signal),
    Error,
    "the client has gone",
  );
  assertEquals(slices, [4, 8]);
});
