import { mock } from "node:test";
import { assertEquals } from "@std/assert";
import { ACCEPT_PAUSE_MS } from "../../../../lib/net/accept_failures.ts";
import { NativeAcceptor } from "../../../../lib/net/native/acceptor.ts";
import { ABSENT_LOAD } from "../../../../lib/net/native/bind.ts";
import type { NativeConnection } from "../../../../lib/net/native/connection.ts";
import { type Epoll, EPOLLEXCLUSIVE, EPOLLIN, EPOLLOUT } from "../../../../lib/net/native/epoll.ts";
import type { Libc } from "../../../../lib/net/native/libc.ts";
import type { Listen } from "../../../../lib/net/transport.ts";
import type { TransportContext } from "../../../../lib/net/worker_transport.ts";
import { ConnectionKind } from "../../../../store/connections.ts";
import { STAT, STORE_STATS } from "../../../../store/stats.ts";
import { bytesOf, textOf } from "../../../support/sessions/side.ts";

const EAGAIN = 11;
const ECONNABORTED = 103;
const SHORTAGES = { EMFILE: 24, ENFILE: 23, ENOBUFS: 105, ENOMEM: 12 };
/** Of the worker under test. */
const INDEX = 1;
const THREADS = 3;
const ROWS = 5;
const AF_INET = 2;
/** The bit of a tag that says that no worker has adopted the descriptor. */
const HANDED_OVER = 1 << 16;
const LISTENS: readonly Listen[] = [
  { kind: "tcp", hostname: "127.0.0.1", port: 1, protocol: "auto" },
  { kind: "unix", path: "/s", mode: 0o700, protocol: "ascii" },
  { kind: "tcp", hostname: "127.0.0.1", port: 2, protocol: "auto", tls: "tls" },
  { kind: "tcp", hostname: "127.0.0.1", port: 3, protocol: "counters" },
];
const LISTEN_FDS = [10, 11, 12, 13];
const EPOLL_FDS = [20, 21, 22];

/** One worker's acceptor, over system calls that a test makes up. */
class Accepting {
  readonly log: string[] = [];
  readonly stats = new Float64Array(STORE_STATS.length);
  readonly shared = new SharedArrayBuffer(4 * (THREADS + 1));
  readonly loads = new Int32Array(this.shared);
  /** The results of accept4, one after the other; below 0: an error number. Then EAGAIN. */
  backlog: number[] = [];
  /** Whether a descriptor can be given to a worker. */
  canAdd = true;
  canOpen = true;
  paused = 0;
  hasPeerName = true;
  readonly reported: string[] = [];
  readonly acceptor: NativeAcceptor;

  constructor(maxconnsFast = true, hasCounters = false, backlog = 64) {
    const context = {
      threadIndex: INDEX,
      thread: { memory: { stats: this.stats } },
      services: {
        auto: this.#service("auto", true),
        ascii: this.#service("ascii", true),
        counters: hasCounters ? this.#service("counters", false) : null,
      },
      options: { threads: THREADS, listenBacklog: backlog, maxconnsFast },
      workerData: {
        listens: LISTENS,
        listenFds: LISTEN_FDS,
        epollFds: EPOLL_FDS,
        loads: this.shared,
      },
      lifecycle: { pauseAccepting: () => this.paused++, resumeAccepting: () => this.paused-- },
      report: ({ message }: { message: string }) => this.reported.push(message),
    } as unknown as TransportContext;
    this.acceptor = new NativeAcceptor(context, this.#libc(), this.#epoll());
  }

  #service(name: string, isShared: boolean): unknown {
    return {
      isShared,
      connections: { rows: ROWS },
      refusal: bytesOf(`no ${name}`),
      open: (kind: ConnectionKind, peer: string, listener: string) => {
        this.log.push(`open ${name} ${kind} ${peer} ${listener}`);
        return this.canOpen ? { owner: 77 } : null;
      },
      close: (id: number, reason: string) => this.log.push(`row ${id} ${reason}`),
    };
  }

  #libc(): Libc {
    const libc = {
      errno: 0,
      calls: {
        accept4: (): number => {
          const next = this.backlog.shift() ?? -EAGAIN;
          libc.errno = Math.max(0, -next);
          return next < 0 ? -1 : next;
        },
        close: (fd: number) => this.log.push(`close ${fd}`),
        send: (fd: number, line: Uint8Array, length: number) =>
          this.log.push(`send ${fd} ${textOf(line.subarray(0, length))}`),
        shutdown: (fd: number) => this.log.push(`shutdown ${fd}`),
        recv: (fd: number) => this.log.push(`recv ${fd}`),
        getpeername: (_fd: number, address: Uint8Array): number => {
          address.set([AF_INET, 0, 1, 2, 9, 8, 7, 6]);
          return this.hasPeerName ? 0 : -1;
        },
      },
    };
    return libc as unknown as Libc;
  }

  #epoll(): Epoll {
    return {
      add: (fd: number, events: number, tag: number) => this.log.push(`add ${fd} ${events} ${tag}`),
      remove: (fd: number) => this.log.push(`remove ${fd}`),
      modify: (fd: number, events: number, tag: number) =>
        this.log.push(`modify ${fd} ${events} ${tag}`),
      addTo: (epollFd: number, fd: number, events: number, tag: number) => {
        this.log.push(`give ${fd} to ${epollFd} ${events} ${tag}`);
        return this.canAdd;
      },
    } as unknown as Epoll;
  }

  /** Removes and returns what was done. */
  take(): string[] {
    return this.log.splice(0);
  }
}

