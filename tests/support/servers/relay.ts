/** The fate of bytes that a client sends. */
export type Passage =
  | "pass"
  /** They are lost, and both connections are closed. */
  | "cut"
  /** They are lost, and the client's connection is closed; the server sees nothing of it. */
  | "strand"
  /** They arrive, the reply to them is lost, and then both connections are closed. */
  | "cut reply";

/** Relays TCP connections to a server, and breaks them as a test decides. */
export class Relay implements Disposable {
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #open = new Set<Deno.TcpConn>();
  readonly #pairs = new Set<Pair>();
  #connections = 0;
  /** Decides about every piece that a client sends. */
  passage: (bytes: Uint8Array) => Passage = () => "pass";

  /** Every piece waits so long, in both directions. */
  delayMs = 0;

  /** @param target Port of the server. May change: new connections go to the new one. */
  constructor(public target: number) {
    void this.#accept();
  }

  get port(): number {
    return this.#listener.addr.port;
  }

  /** Connections that clients have made. */
  get connections(): number {
    return this.#connections;
  }

  /** Relays to another port, and closes all connections. */
  moveTo(target: number): void {
    this.target = target;
    this.cutAll();
  }

  /** Relays to another port. Open connections stay, and nothing arrives: the host has vanished. */
  vanishTo(target: number): void {
    this.target = target;
    for (const pair of this.#pairs) {
      pair.hasVanished = true;
      this.#close(pair.server);
    }
  }

  /** Closes all connections. */
  cutAll(): void {
    for (const socket of this.#open) this.#close(socket);
  }

  [Symbol.dispose](): void {
    this.#listener.close();
    this.cutAll();
  }

  async #accept(): Promise<void> {
    try {
      for await (const client of this.#listener) {
        this.#connections++;
        this.#open.add(client);
        void this.#join(client);
      }
    } catch {
      // The test is over.
    }
  }

  async #join(client: Deno.TcpConn): Promise<void> {
    try {
      const server = await Deno.connect({ hostname: "127.0.0.1", port: this.target });
      this.#open.add(server);
      if (!this.#open.has(client)) return this.#close(server);
      const pair: Pair = {
        ...{ client, server },
        ...{ losesReply: false, isStranded: false, hasVanished: false },
      };
      this.#pairs.add(pair);
      void this.#copyReplies(pair);
      await this.#copyRequests(pair);
    } catch {
      this.#close(client);
    }
  }

  async #copyRequests(pair: Pair): Promise<void> {
    const buffer = new Uint8Array(64 * 1024);
    for (;;) {
      const length = await pair.client.read(buffer).catch(() => null);
      if (length === null) break;
      if (pair.hasVanished) continue;
      const bytes = buffer.slice(0, length);
      const passage = this.passage(bytes);
      if (pair.hasVanished) continue;
      if (passage === "strand") {
        pair.isStranded = true;
        return this.#close(pair.client);
      }
      if (passage === "cut") break;
      if (passage === "cut reply") pair.losesReply = true;
      await this.#delay();
      if (!await writeAll(pair.server, bytes)) break;
    }
    if (!pair.isStranded) this.#closeBoth(pair);
  }

  async #copyReplies(pair: Pair): Promise<void> {
    const buffer = new Uint8Array(64 * 1024);
    for (;;) {
      const length = await pair.server.read(buffer).catch(() => null);
      if (length === null || pair.losesReply) break;
      await this.#delay();
      if (!pair.isStranded && !await writeAll(pair.client, buffer.subarray(0, length))) break;
    }
    if (!pair.hasVanished) this.#closeBoth(pair);
  }

  async #delay(): Promise<void> {
    const { delayMs } = this;
    if (delayMs > 0) await new Promise((resolve) => setTimeout(resolve, delayMs));
  }

  #closeBoth(pair: Pair): void {
    this.#close(pair.server);
    this.#close(pair.client);
    this.#pairs.delete(pair);
  }

  #close(socket: Deno.TcpConn): void {
    if (!this.#open.delete(socket)) return;
    socket.close();
  }
}

interface Pair {
  readonly client: Deno.TcpConn;
  readonly server: Deno.TcpConn;
  losesReply: boolean;
  isStranded: boolean;
  hasVanished: boolean;
}

async function writeAll(socket: Deno.TcpConn, bytes: Uint8Array): Promise<boolean> {
  try {
    for (let sent = 0; sent < bytes.length;) sent += await socket.write(bytes.subarray(sent));
    return true;
  } catch {
    return false;
  }
}
