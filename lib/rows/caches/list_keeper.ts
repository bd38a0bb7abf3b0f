import { readRegularTextFile } from "../../process/file_kinds.ts";
import type { TransportEvent } from "../../net/transport.ts";
import { reasonOf } from "../../process/reason.ts";
import type { Backend } from "../../databases/base/backend.ts";
import { CacheList, type ListChange, type Weighted } from "../flows/cache_list.ts";
import type { CacheClient } from "./cache_client.ts";
import { type CacheAddress, cacheName, parseCachesFile } from "./caches_file.ts";

/** Makes changes of the list. */
export interface ListChanger {
  readonly isDeposed: boolean;
  /** `CacheList.change` */
  changeCaches(target: readonly Weighted<CacheClient>[]): Promise<ListChange>;
}

/** Pause before caches that could not be emptied are tried again. */
const RETRY_MS = 1000;

/** Reads a file of caches. @throws RangeError naming lines and allowed forms; the runtime's error. */
export function readCachesFile(path: string): CacheAddress[] {
  return parseCachesFile(readRegularTextFile(path), path);
}

/** Keeps the list of caches: connects to them, changes the list, and tries again those that could not be emptied. */
export class ListKeeper {
  readonly list: CacheList<CacheClient>;
  readonly #connect: (hostname: string, port: number) => CacheClient;
  readonly #report: (event: TransportEvent) => void;
  readonly #clients = new Map<string, CacheClient>();
  #target: readonly Weighted<CacheClient>[] = [];
  /** The change in progress. */
  #changing: Promise<void> = Promise.resolve();
  #retry: ReturnType<typeof setTimeout> | undefined;
  /** Events that were logged, by the name of their cache. */
  #logged: ReadonlyMap<string, string> = new Map();
  #isClosed = false;

  /**
   * @param connect Returns a cache, which connects when it is needed.
   * @param report Logs an event.
   */
  constructor(
    connect: (hostname: string, port: number) => CacheClient,
    report: (event: TransportEvent) => void,
  ) {
    this.#report = report;
    this.#connect = connect;
    this.list = new CacheList((name) => this.#clientOf(name));
  }

  /** Adopts the notes of the origin before. Call it after the takeover. @throws The database's error. */
  async adopt(backend: Backend, caches: readonly CacheAddress[]): Promise<void> {
    this.#target = this.#weighted(caches);
    this.list.adopt(await backend.readNotes(), this.#target);
  }

  /** Makes these caches the list, as far as they can be reached; the others are tried again. */
  async set(origin: ListChanger, caches: readonly CacheAddress[]): Promise<void> {
    this.#target = this.#weighted(caches);
    await this.#change(origin);
  }

  /** Calls `act` while no other change of the list is in progress. */
  async whileUnchanged<Result>(act: () => Promise<Result>): Promise<Result> {
    const acted = this.#changing.then(act);
    this.#changing = acted.then(() => {}, () => {});
    return await acted;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#retry);
    for (const client of this.#clients.values()) client.close();
  }

  #weighted(caches: readonly CacheAddress[]): Weighted<CacheClient>[] {
    return caches.map((address) => {
      const name = cacheName(address);
      return { name, weight: address.weight, cache: this.#clientOf(name, address) };
    });
  }

  #clientOf(name: string, address = addressOf(name)): CacheClient {
    let client = this.#clients.get(name);
    if (client === undefined) {
      client = this.#connect(address.hostname, address.port);
      this.#clients.set(name, client);
    }
    return client;
  }

  /** Queues a change. */
  #change(origin: ListChanger): Promise<void> {
    clearTimeout(this.#retry);
    return this.#changing = this.#changing.then(() => this.#changeNow(origin));
  }

  async #changeNow(origin: ListChanger): Promise<void> {
    if (this.#isClosed || origin.isDeposed) return;
    const before = this.list.epoch;
    try {
      const change = await origin.changeCaches(this.#target);
      if (change.kind === "changed") this.#logFailed(change.failed);
    } catch (error) {
      if (this.#isClosed) return;
      const reason = reasonOf(error);
      this.#report({
        level: "error",
        event: "caches_failed",
        message: `cannot note the list of caches: ${reason}`,
        fields: { reason },
      });
    }
    if (this.list.epoch !== before) this.#logList();
    this.#retireUnused();
    clearTimeout(this.#retry);
    if (this.#isClosed || !this.list.needsChange(this.#target)) return;
    this.#retry = setTimeout(() => this.#change(origin), RETRY_MS);
  }

  /** Logs once that a cache cannot join, or has left with its values. */
  #logFailed(failed: ReadonlyMap<string, string>): void {
    const logged = new Map<string, string>();
    for (const [name, reason] of failed) {
      const isTarget = this.#target.some((each) => each.name === name);
      const event = isTarget ? "cache_cannot_join" : "cache_left_with_values";
      const message = isTarget
        ? `cache ${name} cannot join yet, because it must be emptied first: ${reason}; retrying`
        : `cache ${name} has left and could not be emptied: ${reason}; no client may read it; retrying`;
      logged.set(name, event);
      if (this.#logged.get(name) === event) continue;
      this.#report({ level: "warning", event, message, fields: { cache: name, reason } });
    }
    this.#logged = logged;
  }

  #logList(): void {
    const { epoch } = this.list;
    const caches = [...this.list.members].map(({ name }) => name);
    this.#report({
      level: "info",
      event: "caches",
      message: `list of caches, epoch ${epoch}: ${caches.join(", ") || "none"}`,
      fields: { epoch, caches: caches.join(" ") },
    });
  }

  #retireUnused(): void {
    const used = new Set([
      ...this.#target.map(({ name }) => name),
      ...[...this.list.members].map(({ name }) => name),
      ...this.list.outside,
    ]);
    for (const [name, client] of this.#clients) {
      if (used.has(name)) continue;
      this.#clients.delete(name);
      client.retire();
    }
  }
}

/** Splits a name that `cacheName` made. */
function addressOf(name: string): { hostname: string; port: number } {
  const at = name.lastIndexOf(":");
  return { hostname: name.slice(0, at).replace(/^\[|\]$/g, ""), port: Number(name.slice(at + 1)) };
}
