import { TextLineStream } from "@std/streams";
import { bytesOf } from "../sessions/side.ts";

/** The reply to a line: its pieces, one after the other. "close": ends the connection. */
export type ScriptedReply = Iterable<string | Uint8Array | "close">;

/** A server of 127.0.0.1 that replies as a test says. */
export class ScriptedPeer implements AsyncDisposable {
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #reply: (line: string) => ScriptedReply;
  readonly #served: Promise<void>[] = [];
  readonly #sockets = new Set<Deno.TcpConn>();
  readonly #accepting: Promise<void>;
  #isClosed = false;
  /** Connections that were made. */
  connections = 0;
  /** Connections that the client has not closed. */
  open = 0;

  /** @param answersProbes Whether `version`, which a client asks while it has a lock, is answered for the test. */
  constructor(reply: (line: string) => ScriptedReply, answersProbes = true) {
    this.#reply = (line) => line === "version" && answersProbes ? ["VERSION 1\r\n"] : reply(line);
    this.#accepting = this.#accept();
  }

  get port(): number {
    return this.#listener.addr.port;
  }

  /** Stops listening, and closes all connections. May be called again. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#isClosed) this.#listener.close();
    this.#isClosed = true;
    await this.#accepting;
    for (const socket of this.#sockets) close(socket);
    await Promise.all(this.#served);
  }

  async #accept(): Promise<void> {
    try {
      for await (const socket of this.#listener) {
        this.connections++;
        this.open++;
        this.#sockets.add(socket);
        this.#served.push(this.#serve(socket));
      }
    } catch (error) {
      if (!(error instanceof Deno.errors.BadResource)) throw error;
    }
  }

  async #serve(socket: Deno.TcpConn): Promise<void> {
    try {
      const lines = socket.readable.pipeThrough(new TextDecoderStream())
        .pipeThrough(new TextLineStream());
      for await (const line of lines) {
        for (const piece of this.#reply(line)) {
          if (piece === "close") return;
          let bytes = typeof piece === "string" ? bytesOf(piece) : piece;
          while (bytes.length > 0) bytes = bytes.subarray(await socket.write(bytes));
        }
      }
    } catch {
      // The client is gone, or the test is over.
    } finally {
      this.open--;
      close(socket);
    }
  }
}

function close(socket: Deno.TcpConn): void {
  try {
    socket.close();
  } catch {
    // It is closed already.
  }
}
