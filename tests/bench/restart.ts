/** Stop and start of a full store with `--snapshot`, beside memcached's `-e` and the bare disk (Linux). */
import { MIB } from "../../store/limits.ts";
import { TRANSPORTS } from "../support/servers/server_process.ts";
import { Batches, Generator } from "./generator.ts";
import { KEY_BYTES, NumberedSets } from "./numbered_sets.ts";
import { readOptions } from "./options.ts";
import {
  type BenchServer,
  connectWhenOpen,
  DEBIAN_MEMCACHED,
  pinGenerator,
  startLeased,
  startMemcached,
} from "./processes.ts";
import { ranged, Table } from "./table.ts";

/** Value sizes in bytes, by the name of the load. */
const LOADS: Readonly<Record<string, readonly number[]>> = {
  "100-byte": [100],
  mixed: [50, 100, 300, 1000, 4000, 20_000],
};
/** Keys and values to store, as part of the memory limit. Headers take memory too. */
const FILL_SHARE = 0.65;
const BATCH = 32;
const PIECE_BYTES = 4 * MIB;
/** Between two attempts to connect. */
const PAUSE_MS = 2;
/** memcached takes a start in the second of its stop for a clock that goes back, and starts empty. */
const SECOND_MS = 1100;

interface Times {
  readonly stopMs: number[];
  readonly startMs: number[];
  /** From the first connection to the first reply. */
  readonly replyMs: number[];
  /** The least share of the items that were there after a restart. */
  kept: number;
}

type Start = () => Promise<BenchServer>;

/** What is done in every round beside the server. */
interface Around {
  /** Called before the server stops. */
  readonly before?: () => void;
  /** Called before the server starts. */
  readonly between: () => Promise<void>;
}

export async function main(args: readonly string[]): Promise<void> {
  const { loads, memory, rounds, io, folder, peer, port } = readOptions(args, {
    loads: Object.keys(LOADS),
    memory: 1024,
    rounds: 3,
    io: "native",
    folder: "/tmp/leased-bench-restart",
    peer: DEBIAN_MEMCACHED,
    port: 21360,
  }, { loads: Object.keys(LOADS), io: TRANSPORTS });
  await pinGenerator();
  const table = new Table(
    `-m ${memory}, seconds`,
    "MiB",
    "kept",
    "stop",
    "start",
    "first reply, ms",
    "bare write",
    "bare read",
  );
  const disk = temporary(folder);
  const ram = temporary("/dev/shm/leased-bench-restart");
  try {
    for (const load of loads) {
      const file = `${disk}/items`;
      const leased = (): Promise<BenchServer> =>
        startLeased(port, 2, io, ["-m", `${memory}`, "--snapshot", file], [
          `--allow-read=.,${disk}`,
          `--allow-write=${disk}`,
        ], "0-1");
      const bare = new BareDisk(`${disk}/bare`);
      let size = 0;
      const times = await restarts(leased, "SIGTERM", load, memory, rounds, {
        before: () => bare.write(size = Deno.statSync(`${file}.loaded`).size),
        between: () => Promise.resolve(bare.read()),
      });
      table.row(
        `leased, ${load}`,
        String(Math.round(size / MIB)),
        percent(times.kept),
        seconds(times.stopMs),
        seconds(times.startMs),
        ranged(times.replyMs),
        seconds(bare.writesMs),
        seconds(bare.readsMs),
      );
      const memcached = (): Promise<BenchServer> =>
        startMemcached(peer, port, 2, ["-m", `${memory}`, "-e", `${ram}/items`], "0-1");
      const theirs = await restarts(memcached, "SIGUSR1", load, memory, rounds, {
        between: () => new Promise((resolve) => setTimeout(resolve, SECOND_MS)),
      });
      table.row(
        `memcached, tmpfs, ${load}`,
        String(memory),
        percent(theirs.kept),
        seconds(theirs.stopMs),
        seconds(theirs.startMs),
        ranged(theirs.replyMs),
      );
      clear(disk);
      clear(ram);
    }
  } finally {
    Deno.removeSync(disk, { recursive: true });
    Deno.removeSync(ram, { recursive: true });
  }
}

