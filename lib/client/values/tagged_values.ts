import { Buffer } from "node:buffer";
import { after } from "./awaitable.ts";
import type { Codec, Encoded } from "./codecs.ts";
import { expiryOf } from "../durations.ts";
import { decodeEntry, trailerAt, withTrailer } from "./entries.ts";
import type { Entry } from "../flows/steps.ts";
import * as requests from "../requests.ts";
import type { Request } from "../net/wire.ts";

/** The versions of tags, by their keys. */
type Versions = Readonly<Record<string, string>>;

/** A value that was found, and its item. */
export interface Tagged<Value> {
  readonly value: Value;
  readonly cas: string;
}

/** Stands for the codec where only the trailer counts. */
const PRESENT: Codec<true> = {
  encode: () => ({ bytes: new Uint8Array(0), flags: 0 }),
  decode: () => true,
};
/** How often a step that others have come before is tried. */
const TRIES = 20;
const NO_TAGS: Versions = {};
/** A tag in a trailer that may be asked for. */
const TAG = /^tag:[\x21-\x7e\x80-\xff]{1,246}$/;

/** Sends a request. */
type Send = <Result>(request: Request<Result>) => Promise<Result>;

/**
 * Values that flows have stored, as plain commands see them: one is found unless one of its tags was invalidated, or it
 * is only kept for its grace. In a namespace each value gets the tags of the namespace.
 */
export class TaggedValues<Value> {
  readonly #tags: readonly string[];
  readonly #codec: Codec<Value>;
  readonly #send: Send;
  readonly #sendToTag: Send;

  /**
   * @param tags The keys of the tags that each value gets.
   * @param send Sends requests of keys.
   * @param sendToTag Sends requests of tags, whose servers may be others.
   */
  constructor(tags: readonly string[], codec: Codec<Value>, send: Send, sendToTag: Send) {
    this.#tags = tags;
    this.#codec = codec;
    this.#send = send;
    this.#sendToTag = sendToTag;
  }

  /** Whether each value gets tags. */
  get isTagging(): boolean {
    return this.#tags.length > 0;
  }

  /** Returns the versions of the tags that each value gets. */
  versions(): Promise<Versions> {
    return this.#versionsOf(this.#tags);
  }

  /**
   * Reads a value.
   *
   * @param touchSec The item's new time to live.
   * @param versions Of the tags that each value gets, asked in the same round trip.
   */
  async find(
    key: string,
    touchSec?: number,
    versions: Promise<Versions> = this.versions(),
  ): Promise<Tagged<Value> | undefined> {
    const request = requests.get(
      key,
      ({ bytes, flags, cas, leftSec }) =>
        after(decodeEntry(this.#codec, { bytes, flags }), (entry) => ({ entry, cas, leftSec })),
      touchSec,
    );
    const [found, current] = await Promise.all([this.#send(request), versions]);
    if (found === undefined) return undefined;
    const { entry, cas, leftSec } = found;
    const isValid = await this.#isValid(entry, leftSec, current);
    return isValid ? { value: entry.value!, cas } : undefined;
  }

  /** Whether there is a value, whatever the codec makes of it. */
  async has(key: string, current?: Versions): Promise<boolean> {
    const item = await this.#itemOf(key);
    return item !== undefined && await this.#isValidItem(item, current);
  }

  /** Stores a value, which has the tags. */
  async store(
    key: string,
    encoded: Encoded,
    expiry: number,
    how: { readonly mode: "set" | "add" | "replace"; readonly cas?: string | undefined },
    versions: Promise<Versions> = this.versions(),
  ): Promise<requests.Stored> {
    let current = await versions;
    const { mode, cas } = how;
    if (mode === "set") {
      // The tags may have been invalidated since the id was read.
      if (cas !== undefined && !await this.has(key, current)) return "missing";
      return await this.#send(
        requests.store(key, withTrailer(encoded, 0, current), expiry, { cas }),
      );
    }
    // An item that is there may be none for readers.
    for (let tries = 0; tries < TRIES; tries++) {
      const item = await this.#itemOf(key);
      // The tags may have been invalidated before the item was stored: to older versions it would be none.
      if (item !== undefined) current = await this.versions();
      const isThere = item !== undefined && await this.#isValidItem(item, current);
      if (isThere !== (mode === "replace")) return "refused";
      const condition = item === undefined ? { mode } : { cas: item.cas };
      const tagged = withTrailer(encoded, 0, current);
      const stored = await this.#send(requests.store(key, tagged, expiry, condition));
      if (stored === "stored" || stored === "refused") return stored;
    }
    return "refused";
  }

  /** Adds bytes to a value in front of its trailer, or before all. @returns Whether there is one. */
  async extend(key: string, mode: "append" | "prepend", bytes: Uint8Array): Promise<boolean> {
    for (let tries = 0; tries < TRIES; tries++) {
      const item = await this.#itemOf(key);
      if (item === undefined || !await this.#isValidItem(item)) return false;
      const end = trailerAt(item);
      const [value, trailer] = [item.bytes.subarray(0, end), item.bytes.subarray(end)];
      const parts = mode === "append" ? [value, bytes, trailer] : [bytes, value, trailer];
      const longer = { bytes: Buffer.concat(parts), flags: item.flags };
      const expiry = item.leftSec === Infinity ? 0 : expiryOf(Math.max(1, item.leftSec));
      const stored = await this.#send(requests.store(key, longer, expiry, { cas: item.cas }));
      if (stored === "stored") return true;
      if (stored === "refused") return false;
    }
    return false;
  }

  async #itemOf(key: string): Promise<requests.Item | undefined> {
    return await this.#send(
      requests.get(key, (item) => ({ ...item, bytes: new Uint8Array(item.bytes) })),
    );
  }

  async #isValidItem(item: requests.Item, current: Versions = NO_TAGS): Promise<boolean> {
    return await this.#isValid(await decodeEntry(PRESENT, item), item.leftSec, current);
  }

  /** @param current The versions of some of its tags. */
  async #isValid(entry: Entry<unknown>, leftSec: number, current: Versions): Promise<boolean> {
    const { value, graceSec, versions } = entry;
    if (value === undefined || graceSec > 0 && leftSec <= graceSec) return false;
    const tags = Object.keys(versions);
    const further = tags.filter((tag) => !Object.hasOwn(current, tag));
    if (!further.every((tag) => TAG.test(tag))) return false;
    const all = { ...current, ...await this.#versionsOf(further) };
    return tags.every((tag) => versions[tag] === all[tag]);
  }

  async #versionsOf(tags: readonly string[]): Promise<Versions> {
    if (tags.length === 0) return NO_TAGS;
    const versions: Record<string, string> = Object.create(null);
    await Promise.all(tags.map(async (tag) => {
      versions[tag] = await this.#sendToTag(requests.version(tag));
    }));
    return versions;
  }
}
