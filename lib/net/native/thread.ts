// Hot path: `#serveReady` and what it calls run for every batch of requests.
import { clockMs, clockSec } from "../../../store/clock.ts";
import { ConversationState } from "../../../protocol/conversation.ts";
import * as workBudgetModule from "../../../protocol/work_budget.ts";
import * as statsModule from "../../../store/stats.ts";
import type { Memory } from "../../../store/setup.ts";
import type { CloseReason } from "../../../store/cache.ts";
import { LifecyclePhase } from "../../process/lifecycle.ts";
import { Epoll } from "./epoll.ts";
import * as epollModule from "./epoll.ts";
import { Libc, type LibcCalls, microsecondClock } from "./libc.ts";
import * as libcModule from "./libc.ts";
import type { NativeWorkerData } from "./bind.ts";
import { NativeAcceptor } from "./acceptor.ts";
import { type NativeConnection, RunQueue } from "./connection.ts";
import { NativeInbox } from "./inbox.ts";
import * as inboxModule from "./inbox.ts";
import { IoUring } from "./io_uring.ts";
import { ReceiveLoop } from "./receive_loop.ts";
import * as receiveLoopModule from "./receive_loop.ts";
import { CallIo, RingIo, type RoundIo } from "./round_io.ts";
import { addressOf } from "./iovec.ts";
import { NativeUdp } from "./udp_socket.ts";
import { NativeSender } from "./sender.ts";
import { TlsHandshakes } from "./tls/handshakes.ts";
import { ValueIo } from "./value_io.ts";
import { drain, WaitingConnections } from "./waiting.ts";
import { NativeWaker } from "./waker.ts";
import { ConnectionTimeouts, SWEEP_MS } from "../connection_timeouts.ts";
import type { Transport, TransportContext, TransportThread } from "../worker_transport.ts";

const { SLOT_BYTES } = inboxModule;
const { SLOTS_AT } = receiveLoopModule;
const { STAT } = statsModule;
const { EPOLLERR, EPOLLHUP, EPOLLIN } = epollModule;
const { ROUND_UNITS } = workBudgetModule;
const { SHUT_WR } = libcModule;

/** Events that one round takes from epoll; more only make the round longer. */
const READY_MAX = 256;
const FOREVER_MS = -1;
const HUGE_PAGE_BYTES = 2 * 1024 * 1024;
const MADV_HUGEPAGE = 14;

/** A worker's event loop: blocks in epoll_wait and serves the sockets that are ready. */
export class NativeThread implements Transport {
  readonly #context: TransportContext;
  readonly #thread: TransportThread;
  readonly #workerData: NativeWorkerData;
  readonly #libc = new Libc();
  readonly #calls: LibcCalls = this.#libc.calls;
  readonly #epoll: Epoll;
  readonly #acceptor: NativeAcceptor;
  /** The connections by descriptor. */
  readonly #connections: (NativeConnection | undefined)[] = [];
  readonly #wakeFd: number;
  readonly #wakeCount = new Uint8Array(8);
  readonly #receiver: ReceiveLoop;
  readonly #inbox: NativeInbox;
  readonly #io: RoundIo;
  readonly #sender: NativeSender;
  readonly #timeouts: ConnectionTimeouts<NativeConnection>;
  readonly #waiting: WaitingConnections;
  /** Connections that have more to do. Others are served first. */
  readonly #runQueue = new RunQueue();
  /** The UDP sockets that this thread serves, by descriptor. */
  readonly #udp = new Map<number, NativeUdp>();
  readonly #waker: NativeWaker;
  /** Null without `-Z`. */
  readonly #handshakes: TlsHandshakes | null;
  #sweptAtSec = 0;

