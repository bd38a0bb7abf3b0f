// Hot path: the generator stays the faster side, and a pause of `run` counts as the server's latency.
import { EPOLLIN, EPOLLOUT } from "../../../lib/net/native/epoll.ts";
import { MSG_DONTWAIT } from "../../../lib/net/native/libc.ts";
import { Connections, type LoadClient } from "./sockets.ts";

/** Requests that are sent together; the next batch goes out when all its replies are in. */
export interface Batch {
  readonly bytes: Uint8Array;
  /** All replies together, as characters below 256. While it runs, the generator counts bytes and looks at the last. */
  readonly reply: string;
  /** Requests in the batch, or keys where a row counts keys. */
  readonly count: number;
}

/** One connection of a load. */
export class Client implements LoadClient {
  /** Of the last request of a timed run. */
  sentMs = 0;
  /** The rest of a request, which the kernel has not accepted yet. */
  unsent: Uint8Array | null = null;
  /** Requests that were answered in this run at a rate. */
  answered = 0;

  /** @param index From 0 among the connections of the load. */
  constructor(readonly fd: number, readonly index: number) {}
}

/** The requests of connections, and the ends of replies. */
export interface Dialogue<C extends Client = Client> {
  /** @param count Connections of the load. */
  connect(fd: number, index: number, count: number): C;
  /** Returns the request that the client sends next. */
  next(client: C): Uint8Array;
  /**
   * Takes the first `length` bytes of `input`. Returns how many requests they answer.
   *
   * @throws Error on a wrong reply.
   */
  take(client: C, input: Uint8Array, length: number): number;
}

export interface Schedule {
  readonly seconds: number;
  /**
   * Requests a second, which are sent whether or not earlier ones have been answered. By default a
   * connection sends when its last request is answered.
   */
  readonly perSecond?: number;
  /** Without a rate: the run also ends after this number of requests. */
  readonly requests?: number;
  /** Without a rate: take the time from each request's sending to its reply. */
  readonly timed?: boolean;
}

export interface RunResult {
  /** Requests, or what the batches count. */
  readonly count: number;
  readonly seconds: number;
  /** Of a run at a rate, from each request's scheduled time to its reply; of a timed run. */
  readonly latenciesMs: Float64Array;
  /** Of a run at a rate: the generator's longest pause between two looks at its sockets. */
  readonly ownPauseMs: number;
}

/** Rounds of the loop between two reads of the clock. */
const CLOCK_ROUNDS = 64;
/** Bytes that `ask` sends at once. Larger pieces could fill both sides' buffers and deadlock. */
const ASK_BYTES = 64 * 1024;
/** Bytes of a reply that an error shows. */
const SHOWN_BYTES = 200;
/** Most unanswered requests for each connection. The schedule waits for none of them. */
const IN_FLIGHT_MAX = 4096;
const NAP_MS = 0.02;

/** Loads one server over some connections, as fast as it answers or at a rate. */
export class Generator<C extends Client = Client> implements Disposable {
  readonly #connections: Connections<C>;
  readonly #dialogue: Dialogue<C>;
  readonly #sleeper = new Int32Array(new SharedArrayBuffer(4));

  constructor(port: number, count: number, dialogue: Dialogue<C>, tls = false) {
    this.#dialogue = dialogue;
    const make = (fd: number, index: number): C => dialogue.connect(fd, index, count);
    this.#connections = new Connections(port, count, make, tls);
  }

  /** Sends a batch over the first connection and returns its replies. Must not be called in a run. */
  ask(batch: Batch): Uint8Array {
    const connections = this.#connections;
    const { fd } = connections.all[0]!;
    const reply = new Uint8Array(batch.reply.length);
    let sent = 0;
    for (let received = 0; received < reply.length;) {
      if (sent < batch.bytes.length) {
        sent += connections.send(fd, batch.bytes.subarray(sent, sent + ASK_BYTES));
      }
      const count = connections.receive(fd, sent < batch.bytes.length ? MSG_DONTWAIT : 0);
      const bytes = connections.input.subarray(0, count);
      if (received + count > reply.length) throw miscounted(received + count, batch, bytes);
      reply.set(bytes, received);
      received += count;
    }
    return reply;
  }

  /** Keeps all connections busy, or sends at a rate, then waits for the requests in progress. */
  run(schedule: Schedule): RunResult {
    const { perSecond = 0, seconds } = schedule;
    return perSecond > 0 ? this.#runAt(perSecond, seconds) : this.#runClosed(schedule);
  }

  [Symbol.dispose](): void {
    this.#connections.close();
  }

