/** Stop and start of a full store with `--snapshot`, beside memcached's `-e` and the bare disk (Linux). */
import { MIB } from "../../store/limits.ts";
import { freePort } from "../support/free_ports.ts";
import { Client } from "../support/servers/server_process.ts";
import { fillNumbers } from "./base/clients.ts";
import { KEY_BYTES } from "./base/loads.ts";
import {
  Comparison,
  type Figures,
  pause,
  percent,
  spread,
  typical,
  whole,
} from "./base/measure.ts";
import { readOptions, someOf } from "../support/options.ts";
import {
  ALL_CORES,
  type BenchServer,
  connectWhenOpen,
  DEBIAN_MEMCACHED,
  IO,
  Servers,
} from "./base/servers.ts";

/** Value sizes in bytes, by the name of the load. */
const LOADS: Readonly<Record<string, readonly number[]>> = {
  "100-byte": [100],
  mixed: [50, 100, 300, 1000, 4000, 20_000],
};
/** Keys and values to store, as part of the memory limit. Headers take memory too. */
const FILL_SHARE = 0.65;
const PIECE_BYTES = 4 * MIB;
/** Between two attempts to connect. */
const PAUSE_MS = 2;
/** memcached takes a start in the second of its stop for a clock that goes back, and starts empty. */
const SECOND_MS = 1100;

/** Times in seconds, but `replyMs`: from the first connection to the first reply. */
type Times = Figures<"mib" | "kept" | "stop" | "start" | "replyMs" | "write" | "read">;

export async function main(args: readonly string[]): Promise<void> {
  const { loads, memory, rounds, io, folder, peer } = readOptions(args, {
    loads: someOf(Object.keys(LOADS)),
    memory: 1024,
    rounds: 3,
    io: IO,
    folder: "/tmp",
    peer: DEBIAN_MEMCACHED,
  });
  const table = new Comparison(`-m ${memory}, seconds`, {
    MiB: typical("mib", (mib) => Number.isNaN(mib) ? `${memory}` : whole(mib)),
    kept: typical("kept", percent),
    stop: spread("stop"),
    start: spread("start"),
    "first reply, ms": spread("replyMs"),
    "bare write": spread("write"),
    "bare read": spread("read"),
  });
  for (const load of loads) {
    await using servers = new Servers(2, ALL_CORES);
    const [disk, ram] = [await servers.folder(folder), await servers.folder("/dev/shm")];
    const port = freePort();
    const limit = ["-m", `${memory}`];
    const permissions = [`--allow-read=.,${disk}`, `--allow-write=${disk}`];
    const snapshot = [...limit, "--snapshot", `${disk}/items`];
    const leased = new Restarts(
      () => servers.leased(io, snapshot, { permissions }, port),
      "SIGTERM",
      `${disk}/items.loaded`,
    );
    const memcached = new Restarts(
      () => servers.memcached(peer, [...limit, "-e", `${ram}/items`], port),
      "SIGUSR1",
      "",
    );
    for (const [name, each] of [["leased", leased], ["memcached, tmpfs", memcached]] as const) {
      await each.open(memory * MIB * FILL_SHARE, LOADS[load]!);
      await table.add([{ name: `${name}, ${load}`, measure: () => each.measure() }], rounds);
      await each.close();
    }
  }
}

/** A full server that is stopped and started again and again. */
class Restarts {
  #server!: BenchServer;
  #items = 0;

  /** @param snapshot The file whose bytes are written and read without a server, too; "": none. */
  constructor(
    readonly start: () => Promise<BenchServer>,
    readonly signal: Deno.Signal,
    readonly snapshot: string,
  ) {}

  /** Starts the server, and stores keys of each size, the same number of bytes of each. */
  async open(bytes: number, sizes: readonly number[]): Promise<void> {
    this.#server = await this.start();
    const { port } = this.#server;
    for (const size of sizes) {
      const count = bytes / sizes.length / (KEY_BYTES + size);
      this.#items = fillNumbers(port, this.#items, this.#items + count, size);
    }
    // The first restart takes memory that the machine has not used before.
    await this.measure();
  }

  async measure(): Promise<Times> {
    const { port } = this.#server;
    const file = new BareFile(`${this.snapshot}.bare`, sizeOf(this.snapshot));
    const write = file.bytes > 0 ? secondsOf(() => file.write()) : NaN;
    let beginMs = performance.now();
    await this.#server.stop(this.signal);
    const stop = (performance.now() - beginMs) / 1000;
    const read = file.bytes > 0 ? secondsOf(() => file.read()) : NaN;
    if (this.snapshot === "") await pause(SECOND_MS);
    beginMs = performance.now();
    const starting = this.start();
    using client = new Client(await connectWhenOpen(port, PAUSE_MS));
    const connectedMs = performance.now();
    const kept = Number(await client.stat("curr_items")) / this.#items;
    const replyMs = performance.now() - connectedMs;
    this.#server = await starting;
    const start = (connectedMs - beginMs) / 1000;
    return { mib: file.bytes / MIB || NaN, kept, stop, start, replyMs, write, read };
  }

  async close(): Promise<void> {
    await this.#server.stop();
  }
}

function secondsOf(act: () => void): number {
  const beginMs = performance.now();
  act();
  return (performance.now() - beginMs) / 1000;
}

/** Bytes of a file; 0 if there is none. */
function sizeOf(path: string): number {
  try {
    return Deno.statSync(path).size;
  } catch {
    return 0;
  }
}

/** The disk without a server. */
class BareFile {
  constructor(readonly path: string, readonly bytes: number) {}

  /**
   * Writes a new file and syncs it. It stays until it is read: a server that stops meanwhile takes memory for its file
   * that the machine has not used before, too, which takes virtual machines longer than a write.
   */
  write(): void {
    const piece = new Uint8Array(PIECE_BYTES).fill(1);
    using file = Deno.openSync(this.path, { write: true, createNew: true });
    for (let at = 0; at < this.bytes; at += piece.length) file.writeSync(piece);
    file.syncSync();
  }

  /** Reads the file into new memory, by one thread, and removes it. */
  read(): void {
    using file = Deno.openSync(this.path);
    const memory = new Uint8Array(new SharedArrayBuffer(this.bytes));
    for (let at = 0; at < this.bytes;) {
      at += file.readSync(memory.subarray(at, at + PIECE_BYTES)) ?? this.bytes;
    }
    Deno.removeSync(this.path);
  }
}
