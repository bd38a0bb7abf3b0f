// The log and the sessions of PostgreSQL without a server: its connection and its answers are the test's.
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import type { Changes } from "../../../lib/databases/base/changes.ts";
import { DEFAULT_TABLE } from "../../../lib/databases/base/table.ts";
import { PostgresChanges } from "../../../lib/databases/postgres/change_stream.ts";
import { Pool } from "../../../lib/databases/postgres/pool.ts";
import { ReplicationConnection } from "../../../lib/databases/postgres/replication.ts";
import { Session } from "../../../lib/databases/postgres/session.ts";
import type { Slot } from "../../../lib/databases/postgres/slot.ts";
import { ViewMapping } from "../../../lib/databases/views/view_mapping.ts";
import { Views } from "../../../lib/databases/views/view.ts";

const ROWS = 70_000;
/** Keys, or transactions, that wait before the connection is read no further. */
const WAITING_MAX = 5_000;
const NO_VIEWS = {
  followed: { mapping: new ViewMapping(Views.NONE), words: "kv", state: "cat" },
  findMended: () => Promise.resolve(null),
};
const SLOT: Slot = {
  name: "leased_5",
  published: "published",
  server: "server 1",
  place: "place",
  gap: null,
  confirmed: 100n,
  rows: { oid: String(ROWS), keyName: "key" },
  hasMessages: true,
};

/** Bytes of a message: texts, and numbers of 1, 2, 4 and 8 bytes. */
function message(
  ...parts: readonly (string | readonly [1 | 2 | 4 | 8, number | bigint])[]
): Uint8Array {
  return Uint8Array.from(parts.flatMap((part) => {
    if (typeof part === "string") return [...new TextEncoder().encode(part)];
    const view = new DataView(new ArrayBuffer(8));
    view.setBigUint64(0, BigInt(part[1]));
    return [...new Uint8Array(view.buffer).slice(8 - part[0])];
  }));
}

const TABLE = message("R", [4, ROWS], "public\0", "kv\0", "d", [2, 1], [1, 1], "key\0", [4, 25], [
  4,
  0,
]);

const DDL = message("M", [1, 1], [8, 0], "leased\0", [4, 3], "ddl");

/** A log whose connection the test stands for. */
class Log {
  /** Calls of the connection, in their order. */
  readonly calls: string[] = [];
  /** How often the position was asked for in haste, or regularly. */
  onReport: () => void = () => {};
  /** Snapshots that the database answers, and positions that it keeps. */
  readonly snapshots: string[] = [];
  uses = 0;
  /** Awaited before each use of the database but the first. */
  onUse: () => Promise<void> = () => Promise.resolve();
  failure: Error | null = null;
  regular: (() => void) | undefined;
  changes!: PostgresChanges;

  static async open(slot: Partial<Slot> = {}, begins = true): Promise<Log> {
    const log = new Log();
    const given = { ...SLOT, ...slot };
    const pool = {
      settings: { url: "postgres://nowhere/", timeoutMs: 1 },
      use: async (): Promise<unknown> => {
        log.uses++;
        if (log.uses > 1) await log.onUse();
        if (log.failure !== null) return Promise.reject(log.failure);
        return Promise.resolve(log.uses === 1 ? [given, null] : 4_096);
      },
      query: (): Promise<unknown> => {
        const snapshot = log.snapshots.shift();
        if (snapshot === undefined) throw new Error("a snapshot too many");
        return Promise.resolve([{ snapshot }]);
      },
    };
    log.changes = await PostgresChanges.open(
      pool as unknown as Pool,
      DEFAULT_TABLE,
      false,
      NO_VIEWS,
      false,
      false,
    );
    if (begins) await log.#begin();
    return log;
  }

