import { bytesOf, parseStats, type Peer, type Side, textOf } from "./side.ts";
import { until } from "../servers/server_process.ts";
import { waitingFor } from "../waiting.ts";

/** A server that does not answer for this long does not answer. Generous: machines can be very busy. */
const SILENCE_MS = 20_000;

/** Transcripts settle before each case. */
const SETTLE_LOOK_EVERY_MS = 5;

/** A TCP port, one with TLS, or a Unix socket. */
export type Address = Deno.ConnectOptions | Deno.ConnectTlsOptions | Deno.UnixConnectOptions;

/** With this in the environment, cases that need time to pass are played to real servers too, and take that time. */
export const REAL_SECONDS_MAX = Deno.env.get("LEASED_TESTS_WAIT") === undefined ? 0 : 20;

/** A server in a process of its own, on the real clock. */
export class SocketSide implements Side, AsyncDisposable {
  readonly name: string;
  readonly secondsMax = REAL_SECONDS_MAX;
  readonly unsteadyStats: ReadonlySet<string> = new Set([
    "curr_connections",
    "get_expired",
    "get_flushed",
    "lease_curr",
    "lease_expired",
  ]);
  /** The server's address. */
  readonly address: Address;
  /** Asks what is no part of a transcript. */
  #control: SocketPeer | null = null;
  /** The least that `stats` has counted: the one that asked, and the listening ones. */
  #connectionsAtRest = Infinity;
  readonly #stop: () => Promise<void>;

  /** @param stop Ends the server. */
  constructor(name: string, address: Address, stop: () => Promise<void>) {
    this.name = name;
    this.address = address;
    this.#stop = stop;
  }

  async open(): Promise<SocketPeer> {
    return new SocketPeer(await connect(this.address));
  }

  advance(seconds: number): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  }

  /** Returns a connection that stays. */
  async control(): Promise<SocketPeer> {
    return this.#control ??= await this.open();
  }

  async settle(): Promise<void> {
    const control = await this.control();
    await until(async () => {
      const stats = parseStats(await control.ask("stats\r\n", "END\r\n"));
      const connections = stats.get("curr_connections") ?? NaN;
      if (!(connections <= this.#connectionsAtRest)) return false;
      this.#connectionsAtRest = connections;
      return true;
    }, SETTLE_LOOK_EVERY_MS);
  }

  async stats(): Promise<Map<string, number>> {
    return parseStats(await this.ask("stats\r\n", "END\r\n"));
  }

  /** Sends a request on a new connection and returns the reply up to `end`. */
  async ask(request: string, end: string): Promise<string> {
    const peer = await this.open();
    try {
      return await peer.ask(request, end);
    } finally {
      peer.disconnect();
    }
  }

  close(): Promise<void> {
    this.#control?.disconnect();
    return this.#stop();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

async function connect(address: Address): Promise<Deno.Conn> {
  if ("path" in address) return Deno.connect(address);
  const socket = await Deno.connect(address);
  if (!("caCerts" in address)) return socket;
  // Or the first request would wait for the server's late acknowledgement of the handshake's end.
  socket.setNoDelay();
  return Deno.startTls(socket, address);
}

export class SocketPeer implements Peer {
  readonly #connection: Deno.Conn;
  readonly #buffer = new Uint8Array(64 * 1024);
  #received = "";
  #ended = false;
  #disconnected = false;

  constructor(connection: Deno.Conn) {
    this.#connection = connection;
  }

  async send(text: string): Promise<void> {
    const bytes = bytesOf(text);
    try {
      for (let at = 0; at < bytes.length;) at += await this.#connection.write(bytes.subarray(at));
    } catch (error) {
      // The server may close at any moment. Bytes sent before can still be read.
      if (!isConnectionLoss(error)) throw error;
    }
  }

  async receive(known: number): Promise<string> {
    while (this.#received.length <= known && !this.#ended) {
      if (!await this.#read()) break;
    }
    return this.#received;
  }

  take(length: number): void {
    this.#received = this.#received.slice(length);
  }

  /** Sends a request and takes the reply, up to `end`. @throws Error when the server ends or says no more before. */
  async ask(request: string, end: string): Promise<string> {
    await this.send(request);
    let received = "";
    while (!received.endsWith(end)) {
      const length = received.length;
      received = await this.receive(length);
      if (received.length === length) throw new Error(`the server answered "${received}"`);
    }
    this.take(received.length);
    return received;
  }

  async isClosed(): Promise<boolean> {
    while (!this.#ended) if (!await this.#read()) return false;
    return true;
  }

  /** No more will be sent; replies can still come. */
  endSending(): Promise<void> {
    return this.#connection.closeWrite();
  }

  disconnect(): void {
    if (this.#disconnected) return;
    this.#disconnected = true;
    this.#connection.close();
  }

  /** @returns Whether something was received, or the end. */
  async #read(): Promise<boolean> {
    let silent = false;
    const timer = setTimeout(() => {
      silent = true;
      this.disconnect();
    }, SILENCE_MS);
    try {
      const count = await waitingFor("a reply", this.#connection.read(this.#buffer));
      if (count === null) this.#ended = true;
      else this.#received += textOf(this.#buffer.subarray(0, count));
      return true;
    } catch (error) {
      if (silent) return false;
      if (!isConnectionLoss(error)) throw error;
      this.#ended = true;
      return true;
    } finally {
      clearTimeout(timer);
    }
  }
}

function isConnectionLoss(error: unknown): boolean {
  return error instanceof Deno.errors.ConnectionReset || error instanceof Deno.errors.BrokenPipe ||
    error instanceof Deno.errors.ConnectionAborted || error instanceof Deno.errors.NotConnected;
}
