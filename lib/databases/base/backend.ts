import type { ParameterType } from "../views/parameter_type.ts";
import type { KeyColumns } from "../views/view_mapping.ts";
import type { BrokenView, View, Views } from "../views/view.ts";
import type { ChangeStream } from "./changes.ts";
import { shownAddress } from "./postgres_url.ts";

/** A row of the table. */
export interface Row {
  /** 32 bits. */
  readonly flags: number;
  readonly data: Uint8Array;
  /** Grows with every write of the key, its deletion included. */
  readonly version: number;
  /** When it expires, in Unix seconds; left out or 0: never. */
  readonly expiresUnixSec?: number;
}

/** The result of a read. */
export interface Found {
  /** Null: the row does not exist. */
  readonly row: Row | null;
  /** The version of the last write of the key, also if that deleted it; 0: never written. */
  readonly version: number;
  /** The epoch of the origin that may write, read in the same snapshot. */
  readonly epoch: number;
  /** Why there is no answer for this key alone: its view cannot be read. */
  readonly problem?: string;
  /** False: no cache may keep it. */
  readonly isKept?: boolean;
}

/** The change that a write makes to the row. */
export type Change = Pick<Row, "flags" | "data" | "expiresUnixSec"> | "delete";

/** A write's change: one for every row, or computed from the current row; null refuses the write. */
export type Edit = Change | ((row: Row | null) => Change | null);

/** Returns the change that an edit makes to a row. */
export function changeOf(edit: Edit, row: Row | null): Change | null {
  return typeof edit === "function" ? edit(row) : edit;
}

/** One write of a group. */
export interface Write {
  /** A character a byte. */
  readonly key: string;
  readonly tokenId: number;
  /** A function gets the row as it is inside the transaction, after the earlier writes of the group. */
  readonly edit: Edit;
  /** The writer's tag of the token, for the database's list of sessions; "": none. */
  readonly owner: string;
  /** When it arrived, on the clock of `performance.now()`; left out: now. */
  readonly sinceMs?: number | undefined;
}

/** How a write ended. */
export type WriteResult =
  | { readonly kind: "committed"; readonly version: number }
  /** The condition was false; nothing was written. */
  | { readonly kind: "refused"; readonly row: Row | null }
  /** The database or the row is locked, and this write's time is not over; nothing was written. To be written again. */
  | { readonly kind: "postponed" }
  /** The origin with this epoch has taken over; nothing was written. */
  | { readonly kind: "fenced"; readonly epoch: number }
  /** The database refused; nothing was written. */
  | { readonly kind: "failed"; readonly reason: string }
  /** The database did not say whether the write was committed. */
  | { readonly kind: "unknown"; readonly reason: string };

/** The outcome of an earlier write, as the database knows it. */
export type WriteOutcome =
  | { readonly kind: "committed"; readonly version: number }
  | { readonly kind: "notApplied" }
  | { readonly kind: "unknown"; readonly reason: string };

/** The result of a takeover. */
export interface Takeover {
  /** Larger than all before. */
  readonly epoch: number;
  /**
   * How long the origins before may serve rows from now on, in milliseconds; 0: the last one has ended. Infinity: until
   * `lockOrigin` says true.
   */
  readonly servedMs: number;
  /**
   * How long nodes may serve rows after the origin before has ended, in milliseconds; left out or 0: no longer than it.
   */
  readonly nodesMs?: number;
  /** The last mark of `noteMark`; "": none. */
  readonly mark: string;
}

/** A key of a view, and the parameters that it names. */
export interface ViewKey {
  readonly view: View;
  /** UTF-8, a character a byte. */
  readonly values: readonly string[];
}

/** The database is no longer the one that was opened: it answers nothing more, and what is cached may be old. */
export class GoneError extends Error {
  override readonly name = "GoneError";
}

/** Views that the database knows. */
export interface PreparedViews {
  /** Those that no longer fit the schema: nothing of them is kept, and they are read where their queries run. */
  readonly broken: readonly BrokenView[];
  /**
   * Reads views and the epoch in one snapshot.
   *
   * @returns The results in the order of the keys, of which there is at least one.
   * @throws The database's error, which no single view has caused.
   */
  readMany(keys: readonly ViewKey[]): Promise<readonly Found[]>;
  /** Gives the statements up. Reads under way end as usual. */
  close(): Promise<void>;
}

/** The database's description of a view. */
export interface InspectedView {
  readonly view: View;
  readonly types: readonly ParameterType[];
  /** Columns of the tables that its changes name. */
  readonly columns: KeyColumns;
  /** Tables that its plan reads. */
  readonly tables: readonly string[];
  /** Tables that it scans. */
  readonly scans: readonly string[];
}

/** The database's description of all views. */
export interface InspectedViews {
  /** Those whose queries it understands, in their order. */
  readonly inspected: readonly InspectedView[];
  /** Why views cannot be used; empty: all can. */
  readonly broken: readonly BrokenView[];
}

/**
 * The database behind an origin, which alone writes to its table. An epoch in the database fences every origin but the
 * last one that took over, in its writes and in its reads.
 */
