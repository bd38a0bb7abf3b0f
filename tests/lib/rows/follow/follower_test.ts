// The follower beside a log that tests move by hand.
import { assertEquals } from "@std/assert";
import type { Backend } from "../../../../lib/databases/base/backend.ts";
import type { Changes, ChangeStream } from "../../../../lib/databases/base/changes.ts";
import { Follower } from "../../../../lib/rows/follow/follower.ts";
import { until } from "../../../support/servers/server_process.ts";

/** A log whose changes tests send. */
class Log implements ChangeStream {
  readonly warning = null;
  readonly gap = null;
  readonly retainedBytes = 0;
  endPosition = 0n;
  readonly confirmed: bigint[] = [];
  /** The end that the database says. */
  end = 0n;
  /** Called while the database is asked for the end. */
  beforeEnd: () => void = () => {};
  #resolve: (changes: Changes) => void = () => {};
  #reject: (error: Error) => void = () => {};
  isWaiting = false;
  hastened = 0;
  closed = 0;
  beginning = Promise.resolve();

  begin(): Promise<void> {
    return this.beginning;
  }

  next(): Promise<Changes> {
    this.isWaiting = true;
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  async send(position: bigint): Promise<void> {
    await until(() => this.isWaiting);
    this.isWaiting = false;
    this.#resolve({ keys: ["k"], prefixes: [], count: 1, position });
    await until(() => this.confirmed.includes(position));
  }

  async fail(reason: string): Promise<void> {
    await until(() => this.isWaiting);
    this.isWaiting = false;
    this.#reject(new Error(reason));
  }

  confirm(position: bigint): void {
    this.confirmed.push(position);
  }

  hasten(): void {
    this.hastened++;
  }

  close(): Promise<void> {
    this.closed++;
    this.#reject(new Error("closed"));
    return Promise.resolve();
  }
}

/** Runs a test with a follower of a log. */
async function withFollower(
  test: (log: Log, follower: Follower, events: readonly string[]) => Promise<void>,
): Promise<void> {
  const log = new Log();
  const backend = {
    openChanges: () => Promise.resolve(log),
    endOfLogOnDisk: () => {
      log.beforeEnd();
      return Promise.resolve(log.end);
    },
  } as unknown as Backend;
  const context = { note: () => {}, take: () => {} };
  const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 1));
  const events: string[] = [];
  const follower = new Follower(backend, context, ({ event }) => void events.push(event), pause);
  await follower.open();
  const run = follower.run();
  try {
    await test(log, follower, events);
  } finally {
    await follower.stop();
    await run;
  }
}

/** Runs with a clock that only `advance` moves. */
async function withClock(body: (advance: (ms: number) => void) => Promise<void>): Promise<void> {
  const { now } = performance;
  let nowMs = now.call(performance);
  performance.now = () => nowMs;
  try {
    await body((ms) => void (nowMs += ms));
  } finally {
    performance.now = now;
  }
}

Deno.test("the lag counts from the moment when the applied end of the log was asked for", () =>
  withClock((advance) =>
    withFollower(async (log, follower) => {
      advance(500);
      assertEquals(follower.lagMs, 500, "since the start");
      log.end = 100n;
      // The answer takes a second: changes that are committed meanwhile may lie behind the end.
      log.beforeEnd = () => advance(1000);
      await follower.measure();
      advance(50);
      // A log that grows all the time.
      log.end = 200n;
      await follower.measure();
      await log.send(100n);
      assertEquals(follower.lagMs, 1000 + 50 + 1000);
      assertEquals(follower.lagBytes, 100);
    })
  ));

Deno.test("while the log cannot be read, its end is not caught up with", () =>
  withFollower(async (log, follower) => {
    await log.send(100n);
    log.end = 150n;
    await follower.measure();
    // The next log begins behind the end that was asked for, as after a gap.
    log.endPosition = 200n;
    await log.fail("a trigger is missing");
    await until(() => log.isWaiting);
    assertEquals(follower.position, 200n);
    assertEquals(follower.problem, "a trigger is missing");
    log.end = 200n;
    await follower.measure();
    await log.send(201n);
    await until(() => follower.problem === null);
    await follower.measure();
  }));

Deno.test("changes that arrive while a log begins are not applied yet", () =>
  withFollower(async (log, follower) => {
    await log.send(100n);
    log.endPosition = 200n;
    log.begin = () => {
      log.endPosition = 250n;
      return Promise.resolve();
    };
    await log.fail("the connection is lost");
    await until(() => log.isWaiting);
    assertEquals([follower.position, await follower.wait(201n, 1)], [200n, false]);
    await log.send(250n);
    assertEquals(await follower.wait(250n, 1), true);
  }));

Deno.test("the lag grows while the log cannot be read, also without changes", () =>
  withClock((advance) =>
    withFollower(async (log, follower) => {
      await log.send(100n);
      log.end = log.endPosition = 100n;
      await follower.measure();
      assertEquals(follower.lagMs, 0);
      await log.fail("a trigger is missing");
      await until(() => log.isWaiting);
      advance(500);
      await follower.measure();
      assertEquals(follower.lagMs, 500);
      await log.send(101n);
      await until(() => follower.problem === null);
      log.end = 101n;
      await follower.measure();
      assertEquals(follower.lagMs, 0);
    })
  ));

