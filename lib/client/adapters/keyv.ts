import { EventEmitter } from "node:events";
import { membersOf } from "../checks.ts";
import { type AdapterOptions, PrefixedValues } from "./prefixed_values.ts";

/**
 * A store for Keyv: `new Keyv({ store: new KeyvStore("127.0.0.1:11211"), namespace: "shop" })`. `clear` concerns the
 * namespace of the Keyv; without one, the keys of all. It cannot list keys, so Keyv has no `iterator`.
 *
 * @example
 * ```ts
 * const store = new KeyvStore("127.0.0.1:11211");
 * await store.set("k", "v", 60_000); // true
 * await store.get("k"); // "v"
 * await store.disconnect();
 * ```
 */
export class KeyvStore {
  readonly opts: { readonly servers: string | readonly string[] } & AdapterOptions;
  /** Set by Keyv. */
  namespace: string | undefined;
  readonly #values: PrefixedValues;
  readonly #events = new EventEmitter();

  /** @param servers As a client has them. */
  constructor(servers: string | readonly string[], options: AdapterOptions = {}) {
    this.opts = { servers, ...options };
    this.#values = new PrefixedValues(servers, options);
  }

  /** As Keyv asks for it. The store has no events of its own: each call throws its error. */
  on(event: string, listener: (...args: unknown[]) => void): this {
    this.#events.on(event, listener);
    return this;
  }

  /** @throws RequestError */
  get(key: string): Promise<string | undefined> {
    return this.#values.get(key);
  }

  /** @returns The values in the order of the keys. @throws RequestError */
  async getMany(keys: readonly string[]): Promise<(string | undefined)[]> {
    const asked = membersOf("keys", keys);
    const found = await this.#values.getMany(asked);
    return asked.map((key) => found.get(key));
  }

  /** @param ttlMs Milliseconds, rounded up to seconds. @throws RangeError, RequestError */
  set(key: string, value: string, ttlMs?: number): Promise<boolean> {
    return this.#values.set(key, value, ttlMs);
  }

  /** @returns Whether there was a value. @throws RequestError */
  delete(key: string): Promise<boolean> {
    return this.#values.delete(key);
  }

  /** @returns Whether there was any of the values. @throws RequestError */
  deleteMany(keys: readonly string[]): Promise<boolean> {
    return this.#values.deleteMany(keys);
  }

  /** @throws RequestError */
  async has(key: string): Promise<boolean> {
    return await this.get(key) !== undefined;
  }

  /** @throws RequestError */
  clear(): Promise<void> {
    return this.#values.clear(this.namespace ?? "");
  }

  /** Ends all connections. */
  disconnect(): Promise<void> {
    return this.#values.close();
  }
}
