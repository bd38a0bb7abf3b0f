/**
 * A thundering herd: many clients want one row of a slow database through a cache. First the cached
 * value only expires, then the row is updated as well. How often is the database read, and who gets
 * to see what is out of date?
 */
import { startLeased } from "../support/servers/leased.ts";
import { MEMCACHEDS, startMemcached } from "../support/servers/memcached.ts";
import { randomFrom } from "../support/random.ts";
import { TRANSPORTS } from "../support/servers/server_process.ts";
import type { SocketSide } from "../support/sessions/socket_side.ts";
import {
  cachedVersion,
  Client,
  type Database,
  LEASE_FLAG,
  LEASES,
  LOOK_ASIDE,
  META_LEASES,
  sleep,
  WARM_LEASES,
  type Way,
} from "./herd_ways.ts";
import { readOptions } from "./options.ts";
import { Table } from "./table.ts";

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

class HerdResult {
  reads = 0;
  /** The first load after each time the value was in the cache. */
  expiries = 0;
  loadsOfExpiries = 0;
  updates = 0;
  loadsOfUpdates = 0;
  /**
   * Values older than what was committed and invalidated before the read began; and those of them
   * that were marked so.
   */
  staleReads = 0;
  markedReads = 0;
  /** Times that an old value was in the cache long after an update was complete. */
  staleLeft = 0;
  longestReadMs = 0;
}

class SlowDatabase implements Database {
  version = 1;
  loads = 0;

  constructor(readonly random: () => number) {}

  async load(): Promise<number> {
    this.loads++;
    const { version } = this;
    await sleep(LOAD_MS + LOAD_SPREAD_MS * this.random());
    return version;
  }

  async update(): Promise<number> {
    await sleep(COMMIT_MS / 2);
    const version = ++this.version;
    await sleep(COMMIT_MS / 2);
    return version;
  }
}

/** Lets the herd loose on one server. */
export async function runHerd(
  server: SocketSide,
  way: Way,
  options: HerdOptions,
): Promise<HerdResult> {
  const herd = new Herd(way, new SlowDatabase(randomFrom(1)));
  const { database, result } = herd;
  const clients: Client[] = [];
  for (let index = 0; index < options.clients; index++) {
    clients.push(new Client(await server.open()));
  }
  const writer = new Client(await server.open());
  // The first load of all is not counted.
  await way.read(writer, database, herd.ttlSec);
  database.loads = 0;
  const reading = clients.map((client) => herd.readOn(client));
  await sleep(options.seconds * 1000);
  result.loadsOfExpiries = database.loads;
  const { expiries } = result;
  await herd.update(writer, options);
  herd.isOver = true;
  await Promise.all(reading);
  for (const client of [...clients, writer]) client.disconnect();
  return { ...result, expiries };
}

class Herd {
  readonly result = new HerdResult();
  isOver = false;
  ttlSec = EXPIRING_TTL_SEC;
  /** The last version whose update is complete. */
  #completed = 1;
  #wasThere = true;

  constructor(readonly way: Way, readonly database: SlowDatabase) {}

  async readOn(client: Client): Promise<void> {
    const { database, result } = this;
    while (!this.isOver) {
      const completed = this.#completed;
      const startMs = performance.now();
      let hasLoaded = false;
      const { version, markedStale } = await this.way.read(client, {
        load: () => {
          hasLoaded = true;
          if (this.#wasThere) result.expiries++;
          this.#wasThere = false;
          return database.load();
        },
      }, this.ttlSec);
      if (!hasLoaded) this.#wasThere = true;
      result.reads++;
      result.longestReadMs = Math.max(result.longestReadMs, performance.now() - startMs);
      if (version < completed) {
        result.staleReads++;
        if (markedStale) result.markedReads++;
      }
      await sleep(THINK_MS * (0.5 + database.random()));
    }
  }

  async update(writer: Client, { seconds, updateEveryMs }: HerdOptions): Promise<void> {
    const { database, result } = this;
    this.ttlSec = UPDATED_TTL_SEC;
    await this.#updateOnce(writer);
    await sleep(updateEveryMs);
    result.updates = 0;
    const { loads } = database;
    const endMs = performance.now() + seconds * 1000;
    while (performance.now() < endMs) {
      await this.#updateOnce(writer);
      await sleep(SECOND_UPDATE_MS);
      await this.#updateOnce(writer);
      await sleep(updateEveryMs * (0.8 + 0.4 * database.random()));
      const cached = await cachedVersion(writer);
      if (cached !== undefined && cached < this.#completed) result.staleLeft++;
    }
    result.loadsOfUpdates = database.loads - loads;
  }

  async #updateOnce(writer: Client): Promise<void> {
    const version = await this.database.update();
    await this.way.invalidate(writer, this.database, this.ttlSec);
    this.#completed = version;
    this.result.updates++;
  }
}

export async function main(args: readonly string[]): Promise<void> {
  const given = readOptions(args, { clients: 200, seconds: 10 });
  const herd = { ...given, updateEveryMs: UPDATE_EVERY_MS };
  const stale = ["stale reads", "of them marked", "stale values left"];
  const loads = ["loads per expiry", "loads per update"];
  const table = new Table("server: commands", ...loads, "reads", ...stale, "longest read, ms");
  const memcached = MEMCACHEDS.at(-1);
  const runs: [start: () => Promise<SocketSide>, way: Way][] = [LOOK_ASIDE, META_LEASES]
    .flatMap((way) => memcached === undefined ? [] : [[() => startMemcached(memcached), way]]);
  for (const way of [LOOK_ASIDE, META_LEASES, LEASES, WARM_LEASES]) {
    runs.push([() => startLeased(TRANSPORTS.at(-1)!, ["-z", LEASE_FLAG]), way]);
  }
  for (const [start, way] of runs) {
    await using server = await start();
    const result = await runHerd(server, way, herd);
    table.row(
      `${server.name}: ${way.name}`,
      (result.loadsOfExpiries / result.expiries).toFixed(1),
      (result.loadsOfUpdates / result.updates).toFixed(1),
      ...[result.reads, result.staleReads, result.markedReads, result.staleLeft].map(String),
      result.longestReadMs.toFixed(0),
    );
  }
}
