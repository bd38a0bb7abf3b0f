import { assert, assertEquals } from "@std/assert";
import { ConnectionTimeouts, type TimedConnection } from "../../../lib/net/connection_timeouts.ts";
import {
  DescriptorError,
  descriptorsNeeded,
  requireDescriptors,
} from "../../../lib/net/descriptors.ts";
import {
  hostPortText,
  isLoopback,
  type Listen,
  listenerName,
  listenText,
  statsAddressText,
  tlsOf,
} from "../../../lib/net/transport.ts";
import type { TransportContext } from "../../../lib/net/worker_transport.ts";
import { clockSec } from "../../../store/clock.ts";
import { ConnectionKind } from "../../../store/connections.ts";
import { STAT } from "../../../store/stats.ts";
import { ConversationSide } from "../../support/sessions/conversation_side.ts";

interface Options {
  readonly idleTimeoutSec: number;
  readonly lockIdleTimeoutSec: number;
  readonly sendTimeoutSec: number;
  readonly authTimeoutSec: number;
}

/** The time-outs of a thread, over connections that a test makes up. */
class Timed extends ConversationSide {
  readonly peer = this.connect();
  /** Closed connections: the connection, the reason, and the event. */
  readonly closed: string[] = [];

  /** Looks for time-outs. @param changed The connection; it is idle. */
  sweep(options: Partial<Options>, changed: Partial<TimedConnection>, hasAuth = false): string[] {
    this.closed.length = 0;
    const connection: TimedConnection = {
      service: {
        limitsSilence: true,
        sourceOf: () => ({ peer: "tcp:peer", conn: 5 }),
      } as unknown as TimedConnection["service"],
      id: this.peer.owner,
      kind: ConnectionKind.TCP,
      isIdle: true,
      sendingSinceSec: 0,
      unauthenticatedSinceSec: 0,
      ...changed,
    };
    const timeouts = this.timeouts(options, hasAuth);
    timeouts.sweep([undefined, connection], [connection]);
    return [...this.closed];
  }

  timeouts(options: Partial<Options>, hasAuth: boolean): ConnectionTimeouts<TimedConnection> {
    const { cache, connections, memory } = this.thread;
    const context = {
      thread: { cache, connections, memory, auth: hasAuth ? {} : null },
      options: {
        ...{ idleTimeoutSec: 0, lockIdleTimeoutSec: 0, sendTimeoutSec: 60, authTimeoutSec: 30 },
        ...options,
      },
      report: ({ event, message }: { event: string; message: string }) =>
        this.closed.push(`${event}: ${message}`),
    } as unknown as TransportContext;
    return new ConnectionTimeouts<TimedConnection>(
      context,
      (_, reason) => this.closed.push(reason),
    );
  }
}

Deno.test("an idle TCP connection is closed a second after its time, and counted", () => {
  using side = new Timed();
  side.peer.ask("get a\r\n");
  side.pause(10);
  assertEquals(side.sweep({}, {}), []);
  assertEquals(side.sweep({ idleTimeoutSec: 10 }, {}), []);
  assertEquals(side.sweep({ idleTimeoutSec: 9 }, {}), ["idle_timeout"]);
  assertEquals(side.thread.memory.stats[STAT.idle_kicks], 1);
  const idle = { idleTimeoutSec: 1 };
  assertEquals(side.sweep(idle, { isIdle: false }), []);
  assertEquals(side.sweep(idle, { kind: ConnectionKind.UNIX }), []);
  const service = { limitsSilence: false } as unknown as TimedConnection["service"];
  assertEquals(side.sweep(idle, { service }), []);
  assertEquals(side.thread.memory.stats[STAT.idle_kicks], 1);
});

Deno.test("a silent holder of locks is closed by its own time-out, over a Unix socket too", () => {
  using side = new Timed();
  side.peer.ask("set a 0 0 1\r\n1\r\n");
  side.pause(10);
  const options = { lockIdleTimeoutSec: 9 };
  assertEquals(side.sweep(options, {}), []);
  side.peer.ask("lock a\r\n");
  side.pause(20);
  const closed =
    "normal,lock_holder_idle: connection closed: tcp:peer held locks and sent nothing for ";
  const since = side.thread.connections.seenAtSec(side.peer.owner);
  assert(since > 0);
  assertEquals(side.sweep(options, {}).join(), `${closed}9 s (--lock-idle-timeout)`);
  assertEquals(side.sweep(options, { kind: ConnectionKind.UNIX }).length, 2);
  const silentSec = clockSec(side.thread.memory) - since;
  assertEquals(side.sweep({ lockIdleTimeoutSec: silentSec }, {}), []);
  assertEquals(side.sweep({ lockIdleTimeoutSec: silentSec - 1 }, {}).length, 2);
  assertEquals(side.sweep(options, { isIdle: false }), []);
  // The time-out of all connections comes first.
  assertEquals(side.sweep({ ...options, idleTimeoutSec: 9 }, {}), ["idle_timeout"]);
  assertEquals(side.sweep({ lockIdleTimeoutSec: 1000 }, {}), []);
});

