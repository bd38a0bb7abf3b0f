import { followCommand } from "../base/schema.ts";
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { latin1Text } from "../../../store/base/bytes.ts";
import type { Views } from "../views/view.ts";
import { ChangedKeys, type Changes, type ChangeStream } from "../base/changes.ts";
import { missingRowTrigger } from "./triggers.ts";
import type { TableNames } from "../base/table.ts";
import { pause } from "../../process/pause.ts";

/** How often the file is asked whether another connection has committed. */
const POLL_MS = 20;
/** Without changes for so long, an empty set is returned. */
const IDLE_MS = 1000;
/** Changes read under one hold of the thread. */
const READ_MAX = 2000;
/**
 * Applied changes that stay in the file. To delete some takes the lock on it, and a program whose connection has no
 * busy timeout does not wait for that: its statement fails.
 */
const APPLIED_MAX = 1000;
/** Applied changes deleted under one hold of the lock on the file. */
const DELETE_MAX = 5000;

/**
 * The number of the last change; 0: there has been none. The last change is never deleted, so numbers go on when an
 * application empties `sqlite_sequence`.
 */
export const END_OF_LOG = "SELECT coalesce(max(id), 0) AS id FROM leased_changes";

const TOO_MANY = "the oldest changes were dropped: there were too many";

interface ChangeRow {
  readonly id: number;
  /** Text: a prefix; stands for all its keys. */
  readonly key: Uint8Array | string;
}

/** The file of the table of changes. */
export interface ChangesFile {
  /** Calls a function, again while another process has locked the file. */
  whenFree<Result>(act: () => Result): Promise<Result>;
  /** @throws When it has been deleted or replaced. */
  check(): void;
}

/** The table of changes of an SQLite file, which triggers write. The origin's own writes are not in it. */
export class SqliteChanges implements ChangeStream {
  readonly warning = null;
  readonly gap: string | null;
  readonly retainedBytes = 0;
  readonly #database: DatabaseSync;
  readonly #file: ChangesFile;
  readonly #read: StatementSync;
  readonly #last: StatementSync;
  readonly #version: StatementSync;
  readonly #delete: StatementSync;
  readonly #schema: StatementSync;
  readonly #follow: StatementSync;
  readonly #names: TableNames;
  readonly #views: () => Views;
  /** The version of the schema under which changes are noted. */
  readonly #schemaVersion: number;
  #seenVersion = -1;
  #position = 0;
  #end = 0;
  #isHasty = false;
  #isClosed = false;

