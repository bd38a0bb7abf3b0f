/**
 * Fills a server with small items, a few sets at a time over one connection, and tells what each
 * batch took: processor time of the thread that serves, and the round trip. In several rounds, each
 * with a new server; what every round shows again is the server's own.
 */
import { Connections } from "../sockets.ts";
import { type BenchServer, pinGenerator, say, startLeased } from "../processes.ts";
import { leastOf, spread, type Took } from "../timings.ts";

const VALUE = "v".repeat(100);
const DIGITS = 8;
const REPLY_BYTES = "STORED\r\n".length;

/** `-m` */
const MEMORY_MIB = 2048;

export async function growth(
  items: number,
  batch: number,
  rounds: number,
  port: number,
): Promise<void> {
  await pinGenerator();
  const took: Took[] = [];
  for (let round = 1; round <= rounds; round++) {
    const server = await startLeased(port, 1, "native", ["-m", `${MEMORY_MIB}`]);
    try {
      took.push(fill(server, items, batch));
    } finally {
      await server.stop();
    }
    say(`round ${round}: us of CPU for ${batch} sets: ${spread(took.at(-1)!)}`);
    if (round > 1) say(`the least of ${round}: ${spread(leastOf(took))}`);
  }
}

/** Sets `items` new keys. */
function fill(server: BenchServer, items: number, batch: number): Took {
  const connections = new Connections(server.port, 1, (fd) => ({ fd }));
  const { calls } = connections.libc;
  const { fd } = connections.all[0]!;
  const requests = new TextEncoder().encode(
    `set key:${"0".repeat(DIGITS)} 0 0 ${VALUE.length}\r\n${VALUE}\r\n`.repeat(batch),
  );
  const replies = new Uint8Array(batch * REPLY_BYTES + 1);
  const exchange = (first: number): void => {
    for (let at = 0; at < batch; at++) {
      writeDigits(requests, at * requests.length / batch + "set key:".length, first + at);
    }
    if (calls.send(fd, requests, requests.length, 0) !== requests.length) {
      throw new Error("Cannot send a batch");
    }
    for (let received = 0; received < batch * REPLY_BYTES;) {
      const count = calls.recv(fd, replies, replies.length, 0);
      received += count;
      if (count <= 0 || received > batch * REPLY_BYTES) throw new Error("Cannot set all items");
    }
  };
  const before = threadTimes(server.pid);
  exchange(0);
  const thread = new ThreadTime(busiest(before, threadTimes(server.pid)));
  const batches = Math.floor(items / batch);
  const took = { wallUs: new Float32Array(batches), cpuUs: new Float32Array(batches) };
  let cpuNs = thread.nanoseconds();
  for (let index = 0; index < batches; index++) {
    const startMs = performance.now();
    exchange(index * batch);
    took.wallUs[index] = (performance.now() - startMs) * 1000;
    const nowNs = thread.nanoseconds();
    took.cpuUs[index] = (nowNs - cpuNs) / 1000;
    cpuNs = nowNs;
  }
  thread.close();
  connections.close();
  return took;
}

function writeDigits(bytes: Uint8Array, at: number, number: number): void {
  for (let digit = DIGITS - 1; digit >= 0; digit--) {
    bytes[at + digit] = 48 + number % 10;
    number = Math.floor(number / 10);
  }
}

/** CPU time of each thread of a process in nanoseconds, by the path of its schedstat file. */
function threadTimes(pid: number): Map<string, number> {
  const tasks = [...Deno.readDirSync(`/proc/${pid}/task`)];
  const paths = tasks.map(({ name }) => `/proc/${pid}/task/${name}/schedstat`);
  return new Map(paths.map((path) => [path, Number(Deno.readTextFileSync(path).split(" ")[0])]));
}

function busiest(before: Map<string, number>, after: Map<string, number>): string {
  const grown = ([path, ns]: [string, number]): number => ns - (before.get(path) ?? 0);
  return [...after].reduce((most, one) => grown(one) > grown(most) ? one : most)[0];
}

/**
 * How long a thread has run, without what the host has taken away. Right while the thread sleeps, a
 * little behind while it runs.
 */
class ThreadTime {
  readonly #file: Deno.FsFile;
  readonly #text = new Uint8Array(64);

  constructor(path: string) {
    this.#file = Deno.openSync(path);
  }

  nanoseconds(): number {
    this.#file.seekSync(0, Deno.SeekMode.Start);
    this.#file.readSync(this.#text);
    let sum = 0;
    for (let at = 0; this.#text[at]! >= 48; at++) sum = sum * 10 + this.#text[at]! - 48;
    return sum;
  }

  close(): void {
    this.#file.close();
  }
}
