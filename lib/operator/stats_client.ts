import type { Address, DialOptions, UnixAddress } from "../peers/dial.ts";
import { Peer } from "../peers/peer.ts";

/** The values of a table of statistics, by name. Both may have any characters below 256. */
export type Table = ReadonlyMap<string, string>;

/** Characters of a table that are read at most: those of 60,000 connections. */
const TABLE_LENGTH_MAX = 16 * 2 ** 20;
/** Ends the error of a server that answers only clients that have logged in. */
export const NEEDS_LOGIN = "asks for a password: add --login";
/** The longest time of a whole table, as a multiple of the time that the server may be silent. */
const TABLE_TIMEOUTS = 5;

/** A connection to a server, memcached included, that asks for its statistics. */
export class StatsClient {
  readonly #peer: Peer;

  private constructor(peer: Peer) {
    this.#peer = peer;
  }

  /** @throws PeerError */
  static async connect(
    address: Address | UnixAddress,
    options: DialOptions,
  ): Promise<StatsClient> {
    return new StatsClient(await Peer.connect(address, options));
  }

  /**
   * Returns a table, or null if the server does not have it.
   *
   * @param name "": the table of `stats` alone.
   * @throws PeerError
   */
  async table(name = ""): Promise<Table | null> {
    const lines = await this.lines(`stats ${name}`.trimEnd());
    if (lines === null) return null;
    const table = new Map<string, string>();
    for (const line of lines) {
      const [, stat, value] = /^STAT (\S+) ?(.*)$/.exec(line) ?? [];
      if (stat !== undefined) table.set(stat, value!);
    }
    return table;
  }

  /**
   * Returns the lines of a reply before `END`, or null if the reply is an error.
   *
   * @throws PeerError
   */
  async lines(request: string): Promise<string[] | null> {
    const limitMs = TABLE_TIMEOUTS * this.#peer.timeoutMs;
    const read = (): Promise<string[] | null> => this.#read(request);
    return await this.#peer.exchange(request, `${request}\r\n`, read, limitMs);
  }

  async #read(request: string): Promise<string[] | null> {
    const lines: string[] = [];
    for (let left = TABLE_LENGTH_MAX; left > 0;) {
      const line = await this.#peer.line();
      if (line === "END") return lines;
      if (/^(?:\w+_)?ERROR/.test(line)) {
        if (/unauth/i.test(line)) throw this.#peer.error(NEEDS_LOGIN);
        return null;
      }
      left -= line.length + 1;
      lines.push(line);
    }
    throw this.#peer.error(`answers ${request} with more than ${TABLE_LENGTH_MAX} bytes`);
  }

  close(): void {
    this.#peer.close();
  }
}

/** Returns a value of a table as a number; NaN: it has none. */
export function numberOf(table: Table | null, name: string): number {
  const text = table?.get(name) ?? "";
  return /^-?\d+(?:\.\d+)?$/.test(text) ? Number(text) : NaN;
}

/** Returns the groups of a table whose names are `group:stat`, like `stats threads`. */
export function groupsOf(table: Table | null, prefix = ""): Map<string, Map<string, string>> {
  const groups = new Map<string, Map<string, string>>();
  for (const [name, value] of table ?? []) {
    if (!name.startsWith(prefix)) continue;
    const colon = name.lastIndexOf(":");
    const group = name.slice(prefix.length, colon);
    if (colon < prefix.length) continue;
    let members = groups.get(group);
    if (members === undefined) groups.set(group, members = new Map());
    members.set(name.slice(colon + 1), value);
  }
  return groups;
}