  async #begin(): Promise<void> {
    const { open } = ReplicationConnection;
    const { setInterval } = globalThis;
    const connection = {
      report: (position: bigint, asks: boolean) => {
        this.calls.push(`${position}${asks ? " asks" : ""}`);
        this.onReport();
      },
      pause: () => this.calls.push("pause"),
      resume: () => this.calls.push("resume"),
      close: () => Promise.resolve(this.calls.push("close")),
    };
    ReplicationConnection.open = (place) => {
      this.calls.push(`open ${place.slot} ${place.publication}`);
      return Promise.resolve(connection as unknown as ReplicationConnection);
    };
    globalThis.setInterval = ((run: () => void) => {
      this.regular = run;
    }) as unknown as typeof setInterval;
    try {
      await this.changes.begin();
    } finally {
      ReplicationConnection.open = open;
      globalThis.setInterval = setInterval;
    }
    this.changes.message(TABLE);
  }

  /** A transaction that has changed these keys. */
  commit(xid: number, position: bigint, keys: readonly string[], hasDdl = false): void {
    this.changes.message(message("B", [8, 0], [8, 0], [4, xid]));
    if (hasDdl) this.changes.message(DDL);
    for (const key of keys) {
      this.changes.message(
        message("I", [4, ROWS], "N", [2, 1], "t", [4, key.length], key),
      );
    }
    this.changes.message(message("C", [1, 0], [8, 0], [8, position], [8, 0]));
  }
}

function told({ keys, prefixes, count, position }: Changes): unknown[] {
  return [[...keys], [...prefixes], count, position];
}

Deno.test("transactions are taken together, once, when the last one of them is visible", async () => {
  const log = await Log.open();
  log.commit(5, 110n, ["a", "b"]);
  log.commit(6, 120n, ["b", "c"]);
  log.commit(7, 130n, []);
  // 5 is visible in the second snapshot, 6 in the third one.
  log.snapshots.push("5:7:5,6", "6:7:6", "7:7:");
  assertEquals(told(await log.changes.next()), [["a", "b", "c"], [], 4, 130n]);
  assertEquals(log.snapshots, []);
  // Transactions without a change are not looked for.
  log.commit(8, 140n, []);
  assertEquals(told(await log.changes.next()), [[], [], 0, 140n]);
  log.commit(9, 150n, ["d"]);
  log.snapshots.push("10:10:");
  assertEquals(told(await log.changes.next()), [["d"], [], 1, 150n]);
  await log.changes.close();
});

Deno.test("however many transactions have DDL, the catalog is checked once they are visible, before their position is told", async () => {
  const log = await Log.open();
  const MANY = 10_000;
  let checks = 0;
  let isTold = false;
  for (let xid = 1; xid <= MANY; xid++) log.commit(xid, 110n + BigInt(xid), [], true);
  assertEquals(log.uses, 2);
  log.snapshots.push(
    `1:${MANY + 1}:1,5`,
    `5:${MANY + 1}:5`,
    `${MANY + 1}:${MANY + 1}:`,
  );
  log.onUse = async () => {
    checks++;
    assertEquals(log.snapshots, []);
    // Those that arrive now are checked afterwards.
    if (checks === 1) {
      for (let xid = 1; xid <= MANY; xid++) log.commit(MANY + xid, 20_110n, [], true);
    }
    await new Promise((resolve) => setTimeout(resolve));
    assertEquals(isTold, false);
  };
  const first = await log.changes.next();
  isTold = true;
  assertEquals([told(first), checks], [[[], [], 0, 10_110n], 1]);
  isTold = false;
  log.snapshots.push("30000:30000:");
  assertEquals([told(await log.changes.next()), checks], [[[], [], 0, 20_110n], 2]);
  log.commit(30_001, 20_120n, ["a"]);
  log.snapshots.push("30002:30002:");
  await log.changes.next();
  assertEquals(checks, 2);
  log.commit(30_002, 20_130n, ["a"], true);
  log.snapshots.push("30003:30003:");
  log.failure = new Error("what views read has changed");
  await assertRejects(() => log.changes.next(), Error, "what views read has changed");
  await log.changes.close();
});

