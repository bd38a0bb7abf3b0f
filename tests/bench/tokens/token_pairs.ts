/// <reference lib="deno.worker" />
// A thread of clients that take and release update tokens.

const ENCODER = new TextEncoder();
const NEWLINE = 10;

self.onmessage = async ({ data }: MessageEvent<TokenLoad>) => {
  self.postMessage(await new TcpPairs(data.port).run(data.connections, data.seconds));
  self.close();
};

/** The thread's job. It answers with pairs a second. */
export interface TokenLoad {
  readonly port: number;
  readonly connections: number;
  readonly seconds: number;
}

/** Clients that take and release a token each, again and again. */
class TcpPairs {
  readonly #port: number;

  constructor(port: number) {
    this.#port = port;
  }

  /** @returns Pairs a second. */
  async run(connections: number, seconds: number): Promise<number> {
    const startMs = performance.now();
    const endMs = startMs + seconds * 1000;
    const counts = await Promise.all(
      Array.from({ length: connections }, (_, index) => this.#pairs(index, endMs)),
    );
    const pairs = counts.reduce((sum, count) => sum + count, 0);
    return pairs / ((performance.now() - startMs) / 1000);
  }

  async #pairs(index: number, endMs: number): Promise<number> {
    using socket = await Deno.connect({ hostname: "127.0.0.1", port: this.#port });
    socket.setNoDelay(true);
    const buffer = new Uint8Array(256);
    const ask = async (request: string): Promise<string> => {
      await socket.write(ENCODER.encode(request));
      let length = 0;
      while (length === 0 || buffer[length - 1] !== NEWLINE) {
        const read = await socket.read(buffer.subarray(length));
        if (read === null) throw new Error("the server closed the connection");
        length += read;
      }
      return new TextDecoder().decode(buffer.subarray(0, length));
    };
    const key = `token:${index}`;
    let pairs = 0;
    for (; performance.now() < endMs; pairs++) {
      const token = await ask(`token get ${key}\r\n`);
      const released = await ask(`token release ${key} ${token.slice(6)}`);
      if (released !== "OK\r\n") throw new Error(`${token} and ${released}`);
    }
    return pairs;
  }
}