/** Fills a server, then stops and starts it: once for the machine's memory, then in every round. */
async function restarts(
  start: Start,
  signal: Deno.Signal,
  load: string,
  memory: number,
  rounds: number,
  { before = () => {}, between }: Around,
): Promise<Times> {
  const times: Times = { stopMs: [], startMs: [], replyMs: [], kept: 1 };
  let server = await start();
  const items = fill(server, memory * MIB * FILL_SHARE, LOADS[load]!);
  for (let round = 0; round <= rounds; round++) {
    if (round > 0) before();
    let beginMs = performance.now();
    await server.stop(signal);
    const stopMs = performance.now() - beginMs;
    await between();
    beginMs = performance.now();
    const starting = start();
    using connection = await connectWhenOpen(server.port, PAUSE_MS);
    const startMs = performance.now() - beginMs;
    beginMs = performance.now();
    const found = await itemsOf(connection);
    const replyMs = performance.now() - beginMs;
    server = await starting;
    times.kept = Math.min(times.kept, found / items);
    if (round === 0) continue;
    times.stopMs.push(stopMs);
    times.startMs.push(startMs);
    times.replyMs.push(replyMs);
  }
  await server.stop();
  return times;
}

/** Stores keys of each size, the same number of bytes of each. @returns How many. */
function fill(server: BenchServer, bytes: number, sizes: readonly number[]): number {
  let items = 0;
  for (const size of sizes) {
    const sets = new NumberedSets(BATCH, size);
    const client = new Generator(server.port, 1, new Batches([sets.batch]));
    const end = items + bytes / sizes.length / (KEY_BYTES + size);
    for (; items < end; items += BATCH) client.ask(sets.from(items));
    client.close();
  }
  return items;
}

/** Asks the server for its number of items. */
async function itemsOf(connection: Deno.Conn): Promise<number> {
  await connection.write(new TextEncoder().encode("stats\r\n"));
  const buffer = new Uint8Array(64 * 1024);
  let text = "";
  while (!text.includes("\nEND\r\n")) {
    const length = await connection.read(buffer);
    if (length === null) throw new Error("the server has closed the connection");
    text += new TextDecoder().decode(buffer.subarray(0, length));
  }
  return Number(/STAT curr_items (\d+)/.exec(text)![1]);
}

/** The disk without a server. */
class BareDisk {
  readonly writesMs: number[] = [];
  readonly readsMs: number[] = [];
  readonly #path: string;
  #bytes = 0;

  constructor(path: string) {
    this.#path = path;
  }

  /**
   * Writes a new file and syncs it. It stays until it is read: a server that stops meanwhile takes memory for its file
   * that the machine has not used before, too, which takes virtual machines longer than a write.
   */
  write(bytes: number): void {
    const piece = new Uint8Array(PIECE_BYTES).fill(1);
    using file = Deno.openSync(this.#path, { write: true, createNew: true });
    const beginMs = performance.now();
    for (let at = 0; at < bytes; at += piece.length) file.writeSync(piece);
    file.syncSync();
    this.writesMs.push(performance.now() - beginMs);
    this.#bytes = bytes;
  }

  /** Reads the file, if there is one, into new memory, by one thread, and removes it. */
  read(): void {
    if (this.#bytes === 0) return;
    using file = Deno.openSync(this.#path);
    const memory = new Uint8Array(new SharedArrayBuffer(this.#bytes));
    const beginMs = performance.now();
    for (let at = 0; at < this.#bytes;) {
      at += file.readSync(memory.subarray(at, at + PIECE_BYTES)) ?? this.#bytes;
    }
    this.readsMs.push(performance.now() - beginMs);
    Deno.removeSync(this.#path);
    this.#bytes = 0;
  }
}

function percent(share: number): string {
  return `${Math.floor(share * 100)} %`;
}

function seconds(milliseconds: readonly number[]): string {
  return ranged(milliseconds.map((ms) => ms / 1000));
}

function temporary(folder: string): string {
  Deno.mkdirSync(folder, { recursive: true });
  return folder;
}

function clear(folder: string): void {
  for (const { name } of Deno.readDirSync(folder)) Deno.removeSync(`${folder}/${name}`);
}
