/**
 * A thundering herd: many clients want one row of a slow database through a cache. First the cached
 * value only expires, then the row is updated as well. Counts reads of the database, and clients that see an old value.
 */
import { randomFrom } from "../support/random.ts";
import { Client } from "../support/servers/server_process.ts";
import { Comparison, type Figures, pause, typical } from "./base/measure.ts";
import { readOptions } from "../support/options.ts";
import { type BenchServer, connectWhenOpen, DEBIAN_MEMCACHED, Servers } from "./base/servers.ts";
import {
  cachedVersion,
  LEASE_FLAG,
  LEASES,
  LOOK_ASIDE,
  META_LEASES,
  WARM_LEASES,
  type Way,
} from "./herd_ways.ts";

// In milliseconds.
const LOAD_MS = 50;
const LOAD_SPREAD_MS = 50;
const COMMIT_MS = 10;
/** Between two reads of a client. */
const THINK_MS = 20;
/** Between two pairs of updates; longer than deletess keeps the key free. */
const UPDATE_EVERY_MS = 2500;
/** Between the two of a pair. */
const SECOND_UPDATE_MS = 30;
/** While values only expire, and while they are updated: what is stale then stays so until the next update. */
const EXPIRING_TTL_SEC = 1;
const UPDATED_TTL_SEC = 60;

export interface HerdOptions {
  readonly clients: number;
  /** Seconds of each phase: values that only expire, then values that are updated. */
  readonly seconds: number;
  readonly updateEveryMs: number;
}

/**
 * - `stale`: reads of values older than what was committed and invalidated before the read began;
 * - `marked`: those of them that were marked so;
 * - `left`: times that an old value was in the cache long after an update was complete.
 */
type HerdFigures = Figures<
  "expiryLoads" | "updateLoads" | "reads" | "updates" | "stale" | "marked" | "left" | "longestMs"
>;

/** Lets the herd loose on one server. */
export async function runHerd(
  connect: () => Promise<Client>,
  way: Way,
  { clients, seconds, updateEveryMs }: HerdOptions,
): Promise<HerdFigures> {
  using stack = new DisposableStack();
  const herd = new Herd(way, stack.use(await connect()));
  const readers: Client[] = [];
  while (readers.length < clients) readers.push(stack.use(await connect()));
  await herd.start();
  const reading = readers.map((client) => herd.readOn(client));
  await pause(seconds * 1000);
  const expiryLoads = herd.loads / herd.expiries;
  const updateLoads = await herd.update(seconds, updateEveryMs);
  herd.isOver = true;
  await Promise.all(reading);
  const { reads, updates, stale, marked, left, longestMs } = herd;
  return { expiryLoads, updateLoads, reads, updates, stale, marked, left, longestMs };
}

class Herd {
  reads = 0;
  /** The first load after each time the value was in the cache. */
  expiries = 0;
  loads = 0;
  updates = 0;
  stale = 0;
  marked = 0;
  left = 0;
  longestMs = 0;
  isOver = false;
  readonly #random = randomFrom(1);
  #ttlSec = EXPIRING_TTL_SEC;
  /** The row of the database. */
  #version = 1;
  /** The last version whose update is complete. */
  #completed = 1;
  #wasThere = true;

  constructor(readonly way: Way, readonly writer: Client) {}

  /** The first load of all, which is not counted. */
  async start(): Promise<void> {
    await this.way.read(this.writer, this.#load, this.#ttlSec);
    this.loads = 0;
  }

  async readOn(client: Client): Promise<void> {
    while (!this.isOver) {
      const completed = this.#completed;
      const startMs = performance.now();
      let hasLoaded = false;
      const load = (): Promise<number> => {
        hasLoaded = true;
        if (this.#wasThere) this.expiries++;
        this.#wasThere = false;
        return this.#load();
      };
      const { version, markedStale } = await this.way.read(client, load, this.#ttlSec);
      if (!hasLoaded) this.#wasThere = true;
      this.reads++;
      this.longestMs = Math.max(this.longestMs, performance.now() - startMs);
      if (version < completed) {
        this.stale++;
        if (markedStale) this.marked++;
      }
      await pause(THINK_MS * (0.5 + this.#random()));
    }
  }

  /** Updates the row, twice each time. Returns the loads of an update. */
  async update(seconds: number, everyMs: number): Promise<number> {
    this.#ttlSec = UPDATED_TTL_SEC;
    await this.#updateOnce();
    await pause(everyMs);
    this.updates = 0;
    const { loads } = this;
    const endMs = performance.now() + seconds * 1000;
    while (performance.now() < endMs) {
      await this.#updateOnce();
      await pause(SECOND_UPDATE_MS);
      await this.#updateOnce();
      await pause(everyMs * (0.8 + 0.4 * this.#random()));
      const cached = await cachedVersion(this.writer);
      if (cached !== undefined && cached < this.#completed) this.left++;
    }
    return (this.loads - loads) / this.updates;
  }

  #load = async (): Promise<number> => {
    this.loads++;
    const version = this.#version;
    await pause(LOAD_MS + LOAD_SPREAD_MS * this.#random());
    return version;
  };

  async #updateOnce(): Promise<void> {
    await pause(COMMIT_MS / 2);
    const version = ++this.#version;
    await pause(COMMIT_MS / 2);
    await this.way.invalidate(this.writer, this.#load, this.#ttlSec);
    this.#completed = version;
    this.updates++;
  }
}

export async function main(args: readonly string[]): Promise<void> {
  const given = readOptions(args, { clients: 200, seconds: 10, memcached: [DEBIAN_MEMCACHED] });
  const options = { ...given, updateEveryMs: UPDATE_EVERY_MS };
  await using servers = new Servers(2);
  const table = new Comparison("server: commands", {
    "loads per expiry": typical("expiryLoads", 1),
    "loads per update": typical("updateLoads", 1),
    reads: typical("reads"),
    "stale reads": typical("stale"),
    "of them marked": typical("marked"),
    "stale values left": typical("left"),
    "longest read, ms": typical("longestMs"),
  });
  const run = async (server: BenchServer, way: Way): Promise<void> => {
    const connect = async (): Promise<Client> => new Client(await connectWhenOpen(server.port));
    const measure = (): Promise<HerdFigures> => runHerd(connect, way, options);
    await table.add([{ name: `${server.name.split(" --")[0]}: ${way.name}`, measure }], 1);
  };
  for (const path of given.memcached) {
    for (const way of [LOOK_ASIDE, META_LEASES]) await run(await servers.memcached(path), way);
  }
  for (const way of [LOOK_ASIDE, META_LEASES, LEASES, WARM_LEASES]) {
    await run(await servers.leased("native", ["-z", LEASE_FLAG]), way);
  }
}
