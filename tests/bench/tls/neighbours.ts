/**
 * How long plain clients wait beside clients that misuse TLS on the same thread, leased and memcached: p50, p99 and the
 * longest, and their ratio to those without such neighbours.
 */
import { Certificates, clientHello, tlsArguments } from "../../support/servers/certificates.ts";
import { OpenGenerator, type Request, type TailResult } from "../open_generator.ts";
import {
  type BenchServer,
  pinGenerator,
  pinThread,
  say,
  startLeased,
  startMemcached,
} from "../processes.ts";
import { type MisuseOrder, MISUSES } from "./misuses.ts";

const GENERATOR_CORE = 1;
/** On two cores, the misusing clients share the generator's. */
const MISUSE_CORE = Math.min(2, navigator.hardwareConcurrency - 1);
const CONNECTIONS = 8;
const LONG_BYTES = 500_000;
const CONNECTIONS_MAX = 12_000;

/** A server with a plain port beside its TLS port. */
interface Contestant {
  readonly server: BenchServer;
  readonly plainPort: number;
}

export interface NeighbourOptions {
  /** Requests a second of the plain clients. */
  readonly rate: number;
  readonly seconds: number;
  readonly rounds: number;
  readonly only: readonly string[];
  readonly memcached: readonly string[];
  readonly port: number;
}

export async function neighbours(options: NeighbourOptions): Promise<void> {
  const { rate, seconds, rounds, only, memcached, port } = options;
  await pinGenerator(`${GENERATOR_CORE}-${Math.max(1, navigator.hardwareConcurrency - 1)}`);
  pinThread(GENERATOR_CORE);
  using certificates = new Certificates();
  const certificate = certificates.make("localhost");
  const hello = await clientHello(certificate);
  const contestants: Contestant[] = [];
  try {
    const open = async (start: (port: number, options: string[]) => Promise<BenchServer>) => {
      const first = port + 2 * contestants.length;
      const server = await start(first, [
        ...tlsArguments(certificate),
        ...["-c", `${CONNECTIONS_MAX}`, "-l", `notls:127.0.0.1:${first + 1}`],
      ]);
      contestants.push({ server, plainPort: first + 1 });
    };
    await open((at, options) => startLeased(at, 1, "native", options));
    for (const path of memcached) {
      await open((at, options) => startMemcached(path, at, 1, options));
    }
    for (const { plainPort } of contestants) await storeLong(plainPort);
    say(`p50, p99 and longest wait of plain clients in ms, ${rate} requests/s; p99 ÷ p99 alone`);
    for (const { server, plainPort } of contestants) {
      say(server.name.slice(0, 22));
      const measure = (): TailResult[] =>
        Array.from({ length: rounds }, () => waits(plainPort, rate, seconds));
      const alone = leastP99(measure());
      say(line("alone", alone, alone));
      for (const kind of MISUSES.filter((each) => only.includes(each))) {
        const end = await begin({ kind, port: server.port, hello, core: MISUSE_CORE });
        say(line(kind, leastP99(measure()), alone));
        await end();
      }
    }
  } finally {
    for (const { server } of contestants) await server.stop();
  }
}

/** Stores the value that clients ask for and do not read. */
async function storeLong(port: number): Promise<void> {
  using socket = await Deno.connect({ hostname: "127.0.0.1", port });
  const text = `set long 0 0 ${LONG_BYTES} noreply\r\n${"v".repeat(LONG_BYTES)}\r\nmn\r\n`;
  const bytes = new TextEncoder().encode(text);
  for (let sent = 0; sent < bytes.length;) sent += await socket.write(bytes.subarray(sent));
  await socket.read(new Uint8Array(16));
}

/** Starts clients that misuse TLS. @returns Ends them. */
async function begin(order: Omit<MisuseOrder, "stop">): Promise<() => Promise<void>> {
  const worker = new Worker(new URL("./misuse_worker.ts", import.meta.url), { type: "module" });
  const stop = new SharedArrayBuffer(4);
  const message = (): Promise<void> =>
    new Promise((resolve, reject) => {
      worker.onmessage = () => resolve();
      worker.onerror = ({ message: text }) => reject(new Error(text));
    });
  const begun = message();
  worker.postMessage({ ...order, stop });
  await begun;
  return async () => {
    const ended = message();
    Atomics.store(new Int32Array(stop), 0, 1);
    Atomics.notify(new Int32Array(stop), 0);
    await ended;
    worker.terminate();
  };
}

function waits(port: number, rate: number, seconds: number): TailResult {
  const generator = new OpenGenerator(port, CONNECTIONS);
  const request: Request = new TextEncoder().encode("get missing\r\n");
  const result = generator.run([request], rate, seconds);
  generator.close();
  return result;
}

function quantile({ latenciesMs }: TailResult, part: number): number {
  return latenciesMs[Math.min(latenciesMs.length - 1, Math.floor(latenciesMs.length * part))]!;
}

/** The round with the least p99: what the machine itself takes away is not in every round. */
function leastP99(rounds: readonly TailResult[]): TailResult {
  return rounds.toSorted((a, b) => quantile(a, 0.99) - quantile(b, 0.99))[0]!;
}

function line(name: string, found: TailResult, alone: TailResult): string {
  const columns = [0.5, 0.99, 1].map((part) => quantile(found, part).toFixed(3).padStart(9));
  const ratio = quantile(found, 0.99) / quantile(alone, 0.99);
  return `  ${name.padEnd(15)}${columns.join("")}   ${ratio.toFixed(2)}`;
}