Deno.test("a wait ends with its signal, before and after it has begun", () =>
  withFollower(async (log, follower) => {
    const controller = new AbortController();
    const waits = [
      follower.wait(100n, 60_000, controller.signal),
      follower.wait(100n, 60_000),
    ];
    controller.abort();
    assertEquals(await waits[0], false);
    assertEquals(await follower.wait(100n, 60_000, controller.signal), false);
    await log.send(100n);
    assertEquals(await waits[1], true);
    assertEquals(await follower.wait(100n, 60_000, controller.signal), true, "it is applied");
  }));

Deno.test("a wait ends when its position is applied, or the follower stops", () =>
  withFollower(async (log, follower) => {
    const early = follower.wait(100n, 1_000_000);
    const late = follower.wait(101n, 1_000_000);
    await log.send(100n);
    assertEquals(await early, true);
    await follower.stop();
    assertEquals(await late, false);
  }));

Deno.test("the end of the log by a stop is no failure, and a wait leaves nothing with its signal", () =>
  withFollower(async (log, follower, events) => {
    const { signal } = new AbortController();
    const calls: unknown[] = [];
    for (const name of ["addEventListener", "removeEventListener"] as const) {
      const method = signal[name].bind(signal);
      Object.defineProperty(signal, name, {
        value: (type: "abort", listener: () => void) => {
          calls.push(name, listener);
          method(type, listener);
        },
      });
    }
    const waiting = follower.wait(100n, 1_000_000, signal);
    await log.send(100n);
    assertEquals(await waiting, true);
    const listener = calls[1];
    assertEquals(calls, ["addEventListener", listener, "removeEventListener", listener]);
    await until(() => log.isWaiting);
    await follower.stop();
    await until(() => log.closed >= 2);
    assertEquals([events, follower.problem], [[], null]);
  }));

Deno.test("the log is hastened for a wait, and again after changes that do not end it", () =>
  withFollower(async (log, follower) => {
    assertEquals(await follower.wait(0n, 1_000_000), true);
    assertEquals(log.hastened, 0);
    const waiting = follower.wait(101n, 1_000_000);
    assertEquals(log.hastened, 1);
    await log.send(100n);
    await until(() => log.hastened === 2);
    await log.send(101n);
    assertEquals(await waiting, true);
    await log.send(102n);
    assertEquals(log.hastened, 2);
  }));

Deno.test("a log that fails is closed before it is opened again; its failure is logged once", () =>
  withFollower(async (log, follower, events) => {
    for (const closed of [1, 2, 3]) {
      await log.fail("a trigger is missing");
      await until(() => log.isWaiting);
      assertEquals(log.closed, closed);
    }
    assertEquals(events, ["log_not_followed"]);
    await log.send(100n);
    await until(() => follower.problem === null);
    await log.fail("a trigger is missing");
    await until(() => log.isWaiting);
    assertEquals(events, ["log_not_followed", "log_followed", "log_not_followed"]);
  }));

Deno.test("after the log has ended, neither its position nor its end counts: another server's may be lower", () =>
  withFollower(async (log, follower) => {
    await log.send(100n);
    log.end = 200n;
    await follower.measure();
    let open = (): void => {};
    log.beginning = new Promise((resolve) => open = resolve);
    log.endPosition = 40n;
    await log.fail("the server has closed the connection");
    await until(() => follower.problem !== null);
    let isApplied = false;
    const waiting = follower.wait(50n, 1_000_000).then((done) => isApplied = done);
    assertEquals(log.hastened, 0, "the log that has ended is not asked");
    await until(() => log.closed === 1);
    const { hastened } = log;
    open();
    await until(() => log.isWaiting);
    assertEquals([isApplied, follower.position], [false, 40n]);
    await log.send(50n);
    assertEquals(await waiting, true);
    assertEquals(hastened, 0, "a log that has ended is not asked");
    log.end = 50n;
    await follower.measure();
    assertEquals(follower.lagBytes, 0);
  }));

Deno.test("the end of a log that has ended is caught up with neither by that log nor by the next one", () =>
  withClock((advance) =>
    withFollower(async (log, follower) => {
      await log.send(100n);
      log.end = 1000n;
      await follower.measure();
      await log.fail("the server has closed the connection");
      await until(() => log.isWaiting);
      await log.send(101n);
      await until(() => follower.problem === null);
      advance(5000);
      // The next server's log is shorter.
      log.end = 101n;
      await follower.measure();
      assertEquals([follower.lagMs, follower.lagBytes], [0, 0]);
    })
  ));

Deno.test("an end that was asked for before the log ended does not count for the next one", async () => {
  const logs = [new Log(), new Log()];
  const [first, second] = logs as [Log, Log];
  let answer = (_: bigint): void => {};
  const backend = {
    openChanges: () => Promise.resolve(logs.shift()),
    endOfLogOnDisk: () => new Promise<bigint>((resolve) => answer = resolve),
  } as unknown as Backend;
  const context = { note: () => {}, take: () => {} };
  const follower = new Follower(backend, context, () => {}, () => Promise.resolve());
  await follower.open();
  const run = follower.run();
  await withClock(async (advance) => {
    await first.send(100n);
    const measured = follower.measure();
    await first.fail("the server has closed the connection");
    await second.send(50n);
    await until(() => follower.problem === null);
    answer(1000n);
    await measured;
    advance(5000);
    const again = follower.measure();
    answer(50n);
    await again;
    assertEquals([follower.lagMs, follower.lagBytes], [0, 0]);
  });
  await follower.stop();
  await run;
});
