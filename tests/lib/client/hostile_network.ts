import { connect, createServer, type Server, type Socket } from "node:net";

/** A network's faults on a connection. */
export type Fault =
  /** Pieces arrive late, in order. */
  | "delay"
  /** Pieces arrive in small parts. */
  | "split"
  /** Both sides see a reset. */
  | "reset"
  /** Both sides see an end, in the middle of a reply. */
  | "end"
  /** No byte passes any more, and no side sees an end. */
  | "black hole"
  /** A byte of a reply is changed, lost or added. */
  | "garble";

export const FAULTS: readonly Fault[] = ["delay", "split", "reset", "end", "black hole", "garble"];

const DELAY_MS_MAX = 10;
const PART_BYTES_MAX = 7;
/** Longer pieces are cut in larger parts. */
const PARTS_MAX = 50;

/** A network between clients and a server. Every connection gets a fault after some bytes of replies. */
export class HostileNetwork implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #random: () => number;
  readonly #target: number;
  readonly #bytesMax: number;
  readonly #timers = new Set<ReturnType<typeof setTimeout>>();
  /** By fault, how many connections had it. */
  readonly counts: Record<Fault, number> = {
    ...{ "delay": 0, "split": 0, "reset": 0, "end": 0, "black hole": 0, "garble": 0 },
  };
  /** Connections of clients that are open. */
  open = 0;
  /** Faults for the next connections: each one is dealt once before any is dealt again. */
  #deck: Fault[] = [];

  /**
   * @param target Port of the server.
   * @param bytesMax A fault begins after at most so many bytes of replies.
   */
  private constructor(target: number, random: () => number, bytesMax: number) {
    this.#target = target;
    this.#random = random;
    this.#bytesMax = bytesMax;
    this.#server = createServer((client) => this.#join(client));
  }

  static async start(
    target: number,
    random: () => number,
    bytesMax: number,
  ): Promise<HostileNetwork> {
    const network = new HostileNetwork(target, random, bytesMax);
    await new Promise<void>((resolve) => network.#server.listen(0, "127.0.0.1", resolve));
    return network;
  }

  /** True when each fault has happened. */
  get isComplete(): boolean {
    return Object.values(this.counts).every((count) => count > 0);
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const timer of this.#timers) clearTimeout(timer);
    const closed = new Promise((resolve) => this.#server.close(resolve));
    const gone = [...this.#sockets].map((socket) =>
      new Promise((resolve) => socket.once("close", resolve))
    );
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all([closed, ...gone]);
  }

  #choose(count: number): number {
    return Math.floor(this.#random() * count);
  }

  #deal(): Fault {
    if (this.#deck.length === 0) this.#deck = [...FAULTS];
    return this.#deck.splice(this.#choose(this.#deck.length), 1)[0]!;
  }

  #join(client: Socket): void {
    const server = connect({ host: "127.0.0.1", port: this.#target });
    const fault = this.#deal();
    let bytesLeft = this.#choose(this.#bytesMax);
    let isLost = false;
    this.open++;
    client.once("close", () => this.open--);
    for (const [socket, other] of [[client, server], [server, client]] as const) {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => {});
      socket.once("close", () => {
        this.#sockets.delete(socket);
        if (!isLost || socket === client) other.destroy();
      });
    }
    client.on("data", (piece) => {
      if (!isLost) server.write(piece);
    });
    let late: Promise<void> = Promise.resolve();
    server.on("data", (piece: Uint8Array) => {
      if (isLost) return;
      bytesLeft -= piece.length;
      if (bytesLeft > 0) return void client.write(piece);
      this.counts[fault]++;
      switch (fault) {
        case "delay":
          late = late.then(() => this.#sleep(this.#choose(DELAY_MS_MAX))).then(() =>
            void client.write(piece)
          );
          return;
        case "split":
          late = late.then(() => this.#writeParts(client, piece));
          return;
        case "reset":
          return void client.resetAndDestroy();
        case "end":
          return void client.end(piece.subarray(0, this.#choose(piece.length)));
        case "black hole":
          isLost = true;
          return;
        case "garble":
          client.write(this.#garbled(piece));
          bytesLeft = this.#choose(this.#bytesMax);
      }
    });
  }

  async #writeParts(client: Socket, piece: Uint8Array): Promise<void> {
    const longest = Math.max(PART_BYTES_MAX, 2 * Math.ceil(piece.length / PARTS_MAX));
    for (let at = 0; at < piece.length;) {
      const length = 1 + this.#choose(longest);
      client.write(piece.subarray(at, at + length));
      at += length;
      await this.#sleep(0);
    }
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#timers.delete(timer);
        resolve();
      }, ms);
      this.#timers.add(timer);
    });
  }

  /** Changes, loses or adds a byte. */
  #garbled(piece: Uint8Array): Uint8Array {
    const at = this.#choose(piece.length);
    const byte = this.#choose(256);
    switch (this.#choose(3)) {
      case 0: {
        const bytes = piece.slice();
        bytes[at] = byte;
        return bytes;
      }
      case 1:
        return Uint8Array.from([...piece.subarray(0, at), ...piece.subarray(at + 1)]);
      default:
        return Uint8Array.from([...piece.subarray(0, at), byte, ...piece.subarray(at)]);
    }
  }
}