Deno.test("a position without changes is told; positions do not fall; next waits for a message", async () => {
  const log = await Log.open();
  assertEquals(log.changes.endPosition, 100n);
  const waiting = log.changes.next();
  log.changes.sentUpTo(90n);
  assertEquals(told(await waiting), [[], [], 0, 100n]);
  log.changes.sentUpTo(140n);
  log.changes.sentUpTo(130n);
  assertEquals(log.changes.endPosition, 140n);
  assertEquals(told(await log.changes.next()), [[], [], 0, 140n]);
  let isTaken = false;
  const more = log.changes.next().then((changes) => {
    isTaken = true;
    return changes;
  });
  await new Promise((resolve) => setTimeout(resolve));
  assertEquals(isTaken, false);
  log.commit(9, 150n, ["d"]);
  log.snapshots.push("10:10:");
  assertEquals(told(await more), [["d"], [], 1, 150n]);
  assertEquals(log.changes.endPosition, 150n);
  await log.changes.close();
});

Deno.test("the connection is read no further when too many keys or transactions wait, until they are taken", async () => {
  const keys = Array.from({ length: WAITING_MAX }, (_, index) => `k${index}`);
  for (const isOne of [true, false]) {
    const log = await Log.open();
    log.calls.length = 0;
    if (isOne) log.commit(1, 101n, keys.slice(1));
    else for (let xid = 1; xid < WAITING_MAX; xid++) log.commit(xid, 101n, ["k"]);
    assertEquals(log.calls, []);
    log.commit(WAITING_MAX, 102n, ["k0"]);
    assertEquals(log.calls, ["pause"]);
    log.commit(WAITING_MAX + 1, 103n, ["more"]);
    assertEquals(log.calls, ["pause"]);
    log.snapshots.push("9999:9999:");
    const { count, position } = await log.changes.next();
    assertEquals([count, position], [WAITING_MAX + 1, 103n]);
    assertEquals(log.calls, ["pause", "resume"]);
    log.commit(WAITING_MAX + 2, 104n, ["k0"]);
    log.snapshots.push("9999:9999:");
    await log.changes.next();
    assertEquals(log.calls, ["pause", "resume"]);
    await log.changes.close();
  }
});

Deno.test("the server is told what is confirmed; it is asked at the begin, regularly and in haste", async () => {
  const log = await Log.open();
  const { calls, changes } = log;
  assertEquals(calls.splice(0), ["open leased_5 leased", "100 asks"]);
  changes.confirm(120n);
  assertEquals(calls.splice(0), ["120"]);
  for (let round = 0; round < 2; round++) {
    const asked = new Promise<void>((resolve) => log.onReport = resolve);
    changes.hasten();
    changes.hasten();
    assertEquals(calls, []);
    await asked;
    assertEquals(calls.splice(0), ["120 asks"]);
  }
  log.regular!();
  await new Promise((resolve) => setTimeout(resolve));
  assertEquals([calls.splice(0), changes.retainedBytes], [["120 asks"], 4_096]);
  log.failure = new Error("the slot is gone");
  log.regular!();
  await assertRejects(() => changes.next(), Error, "the slot is gone");
  await changes.close();
  assertEquals(calls.splice(0), ["120 asks", "close"]);
});

Deno.test("a place is noted at the begin after a gap only", async () => {
  for (const [gap, uses] of [[null, 2], ["the slot is new", 3]] as const) {
    const log = await Log.open({ gap });
    assertEquals([log.changes.gap, log.uses], [gap, uses]);
    await log.changes.close();
  }
});

