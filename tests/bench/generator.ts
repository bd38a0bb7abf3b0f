// Hot path: `run` is the bench's own share of the machine; it must stay the faster side.
import { createEpoll, Epoll, EPOLLIN, EPOLLOUT } from "../../lib/net/native/epoll.ts";
import {
  AF_INET,
  EAGAIN,
  errnoName,
  IPPROTO_TCP,
  Libc,
  MSG_DONTWAIT,
  MSG_NOSIGNAL,
  SOCK_CLOEXEC,
  SOCK_STREAM,
  TCP_NODELAY,
} from "../../lib/net/native/libc.ts";
import { resolveAddresses } from "../../lib/net/native/socket_address.ts";

/** Requests that are sent together; the next batch goes out when all its replies are in. */
export interface Batch {
  readonly bytes: Uint8Array;
  /** All replies together, as characters below 256. While it runs, the generator counts bytes and looks at the last. */
  readonly reply: string;
  /** Whether they end with an id, which servers choose. */
  readonly endsWithId: boolean;
  /** Requests in the batch, or keys where a row counts keys. */
  readonly count: number;
}

export interface RunResult {
  readonly count: number;
  readonly seconds: number;
  /** How many sockets one epoll_wait reported on average. */
  readonly readyMean: number;
}

class Client {
  batchIndex = 0;
  received = 0;
  /** What of the current batch the kernel has not taken yet. */
  unsent: Uint8Array | null = null;

  constructor(readonly fd: number) {}
}

const RECEIVE_BYTES = 256 * 1024;
/** How many rounds of the loop pass between two looks at the clock. */
const CLOCK_ROUNDS = 64;

/** Keeps one batch under way on each of its connections to one server. */
export class Generator {
  readonly #connections: Connections<Client>;
  readonly #libc: Libc;
  readonly #epoll: Epoll;
  readonly #clients: readonly Client[];
  readonly #clientOfFd: readonly Client[];
  readonly #input = new Uint8Array(RECEIVE_BYTES);