Deno.test("a peer that takes no byte, or does not log in, is closed a second after its time", () => {
  using side = new Timed();
  side.pause(100);
  const nowSec = 102;
  const stalled = (sendingSinceSec: number): string => side.sweep({}, { sendingSinceSec }).join();
  assertEquals(stalled(0), "");
  assertEquals(stalled(nowSec - 60), "");
  assertEquals(
    stalled(nowSec - 61),
    "error,connection_stalled: connection closed: tcp:peer accepted no byte of its replies for 60 s " +
      "(--send-timeout)",
  );
  const silent = (unauthenticatedSinceSec: number, hasAuth: boolean): string =>
    side.sweep({}, { unauthenticatedSinceSec, isIdle: false }, hasAuth).join();
  assertEquals(silent(0, true), "");
  assertEquals(silent(nowSec - 30, true), "");
  assertEquals(silent(nowSec - 31, false), "");
  assertEquals(
    silent(nowSec - 31, true),
    "normal,authentication_timed_out: connection closed: tcp:peer did not authenticate within 30 s " +
      "(--auth-timeout)",
  );
});

Deno.test("a thread looks at silent connections only if an option or users ask for it", () => {
  using side = new Timed();
  const limits = (options: Partial<Options>, hasAuth = false): boolean =>
    side.timeouts(options, hasAuth).limitSilence;
  assertEquals(limits({}), false);
  assertEquals(limits({ idleTimeoutSec: 1 }), true);
  assertEquals(limits({ lockIdleTimeoutSec: 1 }), true);
  assertEquals(limits({}, true), true);
});

Deno.test("as many descriptors are tried as the threads need, and all are closed again", () => {
  for (const [left, threads] of [[1000, 4], [44, 4], [43, 4], [0, 1]] as const) {
    let open = 0;
    let opened = 0;
    let error: unknown = null;
    try {
      requireDescriptors(threads, () => {
        if (open === left) return null;
        open++;
        opened++;
        return () => open--;
      });
    } catch (thrown) {
      error = thrown;
    }
    assertEquals(open, 0);
    const wanted = 9 * threads + 8;
    assertEquals(opened, Math.min(left, wanted));
    assertEquals(error instanceof DescriptorError, left < wanted, `${left}`);
    if (error instanceof DescriptorError) assertEquals(error.needed, descriptorsNeeded(threads));
  }
  assertEquals(descriptorsNeeded(4), 69);
  assertEquals(
    new DescriptorError(69, 4).message,
    "too few open files: -t 4 needs 69 descriptors, and one more for each connection; raise the limit " +
      "(ulimit -n, LimitNOFILE=) or lower -t",
  );
});

Deno.test("addresses have one text for messages and one for stats conns", () => {
  const listens: readonly (readonly [Listen, string, string])[] = [
    [{ kind: "tcp", hostname: "h", port: 1, protocol: "auto" }, "h:1", "tcp:h:1"],
    [
      { kind: "tcp", hostname: "::1", port: 1, protocol: "auto", tls: "mtls" },
      "[::1]:1",
      "tcp6:[::1]:1",
    ],
    [{ kind: "udp", hostname: "h", port: 1, protocol: "auto" }, "udp h:1", "udp:h:1"],
    [{ kind: "udp", hostname: "::", port: 1, protocol: "auto" }, "udp [::]:1", "udp6:[::]:1"],
    [{ kind: "unix", path: "/s", mode: 0, protocol: "auto" }, "/s", "unix:/s"],
  ];
  for (const [listen, text, name] of listens) {
    assertEquals([listenText(listen), listenerName(listen)], [text, name]);
  }
  assertEquals(listens.map(([listen]) => tlsOf(listen)), [
    ...[undefined, "mtls", undefined, undefined, undefined],
  ]);
  assertEquals(hostPortText("::1", 7), "[::1]:7");
  assertEquals(statsAddressText("tcp", "1.2.3.4", 7), "tcp:1.2.3.4:7");
});

Deno.test("loopback addresses are those that no other host can reach", () => {
  const own = [
    "localhost",
    "::1",
    "127.0.0.1",
    "127.255.0.9",
    "::ffff:127.0.0.1",
    "::FFFF:127.1.2.3",
  ];
  const others = [
    ...["0.0.0.0", "::", "128.0.0.1", "127.0.0", "127.0.0.1.example", "x127.0.0.1", "10.127.0.0.1"],
    ...["::ffff:10.0.0.1", "::2", "fe80::1", "localhost.example", ""],
  ];
  for (const name of own) assertEquals(isLoopback(name), true, name);
  for (const name of others) assertEquals(isLoopback(name), false, name);
});
