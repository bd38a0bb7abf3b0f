import { mock } from "node:test";
import { assertEquals } from "@std/assert";
import type { NativeConnection } from "../../../../lib/net/native/connection.ts";
import {
  type Epoll,
  EPOLLERR,
  EPOLLHUP,
  EPOLLIN,
  EPOLLRDHUP,
} from "../../../../lib/net/native/epoll.ts";
import { drain, WaitingConnections } from "../../../../lib/net/native/waiting.ts";
import { DRAIN_GRACE_MS, DRAIN_MS_MAX } from "../../../../lib/net/transport.ts";
import type { TransportThread } from "../../../../lib/net/worker_transport.ts";
import { type Lifecycle, LifecyclePhase } from "../../../../lib/process/lifecycle.ts";
import type { ConnectionId } from "../../../../store/connections.ts";

const THREAD_INDEX = 2;
const WAITS = 40;

/** The waiting connections of a thread. `log` has the events that epoll is asked for, and activities. */
class Waits {
  readonly log: string[] = [];
  readonly resumed: NativeConnection[] = [];
  /** Connections whose waits are over. */
  ready: number[] = [];
  readonly waiting: WaitingConnections;

  constructor() {
    const thread = {
      takeReady: (threadIndex: number, resume: (id: ConnectionId) => void) => {
        assertEquals(threadIndex, THREAD_INDEX);
        for (const id of this.ready.splice(0)) resume(id as ConnectionId);
      },
    } as unknown as TransportThread;
    const epoll = {
      watch: ({ id }: NativeConnection, events: number) => this.log.push(`watch ${id} ${events}`),
    } as unknown as Epoll;
    this.waiting = new WaitingConnections(
      thread,
      THREAD_INDEX,
      epoll,
      (connection) => this.resumed.push(connection),
    );
  }

  connection(id: number, awaitsServer: boolean): NativeConnection {
    return {
      id,
      waiting: false,
      conversation: { awaitsServer, waitActivity: WAITS },
      service: {
        connections: {
          setActivity: (of: number, activity: number) => this.log.push(`${of} does ${activity}`),
        },
      },
    } as unknown as NativeConnection;
  }
}

Deno.test("a connection that waits for a lock is watched for its peer's end, and resumed once", () => {
  const side = new Waits();
  const { waiting } = side;
  const [lock, server] = [side.connection(1, false), side.connection(2, true)];
  for (const connection of [lock, server, lock]) waiting.add(connection);
  assertEquals(side.log, [`1 does ${WAITS}`, `watch 1 ${EPOLLRDHUP}`, `2 does ${WAITS}`]);
  assertEquals([lock.waiting, server.waiting], [true, true]);
  side.ready = [9, 1, 1];
  waiting.resumeReady();
  assertEquals([side.resumed.length, side.resumed[0] === lock, lock.waiting], [1, true, false]);
  side.ready = [1];
  waiting.resumeReady();
  assertEquals(side.resumed.length, 1, "it does not wait any more");
  waiting.add(lock);
  waiting.forget(lock);
  side.ready = [1, 2];
  waiting.resumeReady();
  assertEquals([side.resumed.length, side.resumed[1] === server], [2, true]);
});

Deno.test("a peer that ended its side is gone unless the reply depends on the server alone", () => {
  for (const awaitsServer of [false, true]) {
    const side = new Waits();
    const connection = side.connection(1, awaitsServer);
    const isGone = (events: number): boolean => side.waiting.isGone(connection, events);
    assertEquals([EPOLLERR, EPOLLHUP, EPOLLHUP | EPOLLIN].map(isGone), [true, true, true]);
    assertEquals(side.log, []);
    assertEquals([EPOLLRDHUP, EPOLLIN].map(isGone), [!awaitsServer, false]);
    assertEquals(side.log, awaitsServer ? ["watch 1 0", "watch 1 0"] : []);
  }
});

Deno.test("a drain is busy with waits for the server that are not over, and no others", () => {
  const side = new Waits();
  const { waiting } = side;
  const [lock, server] = [side.connection(1, false), side.connection(2, true)];
  assertEquals(waiting.awaitServer, false);
  waiting.add(lock);
  assertEquals(waiting.awaitServer, false);
  waiting.add(server);
  assertEquals(waiting.awaitServer, true);
  side.ready = [2];
  waiting.resumeReady();
  assertEquals(waiting.awaitServer, false);
  waiting.add(server);
  waiting.forget(server);
  assertEquals(waiting.awaitServer, false);
});

/** Drains a thread whose sockets take a millisecond each time. Returns how often they were served. */
function drained(isBusy: (ms: number) => boolean, stopAtMs = Infinity): number {
  let nowMs = 1000;
  const lifecycle: { phase: LifecyclePhase } = { phase: LifecyclePhase.DRAINING };
  const clock = mock.method(performance, "now", () => nowMs);
  try {
    drain(lifecycle as Lifecycle, () => isBusy(nowMs - 1000), (timeoutMs) => {
      assertEquals(timeoutMs, DRAIN_GRACE_MS / 4);
      if (++nowMs - 1000 === stopAtMs) lifecycle.phase = LifecyclePhase.STOPPING;
    });
  } finally {
    clock.mock.restore();
  }
  return nowMs - 1000;
}

Deno.test("a drain lasts for its grace, then while it is busy, and ends at its limit or a stop", () => {
  assertEquals(drained(() => false), DRAIN_GRACE_MS + 1);
  assertEquals(drained((ms) => ms < DRAIN_GRACE_MS + 50), DRAIN_GRACE_MS + 50);
  assertEquals(drained(() => true), DRAIN_MS_MAX + 1);
  assertEquals(drained(() => true, 7), 7);
});
