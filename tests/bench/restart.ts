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

interface Times {
  readonly stopMs: number[];
  readonly startMs: number[];
  /** The least share of the items that were there after a restart. */
  kept: number;
}

type Start = () => Promise<BenchServer>;

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
      const times = await restarts(leased, "SIGTERM", load, memory, rounds);
      const bytes = Deno.statSync(file).size;
      const bare = await bareTimes(`${disk}/bare`, bytes, rounds);
      table.row(
        `leased, ${load}`,
        String(Math.round(bytes / MIB)),
        percent(times.kept),
        seconds(times.stopMs),
        seconds(times.startMs),
        seconds(bare.stopMs),
        seconds(bare.startMs),
      );
      const memcached = (): Promise<BenchServer> =>
        startMemcached(peer, port, 2, ["-m", `${memory}`, "-e", `${ram}/items`], "0-1");
      const theirs = await restarts(memcached, "SIGUSR1", load, memory, rounds);
      table.row(
        `memcached, tmpfs, ${load}`,
        String(memory),
        percent(theirs.kept),
        seconds(theirs.stopMs),
        seconds(theirs.startMs),
      );
      clear(disk);
      clear(ram);
    }
  } finally {
    Deno.removeSync(disk, { recursive: true });
    Deno.removeSync(ram, { recursive: true });
  }
}

/** Fills a server, then stops and starts it. */
async function restarts(
  start: Start,
  signal: Deno.Signal,
  load: string,
  memory: number,
  rounds: number,
): Promise<Times> {
  const times: Times = { stopMs: [], startMs: [], kept: 1 };
  let server = await start();
  const items = fill(server, memory * MIB * FILL_SHARE, LOADS[load]!);
  while (times.stopMs.length < rounds) {
    let beginMs = performance.now();
    await server.stop(signal);
    times.stopMs.push(performance.now() - beginMs);
    beginMs = performance.now();
    const starting = start();
    const { port } = server;
    const found = await itemsOf(port);
    times.startMs.push(performance.now() - beginMs);
    server = await starting;
    times.kept = Math.min(times.kept, found / items);
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

/** Waits for the server and asks it for its number of items. */
async function itemsOf(port: number): Promise<number> {
  using connection = await connectWhenOpen(port, PAUSE_MS);
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

/** Writes a new file of so many bytes and syncs it, then reads it into new memory. */
async function bareTimes(path: string, bytes: number, rounds: number): Promise<Times> {
  const times: Times = { stopMs: [], startMs: [], kept: 1 };
  const piece = new Uint8Array(PIECE_BYTES).fill(1);
  while (times.stopMs.length < rounds) {
    using file = Deno.openSync(path, { read: true, write: true, createNew: true });
    let beginMs = performance.now();
    for (let at = 0; at < bytes; at += piece.length) await file.write(piece);
    await file.sync();
    times.stopMs.push(performance.now() - beginMs);
    file.seekSync(0, Deno.SeekMode.Start);
    const memory = new Uint8Array(new SharedArrayBuffer(bytes));
    beginMs = performance.now();
    for (let at = 0; at < bytes;) {
      at += await file.read(memory.subarray(at, at + PIECE_BYTES)) ?? bytes;
    }
    times.startMs.push(performance.now() - beginMs);
    Deno.removeSync(path);
  }
  return times;
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
