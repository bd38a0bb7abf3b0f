import type { Client } from "../support/servers/server_process.ts";
import { pause } from "./base/measure.ts";

/** Reads the hot row of a slow database. */
type Load = () => Promise<number>;

/** The result of one read. */
export interface ReadResult {
  readonly version: number;
  /** The server marked the value as stale: another client is fetching a fresh one. */
  readonly markedStale: boolean;
}

/** A client's protocol for a cache in front of a database. */
export interface Way {
  readonly name: string;
  /** From the cache, or from the database and then into the cache for `ttlSec`. */
  read(client: Client, load: Load, ttlSec: number): Promise<ReadResult>;
  /** After a commit. */
  invalidate(client: Client, load: Load, ttlSec: number): Promise<void>;
}

const KEY = "hot";
/** Lease time in seconds: only the holder fetches the row. */
const LEASE_SEC = 5;
/** The client flag that marks a lease (option `-z`, hexadecimal). */
export const LEASE_FLAG = "3333";
const LEASE_FLAG_TEXT = String(parseInt(LEASE_FLAG, 16));
const BACK_OFF_MS = 10;
const BACK_OFF_MS_MAX = 80;
/** A client that has waited this long reads the database and does not fill the cache. */
const PATIENCE_MS = 3000;

// The end of replies.
const LINE = /\r\n/;
const VALUES = /(?:^|\r\n)END\r\n/;
const META = /^(?:(?:EN|HD[^\r]*)\r\n|VA[^\r]*\r\n\d*\r\n)/;

async function ask(client: Client, request: string, end: RegExp): Promise<string> {
  await client.send(request);
  return await client.until(end);
}

/** Asks again and again while somebody else fetches the row; `undefined` when patience is over. */
async function withPatience<T>(attempt: () => Promise<T | undefined>): Promise<T | undefined> {
  const endMs = performance.now() + PATIENCE_MS;
  for (let waitMs = BACK_OFF_MS; performance.now() < endMs; waitMs *= 2) {
    const result = await attempt();
    if (result !== undefined) return result;
    await pause(Math.min(waitMs, BACK_OFF_MS_MAX));
  }
  return undefined;
}

const fresh = (version: number): ReadResult => ({ version, markedStale: false });

/** Look, load, set; delete after the commit. */
export const LOOK_ASIDE: Way = {
  name: "`get`, `set`, `delete`",
  async read(client, load, ttlSec): Promise<ReadResult> {
    const reply = await ask(client, `get ${KEY}\r\n`, VALUES);
    const hit = /^VALUE \S+ \d+ \d+\r\n(\d+)/.exec(reply);
    if (hit !== null) return fresh(Number(hit[1]));
    const version = await load();
    const value = String(version);
    await ask(client, `set ${KEY} 0 ${ttlSec} ${value.length}\r\n${value}\r\n`, LINE);
    return fresh(version);
  },
  async invalidate(client): Promise<void> {
    await ask(client, `delete ${KEY}\r\n`, LINE);
  },
};

/** memcached's meta commands: a client that gets W fetches; the others wait or use the stale value. */
export const META_LEASES: Way = {
  name: "`mg N`, `ms C`, `md I`",
  async read(client, load, ttlSec): Promise<ReadResult> {
    const result = await withPatience(async () => {
      const reply = await ask(client, `mg ${KEY} v c N${LEASE_SEC}\r\n`, META);
      const [, flags, value] = /^VA \d+([^\r]*)\r\n(\d*)/.exec(reply)!;
      if (flags!.includes(" W")) {
        const version = await load();
        const text = String(version);
        const id = /c(\d+)/.exec(flags!)![1];
        await ask(client, `ms ${KEY} ${text.length} C${id} T${ttlSec}\r\n${text}\r\n`, LINE);
        return fresh(version);
      }
      if (value === "") return undefined;
      return { version: Number(value), markedStale: flags!.includes(" X") };
    });
    return result ?? fresh(await load());
  },
  async invalidate(client): Promise<void> {
    await ask(client, `md ${KEY} I T${LEASE_SEC}\r\n`, LINE);
  },
};

async function readUnderLease(
  client: Client,
  load: Load,
  ttlSec: number,
): Promise<ReadResult> {
  const result = await withPatience(async () => {
    const reply = await ask(client, `getss ${LEASE_SEC} ${KEY}\r\n`, VALUES);
    const [, flags, id, value] = /^VALUE \S+ (\d+) \d+ (\d+)\r\n(\d+)/.exec(reply)!;
    if (flags !== LEASE_FLAG_TEXT) return fresh(Number(value));
    if (value !== "0") return undefined;
    return fresh(await fill(client, load, ttlSec, id!));
  });
  return result ?? fresh(await load());
}

async function fill(
  client: Client,
  load: Load,
  ttlSec: number,
  id: string,
): Promise<number> {
  const version = await load();
  const value = String(version);
  await ask(client, `cas ${KEY} 0 ${ttlSec} ${value.length} ${id}\r\n${value}\r\n`, LINE);
  return version;
}

/** The rules of leases, to the letter. */
export const LEASES: Way = {
  name: "`getss`, `cas`, `deletess 1`",
  read: readUnderLease,
  async invalidate(client): Promise<void> {
    await ask(client, `deletess 1 ${KEY}\r\n`, LINE);
  },
};

/** Like `LEASES`, but the writer reads the row again and fills the key under its own deletess's lease. */
export const WARM_LEASES: Way = {
  name: "`getss`, `cas`; the writer: `deletess`, a fresh read, `cas`",
  read: readUnderLease,
  async invalidate(client, load, ttlSec): Promise<void> {
    const reply = await ask(client, `deletess ${LEASE_SEC} ${KEY}\r\n`, LINE);
    await fill(client, load, ttlSec, / (\d+)/.exec(reply)![1]!);
  },
};

/** The version that is in the cache and passes for fresh; undefined: none does. */
export async function cachedVersion(client: Client): Promise<number | undefined> {
  const reply = await ask(client, `mg ${KEY} v\r\n`, META);
  const [, flags, value] = /^VA \d+([^\r]*)\r\n(\d+)/.exec(reply) ?? [];
  return value === undefined || flags!.includes(" X") ? undefined : Number(value);
}