function gift(fd: number, worker: number, tag: number): string {
  return `give ${fd} to ${EPOLL_FDS[worker]} ${EPOLLIN | EPOLLOUT} ${tag | HANDED_OVER}`;
}

Deno.test("a new connection goes to the worker with the fewest, the accepting one before others", () => {
  const side = new Accepting();
  side.loads.set([2, 1, 3, 6]);
  side.backlog = [31, 32, 33, 34, 35];
  side.acceptor.accept(11);
  assertEquals(side.take(), [1, 1, 0, 1, 0].map((worker, index) => gift(31 + index, worker, 1)));
  assertEquals([...side.loads], [4, 4, 3, 11]);
  side.backlog = [36];
  side.acceptor.accept(12);
  assertEquals([side.take(), [...side.loads]], [[gift(36, 2, 2)], [4, 4, 4, 12]]);
});

Deno.test("a worker that has not joined gets no connection", () => {
  const side = new Accepting();
  side.loads.set([ABSENT_LOAD, ABSENT_LOAD, ABSENT_LOAD, 0]);
  side.acceptor.join();
  assertEquals([...side.loads], [ABSENT_LOAD, 0, ABSENT_LOAD, 0]);
  side.backlog = [31, 32];
  side.acceptor.accept(10);
  assertEquals(side.take(), [gift(31, 1, 0), gift(32, 1, 0)]);
});

Deno.test("a connection of a service of one worker stays there and counts for no others", () => {
  const side = new Accepting(false, true);
  side.loads.set([0, 3, 0, ROWS]);
  side.backlog = [31];
  side.acceptor.accept(13);
  assertEquals([side.take(), [...side.loads]], [[gift(31, 1, 3)], [0, 4, 0, ROWS]]);
  const connection = side.acceptor.adopt(31, 3 | HANDED_OVER)!;
  side.acceptor.release(connection);
  assertEquals([...side.loads], [0, 3, 0, ROWS]);
});

Deno.test("a descriptor that no worker can take is closed and not counted", () => {
  const side = new Accepting();
  side.canAdd = false;
  side.backlog = [31];
  side.acceptor.accept(10);
  assertEquals([side.take(), [...side.loads]], [[gift(31, 1, 0), "close 31"], [0, 0, 0, 0]]);
});

Deno.test("a worker listens for its services alone, once, and ends that once", () => {
  for (const [hasCounters, own] of [[false, [0, 1, 2]], [true, [0, 1, 2, 3]]] as const) {
    const side = new Accepting(true, hasCounters);
    const { acceptor } = side;
    acceptor.close();
    assertEquals(side.take(), []);
    acceptor.open();
    const events = EPOLLIN | EPOLLEXCLUSIVE;
    assertEquals(side.take(), own.map((tag) => `add ${LISTEN_FDS[tag]} ${events} ${tag}`));
    acceptor.close();
    assertEquals(side.take(), own.map((tag) => `remove ${LISTEN_FDS[tag]}`));
    acceptor.close();
    assertEquals(side.take(), []);
  }
  const { acceptor } = new Accepting();
  assertEquals([9, 10, 13, 14].map((fd) => acceptor.isListener(fd)), [false, true, true, false]);
  assertEquals([0, 3, HANDED_OVER, HANDED_OVER | 3].map((tag) => acceptor.isHandedOver(tag)), [
    ...[false, false, true, true],
  ]);
});

Deno.test("an adopted descriptor gets its row, its kind and the events of a connection", () => {
  const side = new Accepting();
  const adopt = (tag: number): NativeConnection => {
    const connection = side.acceptor.adopt(31, tag | HANDED_OVER)!;
    assertEquals([connection.fd, connection.tag, connection.id], [31, tag, 77]);
    return connection;
  };
  const [tcp, unix, tls] = [0, 1, 2].map(adopt);
  const modified = [0, 1, 2].map((tag) => `modify 31 ${EPOLLIN} ${tag}`);
  assertEquals(side.take(), [
    ...[`open auto ${ConnectionKind.TCP} tcp:9.8.7.6:258 tcp:127.0.0.1:1`, modified[0]],
    ...[`open ascii ${ConnectionKind.UNIX} unix:/s unix:/s`, modified[1]],
    ...[`open auto ${ConnectionKind.TCP} tcp:9.8.7.6:258 tcp:127.0.0.1:2`, modified[2]],
  ]);
  const kinds = [ConnectionKind.TCP, ConnectionKind.UNIX, ConnectionKind.TCP];
  assertEquals([tcp!.kind, unix!.kind, tls!.kind], kinds);
  const modes = [tcp!, unix!, tls!].map((connection) => side.acceptor.tlsOf(connection));
  assertEquals(modes, [undefined, undefined, "tls"]);
  side.hasPeerName = false;
  adopt(0);
  assertEquals(side.take()[0], `open auto ${ConnectionKind.TCP} tcp:? tcp:127.0.0.1:1`);
});

