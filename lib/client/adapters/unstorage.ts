import { type Duration, secOf, TTL_SEC_MAX } from "../durations.ts";
import { type AdapterOptions, PrefixedValues } from "./prefixed_values.ts";

const MS_PER_SEC = 1000;

/** Options of the driver. */
export interface UnstorageDriverOptions extends AdapterOptions {
  /** As a client has them. */
  readonly servers: string | readonly string[];
}

/** Options of a call. */
interface ItemOptions {
  /** Whole seconds; 0: for ever. Default: the driver's `ttlSec`. */
  readonly ttl?: number;
}

/** The methods of a driver that unstorage calls. */
export interface UnstorageDriver {
  readonly name: string;
  readonly options: UnstorageDriverOptions;
  hasItem(key: string): Promise<boolean>;
  /** @returns Null: there is none. */
  getItem(key: string): Promise<string | null>;
  getItems(
    items: readonly { readonly key: string }[],
  ): Promise<{ readonly key: string; readonly value: string | null }[]>;
  setItem(key: string, value: string, options?: ItemOptions): Promise<void>;
  removeItem(key: string): Promise<void>;
  /** @returns None: keys cannot be listed. */
  getKeys(): Promise<string[]>;
  /** Removes all items below a base, in one step. */
  clear(base?: string): Promise<void>;
  dispose(): Promise<void>;
}

/**
 * A driver for unstorage: `createStorage({ driver: unstorageDriver({ servers: "127.0.0.1:11211" }) })`. `clear` is one
 * step, whatever the number of keys; keys cannot be listed.
 *
 * @example
 * ```ts
 * const driver = unstorageDriver({ servers: "127.0.0.1:11211", ttlSec: "1h" });
 * await driver.setItem("page:1", "text");
 * await driver.getItem("page:1"); // "text"
 * await driver.dispose();
 * ```
 */
export function unstorageDriver(options: UnstorageDriverOptions): UnstorageDriver {
  const { servers, ttlSec = 0, ...others } = options;
  const values = new PrefixedValues(servers, others);
  const msOf = (ttl: Duration): number => secOf("ttl", ttl, 0, TTL_SEC_MAX) * MS_PER_SEC;
  msOf(ttlSec);
  return {
    name: "leased",
    options,
    hasItem: async (key) => await values.get(key) !== undefined,
    getItem: async (key) => await values.get(key) ?? null,
    getItems: async (items) => {
      const found = await values.getMany(items.map(({ key }) => key));
      return items.map(({ key }) => ({ key, value: found.get(key) ?? null }));
    },
    setItem: async (key, value, { ttl = ttlSec } = {}) => {
      if (await values.set(key, value, msOf(ttl))) return;
      throw new Error(`item ${key}: the server refuses to store it`);
    },
    removeItem: async (key) => void await values.delete(key),
    getKeys: () => Promise.resolve([]),
    clear: (base = "") => values.clear(base.replace(/:$/, "")),
    dispose: () => values.close(),
  };
}