export interface Backend {
  /** Whether other groups of writes go on while one is committed. */
  readonly commitsAside: boolean;
  /** Takes the lock that only one origin has, until `close`. @returns False: another has it. */
  lockOrigin(): Promise<boolean>;
  /** Lets go of that lock, if it has it. */
  unlockOrigin(): Promise<void>;
  /**
   * Becomes the origin that may write: every older one is fenced when this resolves.
   *
   * @param rightMs How long this one may serve rows after `readEpoch` was called.
   */
  takeOver(rightMs?: number): Promise<Takeover>;
  /** Reads the epoch, by a connection that waits for no other request. @throws The database's error. */
  readEpoch(): Promise<number>;
  /**
   * Notes how long nodes may serve rows after the end of the origin of this epoch, before it takes the first one.
   *
   * @param servesMs In milliseconds; 0: there is no node any more.
   * @returns False: another origin has taken over.
   */
  noteNodes(servesMs: number, epoch: number): Promise<boolean>;
  /** Notes that the origin of this epoch serves no rows any more: the next one need not wait. */
  noteEnd(epoch: number): Promise<void>;
  /**
   * Notes a mark in the place of the one before, after all earlier writes of the origin of this epoch.
   *
   * @returns False: another origin has taken over.
   */
  noteMark(mark: string, epoch: number): Promise<boolean>;
  /**
   * Reads rows and the epoch in one snapshot.
   *
   * @param keys A character a byte.
   * @returns The rows in the order of the keys, of which there is at least one.
   * @throws The database's error.
   */
  readMany(keys: readonly string[]): Promise<readonly Found[]>;
  /**
   * Executes writes in one transaction: checks the epoch, applies the changes, notes the tokens as applied, commits.
   * Writes of one key take effect in their order. A write that the database refuses fails alone: the others are
   * committed in further transactions.
   *
   * @returns The result of each write, in their order.
   */
  writeGroup(writes: readonly Write[], epoch: number): Promise<readonly WriteResult[]>;
  /** Checks that the database takes writes now. @throws Why it does not. */
  check(): Promise<void>;
  /** Returns the outcome of the write under a token. Asks on a new connection, once the old one is certainly closed. */
  outcome(tokenId: number): Promise<WriteOutcome>;
  /**
   * Makes views ready to be read, and their tables' changes part of the log that `openChanges` reads, also of one that
   * is open.
   *
   * @throws ViewsError names what the database refuses.
   */
  prepareViews(views: Views): Promise<PreparedViews>;
  /**
   * Opens the log of committed changes, also those of other writers.
   *
   * @param evicts Whether the connection of an origin before that still reads the log is ended.
   * @throws When the log cannot be followed, with the remedy.
   */
  openChanges(evicts: boolean): Promise<ChangeStream>;
  /**
   * Returns the end of the log: every transaction whose commit has returned is before it, also one that did not wait
   * for the disk.
   *
   * @throws Also when the log that is read may lack changes, until it has ended.
   */
  endOfLog(): Promise<bigint>;
  /** As `endOfLog`, without writing to the log: commits that did not wait for the disk may be behind it. */
  endOfLogOnDisk(): Promise<bigint>;
  /**
   * Makes what `openChanges` needs, for the owner of the tables. Changes nothing the second time.
   *
   * @returns What the server lacks before it can or should be followed, each with the remedy.
   */
  prepareChanges(views: Views): Promise<readonly string[]>;
  /**
   * Takes away what `prepareChanges` has made, and what the database keeps for the origin.
   *
   * @returns What this user may not take away, with the remedy; null: nothing is left.
   */
  endChanges(): Promise<string | null>;
  /** Deletes rows whose time has come. Readers do not see them any more. */
  purgeExpired(): Promise<void>;
  /** Forgets the tokens that were applied before `beforeUnixMs`, in Unix milliseconds. */
  purgeApplied(beforeUnixMs: number): Promise<void>;
  close(): Promise<void>;
}

/** The database that has the rows. */
export type Database =
  | { readonly kind: "sqlite"; readonly path: string }
  /** The URL may name several hosts: `hostUrls`. */
  | { readonly kind: "postgres"; readonly url: string };

/** The path of a database without a file, for one process. */
export const SQLITE_MEMORY = ":memory:";
/** Of the file beside the database that the active origin has locked. */
export const SQLITE_LOCK_SUFFIX = "-origin";

/** Returns the database as log lines name it: without a password. */
export function databaseName(database: Database): string {
  return database.kind === "sqlite" ? database.path : shownAddress(database.url);
}

/** Rows deleted at once when their time has come. */
export const PURGE_MAX = 1000;

/** Whether a row that expires then is absent now. */
export function hasExpired(expiresUnixSec: number, nowUnixMs: number): boolean {
  return expiresUnixSec > 0 && expiresUnixSec * 1000 <= nowUnixMs;
}

/** How a backend uses a PostgreSQL server. */
export interface PostgresSettings {
  /** Most connections at the same time. */
  readonly connectionsMax: number;
  /** The longest that a statement, or the wait for a connection, may take, in milliseconds. */
  readonly timeoutMs: number;
  /** Returns the time that is stored beside a used token, in Unix milliseconds. */
  readonly nowUnixMs?: () => number;
  /** Most bytes of a view's value; left out: there is no limit. */
  readonly resultBytesMax?: number | undefined;
  /** Whether the log is kept only while it is read; left out: also while no origin reads it. */
  readonly hasTemporarySlot?: boolean;
  /** Whether it is only read; left out: missing tables are made. */
  readonly isReader?: boolean;
}
