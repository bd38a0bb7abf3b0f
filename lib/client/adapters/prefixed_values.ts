import { createHash, randomBytes } from "node:crypto";
import { checkText, membersOf, shown } from "../checks.ts";
import { Client } from "../client.ts";
import type { ClientOptions } from "../command_options.ts";
import { textCodec } from "../values/codecs.ts";

/** Options of an adapter: those of a client whose values are texts. */
export type AdapterOptions = Omit<ClientOptions<string>, "codec">;

/** Prefixes of a key that are looked at, with the empty one. */
const PREFIXES_MAX = 8;
const VERSION_BYTES = 9;
/** An evicted version is made again, a refused one is refused again. */
const VERSION_TRIES = 5;
/** Longer keys, and those with other characters, are stored under their hash. */
const PLAIN_KEY = /^[\x21-\x7e]{1,200}$/;
const MS_PER_SEC = 1000;
const TTL_MS_MAX = 0x7fff_ffff * MS_PER_SEC;

/**
 * Texts under keys whose parts are divided by colons. All keys with a prefix can be cleared in one step, which the
 * protocol lacks: each prefix has an item with a random version, each value begins with the versions that it was stored
 * under, and a value of other versions is none. One round trip reads value and versions. An evicted version costs the
 * values, never shows a cleared one.
 */
export class PrefixedValues {
  readonly #client: Client<string>;

  constructor(servers: string | readonly string[], options: AdapterOptions = {}) {
    this.#client = new Client(servers, { ...options, codec: textCodec });
  }

  /** Reads values. Missing keys are left out. @throws RequestError */
  async getMany(keys: readonly string[]): Promise<Map<string, string>> {
    const asked = membersOf("keys", keys);
    const itemKeys = new Set(asked.map(itemKey));
    const prefixes = new Set(asked.flatMap(prefixesOf));
    const items = await this.#client.getMany([
      ...itemKeys,
      ...[...prefixes].map(versionKey),
    ]);
    const values = new Map<string, string>();
    for (const key of asked) {
      const item = items.get(itemKey(key));
      const versions = prefixesOf(key).map((prefix) => items.get(versionKey(prefix)));
      const head = `${versions.join(" ")}\n`;
      if (versions.includes(undefined) || !item?.startsWith(head)) continue;
      values.set(key, item.slice(head.length));
    }
    return values;
  }

  async get(key: string): Promise<string | undefined> {
    return (await this.getMany([key])).get(key);
  }

  /**
   * Stores a value.
   *
   * @param ttlMs How long it is kept, rounded up to seconds; 0: for ever.
   * @returns False: it is refused, because of a lock, an update token, or `--strict`.
   * @throws RangeError, TypeError: an argument is wrong, or the value too long; RequestError
   */
  async set(key: string, value: string, ttlMs = 0): Promise<boolean> {
    const item = itemKey(key);
    checkText("value", value);
    const ttlSec = secondsOf(ttlMs);
    const versions = await Promise.all(prefixesOf(key).map((prefix) => this.#versionOf(prefix)));
    if (versions.includes(undefined)) return false;
    return await this.#client.set(item, `${versions.join(" ")}\n${value}`, { ttlSec });
  }

  /** Removes a value. @returns Whether there was one. @throws RequestError */
  async delete(key: string): Promise<boolean> {
    const wasThere = await this.get(key) !== undefined;
    return await this.#client.delete(itemKey(key)) && wasThere;
  }

  /** Removes values. @returns Whether there was any of them. @throws RequestError */
  async deleteMany(keys: readonly string[]): Promise<boolean> {
    const asked = membersOf("keys", keys);
    // All are checked before the first one is removed.
    for (const key of asked) itemKey(key);
    const deleted = await Promise.all(asked.map((key) => this.delete(key)));
    return deleted.includes(true);
  }

  /**
   * Makes all values under a prefix none.
   *
   * @param prefix Without the last colon; the empty one stands for all keys.
   * @throws RangeError when it has more than 6 colons; RequestError
   */
  async clear(prefix: string): Promise<void> {
    if (!prefixesOf(`${prefix}:`).includes(prefix)) {
      throw new RangeError(`prefix ${prefix}: at most ${PREFIXES_MAX - 2} colons`);
    }
    await this.#client.delete(versionKey(prefix));
  }

  /** Ends all connections. */
  close(): Promise<void> {
    return this.#client.close();
  }

  /** Reads the version of a prefix, or makes one. @returns Undefined: the server refuses to store one. */
  async #versionOf(prefix: string): Promise<string | undefined> {
    const key = versionKey(prefix);
    for (let tries = 0; tries < VERSION_TRIES; tries++) {
      const found = await this.#client.get(key);
      if (found !== undefined) return found;
      const version = randomBytes(VERSION_BYTES).toString("base64url");
      // Another client may have made one meanwhile.
      if (await this.#client.add(key, version)) return version;
    }
  }
}

/** Returns the key of a value's item. @throws RangeError, TypeError: the key is no well-formed text. */
function itemKey(key: string): string {
  checkText("key", key);
  if (PLAIN_KEY.test(key)) return `=${key}`;
  // Two such keys would have one hash.
  if (!key.isWellFormed()) {
    throw new RangeError(`key ${shown(key)}: half a surrogate pair is not allowed`);
  }
  return `#${createHash("sha256").update(key).digest("hex")}`;
}

/** Returns the prefixes of a key, the empty one first. */
function prefixesOf(key: string): string[] {
  const prefixes = [""];
  for (
    let at = key.indexOf(":");
    at >= 0 && prefixes.length < PREFIXES_MAX;
    at = key.indexOf(":", at + 1)
  ) {
    prefixes.push(key.slice(0, at));
  }
  return prefixes;
}

/** Rounds up. @throws RangeError, TypeError: it is no time to live. */
function secondsOf(ttlMs: number): number {
  if (typeof ttlMs === "number" && ttlMs >= 0 && ttlMs <= TTL_MS_MAX) {
    return Math.ceil(ttlMs / MS_PER_SEC);
  }
  const Wrong = typeof ttlMs === "number" ? RangeError : TypeError;
  throw new Wrong(`ttlMs ${shown(ttlMs)}: expected a number from 0 to ${TTL_MS_MAX}`);
}

function versionKey(prefix: string): string {
  return `@${itemKey(prefix)}`;
}