Deno.test("a refused peer gets a line unless it expects a handshake, and is counted no more", () => {
  for (
    const [tag, sent] of [[0, ["send 31 no auto"]], [1, ["send 31 no ascii"]], [2, []]] as const
  ) {
    const side = new Accepting();
    side.loads.set([1, 2, 3, 6]);
    side.canOpen = false;
    assertEquals(side.acceptor.adopt(31, tag | HANDED_OVER), undefined);
    assertEquals(side.take().slice(1), [...sent, "shutdown 31", "recv 31", "close 31"]);
    assertEquals([...side.loads], [1, 1, 3, 5]);
  }
});

Deno.test("a closed connection frees its row, then its descriptor, and is counted no more", () => {
  const side = new Accepting();
  const connection = side.acceptor.adopt(31, 1 | HANDED_OVER)!;
  side.take();
  side.loads.set([1, 2, 3, 6]);
  connection.closeReason = "idle_timeout";
  side.acceptor.release(connection);
  assertEquals(side.take(), ["row 77 idle_timeout", "close 31"]);
  assertEquals([...side.loads], [1, 1, 3, 5]);
});

Deno.test("a slice accepts 32 connections, and the last one as many as the backlog has of each", () => {
  const waiting = (): number[] => Array.from({ length: 200 }, (_, index) => 100 + index);
  for (const [backlog, taken] of [[32, 32], [33, 64], [64, 64]] as const) {
    const side = new Accepting(true, false, backlog);
    side.backlog = waiting();
    side.acceptor.accept(10);
    assertEquals(side.take().length, 32);
    side.acceptor.acceptAll();
    assertEquals(side.take(), [], "a worker that does not listen accepts no more");
    side.acceptor.open();
    side.take();
    side.backlog = waiting();
    side.acceptor.acceptAll();
    const [first, ...others] = [0, 1, 2].map((tag) =>
      side.log.filter((line) => line.endsWith(` ${tag | HANDED_OVER}`)).length
    );
    assertEquals([first, others[0]], [taken, taken]);
  }
});

Deno.test("a shortage pauses all listeners and is reported, another failed accept is neither", () => {
  for (const code of [EAGAIN, ECONNABORTED]) {
    const side = new Accepting();
    side.acceptor.open();
    side.take();
    side.backlog = [-code, 31];
    side.acceptor.accept(10);
    assertEquals([side.take(), side.paused, side.acceptor.pauseMs], [[], 0, 0]);
    assertEquals([[...side.loads], side.reported], [[0, 0, 0, 0], []]);
  }
  for (const [code, errno] of Object.entries(SHORTAGES)) {
    const side = new Accepting();
    side.acceptor.open();
    side.take();
    side.backlog = [31, -errno, 32];
    side.acceptor.acceptAll();
    assertEquals(side.take(), [gift(31, 1, 0), "remove 10", "remove 11", "remove 12"]);
    assertEquals([side.paused, side.acceptor.pauseMs], [1, ACCEPT_PAUSE_MS]);
    assertEquals([...side.loads], [0, 1, 0, 1]);
    assertEquals(side.reported.map((text) => text.split(":")[1]!.split(";")[0]), [` ${code}`]);
    assertEquals(side.stats[STAT.listen_disabled_num], 1);
  }
});

Deno.test("without maxconns_fast the last row is given, then the worker pauses and resumes", () => {
  let nowMs = 1000;
  const clock = mock.method(performance, "now", () => nowMs);
  try {
    const side = new Accepting(false);
    side.loads.set([2, 1, 1, ROWS - 1]);
    side.acceptor.open();
    side.take();
    side.backlog = [31, 32];
    side.acceptor.accept(10);
    assertEquals(side.take(), [gift(31, 1, 0), "remove 10", "remove 11", "remove 12"]);
    assertEquals([...side.loads], [2, 2, 1, ROWS]);
    assertEquals([side.backlog, side.paused, side.reported], [[32], 1, []]);
    nowMs += ACCEPT_PAUSE_MS - 1;
    side.acceptor.resume();
    assertEquals([side.take(), side.paused, side.acceptor.pauseMs], [[], 1, ACCEPT_PAUSE_MS]);
    nowMs += 1;
    side.acceptor.resume();
    assertEquals([side.take().length, side.paused, side.acceptor.pauseMs], [3, 0, 0]);
    const { listen_disabled_num: pauses, time_in_listen_disabled_us: pausedUs } = STAT;
    assertEquals([side.stats[pauses], side.stats[pausedUs]], [1, 1000 * ACCEPT_PAUSE_MS]);
    side.acceptor.close();
    assertEquals(side.take().length, 3, "it listens again");
  } finally {
    clock.mock.restore();
  }
});