  constructor(port: number, connections: number) {
    this.#connections = new Connections(port, connections, (fd) => new Client(fd));
    ({ libc: this.#libc, epoll: this.#epoll, all: this.#clients, byFd: this.#clientOfFd } = this
      .#connections);
  }

  /** Sends every batch once, over one connection, and returns the replies' bytes through `check`. */
  verify(batches: readonly Batch[], check: (index: number, reply: Uint8Array) => void): void {
    const calls = this.#libc.calls;
    const fd = this.#clients[0]!.fd;
    for (let index = 0; index < batches.length; index++) {
      const batch = batches[index]!;
      const reply = new Uint8Array(batch.reply.length);
      let sent = 0;
      let received = 0;
      while (received < reply.length) {
        if (sent < batch.bytes.length) {
          const part = batch.bytes.subarray(sent, sent + 64 * 1024);
          const count = calls.send(fd, part, part.length, MSG_DONTWAIT | MSG_NOSIGNAL);
          if (count > 0) sent += count;
          else if (count < 0 && this.#libc.errno !== EAGAIN) throw this.#broken("send");
        }
        const rest = reply.subarray(received);
        const flags = sent < batch.bytes.length ? MSG_DONTWAIT : 0;
        const count = calls.recv(fd, rest, rest.length, flags);
        if (count > 0) received += count;
        else if (count === 0 || this.#libc.errno !== EAGAIN) throw this.#broken("recv");
      }
      check(index, reply);
    }
  }

  /** Keeps all connections busy for `seconds`, then lets what is under way finish. */
  run(batches: readonly Batch[], seconds: number): RunResult {
    let count = 0;
    let readySum = 0;
    let rounds = 0;
    let running = true;
    let busy = this.#clients.length;
    const startedMs = performance.now();
    const endMs = startedMs + seconds * 1000;
    for (let index = 0; index < this.#clients.length; index++) {
      const client = this.#clients[index]!;
      client.batchIndex = Math.floor(index * batches.length / this.#clients.length);
      this.#begin(client, batches[client.batchIndex]!);
    }
    while (busy > 0) {
      const ready = this.#epoll.wait(-1);
      readySum += ready;
      if (++rounds % CLOCK_ROUNDS === 0 && performance.now() >= endMs) running = false;
      for (let index = 0; index < ready; index++) {
        const client = this.#clientOfFd[this.#epoll.fd(index)]!;
        if (client.unsent !== null) this.#sendRest(client);
        if ((this.#epoll.events(index) & ~EPOLLOUT) === 0) continue;
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
    const sent = this.#send(client.fd, batch.bytes);
    if (sent === batch.bytes.length) return;
    client.unsent = batch.bytes.subarray(sent);
    this.#epoll.modify(client.fd, EPOLLIN | EPOLLOUT, 0);
  }

  #sendRest(client: Client): void {
    const sent = this.#send(client.fd, client.unsent!);
    if (sent < client.unsent!.length) {
      client.unsent = client.unsent!.subarray(sent);
      return;
    }
    client.unsent = null;
    this.#epoll.modify(client.fd, EPOLLIN, 0);
  }

  #send(fd: number, bytes: Uint8Array): number {
    const sent = this.#libc.calls.send(fd, bytes, bytes.length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return sent;
    if (this.#libc.errno === EAGAIN) return 0;
    throw this.#broken("send");
  }

  /** Whether the batch's replies are complete now. */
  #receive(client: Client, batch: Batch): boolean {
    const input = this.#input;
    const count = this.#libc.calls.recv(client.fd, input, RECEIVE_BYTES, MSG_DONTWAIT);
    if (count <= 0) {
      if (count < 0 && this.#libc.errno === EAGAIN) return false;
      throw this.#broken("recv");
    }
    client.received += count;
    const { reply } = batch;
    if (client.received < reply.length) return false;
    const isWrong = !batch.endsWithId && input[count - 1] !== reply.charCodeAt(reply.length - 1);
    if (client.received > reply.length || isWrong) {
      const text = new TextDecoder().decode(input.subarray(0, Math.min(count, 200)));
      throw new Error(
        `Cannot count replies: ${client.received} of ${reply.length} bytes: ${text}`,
      );
    }
    return true;
  }

  #broken(call: string): Error {
    return broken(this.#libc, call);
  }
}

/** Connections to one port of this machine, and what tells which of them can be read. */
export class Connections<Client extends { readonly fd: number }> {
  readonly libc: Libc = new Libc();
  readonly epoll: Epoll;
  readonly all: Client[] = [];
  readonly byFd: Client[] = [];

  constructor(port: number, count: number, make: (fd: number) => Client) {
    this.epoll = new Epoll(this.libc, createEpoll(this.libc), count);
    for (let index = 0; index < count; index++) {
      const client = make(connectTo(this.libc, port));
      this.all.push(client);
      this.byFd[client.fd] = client;
      this.epoll.add(client.fd, EPOLLIN, 0);
    }
  }

  close(): void {
    for (const { fd } of this.all) this.libc.calls.close(fd);
    this.libc.calls.close(this.epoll.epollFd);
    this.libc[Symbol.dispose]();
  }
}

/** Opens a connection. Returns its descriptor. */
function connectTo(libc: Libc, port: number): number {
  const { calls } = libc;
  const { bytes } = resolveAddresses(libc, "tcp", "127.0.0.1", port)[0]!;
  const fd = calls.socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || calls.connect(fd, bytes, bytes.length) !== 0) throw broken(libc, "connect");
  calls.setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, new Int32Array([1]), 4);
  return fd;
}

export function broken(libc: Libc, call: string): Error {
  return new Error(`Cannot talk to the server: ${call} failed (${errnoName(libc.errno)})`);
}
