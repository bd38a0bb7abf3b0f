import type { ServerProcess } from "../servers/server_process.ts";
import { UdpClient } from "../servers/udp_client.ts";
import type { Peer, Side } from "./side.ts";
import type { SocketPeer, SocketSide } from "./socket_side.ts";

/** A server that is spoken to over UDP. Its other side answers `stats`. */
export class UdpSide implements Side, AsyncDisposable {
  readonly name: string;
  readonly secondsMax = 0;
  readonly unsteadyStats: ReadonlySet<string>;
  readonly #port: number;
  readonly #other: SocketSide;

  constructor(server: ServerProcess, other: SocketSide) {
    this.name = `${other.name} over UDP`;
    this.unsteadyStats = other.unsteadyStats;
    this.#port = Number(/udp 127\.0\.0\.1:(\d+)/.exec(server.lines[0]!)![1]);
    this.#other = other;
  }

  open(): Promise<UdpPeer> {
    return Promise.resolve(new UdpPeer(this.#port));
  }

  advance(seconds: number): Promise<void> {
    return this.#other.advance(seconds);
  }

  settle(): Promise<void> {
    return this.#other.settle();
  }

  stats(): Promise<Map<string, number>> {
    return this.#other.stats();
  }

  /** Returns a TCP connection that stays. */
  control(): Promise<SocketPeer> {
    return this.#other.control();
  }

  close(): Promise<void> {
    return this.#other.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Sends each request as a datagram. */
class UdpPeer implements Peer {
  readonly #client: UdpClient;
  #requests = 0;
  #received = "";

  /** @param port The server's. */
  constructor(port: number) {
    this.#client = new UdpClient(port);
  }

  send(text: string): Promise<void> {
    return this.#client.send(++this.#requests, text);
  }

  async receive(known: number): Promise<string> {
    while (this.#received.length <= known) this.#received += (await this.#client.receive())[1];
    return this.#received;
  }

  take(length: number): void {
    this.#received = this.#received.slice(length);
  }

  isClosed(): Promise<boolean> {
    throw new Error("UDP has no connections");
  }

  disconnect(): void {
    this.#client[Symbol.dispose]();
  }
}
