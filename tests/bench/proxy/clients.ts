/** Clients of a text protocol, each with one request in flight. */

const ENCODER = new TextEncoder();
const DECODER = new TextDecoder();
const RECEIVE_BYTES = 64 * 1024;

/** One connection. */
export class BenchClient implements Disposable {
  readonly #socket: Deno.TcpConn;
  readonly #buffer = new Uint8Array(RECEIVE_BYTES);

  private constructor(socket: Deno.TcpConn) {
    this.#socket = socket;
  }

  static async connect(port: number): Promise<BenchClient> {
    const socket = await Deno.connect({ hostname: "127.0.0.1", port });
    socket.setNoDelay(true);
    return new BenchClient(socket);
  }

  /** Sends requests, and waits for a reply that ends with `end`. @throws When another reply comes. */
  async ask(requests: string, end: string): Promise<void> {
    for (let bytes = ENCODER.encode(requests); bytes.length > 0;) {
      bytes = bytes.subarray(await this.#socket.write(bytes));
    }
    for (let length = 0;;) {
      const read = await this.#socket.read(this.#buffer.subarray(length));
      const reply = DECODER.decode(this.#buffer.subarray(0, length + (read ?? 0)));
      if (reply.endsWith(end)) return;
      if (read === null || /^(?:CLIENT_|SERVER_)?ERROR/.test(reply)) throw new Error(reply);
      length += read;
    }
  }

  [Symbol.dispose](): void {
    this.#socket.close();
  }
}

/** A request and the end of its reply. */
export interface Exchange {
  readonly request: string;
  readonly end: string;
}

/** Runs clients side by side. @returns Requests a second. */
export async function requestsPerSecond(
  port: number,
  count: number,
  seconds: number,
  exchange: (number: number) => Exchange,
): Promise<number> {
  const clients = await Promise.all(Array.from({ length: count }, () => BenchClient.connect(port)));
  let sent = 0;
  const startMs = performance.now();
  const endMs = startMs + seconds * 1000;
  await Promise.all(clients.map(async (client) => {
    while (performance.now() < endMs) {
      const { request, end } = exchange(sent++);
      await client.ask(request, end);
    }
  }));
  const tookMs = performance.now() - startMs;
  for (const client of clients) client[Symbol.dispose]();
  return sent / (tookMs / 1000);
}

/** Sends some requests one after the other over one connection. @returns Microseconds of each, ascending. */
export async function latenciesUs(
  port: number,
  count: number,
  exchange: (number: number) => Exchange,
): Promise<Float64Array> {
  using client = await BenchClient.connect(port);
  const latencies = new Float64Array(count);
  for (let number = 0; number < count; number++) {
    const { request, end } = exchange(number);
    const startMs = performance.now();
    await client.ask(request, end);
    latencies[number] = (performance.now() - startMs) * 1000;
  }
  return latencies.sort();
}
