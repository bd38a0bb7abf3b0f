import type { Row } from "../../../lib/databases/base/backend.ts";
import type { Changes } from "../../../lib/databases/base/changes.ts";
import { type KeyRange, type KeySet, keySetOf } from "../../../lib/databases/views/key_set.ts";
import type { Table } from "../origins/table.ts";
import { KEY } from "../key_record.ts";
import type { DirectDeed } from "./follow_scenario.ts";

/** The key that a direct writer gives to the row. */
const OTHER_KEY = "other";

interface Entry {
  readonly changed: KeySet;
  readonly author: string;
  readonly row: Row | null;
  /** The version that it makes; 0: reads do not see it. */
  version: number;
}

/** The log of a database, with a confirmed position. A change is in the log before reads see it. */
export class ChangeLog {
  readonly #table: Table;
  readonly #namesOldKeys: boolean;
  readonly #waits: boolean;
  #entries: Entry[] = [];
  #confirmed = 0;
  #taken = 0;
  /** Whether changes may be missing that are in no part of the log. */
  hasGap = false;
  /** Whether the connection of whoever reads it is broken. */
  isBroken = false;

  /** @param waits Whether changes are handed out only when reads see them. */
  constructor(table: Table, namesOldKeys: boolean, waits: boolean) {
    this.#table = table;
    this.#namesOldKeys = namesOldKeys;
    this.#waits = waits;
  }

  start(): void {
    this.#entries = [];
    this.#confirmed = this.#taken = 0;
    this.hasGap = this.isBroken = false;
  }

  /** Begins the commit of a direct writer. */
  append(author: string, deed: DirectDeed): void {
    const version = this.#table.history.length;
    const isRenamed = deed === "rename";
    const own: KeyRange = deed === "setSome"
      ? { text: KEY.slice(0, 1), isPrefix: true }
      : { text: KEY, isPrefix: false };
    const old = isRenamed && !this.#namesOldKeys ? [] : [own];
    const renamed = { text: OTHER_KEY, isPrefix: false };
    this.#entries.push({
      author,
      changed: keySetOf(isRenamed ? [...old, renamed] : old),
      row: isRenamed ? null : { flags: 0, data: new Uint8Array(), version },
      version: 0,
    });
  }

  /** Ends the commit of a direct writer: reads see it. */
  show(author: string): void {
    const entry = this.#entries.find((each) => each.author === author)!;
    entry.version = this.#table.history.length;
    const row = entry.row && { ...entry.row, version: entry.version };
    this.#table.history.push({ author, row });
  }

  /** Opens the log at the confirmed position. */
  open(): void {
    this.#taken = this.#confirmed;
    this.isBroken = false;
  }

  get #next(): Entry | undefined {
    return this.#entries[this.#taken];
  }

  /** Whether there are changes to take. */
  get hasNext(): boolean {
    const next = this.#next;
    return next !== undefined && (!this.#waits || next.version !== 0);
  }

  /** Takes the next change, as `ChangeStream.next` does. */
  take(): Changes {
    const { changed } = this.#next!;
    return { ...changed, count: 1, position: BigInt(++this.#taken) };
  }

  confirm(position: bigint): void {
    if (!this.isBroken) this.#confirmed = Number(position);
  }

  /** Whether reads see all changes. */
  get isSeen(): boolean {
    return this.#entries.every(({ version }) => version !== 0);
  }

  /** Loses everything that is not confirmed. */
  lose(): void {
    this.#confirmed = this.#entries.length;
    this.hasGap = this.isBroken = true;
  }

  /** Whether the change that has made a version is in the log, and not confirmed. */
  isUnread(version: number): boolean {
    return this.#entries.some((entry, at) => at >= this.#confirmed && entry.version === version);
  }

  /** Everything before this position is confirmed. */
  get confirmed(): bigint {
    return BigInt(this.#confirmed);
  }

  /** The position after all changes. */
  get end(): bigint {
    return BigInt(this.#entries.length);
  }

  /** Returns the position after the change that has made a version; 0: it is not in the log. */
  positionOf(version: number): bigint {
    return BigInt(1 + this.#entries.findIndex((entry) => entry.version === version));
  }

  text(): string {
    const entries = this.#entries.map(({ author, version }) => `${author}${version}`);
    return `${entries} ${this.#confirmed} ${this.#taken} ${this.hasGap}${this.isBroken}`;
  }
}
