// Hot path: `run` is the bench's own share of the machine; it must stay the faster side.
import { EPOLLIN, EPOLLOUT } from "../../lib/net/native/epoll.ts";
import { MSG_DONTWAIT } from "../../lib/net/native/libc.ts";
import { Connections, type LoadClient } from "./sockets.ts";

/** Requests that are sent together; the next batch goes out when all its replies are in. */
export interface Batch {
  readonly bytes: Uint8Array;
  /** All replies together, as characters below 256. While it runs, the generator counts bytes and looks at the last. */
  readonly reply: string;
  /** The replies end with an id, which the server chooses. */
  readonly endsWithId: boolean;
  /** Requests in the batch, or keys where a row counts keys. */
  readonly count: number;
}

export interface RunResult {
  readonly count: number;
  readonly seconds: number;
  /** Mean number of ready sockets per epoll_wait. */
  readonly readyMean: number;
}

class Client implements LoadClient {
  batchIndex = 0;
  received = 0;
  /** The rest of the current batch, which the kernel has not accepted yet. */
  unsent: Uint8Array | null = null;

  constructor(readonly fd: number) {}
}

/** Rounds of the loop between two reads of the clock. */
const CLOCK_ROUNDS = 64;
/** Bytes that `verify` sends at once. Larger pieces could fill both sides' buffers and deadlock. */
const VERIFY_BYTES = 64 * 1024;
/** Bytes of a reply that an error shows. */
const SHOWN_BYTES = 200;

/** Keeps one batch under way on each of its connections to one server. */
export class Generator {
  readonly #connections: Connections<Client>;

  constructor(port: number, connections: number, tls = false) {
    this.#connections = new Connections(port, connections, (fd) => new Client(fd), tls);
  }

  /** Sends every batch once, over one connection, and returns the replies' bytes through `check`. */
  verify(batches: readonly Batch[], check: (index: number, reply: Uint8Array) => void): void {
    const connections = this.#connections;
    const { fd } = connections.all[0]!;
    for (const [index, batch] of batches.entries()) {
      const reply = new Uint8Array(batch.reply.length);
      let sent = 0;
      for (let received = 0; received < reply.length;) {
        if (sent < batch.bytes.length) {
          sent += connections.send(fd, batch.bytes.subarray(sent, sent + VERIFY_BYTES));
        }
        const count = connections.receive(fd, sent < batch.bytes.length ? MSG_DONTWAIT : 0);
        if (received + count > reply.length) throw this.#miscounted(received + count, batch, count);
        reply.set(connections.input.subarray(0, count), received);
        received += count;
      }
      check(index, reply);
    }
  }

  /** Keeps all connections busy for `seconds`, then waits for the batches in progress. */
  run(batches: readonly Batch[], seconds: number): RunResult {
    let count = 0;
    let readySum = 0;
    let rounds = 0;
    let running = true;
    const { all: clients, epoll } = this.#connections;
    let busy = clients.length;
    const startedMs = performance.now();
    const endMs = startedMs + seconds * 1000;
    for (const [index, client] of clients.entries()) {
      client.batchIndex = Math.floor(index * batches.length / clients.length);
      this.#begin(client, batches[client.batchIndex]!);
    }
    while (busy > 0) {
      const ready = epoll.wait(-1);
      readySum += ready;
      if (++rounds % CLOCK_ROUNDS === 0 && performance.now() >= endMs) running = false;
      for (let index = 0; index < ready; index++) {
        const client = this.#connections.ready(index);
        if (client.unsent !== null) this.#sendRest(client);
        if ((epoll.events(index) & ~EPOLLOUT) === 0) continue;
        if (!this.#receive(client, batches[client.batchIndex]!)) continue;
        count += batches[client.batchIndex]!.count;
        if (!running) {
          busy--;
          continue;
        }
        client.batchIndex = client.batchIndex + 1 === batches.length ? 0 : client.batchIndex + 1;
        this.#begin(client, batches[client.batchIndex]!);
      }
    }
    const elapsedSec = (performance.now() - startedMs) / 1000;
    return { count, seconds: elapsedSec, readyMean: readySum / rounds };
  }

  close(): void {
    this.#connections.close();
  }

  #begin(client: Client, batch: Batch): void {
    client.received = 0;
    const sent = this.#connections.send(client.fd, batch.bytes);
    if (sent === batch.bytes.length) return;
    client.unsent = batch.bytes.subarray(sent);
    this.#connections.epoll.modify(client.fd, EPOLLIN | EPOLLOUT, 0);
  }

  #sendRest(client: Client): void {
    const sent = this.#connections.send(client.fd, client.unsent!);
    if (sent < client.unsent!.length) {
      client.unsent = client.unsent!.subarray(sent);
      return;
    }
    client.unsent = null;
    this.#connections.epoll.modify(client.fd, EPOLLIN, 0);
  }

  /** Receives once. Returns whether the batch's replies are complete. */
  #receive(client: Client, batch: Batch): boolean {
    const count = this.#connections.receive(client.fd);
    if (count === 0) return false;
    client.received += count;
    const { reply } = batch;
    if (client.received < reply.length) return false;
    const isWrong = !batch.endsWithId &&
      this.#connections.input[count - 1] !== reply.charCodeAt(reply.length - 1);
    if (client.received > reply.length || isWrong) {
      throw this.#miscounted(client.received, batch, count);
    }
    return true;
  }

  #miscounted(received: number, batch: Batch, count: number): Error {
    const last = this.#connections.input.subarray(0, Math.min(count, SHOWN_BYTES));
    const text = new TextDecoder().decode(last);
    return new Error(
      `Cannot count replies: ${received} of ${batch.reply.length} bytes: ${text}`,
    );
  }
}