  #runClosed({ seconds, requests = Infinity, timed = false }: Schedule): RunResult {
    const { all, epoll } = this.#connections;
    const clients = all.slice(0, requests);
    const latenciesMs: number[] = [];
    const startMs = performance.now();
    let count = 0;
    let running = true;
    let busy = clients.length;
    let sent = busy;
    for (const client of clients) this.#ask(client, timed);
    for (let rounds = 1; busy > 0; rounds++) {
      const ready = epoll.wait(-1);
      if (rounds % CLOCK_ROUNDS === 0 && performance.now() - startMs >= seconds * 1000) {
        running = false;
      }
      for (let index = 0; index < ready; index++) {
        const client = this.#connections.ready(index);
        const answered = this.#serve(client, epoll.events(index));
        if (answered === 0) continue;
        count += answered;
        if (timed) latenciesMs.push(performance.now() - client.sentMs);
        if (running && sent < requests) {
          sent++;
          this.#ask(client, timed);
        } else busy--;
      }
    }
    const ranSec = (performance.now() - startMs) / 1000;
    return { count, seconds: ranSec, latenciesMs: Float64Array.from(latenciesMs), ownPauseMs: 0 };
  }

  #ask(client: C, timed: boolean): void {
    if (timed) client.sentMs = performance.now();
    this.#send(client, this.#dialogue.next(client));
  }

  #runAt(perSecond: number, seconds: number): RunResult {
    const { all: clients, epoll } = this.#connections;
    const latenciesMs = new Float64Array(Math.floor(perSecond * seconds));
    const total = latenciesMs.length;
    const stepMs = 1000 / perSecond;
    const startMs = performance.now();
    let lastMs = startMs;
    let ownPauseMs = 0;
    let sent = 0;
    let answered = 0;
    for (const client of clients) client.answered = 0;
    while (answered < total) {
      const nowMs = performance.now();
      ownPauseMs = Math.max(ownPauseMs, nowMs - lastMs);
      lastMs = nowMs;
      for (; sent < total && startMs + sent * stepMs <= nowMs; sent++) {
        if (sent - answered === IN_FLIGHT_MAX * clients.length) {
          throw new Error(`Cannot keep the schedule: ${sent - answered} requests are not answered`);
        }
        const client = clients[sent % clients.length]!;
        while (client.unsent !== null) this.#send(client, client.unsent);
        this.#send(client, this.#dialogue.next(client));
      }
      const ready = epoll.wait(0);
      for (let index = 0; index < ready; index++) {
        const client = this.#connections.ready(index);
        const replies = this.#serve(client, epoll.events(index));
        const replyMs = performance.now();
        for (let reply = 0; reply < replies; reply++) {
          // Requests go round the connections, so their numbers tell when they were due.
          const request = client.index + client.answered++ * clients.length;
          latenciesMs[answered++] = replyMs - startMs - request * stepMs;
        }
      }
      // A process that never sleeps is preempted by the scheduler, for longer than this nap.
      if (ready === 0) Atomics.wait(this.#sleeper, 0, 0, NAP_MS);
    }
    const ranSec = (performance.now() - startMs) / 1000;
    return { count: total, seconds: ranSec, latenciesMs, ownPauseMs };
  }

  /** Sends as much as the kernel takes; the rest when the socket is writable. */
  #send(client: C, bytes: Uint8Array): void {
    const wasFull = client.unsent !== null;
    const sent = this.#connections.send(client.fd, bytes);
    client.unsent = sent === bytes.length ? null : bytes.subarray(sent);
    const isFull = client.unsent !== null;
    if (isFull === wasFull) return;
    this.#connections.epoll.modify(client.fd, isFull ? EPOLLIN | EPOLLOUT : EPOLLIN, 0);
  }

  /** Serves a ready client. Returns how many requests were answered. */
  #serve(client: C, events: number): number {
    if (client.unsent !== null) this.#send(client, client.unsent);
    if ((events & ~EPOLLOUT) === 0) return 0;
    const length = this.#connections.receive(client.fd);
    return length === 0 ? 0 : this.#dialogue.take(client, this.#connections.input, length);
  }
}

class BatchClient extends Client {
  received = 0;

  constructor(fd: number, index: number, /** The batch in flight. */ public batch: number) {
    super(fd, index);
  }
}

/** Sends batches over and over, one at a time on each connection, and counts the bytes of replies. */
export class Batches implements Dialogue<BatchClient> {
  #last = -1;

  /** @param inTurn All connections together send each batch once, before any is sent again. */
  constructor(readonly batches: readonly Batch[], readonly inTurn = false) {}

  connect(fd: number, index: number, count: number): BatchClient {
    return new BatchClient(fd, index, Math.floor(index * this.batches.length / count));
  }

  next(client: BatchClient): Uint8Array {
    client.received = 0;
    const last = this.inTurn ? this.#last : client.batch;
    client.batch = last + 1 === this.batches.length ? 0 : last + 1;
    this.#last = client.batch;
    return this.batches[client.batch]!.bytes;
  }

  take(client: BatchClient, input: Uint8Array, length: number): number {
    const batch = this.batches[client.batch]!;
    const { reply } = batch;
    const isFirst = client.received === 0;
    client.received += length;
    if (client.received < reply.length) {
      // An error, which is shorter than a reply.
      if (isFirst && input[0] !== reply.charCodeAt(0)) {
        throw miscounted(length, batch, input.subarray(0, length));
      }
      return 0;
    }
    const isWrong = input[length - 1] !== reply.charCodeAt(reply.length - 1);
    if (client.received > reply.length || isWrong) {
      throw miscounted(client.received, batch, input.subarray(0, length));
    }
    return batch.count;
  }
}

/** @param bytes The last that were received. */
function miscounted(received: number, batch: Batch, bytes: Uint8Array): Error {
  const text = new TextDecoder().decode(bytes.subarray(0, SHOWN_BYTES));
  return new Error(`Cannot count replies: ${received} of ${batch.reply.length} bytes: ${text}`);
}
