import { createHash, randomBytes } from "node:crypto";
import { Client } from "../client.ts";
import type { ClientOptions } from "../commands.ts";
import { textCodec } from "../codecs.ts";

/** Options of an adapter: those of a client whose values are texts. */
export type AdapterOptions = Omit<ClientOptions<string>, "codec">;

/** Prefixes of a key that are looked at, with the empty one. */
const PREFIXES_MAX = 8;
const VERSION_BYTES = 9;
/** Longer keys, and those with other characters, are stored under their hash. */
const PLAIN_KEY = /^[\x21-\x7e]{1,200}$/;
const MS_PER_SEC = 1000;

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
    const prefixes = new Set(keys.flatMap(prefixesOf));
    const items = await this.#client.getMany([
      ...new Set(keys.map(itemKey)),
      ...[...prefixes].map(versionKey),
    ]);
    const values = new Map<string, string>();
    for (const key of keys) {
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
   * @throws RangeError when it is too long; RequestError
   */
  async set(key: string, value: string, ttlMs = 0): Promise<boolean> {
    const versions = await Promise.all(prefixesOf(key).map((prefix) => this.#versionOf(prefix)));
    const ttlSec = Math.ceil(ttlMs / MS_PER_SEC);
    return await this.#client.set(itemKey(key), `${versions.join(" ")}\n${value}`, { ttlSec });
  }

  /** Removes a value. @returns Whether there was one. @throws RequestError */
  async delete(key: string): Promise<boolean> {
    const wasThere = await this.get(key) !== undefined;
    return await this.#client.delete(itemKey(key)) && wasThere;
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

  /** Reads the version of a prefix, or makes one. */
  async #versionOf(prefix: string): Promise<string> {
    const key = versionKey(prefix);
    for (;;) {
      const found = await this.#client.get(key);
      if (found !== undefined) return found;
      const version = randomBytes(VERSION_BYTES).toString("base64url");
      // Another client may have made one meanwhile.
      if (await this.#client.add(key, version)) return version;
    }
  }
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

function itemKey(key: string): string {
  return PLAIN_KEY.test(key) ? `=${key}` : `#${createHash("sha256").update(key).digest("hex")}`;
}

function versionKey(prefix: string): string {
  return `@${itemKey(prefix)}`;
}