Deno.test("the first reason for which a log ends is told, whatever was waiting", async () => {
  const another = "the database has moved: server and timeline server 1 are now server 2";
  const ends: readonly (readonly [(log: Log) => void, reason: string])[] = [
    [(log) => log.changes.ended("closed"), "closed"],
    [(log) => log.changes.message(message("I", [4, 1])), "the log cannot be read: a change of a"],
    [
      (log) => void assertThrows(() => log.changes.checkServer("server 2"), Error, another),
      another,
    ],
    [(log) => void log.changes.close(), "the log is read no more"],
  ];
  for (const [end, reason] of ends) {
    const log = await Log.open();
    log.changes.checkServer("server 1");
    const waiting = assertRejects(() => log.changes.next(), Error, reason);
    end(log);
    log.changes.ended("later");
    await waiting;
    await assertRejects(() => log.changes.next(), Error, reason);
    await log.changes.close();
  }
  // Also while a transaction is not visible.
  const log = await Log.open();
  log.commit(5, 110n, ["a"]);
  log.snapshots.push("5:6:5");
  const waiting = assertRejects(() => log.changes.next(), Error, "closed");
  log.changes.ended("closed");
  await waiting;
  await log.changes.close();
  // One that has not begun.
  const idle = await Log.open({}, false);
  idle.changes.confirm(1n);
  idle.changes.hasten();
  await idle.changes.close();
});

Deno.test("a server that is silent for 10 s is given up, unless the connection is not read", async () => {
  const SILENCE_MS = 10_000;
  const { now } = performance;
  // Whole: sums are exact.
  const startMs = Math.ceil(now.call(performance));
  let passedMs = 0;
  performance.now = () => startMs + passedMs;
  try {
    const log = await Log.open();
    const isSilent = async (): Promise<boolean> => {
      passedMs += SILENCE_MS;
      log.calls.length = 0;
      log.regular!();
      await new Promise((resolve) => setTimeout(resolve));
      const before = log.calls.length === 0;
      passedMs++;
      log.calls.length = 0;
      return before;
    };
    // Each sign of life is enough.
    const position = (): void => log.changes.sentUpTo(0n);
    for (const hear of [position, () => log.changes.message(TABLE), position]) {
      hear();
      assertEquals(await isSilent(), false);
    }
    const keys = Array.from({ length: WAITING_MAX }, (_, index) => `k${index}`);
    log.commit(1, 101n, keys);
    for (let round = 0; round < 2; round++) assertEquals(await isSilent(), false);
    log.snapshots.push("9999:9999:");
    await log.changes.next();
    assertEquals(await isSilent(), false);
    assertEquals(await isSilent(), true);
    await assertRejects(
      () => log.changes.next(),
      Error,
      "the server has sent nothing for 10000 ms",
    );
    await log.changes.close();
  } finally {
    performance.now = now;
  }
});

/** Sessions that the test opens, closes and loses. */
class Sessions implements Disposable {
  readonly #open = Session.open;
  readonly opened: { isLost: boolean; isClosed: boolean }[] = [];
  failure: Error | null = null;
  onAbandon: (error: Error) => void = () => {};

  constructor() {
    Session.open = () => {
      if (this.failure !== null) return Promise.reject(this.failure);
      const state = { isLost: false, isClosed: false };
      this.opened.push(state);
      return Promise.resolve({
        get isLost() {
          return state.isLost;
        },
        number: this.opened.length,
        query: (...given: unknown[]) => Promise.resolve([{ given }]),
        abandon: (reason: string) => {
          state.isLost = true;
          this.onAbandon(new Error(reason));
        },
        close: () => {
          state.isClosed = true;
          return Promise.resolve();
        },
      } as unknown as Session);
    };
  }

  get closed(): number {
    return this.opened.filter(({ isClosed }) => isClosed).length;
  }

  [Symbol.dispose](): void {
    Session.open = this.#open;
  }
}

const numberOf = (session: Session): Promise<number> =>
  Promise.resolve((session as unknown as { number: number }).number);
const PATIENT = { url: "postgres://nowhere/", timeoutMs: 60_000 };

