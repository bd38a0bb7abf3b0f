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

export interface HerdResult {
  readonly reads: number;
  readonly expiries: number;
  readonly loadsOfExpiries: number;
  readonly updates: number;
  readonly loadsOfUpdates: number;
  /**
   * Values older than what was committed and invalidated before the read began; and those of them
   * that were marked so.
   */
  readonly staleReads: number;
  readonly markedReads: number;
  /** Times that an old value was in the cache long after an update was complete. */
  readonly staleLeft: number;
  readonly longestReadMs: number;
}

class SlowDatabase implements Database {
  version = 1;
  loads = 0;
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  async load(): Promise<number> {
    this.loads++;
    const { version } = this;
    await sleep(LOAD_MS + LOAD_SPREAD_MS * this.#random());
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
  const random = randomFrom(1);
  const database = new SlowDatabase(random);
  const clients: Client[] = [];
  for (let index = 0; index < options.clients + 1; index++) {
    clients.push(new Client(await server.open()));
  }
  const herd = new Herd(way, database, random);
  const writer = clients.pop()!;
  // The first load of all is not counted.
  await way.read(writer, database, herd.ttlSec);
  database.loads = 0;
  const reading = clients.map((client) => herd.readOn(client));
  await sleep(options.seconds * 1000);
  const loadsOfExpiries = database.loads;
  const { expiries } = herd;
  await herd.update(writer, options);
  herd.isOver = true;
  await Promise.all(reading);
  for (const client of [...clients, writer]) client.disconnect();
  return { ...herd.result(), expiries, loadsOfExpiries };
}

class Herd {
  /** Expiries: the first load after each time the value was in the cache. */
  expiries = 0;
  isOver = false;
  ttlSec = EXPIRING_TTL_SEC;
  readonly #way: Way;
  readonly #database: SlowDatabase;
  readonly #random: () => number;
  /** The last version whose update is complete. */
  #completed = 1;
  #wasThere = true;
  #reads = 0;
  #staleReads = 0;
  #markedReads = 0;
  #staleLeft = 0;
  #updates = 0;
  #loadsOfUpdates = 0;
  #longestReadMs = 0;

  constructor(way: Way, database: SlowDatabase, random: () => number) {
    this.#way = way;
    this.#database = database;
    this.#random = random;
  }

  async readOn(client: Client): Promise<void> {
    while (!this.isOver) {
      const completed = this.#completed;
      const startMs = performance.now();
      let hasLoaded = false;
      const result = await this.#way.read(client, {
        load: () => {
          hasLoaded = true;
          if (this.#wasThere) this.expiries++;
          this.#wasThere = false;
          return this.#database.load();
        },
      }, this.ttlSec);
      if (!hasLoaded) this.#wasThere = true;
      this.#reads++;
      this.#longestReadMs = Math.max(this.#longestReadMs, performance.now() - startMs);
      if (result.version < completed) {
        this.#staleReads++;
        if (result.markedStale) this.#markedReads++;
      }
      await sleep(THINK_MS * (0.5 + this.#random()));
    }
  }

  async update(writer: Client, { seconds, updateEveryMs }: HerdOptions): Promise<void> {
    this.ttlSec = UPDATED_TTL_SEC;
    await this.#updateOnce(writer);
    await sleep(updateEveryMs);
    this.#updates = 0;
    const { loads } = this.#database;
    const endMs = performance.now() + seconds * 1000;
    while (performance.now() < endMs) {
      await this.#updateOnce(writer);
      await sleep(SECOND_UPDATE_MS);
      await this.#updateOnce(writer);
      await sleep(updateEveryMs * (0.8 + 0.4 * this.#random()));
      const cached = await cachedVersion(writer);
      if (cached !== undefined && cached < this.#completed) this.#staleLeft++;
    }
    this.#loadsOfUpdates = this.#database.loads - loads;
  }

  async #updateOnce(writer: Client): Promise<void> {
    const version = await this.#database.update();
    await this.#way.invalidate(writer, this.#database, this.ttlSec);
    this.#completed = version;
    this.#updates++;
  }

  result(): Omit<HerdResult, "expiries" | "loadsOfExpiries"> {
    return {
      reads: this.#reads,
      updates: this.#updates,
      loadsOfUpdates: this.#loadsOfUpdates,
      staleReads: this.#staleReads,
      markedReads: this.#markedReads,
      staleLeft: this.#staleLeft,
      longestReadMs: this.#longestReadMs,
    };
  }
}

const HEADINGS = [
  "server",
  "commands",
  "loads per expiry",
  "loads per update",
  "stale reads",
  "stale values left",
  "longest read",
];

export async function main(args: readonly string[]): Promise<void> {
  const herd = {
    ...readOptions(args, { clients: 200, seconds: 10 }),
    updateEveryMs: UPDATE_EVERY_MS,
  };
  say(`| ${HEADINGS.join(" | ")} |`);
  say(`| --- | --- ${"| --: ".repeat(HEADINGS.length - 2)}|`);
  const memcached = MEMCACHEDS.at(-1);
  const runs: [start: () => Promise<SocketSide>, way: Way][] = [LOOK_ASIDE, META_LEASES]
    .flatMap((way) => memcached === undefined ? [] : [[() => startMemcached(memcached), way]]);
  for (const way of [LOOK_ASIDE, META_LEASES, LEASES, WARM_LEASES]) {
    runs.push([() => startLeased(TRANSPORTS.at(-1)!, ["-z", LEASE_FLAG]), way]);
  }
  for (const [start, way] of runs) {
    const server = await start();
    try {
      say(row(server.name, way, await runHerd(server, way, herd)));
    } finally {
      await server.close();
    }
  }
}

function row(server: string, way: Way, result: HerdResult): string {
  const marked = result.markedReads === 0 ? "" : `, ${result.markedReads} of them marked so`;
  return "| " + [
    server,
    way.name,
    (result.loadsOfExpiries / result.expiries).toFixed(1),
    (result.loadsOfUpdates / result.updates).toFixed(1),
    `${result.staleReads} of ${result.reads}${marked}`,
    result.staleLeft,
    `${Math.round(result.longestReadMs)} ms`,
  ].join(" | ") + " |";
}

function say(line: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(line + "\n"));
}
