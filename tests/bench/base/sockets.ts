/** Connections from a load generator to one port of this machine, over libc, in one epoll set. */
import { createEpoll, Epoll, EPOLLIN } from "../../../lib/net/native/epoll.ts";
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
} from "../../../lib/net/native/libc.ts";
import { resolveAddresses } from "../../../lib/net/native/socket_address.ts";
import { TlsClients } from "./tls_clients.ts";

/** Bytes that one `receive` takes at most. */
const RECEIVE_BYTES = 256 * 1024;

/** A load generator's state of one connection. */
export interface LoadClient {
  readonly fd: number;
}

// Hot path: no allocation in `send`, `receive` and `ready`.

export class Connections<Client extends LoadClient> {
  readonly libc: Libc = new Libc();
  readonly epoll: Epoll;
  readonly all: Client[] = [];
  /** The bytes of the last `receive`. */
  readonly input: Uint8Array = new Uint8Array(RECEIVE_BYTES);
  readonly #byFd: Client[] = [];
  readonly #tls: TlsClients | null;

  /** @throws Error when a connection is refused. */
  constructor(
    port: number,
    count: number,
    make: (fd: number, index: number) => Client,
    tls = false,
  ) {
    this.#tls = tls ? new TlsClients() : null;
    this.epoll = new Epoll(this.libc, createEpoll(this.libc), count);
    for (let index = 0; index < count; index++) {
      const client = make(this.#connect(port), index);
      this.all.push(client);
      this.#byFd[client.fd] = client;
      this.epoll.add(client.fd, EPOLLIN, 0);
    }
  }

  /** The client that the event at `index` of the last `epoll.wait` is about. */
  ready(index: number): Client {
    return this.#byFd[this.epoll.fd(index)]!;
  }

  /**
   * Sends without waiting.
   *
   * @returns How many bytes the kernel took; 0 when the socket's buffer is full.
   * @throws Error when the connection is broken.
   */
  send(fd: number, bytes: Uint8Array): number {
    if (this.#tls !== null) return this.#tls.send(fd, bytes);
    const count = this.libc.calls.send(fd, bytes, bytes.length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count >= 0) return count;
    if (this.libc.errno === EAGAIN) return 0;
    throw this.#broken("send");
  }

  /**
   * Receives into `input`.
   *
   * @param flags MSG_DONTWAIT, or 0 to wait for bytes.
   * @returns How many bytes there were; 0 when there are none yet.
   * @throws Error when the server has closed the connection, or it is broken.
   */
  receive(fd: number, flags: number = MSG_DONTWAIT): number {
    if (this.#tls !== null) return this.#receiveTls(this.#tls, fd, flags);
    const count = this.libc.calls.recv(fd, this.input, RECEIVE_BYTES, flags);
    if (count > 0) return count;
    if (count < 0 && this.libc.errno === EAGAIN) return 0;
    throw this.#broken("recv");
  }

  #receiveTls(tls: TlsClients, fd: number, flags: number): number {
    for (;;) {
      const count = tls.receive(fd, this.input);
      if (count > 0 || flags === MSG_DONTWAIT) return count;
    }
  }

  close(): void {
    this.#tls?.close();
    for (const { fd } of this.all) this.libc.calls.close(fd);
    this.libc.calls.close(this.epoll.epollFd);
    this.libc[Symbol.dispose]();
  }

  /** Opens a connection. Returns its descriptor. */
  #connect(port: number): number {
    const { calls } = this.libc;
    const { bytes } = resolveAddresses(this.libc, "tcp", "127.0.0.1", port)[0]!;
    const fd = calls.socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || calls.connect(fd, bytes, bytes.length) !== 0) throw this.#broken("connect");
    calls.setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, new Int32Array([1]), 4);
    this.#tls?.add(fd);
    while (this.#tls?.handshake(fd) === false);
    return fd;
  }

  #broken(call: string): Error {
    return new Error(`Cannot talk to the server: ${call} failed (${errnoName(this.libc.errno)})`);
  }
}
