import type { DialOptions } from "../../peers/dial.ts";
import { type Address, Peer, type ValueDigest } from "../../peers/peer.ts";

/** An item of a cache. */
export interface Cached extends ValueDigest {
  /** Its cas id: another one, if it was stored again. */
  readonly id: string;
}

/** A key as a cache lists it. */
export interface ListedKey {
  /** Null: the key has bytes that the text protocol cannot carry, and so is no row's. */
  readonly key: string | null;
}

/** Matches the keys that the origin's text protocol takes. */
const TEXT_KEY = /^[^\0-\x20\x7f]{1,250}$/;
/** The most keys of a list for each item of the cache. */
const KEYS_PER_ITEM = 2;
/** The most keys of a list beside those: the cache changes during the listing. */
const KEYS_MORE = 1000;
/** Lines of `stats` that are read at most. */
const STAT_LINES_MAX = 1000;

/** One cache, as the audit sees it: its list of keys on one connection, its items on another. */
export class CacheView {
  readonly #list: Peer;
  readonly #items: Peer;

  private constructor(list: Peer, items: Peer) {
    this.#list = list;
    this.#items = items;
  }

  /** @throws PeerError */
  static async connect(
    address: Address,
    options: DialOptions,
  ): Promise<CacheView> {
    const list = await Peer.connect(address, options);
    try {
      return new CacheView(list, await Peer.connect(address, options));
    } catch (error) {
      list.close();
      throw error;
    }
  }

  /** Returns the number of items, as the cache's statistics have it; 0 if they do not. @throws PeerError */
  async count(): Promise<number> {
    await this.#items.send("stats\r\n");
    let count = 0;
    for (let lines = 0; lines < STAT_LINES_MAX; lines++) {
      const line = await this.#items.line();
      if (line === "END") return count;
      const [, digits] = /^STAT curr_items (\d{1,15})$/.exec(line) ?? [];
      if (digits !== undefined) count = Number(digits);
      else if (!line.startsWith("STAT ")) throw this.#items.unexpected("stats", line);
    }
    throw this.#items.error(`sends more than ${STAT_LINES_MAX} statistics`);
  }

  /**
   * Yields the cache's keys. One that is there all the time is yielded once. The cache waits while the caller works:
   * the list is never in memory as a whole. A list that has far more keys than the cache has items is given up.
   *
   * @throws PeerError
   */
  async *keys(): AsyncGenerator<ListedKey> {
    const request = "lru_crawler mgdump hash";
    await this.#list.send(`${request}\r\n`);
    let keysMax = KEYS_MORE;
    let keys = 0;
    for (let isFirst = true;; isFirst = false) {
      const line = await this.#list.line();
      if (isFirst && line === "OK") continue;
      if (line === "EN") return;
      const [, word, isBase64] = /^mg ([^ ]+)( b)?$/.exec(line) ?? [];
      if (word === undefined) throw this.#list.unexpected(request, line);
      if (++keys > keysMax) keysMax = await this.#keysMax(keys);
      const key = isBase64 === undefined ? word : fromBase64(word);
      yield { key: TEXT_KEY.test(key) ? key : null };
    }
  }

  /** Returns the most keys that the list may have. @throws PeerError when it has more already. */
  async #keysMax(keys: number): Promise<number> {
    const items = await this.count();
    const keysMax = KEYS_PER_ITEM * items + KEYS_MORE;
    if (keys <= keysMax) return keysMax;
    throw this.#list.error(`lists ${keys} keys and more, but has only ${items} items (curr_items)`);
  }

  /**
   * Looks at items, without a trace in the cache's order of eviction.
   *
   * @returns In the order of the keys; null: not there.
   * @throws PeerError
   */
  async look(keys: readonly string[]): Promise<(Cached | null)[]> {
    await this.#items.send(keys.map((key) => `mg ${key} k f c v u\r\n`).join(""));
    const found: (Cached | null)[] = [];
    for (const key of keys) found.push(await this.#item(key));
    return found;
  }

  async #item(key: string): Promise<Cached | null> {
    const line = await this.#items.line();
    const [code, length, ...flags] = line.split(" ");
    if (code === "EN") return null;
    const flag = (letter: string): string | undefined =>
      flags.find((each) => each.startsWith(letter))?.slice(1);
    const word = flag("k") ?? "";
    // An item that a client has stored by its key in base64 has it so in replies.
    const shown = flags.includes("b") ? fromBase64(word) : word;
    const clientFlags = flag("f") ?? "";
    const id = flag("c") ?? "";
    if (
      code !== "VA" || shown !== key || !/^\d{1,10}$/.test(clientFlags) || !/^\d+$/.test(id)
    ) {
      throw this.#items.unexpected("mg", line);
    }
    return { ...await this.#items.value(Number(clientFlags), length), id };
  }

  close(): void {
    this.#list.close();
    this.#items.close();
  }
}

function fromBase64(word: string): string {
  try {
    return atob(word);
  } catch {
    return "";
  }
}
