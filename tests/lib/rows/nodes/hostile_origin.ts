import { LineReader } from "../../../../lib/peers/line_reader.ts";
import { packDue } from "../../../../lib/rows/nodes/wire.ts";
import { latin1Bytes, latin1Text } from "../../../../store/base/bytes.ts";
import { waitingFor } from "../../../support/waiting.ts";

const LINE_MAX = 2048;
/** How long a question for deletions is held: an answer at once would be asked for again at once. */
const POLL_MS = 50;

/** A request of a node. */
export interface NodeRequest {
  readonly verb: string;
  readonly confirmed: number;
  readonly block: Uint8Array;
  /** Its connection, for replies in pieces. */
  readonly socket: Deno.TcpConn;
}

/** The bytes of a reply, a character each; null: there is none. */
type Answer = (request: NodeRequest) => string | null | Promise<string | null>;

/** Returns the reply with this block. */
export function blockReply(block: Uint8Array | string): string {
  const text = typeof block === "string" ? block : latin1Text(block);
  return `NODE ${text.length}\r\n${text}`;
}

/** An origin that a test plays: a member for every node, no row, no deletion; and what the test has it say instead. */
export class HostileOrigin implements Disposable {
  readonly replies: Map<string, Answer>;
  /** Connections that nodes have closed. */
  closed = 0;
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #sockets = new Set<Deno.TcpConn>();
  readonly #asked = new Map<string, number>();
  readonly #timers = new Set<ReturnType<typeof setTimeout>>();
  #changed = Promise.withResolvers<void>();

  constructor({ memberMs }: { memberMs: number }) {
    const joined = JSON.stringify({ session: "1-secret", grantedMs: memberMs, memberMs });
    const renewal = blockReply(packDue({ seq: 0, grantedMs: memberMs, keys: [], prefixes: [] }));
    this.replies = new Map<string, Answer>([
      ["join", () => blockReply(joined)],
      ["poll", async () => {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, POLL_MS);
          this.#timers.add(timer);
        });
        return renewal;
      }],
      ["leave", () => blockReply("")],
    ]);
    this.#accept().catch(() => {});
  }

  get port(): number {
    return this.#listener.addr.port;
  }

  /** Resolves when nodes have sent so many requests of a verb. */
  async asked(verb: string, count = 1): Promise<void> {
    await this.#until(`${count} times ${verb}`, () => (this.#asked.get(verb) ?? 0) >= count);
  }

  /** Resolves when nodes have closed so many connections. */
  async hasClosed(count: number): Promise<void> {
    await this.#until(`${count} closed connections`, () => this.closed >= count);
  }

  async #until(what: string, holds: () => boolean): Promise<void> {
    while (!holds()) await waitingFor(what, this.#changed.promise);
  }

  #tell(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  async #accept(): Promise<void> {
    for await (const socket of this.#listener) {
      this.#sockets.add(socket);
      this.#serve(socket).catch(() => {}).finally(() => {
        this.closed++;
        this.#close(socket);
        this.#tell();
      });
    }
  }

  async #serve(socket: Deno.TcpConn): Promise<void> {
    const reader = new LineReader(socket, LINE_MAX);
    for (let line; (line = await reader.line()) !== null;) {
      const [, verb = "", , confirmed, length] = line.split(" ");
      const block = await reader.block(Number(length));
      await reader.block(2);
      this.#asked.set(verb, (this.#asked.get(verb) ?? 0) + 1);
      this.#tell();
      const request = { verb, confirmed: Number(confirmed), block: block!, socket };
      const answer = await this.replies.get(verb)?.(request) ?? null;
      if (answer === null) continue;
      for (let bytes = latin1Bytes(answer); bytes.length > 0;) {
        bytes = bytes.subarray(await socket.write(bytes));
      }
    }
  }

  #close(socket: Deno.TcpConn): void {
    if (!this.#sockets.delete(socket)) return;
    try {
      socket.close();
    } catch {
      // It is closed already.
    }
  }

  [Symbol.dispose](): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#listener.close();
    for (const socket of [...this.#sockets]) this.#close(socket);
  }
}