  /** @throws When `init --follow` has not made the triggers. */
  constructor(
    database: DatabaseSync,
    file: ChangesFile,
    names: TableNames,
    views: () => Views,
  ) {
    this.#database = database;
    this.#file = file;
    this.#names = names;
    this.#views = views;
    this.#schema = database.prepare("PRAGMA schema_version");
    // In this order: a change of the schema in between is found later.
    this.#schemaVersion = this.#schemaNow;
    this.#checkTriggers();
    this.#read = database.prepare(
      "SELECT id, key FROM leased_changes WHERE id > ? ORDER BY id LIMIT ?",
    );
    this.#last = database.prepare(END_OF_LOG);
    this.#version = database.prepare("PRAGMA data_version");
    this.#follow = database.prepare("UPDATE leased_follow SET followed = ?");
    this.#delete = database.prepare(
      "DELETE FROM leased_changes WHERE id IN (SELECT id FROM leased_changes " +
        "WHERE id <= min(?, (SELECT max(id) FROM leased_changes) - 1) ORDER BY id LIMIT ?)",
    );
    this.gap = this.#gap();
  }

  get endPosition(): bigint {
    return BigInt(this.#end);
  }

  async begin(): Promise<void> {
    await this.#file.whenFree(() => this.#follow.run(this.#schemaVersion));
  }

  async next(): Promise<Changes> {
    for (let waitedMs = 0;;) {
      const changes = await this.#take();
      if (changes.count > 0 || waitedMs >= IDLE_MS) return changes;
      await pause(POLL_MS);
      waitedMs = this.#isHasty ? IDLE_MS : waitedMs + POLL_MS;
      this.#isHasty = false;
    }
  }

  /** @throws When the log that is read may lack changes: a table has lost its triggers, and nobody has looked since. */
  requireSchema(): void {
    if (this.#isClosed || this.#schemaNow === this.#schemaVersion) return;
    throw new Error("the schema has changed, and the log begins anew: ask again");
  }

  get #schemaNow(): number {
    return this.#schema.get()!["schema_version"] as number;
  }

  /** The version of the schema when everything was emptied last. */
  get #followedSchema(): unknown {
    return this.#database.prepare("SELECT followed FROM leased_follow").get()?.["followed"];
  }

  async #take(): Promise<Changes> {
    if (this.#isClosed) throw new Error("the table of changes is read no more");
    this.#file.check();
    // Before the changes are read: a commit in between is found by the next call.
    const version = this.#version.get()!["data_version"] as number;
    const position = this.#position;
    if (version === this.#seenVersion) return nothing(position);
    this.#checkSchema();
    // Between the opening and the first look.
    const isFirst = this.#seenVersion === -1;
    if (isFirst && this.#followedSchema !== this.#schemaVersion) throw new Error(TOO_MANY);
    const end = this.#last.get()!["id"] as number;
    if (end < position) await this.#endWithGap();
    this.#seenVersion = version;
    this.#end = Math.max(end, position);
    const changed = new ChangedKeys();
    const { prefixes: viewPrefixes } = this.#views();
    for (let rows: ChangeRow[], at = position; at < this.#end && !changed.isFlood;) {
      rows = this.#read.all(at, READ_MAX) as unknown as ChangeRow[];
      // Numbers have no gaps, and changes go when they are applied, unless they were too many.
      if (at > 0 && rows.length > 0 && rows[0]!.id !== at + 1) await this.#endWithGap();
      for (const { key } of rows) addKey(changed, key, viewPrefixes);
      changed.count += rows.length;
      at = rows.at(-1)?.id ?? this.#end;
      this.#end = Math.max(this.#end, at);
      if (rows.length === READ_MAX) await pause(0);
      if (this.#isClosed) throw new Error("the table of changes is read no more");
    }
    this.#position = this.#end;
    const { keys, prefixes, isFlood } = changed;
    const count = isFlood ? this.#end - position : changed.count;
    return { keys, prefixes, count, position: BigInt(this.#end) };
  }

  /** Has the next log empty everything: changes are missing. @throws Error */
  async #endWithGap(): Promise<never> {
    await this.#file.whenFree(() => this.#follow.run(0));
    throw new Error(TOO_MANY);
  }

  #gap(): string | null {
    const followed = this.#followedSchema;
    if (followed === this.#schemaVersion) return null;
    if (followed !== 0) return "the schema has changed";
    const { id } = this.#last.get()!;
    return id === 0 ? "the triggers are new" : "the triggers are new, or changes have been dropped";
  }

  /** @throws When tables, and with them results of views, or triggers, and with them changes, may be others. */
  #checkSchema(): void {
    if (this.#schemaNow === this.#schemaVersion) return;
    this.#checkTriggers();
    throw new Error("the schema has changed");
  }

  /** @throws When a trigger of the table of rows is missing, and with it perhaps changes. */
  #checkTriggers(): void {
    const missing = missingRowTrigger(this.#database, this.#names);
    if (missing === null) return;
    const command = followCommand(this.#views().all.length > 0);
    throw new Error(`the trigger ${missing} is missing or another one: start \`${command}\``);
  }

  async confirm(position: bigint): Promise<void> {
    // Without a lock on the file.
    const [oldest] = this.#read.all(0, 1) as unknown as ChangeRow[];
    if (oldest === undefined || Number(position) - oldest.id < APPLIED_MAX) return;
    for (let deleted = DELETE_MAX; deleted === DELETE_MAX && !this.#isClosed;) {
      deleted = Number(
        (await this.#file.whenFree(() => this.#delete.run(Number(position), DELETE_MAX))).changes,
      );
    }
  }

  hasten(): void {
    this.#isHasty = true;
  }

  close(): Promise<void> {
    this.#isClosed = true;
    return Promise.resolve();
  }
}

function nothing(position: number): Changes {
  return { keys: [], prefixes: [], count: 0, position: BigInt(position) };
}

/** @param prefixes What the keys of views begin with. */
function addKey(changed: ChangedKeys, key: ChangeRow["key"], prefixes: readonly string[]): void {
  const isPrefix = typeof key === "string";
  const text = latin1Text(isPrefix ? new TextEncoder().encode(key) : key);
  changed.add({ text, isPrefix }, prefixes.find((prefix) => text.startsWith(prefix)) ?? "");
}