Deno.test("sessions are used again, unless they are lost, renewed, or could not be opened", async () => {
  using sessions = new Sessions();
  const pool = new Pool(PATIENT, 2);
  assertEquals([await pool.use(numberOf), await pool.use(numberOf)], [1, 1]);
  // An error of the caller loses no session and no slot.
  for (let round = 0; round < 3; round++) {
    await assertRejects(() => pool.use(() => Promise.reject(new Error("mine"))), Error, "mine");
  }
  assertEquals([await pool.use(numberOf), sessions.opened.length], [1, 1]);
  // Lost in use, and lost while it is idle.
  await pool.use(() => Promise.resolve(sessions.opened[0]!.isLost = true));
  assertEquals([sessions.closed, await pool.use(numberOf)], [1, 2]);
  sessions.opened[1]!.isLost = true;
  assertEquals([await pool.use(numberOf), sessions.closed], [3, 2]);
  pool.renew();
  assertEquals([sessions.closed, await pool.use(numberOf)], [3, 4]);
  // One that is in use when sessions are renewed.
  const given = await pool.use((session) => {
    pool.renew();
    return numberOf(session);
  });
  assertEquals([given, sessions.closed], [4, 4]);
  assertEquals(await pool.query("SELECT $1", [5]), [{ given: ["SELECT $1", [5]] }]);
  // A server that is away takes no slot.
  pool.renew();
  sessions.failure = new Error("refused");
  for (let round = 0; round < 3; round++) {
    await assertRejects(() => pool.use(numberOf), Error, "refused");
  }
  sessions.failure = null;
  assertEquals(await Promise.all([pool.use(numberOf), pool.use(numberOf)]), [6, 7]);
  await pool.close();
  assertEquals(sessions.closed, 7);
});

Deno.test("callers get sessions in the order of their arrival, at most so many at a time", async () => {
  using sessions = new Sessions();
  const pool = new Pool(PATIENT, 2);
  const served: number[] = [];
  const ends: (() => void)[] = [];
  const callers = [0, 1, 2, 3, 4].map((caller) =>
    pool.use(() => {
      served.push(caller);
      return new Promise<void>((resolve) => ends.push(resolve));
    })
  );
  for (let caller = 0; caller < 5; caller++) {
    await new Promise((resolve) => setTimeout(resolve));
    assertEquals(served, [0, 1, 2, 3, 4].slice(0, caller + 2));
    ends[caller]!();
    await callers[caller];
  }
  // Those that were given from one caller to the next are no more than before.
  const later = [5, 6, 7].map((caller) =>
    pool.use(() => {
      served.push(caller);
      return new Promise<void>((resolve) => ends.push(resolve));
    })
  );
  await new Promise((resolve) => setTimeout(resolve));
  assertEquals(served.slice(5), [5, 6]);
  for (let caller = 5; caller < 8; caller++) {
    ends[caller]!();
    await later[caller - 5];
  }
  assertEquals(sessions.opened.length, 2);
  await pool.close();
});

Deno.test("a caller that has waited in vain gets no session, and takes none from another", async () => {
  using _sessions = new Sessions();
  const pool = new Pool({ ...PATIENT, timeoutMs: 20 }, 1);
  let end = (): void => {};
  const held = pool.use(() => new Promise<void>((resolve) => end = resolve), 10_000);
  const busy = "the database is busy: no connection free within 20 ms";
  await assertRejects(() => pool.use(numberOf), Error, busy);
  end();
  await held;
  assertEquals([await pool.use(numberOf), await pool.use(numberOf)], [1, 1]);
  await pool.close();
});

Deno.test("a session that does not answer is given up, and the others are used no more", async () => {
  using sessions = new Sessions();
  const pool = new Pool({ ...PATIENT, timeoutMs: 5 }, 2);
  await Promise.all([pool.use(numberOf), pool.use(numberOf)]);
  const silent = (): Promise<never> => new Promise((_, reject) => sessions.onAbandon = reject);
  const late = "the database did not answer within";
  await assertRejects(() => pool.use(silent, 3), Error, `${late} 15 ms`);
  assertEquals(sessions.closed, 2);
  await assertRejects(() => pool.use(silent), Error, `${late} 5 ms`);
  assertEquals(sessions.closed, 3);
  assertEquals(await pool.use(numberOf), 4);
  await pool.close();
  assertEquals(sessions.closed, 4);
});
