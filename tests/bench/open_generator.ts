// Hot path: a pause of `run` would count as the server's latency.
import { Connections, type LoadClient } from "./sockets.ts";

/** A request with a one-line reply, or a get of values that contain no capital letters. */
export type Request = Uint8Array;

/** Most unanswered requests on one connection. The schedule waits for none of them. */
const IN_FLIGHT_MAX = 4096;
const NAP_MS = 0.02;
const LF = 0x0a;
const UPPER_V = 0x56;
const UPPER_Z = 0x5a;

class Client implements LoadClient {
  /** Scheduled send times of unanswered requests, in milliseconds: a ring. */
  readonly intendedMs = new Float64Array(IN_FLIGHT_MAX);
  sent = 0;
  answered = 0;
  /** First byte of the line being received; 0: no byte of it has arrived. */
  lineStart = 0;

  constructor(readonly fd: number) {}
}

export interface TailResult {
  /** Milliseconds from a request's scheduled time to its reply, in ascending order. */
  readonly latenciesMs: Float64Array;
  readonly seconds: number;
  /** The generator's longest pause between two looks at its sockets, in milliseconds. */
  readonly ownPauseMs: number;
}

/** Sends requests at the times of a schedule, whether or not earlier ones have been answered. */
export class OpenGenerator {
  readonly #connections: Connections<Client>;
  readonly #sleeper = new Int32Array(new SharedArrayBuffer(4));
  #latencies = new Float64Array(0);
  #answered = 0;

  constructor(port: number, connections: number) {
    this.#connections = new Connections(port, connections, (fd) => new Client(fd));
  }

  /**
   * @param requests Sent in order, over the connections round-robin.
   * @param perSecond Requests per second.
   */
  run(requests: readonly Request[], perSecond: number, seconds: number): TailResult {
    const clients = this.#connections.all;
    const total = Math.floor(perSecond * seconds);
    this.#latencies = new Float64Array(total);
    this.#answered = 0;
    const startMs = performance.now();
    const stepMs = 1000 / perSecond;
    let sent = 0;
    let lastMs = startMs;
    let ownPauseMs = 0;
    while (this.#answered < total) {
      const nowMs = performance.now();
      ownPauseMs = Math.max(ownPauseMs, nowMs - lastMs);
      lastMs = nowMs;
      for (; sent < total && startMs + sent * stepMs <= nowMs; sent++) {
        const client = clients[sent % clients.length]!;
        this.#send(client, requests[sent % requests.length]!, startMs + sent * stepMs);
      }
      // A process that never sleeps is preempted by the scheduler, for longer than this nap.
      if (this.#receiveReady(0) === 0) Atomics.wait(this.#sleeper, 0, 0, NAP_MS);
    }
    const elapsedSec = (performance.now() - startMs) / 1000;
    return { latenciesMs: this.#latencies.sort(), seconds: elapsedSec, ownPauseMs };
  }

  /** Keeps one request in flight on each connection. Returns replies per second. */
  runClosed(requests: readonly Request[], count: number): number {
    const connections = this.#connections;
    this.#latencies = new Float64Array(count + connections.all.length);
    this.#answered = 0;
    const startMs = performance.now();
    let sent = 0;
    for (const client of connections.all) this.#send(client, requests[sent++]!, startMs);
    while (this.#answered < sent) {
      const ready = this.#receiveReady(-1);
      const nowMs = performance.now();
      for (let index = 0; index < ready && sent < count; index++) {
        const client = connections.ready(index);
        if (client.sent === client.answered) {
          this.#send(client, requests[sent++ % requests.length]!, nowMs);
        }
      }
    }
    return this.#answered / (performance.now() - startMs) * 1000;
  }

  close(): void {
    this.#connections.close();
  }

  #send(client: Client, request: Request, intendedMs: number): void {
    if (client.sent - client.answered === IN_FLIGHT_MAX) {
      throw new Error(`Cannot keep the schedule: ${IN_FLIGHT_MAX} requests are not answered`);
    }
    client.intendedMs[client.sent % IN_FLIGHT_MAX] = intendedMs;
    client.sent++;
    for (let at = 0; at < request.length;) {
      at += this.#connections.send(client.fd, at === 0 ? request : request.subarray(at));
    }
  }

  #receiveReady(timeoutMs: number): number {
    const connections = this.#connections;
    const ready = connections.epoll.wait(timeoutMs);
    for (let index = 0; index < ready; index++) {
      const client = connections.ready(index);
      const count = connections.receive(client.fd);
      if (count > 0) this.#scan(client, count, performance.now());
    }
    return ready;
  }

  /** Counts the lines that end replies: those that begin with a capital letter, but VALUE. */
  #scan(client: Client, length: number, nowMs: number): void {
    const { input } = this.#connections;
    let lineStart = client.lineStart;
    for (let at = 0; at < length; at++) {
      const byte = input[at]!;
      if (lineStart === 0) lineStart = byte;
      if (byte !== LF) continue;
      if (lineStart <= UPPER_Z && lineStart !== UPPER_V) {
        const intendedMs = client.intendedMs[client.answered % IN_FLIGHT_MAX]!;
        this.#latencies[this.#answered++] = nowMs - intendedMs;
        client.answered++;
      }
      lineStart = 0;
    }
    client.lineStart = lineStart;
  }
}
