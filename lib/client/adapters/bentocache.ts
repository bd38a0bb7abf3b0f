import { checkText, membersOf } from "../checks.ts";
import { type AdapterOptions, PrefixedValues } from "./prefixed_values.ts";

/** Options of the driver. */
export interface BentoDriverOptions extends AdapterOptions {
  /** As a client has them. */
  readonly servers: string | readonly string[];
  /** Stands before all keys; set by BentoCache. */
  readonly prefix?: string;
}

/** The argument of BentoCache's `useL2Layer`. */
export interface BentoDriverResult {
  readonly options: BentoDriverOptions;
  factory(config: BentoDriverOptions): BentoDriver;
}

/**
 * A second layer for BentoCache: `bentostore().useL2Layer(bentoDriver({ servers: "127.0.0.1:11211" }))`.
 *
 * @example
 * ```ts
 * const driver = bentoDriver({ servers: "127.0.0.1:11211" }).factory({ servers: "127.0.0.1:11211", prefix: "shop" });
 * await driver.set("k", "v", 60_000); // true
 * await driver.get("k"); // "v"
 * await driver.disconnect();
 * ```
 */
export function bentoDriver(options: BentoDriverOptions): BentoDriverResult {
  return { options, factory: (config) => new BentoDriver({ ...options, ...config }) };
}

/**
 * A driver of BentoCache. All methods throw RequestError.
 *
 * @example
 * ```ts
 * const driver = new BentoDriver({ servers: "127.0.0.1:11211", prefix: "shop" });
 * await driver.set("l", "w"); // true
 * await driver.pull("l"); // "w"
 * await driver.disconnect();
 * ```
 */
export class BentoDriver {
  readonly type = "l2";
  readonly #values: PrefixedValues;
  readonly #prefix: string;

  constructor({ servers, prefix = "", ...options }: BentoDriverOptions, values?: PrefixedValues) {
    this.#values = values ?? new PrefixedValues(servers, options);
    this.#prefix = prefix.replace(/:+$/, "");
  }

  /** A driver with further parts in its prefix, over the same connections. */
  namespace(name: string): BentoDriver {
    return new BentoDriver({ servers: [], prefix: this.#key(name) }, this.#values);
  }

  async get(key: string): Promise<string | undefined> {
    return await this.#values.get(this.#key(key));
  }

  /** Reads a value and removes it. */
  async pull(key: string): Promise<string | undefined> {
    const value = await this.get(key);
    if (value !== undefined) await this.delete(key);
    return value;
  }

  /** @param ttlMs Milliseconds, rounded up to seconds. */
  async set(key: string, value: string, ttlMs?: number): Promise<boolean> {
    return await this.#values.set(this.#key(key), value, ttlMs);
  }

  /** @returns Whether there was a value. */
  async delete(key: string): Promise<boolean> {
    return await this.#values.delete(this.#key(key));
  }

  async deleteMany(keys: readonly string[]): Promise<boolean> {
    await this.#values.deleteMany(membersOf("keys", keys).map((key) => this.#key(key)));
    return true;
  }

  /** Removes all values of this driver, and of its namespaces. */
  clear(): Promise<void> {
    return this.#values.clear(this.#prefix);
  }

  /** Ends all connections. */
  disconnect(): Promise<void> {
    return this.#values.close();
  }

  #key(key: string): string {
    checkText("key", key);
    return this.#prefix === "" ? key : `${this.#prefix}:${key}`;
  }
}
