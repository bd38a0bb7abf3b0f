import { Client } from "../support/servers/server_process.ts";

const PAUSE_MS = 20;

/** A client that connects again when its connection breaks. */
export class PatientClient implements Disposable {
  #client: Client | null = null;
  #isClosed = false;

  constructor(readonly port: number) {}

  /**
   * Sends a request once.
   *
   * @param end The last bytes of every reply but errors, which are a line.
   * @returns Null: the connection broke, and nobody knows what became of the request.
   */
  async try(request: string, end = "\r\n"): Promise<string | null> {
    try {
      this.#client ??= new Client(await Deno.connect({ hostname: "127.0.0.1", port: this.port }));
      await this.#client.send(request);
      const line = await this.#client.until("\r\n");
      const isError = /^(?:ERROR|SERVER_ERROR|CLIENT_ERROR)/.test(line);
      return isError || line.endsWith(end) ? line : line + await this.#client.until(end);
    } catch {
      this.disconnect();
      if (this.#isClosed) throw new Error("the client is closed");
      return null;
    }
  }

  /** Repeats a request until its reply is none of an error. Such a request may be executed more than once. */
  async insist(
    request: string,
    isDone = (reply: string) => !/ERROR|BUSY/.test(reply),
  ): Promise<string> {
    for (;;) {
      const reply = await this.try(request);
      if (reply !== null && isDone(reply)) return reply;
      this.disconnect();
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }

  disconnect(): void {
    this.#client?.[Symbol.dispose]();
    this.#client = null;
  }

  [Symbol.dispose](): void {
    this.#isClosed = true;
    this.disconnect();
  }
}
