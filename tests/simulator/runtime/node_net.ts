// Takes the place of node:net in the client library: sockets of the simulated network.

type Listener = (value?: unknown) => void;

/** A socket, as far as the client library uses it. */
class Socket {
  readonly writableLength = 0;
  readonly writableNeedDrain = false;
  readonly #listeners = new Map<string, Listener[]>();
  #connection: Deno.TcpConn | null = null;
  #isDestroyed = false;

  constructor({ host, port }: { readonly host: string; readonly port: number }) {
    void this.#run(host, port);
  }

  on(event: string, listener: Listener): this {
    this.#listeners.set(event, [...this.#listeners.get(event) ?? [], listener]);
    return this;
  }

  once(event: string, listener: Listener): this {
    return this.on(event, listener);
  }

  write(text: string | Uint8Array): boolean {
    const bytes = typeof text === "string"
      ? Uint8Array.from(text, (character) => character.charCodeAt(0))
      : text;
    this.#connection?.write(bytes).catch((error) => this.#fail(error));
    return true;
  }

  destroy(): void {
    if (this.#isDestroyed) return;
    this.#isDestroyed = true;
    this.#connection?.close();
    queueMicrotask(() => this.#emit("close"));
  }

  setNoDelay(): void {}
  cork(): void {}
  uncork(): void {}
  unref(): void {}

  async #run(hostname: string, port: number): Promise<void> {
    try {
      const connection = await Deno.connect({ hostname, port });
      if (this.#isDestroyed) return connection.close();
      this.#connection = connection;
      this.#emit("connect");
      const buffer = new Uint8Array(16 * 1024);
      for (;;) {
        const count = await connection.read(buffer);
        if (this.#isDestroyed) return;
        if (count === null) break;
        this.#emit("data", buffer.slice(0, count));
      }
      this.#emit("end");
      this.destroy();
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    if (this.#isDestroyed) return;
    this.#emit("error", error);
    this.destroy();
  }

  #emit(event: string, value?: unknown): void {
    for (const listener of this.#listeners.get(event) ?? []) listener(value);
  }
}

export function connect(address: { readonly host: string; readonly port: number }): Socket {
  return new Socket(address);
}

/** Names only. */
export function isIP(): number {
  return 0;
}