  /** @param io In tests: receives and sends instead of that of the options. */
  constructor(context: TransportContext, io?: RoundIo) {
    this.#context = context;
    this.#thread = context.thread;
    this.#workerData = context.workerData as NativeWorkerData;
    const { reply, memory, times } = context.thread;
    times.readClock = microsecondClock(this.#calls, times.clockUs);
    const calls = new CallIo(this.#libc);
    const valueIo = new ValueIo(context.thread, this.#libc);
    reply.valueSegments.enabled = true;
    this.#inbox = new NativeInbox(context.thread, SLOTS_AT);
    this.#wakeFd = this.#workerData.wakeFds[context.threadIndex]!;
    this.#waker = new NativeWaker(this.#calls, this.#workerData.wakeFds);
    this.#epoll = new Epoll(this.#libc, this.#workerData.epollFds[context.threadIndex]!, READY_MAX);
    const ring = this.#workerData.rings[context.threadIndex];
    this.#io = io ??
      (ring === undefined
        ? calls
        : new RingIo(new IoUring(this.#libc, ring), this.#libc, context.thread));
    this.#sender = new NativeSender(
      context.thread,
      calls,
      this.#epoll,
      valueIo,
      this.#io,
      (connection) => this.#close(connection, "error"),
    );
    this.#receiver = new ReceiveLoop(context.thread, calls, valueIo, this.#sender, {
      converse: (connection, start, end) => this.#converse(connection, start, end),
      finishLater: (connection) => this.#finishLater(connection),
      close: (connection, reason) => this.#close(connection, reason),
    });
    this.#waiting = new WaitingConnections(
      context.thread,
      context.threadIndex,
      this.#epoll,
      (connection) => this.#continue(connection),
    );
    this.#timeouts = new ConnectionTimeouts(
      context,
      (connection, reason) => this.#close(connection, reason),
    );
    if (context.threadIndex === 0) adviseHugePages(this.#libc, memory);
    this.#acceptor = new NativeAcceptor(context, this.#libc, this.#epoll);
    this.#handshakes = this.#workerData.tls === null ? null : new TlsHandshakes(
      context,
      this.#libc,
      this.#epoll,
      this.#workerData.tls,
      (connection, reason) => this.#close(connection, reason),
    );
    const { threadIndex, options } = context;
    this.#workerData.udp.forEach(({ fd, protocol }, index) => {
      if (index % options.threads !== threadIndex) return;
      this.#udp.set(fd, new NativeUdp(context, this.#libc, fd, protocol));
    });
  }

  open(): void {
    this.#epoll.add(this.#wakeFd, EPOLLIN, 0);
    for (const fd of this.#udp.keys()) this.#epoll.add(fd, EPOLLIN, 0);
    this.#acceptor.join();
    this.#acceptor.open();
  }

  serve(): void {
    while (this.#context.lifecycle.phase === LifecyclePhase.RUNNING) {
      this.#serveReady(this.#timeoutMs());
      const nowSec = clockSec(this.#thread.memory);
      if (nowSec === this.#sweptAtSec) continue;
      this.#sweptAtSec = nowSec;
      this.#timeouts.sweep(this.#connections, this.#sender.stalled);
      this.#handshakes?.closeLate();
    }
    // Requests sent before the stop are answered, also on connections still in the backlog.
    this.#acceptor.acceptAll();
    this.#acceptor.close();
    drain(
      this.#context.lifecycle,
      () => this.#sender.stalled.size > 0 || this.#isUnfinished || this.#waiting.awaitServer,
      (timeoutMs) => this.#serveReady(timeoutMs),
    );
    for (const connection of this.#connections) {
      if (connection !== undefined) this.#close(connection, "shutdown");
    }
  }

  #timeoutMs(): number {
    const pauseMs = this.#acceptor.pauseMs;
    if (pauseMs > 0) return pauseMs;
    const isTimed = this.#timeouts.limitSilence || this.#sender.stalled.size > 0 ||
      this.#handshakes?.areTimed === true;
    return isTimed ? SWEEP_MS : FOREVER_MS;
  }

  /** Returns how many sockets are ready. Applies delayed hits before the thread sleeps. */
  #waitForSockets(timeoutMs: number): number {
    if (this.#isUnfinished) return this.#epoll.wait(0);
    const { cache } = this.#thread;
    if (cache.hasDelayedHits) {
      const ready = this.#epoll.wait(0);
      if (ready > 0) return ready;
      cache.applyHits();
    }
    return this.#epoll.wait(timeoutMs);
  }

  #serveReady(timeoutMs: number): void {
    const epoll = this.#epoll;
    const ready = this.#waitForSockets(timeoutMs);
    const { times } = this.#thread;
    times.beginRound(ready, clockMs(this.#thread.memory));
    for (let index = 0; index < ready; index++) {
      const fd = epoll.fd(index);
      const connection = this.#connections[fd];
      if (connection?.fitsSlot) {
        this.#giveSlot(connection);
        continue;
      }
      if (connection?.unfinished) {
        // Drops its queued requests: the replies would have no reader.
        if (epoll.events(index) & (EPOLLERR | EPOLLHUP)) this.#close(connection, "error");
        continue;
      }
      // Keep the order of arrival: slots first.
      this.#executeSlots();
      if (connection === undefined) this.#serveOther(fd, epoll.tag(index));
      else if (connection.handshaking) {
        this.#handshakes!.enqueue(connection, epoll.events(index));
      } else if (connection.waiting) {
        if (this.#waiting.isGone(connection, epoll.events(index))) this.#close(connection);
      } else if (connection.unsent === null) this.#receiver.receive(connection);
      else if (this.#sender.sendRest(connection)) this.#continue(connection);
    }
    this.#executeSlots();
    const connected = this.#handshakes?.step();
    if (connected) this.#receiver.receive(connected);
    this.#sender.sendQueued();
    if (this.#isUnfinished) this.#serveUnfinished();
    times.record();
    if (this.#acceptor.pauseMs > 0) this.#acceptor.resume();
  }

  /** Whether work is left that no event will report. */
  get #isUnfinished(): boolean {
    if (this.#runQueue.length > 0 || this.#handshakes?.isClosingLate === true) return true;
    for (const udp of this.#udp.values()) if (udp.isUnfinished) return true;
    return false;
  }

  /** Serves connections that have more to do, one slice each, until the next poll of the sockets is due. */
  #serveUnfinished(): void {
    const { work } = this.#thread;
    let units = 0;
    for (let left = this.#runQueue.length; left > 0 && units < ROUND_UNITS; left--) {
      const connection = this.#runQueue.take();
      if (!connection.mayRead) continue;
      work.begin();
      if (connection.conversation.state === ConversationState.UNFINISHED) this.#resume(connection);
      else this.#receiver.receive(connection);
      units += work.spent;
    }
    this.#sender.sendQueued();
    for (const udp of this.#udp.values()) if (udp.isUnfinished) udp.serve();
  }

  #serveOther(fd: number, tag: number): void {
    if (fd === this.#wakeFd) {
      this.#calls.read(fd, this.#wakeCount, 8);
      this.#waiting.resumeReady();
    } else if (this.#acceptor.isListener(fd)) {
      this.#acceptor.accept(fd);
    } else if (this.#udp.has(fd)) {
      this.#sender.sendQueued();
      this.#udp.get(fd)!.serve();
    } else if (this.#acceptor.isHandedOver(tag)) {
      const connection = this.#acceptor.adopt(fd, tag);
      if (connection === undefined) return;
      this.#connections[fd] = connection;
      const mode = this.#acceptor.tlsOf(connection);
      if (mode !== undefined) this.#handshakes!.begin(connection, mode);
    }
  }

  /** Gives the connection a slot. It is read together with those of other slots. */
  #giveSlot(connection: NativeConnection): void {
    const inbox = this.#inbox;
    if (inbox.full) this.#executeSlots();
    inbox.add(connection);
  }

  /** Receives into the slots, then executes the requests. */
  #executeSlots(): void {
    const inbox = this.#inbox;
    if (inbox.count === 0) return;
    this.#io.receive(inbox);
    const nowSec = clockSec(this.#thread.memory);
    for (let index = 0; index < inbox.count; index++) {
      const connection = inbox.connection(index);
      const received = inbox.results[index]!;
      if (received <= 0) {
        this.#receiver.failed(connection, received);
        continue;
      }
      connection.service.connections.seen(connection.id, nowSec);
      const start = inbox.start(index);
      this.#converse(connection, start, start + received);
      if (received < SLOT_BYTES && connection.tls?.hasBuffered !== true) continue;
      // The slot is full, or the TLS layer has more: there may be more to read.
      connection.readsAreShort = false;
      this.#receiver.receive(connection);
    }
    inbox.clear();
  }

  /** Feeds the input [start, end) to the conversation for one slice. Sends the replies, now or at the round's end. */
  #converse(connection: NativeConnection, start: number, end: number): void {
    const { conversation } = connection;
    const { reply } = this.#thread;
    const sender = this.#sender;
    sender.begin();
    start = conversation.feed(start, end);
    sender.charge(this.#thread.work.spent);
    const { state } = conversation;
    if (state === ConversationState.UNFINISHED || state === ConversationState.WAITING) {
      connection.readAtUs = this.#thread.times.startUs;
    }
    const endsSlice = state === ConversationState.NEEDS_INPUT ||
      state === ConversationState.UNFINISHED;
    if (endsSlice && reply.valueSegments.count === 0) {
      if (!reply.isEmpty) sender.queue(connection);
    } else if (!reply.isEmpty && !sender.sendNow(connection)) {
      this.#keepPending(connection, start, end);
      return;
    }
    if (state === ConversationState.CLOSING) return this.#closeAfterReply(connection);
    this.#keepPending(connection, start, end);
    if (state === ConversationState.WAITING) this.#waiting.add(connection);
    else if (state === ConversationState.UNFINISHED) this.#finishLater(connection);
  }

  /** Lets others go first: the connection continues in a later round. */
  #finishLater(connection: NativeConnection): void {
    if (connection.unfinished) return;
    this.#thread.memory.stats[STAT.conn_yields]! += 1;
    this.#runQueue.add(connection);
  }

  wake(threadIndex: number): void {
    this.#waker.wake(threadIndex);
  }

  refreshCertificates(): void {
    this.#handshakes?.contexts.load();
  }

  get certificateAgeSec(): number {
    return this.#handshakes?.contexts.ageSec ?? 0;
  }

  /** Copies input that the conversation has not consumed, until the next read. */
  #keepPending(connection: NativeConnection, start: number, end: number): void {
    if (start < end && !connection.closed) {
      connection.pending = this.#thread.input.bytes.slice(start, end);
    }
  }

  /** Continues after everything was sent, or after a wait: closes, executes more, or reads again. */
  #continue(connection: NativeConnection): void {
    const { state } = connection.conversation;
    if (state === ConversationState.CLOSING) {
      this.#closeAfterReply(connection);
      return;
    }
    if (state === ConversationState.WAITING) {
      this.#resume(connection);
      if (connection.closed || connection.unsent !== null || connection.waiting) return;
    } else if (state === ConversationState.UNFINISHED) {
      this.#finishLater(connection);
    }
    connection.service.connections.setActivity(
      connection.id,
      connection.conversation.inputActivity,
    );
    this.#epoll.watch(connection, EPOLLIN);
    this.#receiver.readBuffered(connection);
  }

  /** Executes the bytes that the conversation has left unconsumed. */
  #resume(connection: NativeConnection): void {
    if (connection.queued) this.#sender.sendQueued();
    if (!connection.mayRead) return;
    const { pending } = connection;
    connection.pending = null;
    if (pending !== null) this.#thread.input.bytes.set(pending);
    const { times } = this.#thread;
    times.beginLate(connection.readAtUs);
    this.#converse(connection, 0, pending === null ? 0 : pending.length);
    times.endLate();
    this.#receiver.readBuffered(connection);
  }

  /** Closes so that a peer which sent more than was read still gets the last reply. */
  #closeAfterReply(connection: NativeConnection): void {
    connection.tls?.notifyClose();
    this.#calls.shutdown(connection.fd, SHUT_WR);
    // With unread bytes the kernel would reset the connection, and the peer could lose the reply.
    this.#receiver.discard(connection.fd);
    this.#close(connection, connection.conversation.closeReason);
  }

  #close(connection: NativeConnection, reason: CloseReason = "normal"): void {
    if (connection.closed) return;
    connection.closed = true;
    connection.closeReason = reason;
    connection.unsent = null;
    this.#sender.stalled.delete(connection);
    this.#waiting.forget(connection);
    this.#connections[connection.fd] = undefined;
    connection.conversation.end();
    if (connection.tls !== null) {
      this.#handshakes!.forget(connection);
      connection.tls.notifyClose();
      connection.tls.free();
    }
    this.#acceptor.release(connection);
  }
}

/**
 * Asks the kernel for large pages under the store, as `memcached -L` does. A key's bucket and item lie anywhere in it,
 * and with small pages most of the time of a lookup goes into translating addresses. The kernel then takes memory 2 MiB
 * at a time, as it is used (see store/memory/prefault.ts). Memory beyond `-m` is left out, so the last page does not
 * exceed it. No effect where the kernel has no large pages, or for stores smaller than one.
 */
function adviseHugePages(libc: Libc, memory: Memory): void {
  let left = memory.limitBytes;
  for (const { bytes } of memory.segments) {
    const address = addressOf(bytes);
    const start = (HUGE_PAGE_BYTES - address % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
    const length = Math.min(bytes.length, left) - start;
    left -= bytes.length;
    const whole = length - length % HUGE_PAGE_BYTES;
    if (whole <= 0) continue;
    libc.calls.madvise(bytes.subarray(start, start + whole), whole, MADV_HUGEPAGE);
  }
}
