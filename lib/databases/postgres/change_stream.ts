import { pause } from "../../process/pause.ts";
import { reasonOf } from "../../process/reason.ts";
import {
  CHANGED_KEYS_MAX,
  ChangedKeys,
  type Changes,
  type ChangeStream,
  LogBusyError,
} from "../base/changes.ts";
import type { TableNames } from "../base/table.ts";
import { type Commit, PgoutputReader } from "./pgoutput.ts";
import type { Pool } from "./pool.ts";
import { isLate } from "./session.ts";
import { PUBLICATION } from "./publication.ts";
import type { Followed } from "./catalog_state.ts";
import { type LogReceiver, ReplicationConnection } from "./replication.ts";
import {
  checkConfirmed,
  checkPublished,
  followOthers,
  forgetPlace,
  makeTemporarySlot,
  noteFollowed,
  oldestWriter,
  prepareSlot,
  readRetained,
  type Slot,
  unboundedLog,
  VISIBLE_PAUSE_MS,
} from "./slot.ts";

/** Keys of whole transactions that wait; the connection is read no further until they are taken. */
const WAITING_KEYS_MAX = CHANGED_KEYS_MAX / 2;
/** How often the server is told the position, and asked for its own. */
const REPORT_MS = 1000;
/** Without a message for so long, the connection is given up. */
const SILENCE_MS = 10_000;
/** Time-outs of statements that the opening may take: it waits for transactions twice. */
const STATEMENTS_IN_OPENING = 2;
/** Pause before a position that is asked for in haste. */
const HASTE_MS = 5;

/** The views whose tables are followed beside the table of rows. */
export interface FollowedViews {
  readonly followed: Followed;
  /** Looks at one of the broken views. @returns Its name, if it fits again; null: it does not. */
  findMended(): Promise<string | null>;
}

/** The log of PostgreSQL, by logical replication. */
export class PostgresChanges implements ChangeStream, LogReceiver {
  readonly #pool: Pool;
  readonly #reader: PgoutputReader;
  #views: FollowedViews;
  #slot: Slot;
  #connection: ReplicationConnection | undefined;
  #reporter: ReturnType<typeof setInterval> | undefined;
  /** The look that is under way. */
  #looking: Promise<void> | undefined;
  #haste: ReturnType<typeof setTimeout> | undefined;
  /** Whether the server has said its position since `next`. */
  #isHeard = false;
  /** Transactions that are not taken. */
  #changed = new ChangedKeys();
  #xids: number[] = [];
  /** Whether one of them may have changed the catalog. However many have, it is checked once. */
  #concernsCatalog = false;
  /** The position after everything that is not taken. */
  #received: bigint;
  #taken: bigint;
  #confirmed: bigint;
  #end: bigint;
  #isPaused = false;
  #heardMs = performance.now();
  #endedBy: string | null = null;
  #wake: () => void = () => {};
  retainedBytes = 0;
  readonly warning: string | null;

  private constructor(
    pool: Pool,
    slot: Slot,
    views: FollowedViews,
    warning: string | null,
    connection: ReplicationConnection | undefined,
    appliedTo: bigint | null,
  ) {
    this.warning = warning;
    this.#connection = connection;
    this.#pool = pool;
    this.#slot = slot;
    this.#views = views;
    this.#reader = new PgoutputReader(slot.rows, () => this.#views.followed.mapping);
    this.#received = this.#taken = this.#end = slot.confirmed;
    this.#confirmed = slot.gap === null && appliedTo !== null ? appliedTo : slot.confirmed;
  }

  /**
   * Prepares the slot.
   *
   * @param isGap Whether values may be old, whatever the log has.
   * @param isTemporary Whether the slot ends with the stream.
   * @param appliedTo The position up to which the stream before was applied; null: there was none.
   * @throws When the log cannot be followed, with the remedy. LogBusyError names a transaction.
   */
  static async open(
    pool: Pool,
    names: TableNames,
    evicts: boolean,
    views: FollowedViews,
    isGap: boolean,
    isTemporary: boolean,
    appliedTo: bigint | null = null,
  ): Promise<PostgresChanges> {
    const connection = isTemporary ? await ReplicationConnection.connect(pool.settings) : undefined;
    try {
      const [slot, warning] = await pool.use(async (session) => {
        if (isGap) await forgetPlace(session);
        await checkPublished(session, views.followed);
        if (connection === undefined) {
          const slot = await prepareSlot(session, names, views.followed, evicts);
          return [slot, await unboundedLog(session)] as const;
        }
        const slot = await makeTemporarySlot(session, connection, names, views.followed, evicts);
        return [slot, null] as const;
      }, STATEMENTS_IN_OPENING);
      return new PostgresChanges(pool, slot, views, warning, connection, appliedTo);
    } catch (error) {
      await connection?.close();
      // A new slot waits for all transactions that are open, however long they are.
      const writer = isLate(error) ? await pool.use(oldestWriter) : null;
      if (writer === null) throw error;
      throw new LogBusyError(`the log can be read from the end of a transaction on: ${writer}`);
    }
  }

  /** Follows the tables of other views from here on. What has changed for those before ends the stream. */
  async followOthers(views: FollowedViews): Promise<void> {
    try {
      this.#slot = await this.#pool.use((session) =>
        followOthers(session, this.#views.followed, views.followed, this.#slot)
      );
    } catch (error) {
      this.ended(reasonOf(error));
    }
    this.#views = views;
  }

  get gap(): string | null {
    return this.#slot.gap;
  }

  /**
   * Ends the stream when another server was asked: a failover may leave the connection to the one before open.
   *
   * @param server The server and timeline.
   * @throws When it is another one: its positions are not those of this log.
   */
  checkServer(server: string): void {
    if (server === this.#slot.server) return;
    const reason =
      `the database has moved: server and timeline ${this.#slot.server} are now ${server}`;
    this.ended(reason);
    throw new Error(reason);
  }

  /** Everything before it is applied; after a gap, when everything is emptied. */
  get appliedTo(): bigint {
    return this.#confirmed;
  }

  get endPosition(): bigint {
    return this.#end;
  }

  async begin(): Promise<void> {
    if (this.gap !== null) {
      await this.#pool.use(async (session) => {
        // The log does not tell of DDL between the look at the catalog and the start of the slot.
        await checkPublished(session, this.#views.followed, this.#slot);
        await noteFollowed(session, this.#slot);
      });
    }
    const { name: slot, hasMessages } = this.#slot;
    const place = { slot, publication: PUBLICATION, hasMessages };
    if (this.#connection === undefined) {
      const { settings } = this.#pool;
      this.#connection = await ReplicationConnection.open({ ...settings, ...place }, this);
    } else {
      await this.#connection.start(place, this);
    }
    if (this.#slot.place !== null) {
      await this.#pool.use((session) => checkConfirmed(session, this.#slot, this.#confirmed));
    }
    this.#heardMs = performance.now();
    this.#reporter = setInterval(() => this.#report(), REPORT_MS);
    this.#connection.report(this.#confirmed, true);
  }

  async next(): Promise<Changes> {
    while (this.#endedBy === null && this.#received === this.#taken && !this.#isHeard) {
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
    if (this.#endedBy !== null) throw new Error(this.#endedBy);
    this.#isHeard = false;
    const changed = this.#changed;
    const xids = this.#xids;
    const position = this.#taken = this.#received;
    const concernsCatalog = this.#concernsCatalog;
    this.#concernsCatalog = false;
    this.#changed = new ChangedKeys();
    this.#xids = [];
    if (this.#isPaused) {
      this.#isPaused = false;
      this.#heardMs = performance.now();
      this.#connection!.resume();
    }
    await this.#waitUntilVisible(xids);
    // Before the position counts as followed: what is read then comes after the DDL.
    if (concernsCatalog) await this.#checkCatalog();
    const { keys, prefixes, count } = changed;
    return { keys, prefixes, count, position };
  }

  confirm(position: bigint): void {
    this.#confirmed = position;
    this.#connection?.report(position, false);
  }

  hasten(): void {
    this.#haste ??= setTimeout(() => {
      this.#haste = undefined;
      this.#connection?.report(this.#confirmed, true);
    }, HASTE_MS);
  }

  async close(): Promise<void> {
    clearInterval(this.#reporter);
    clearTimeout(this.#haste);
    this.ended("the log is read no more");
    await this.#connection?.close();
    // Its session is given back before the pool is closed.
    await this.#looking;
  }

  // --- what arrives --------------------------------------------------------------------------------

  message(bytes: Uint8Array): void {
    this.#heardMs = performance.now();
    let commit: Commit | null;
    try {
      commit = this.#reader.take(bytes);
    } catch (error) {
      return this.ended(`the log cannot be read: ${reasonOf(error)}`);
    }
    if (commit === null) return;
    this.#changed.merge(commit.changed);
    this.#concernsCatalog ||= commit.concernsCatalog;
    if (commit.changed.count > 0 || commit.concernsCatalog) this.#xids.push(commit.xid);
    this.sentUpTo(commit.endPosition);
    const isFull = this.#changed.size >= WAITING_KEYS_MAX ||
      this.#xids.length >= WAITING_KEYS_MAX;
    if (isFull && !this.#isPaused) {
      this.#isPaused = true;
      this.#connection!.pause();
    }
  }

  sentUpTo(position: bigint): void {
    this.#heardMs = performance.now();
    if (position > this.#end) this.#end = position;
    if (position > this.#received) this.#received = position;
    this.#isHeard = true;
    this.#wake();
  }

  ended(reason: string): void {
    this.#endedBy ??= reason;
    this.#wake();
  }

  // --- private -------------------------------------------------------------------------------------

  /**
   * Waits until reads see the transactions. The server sends a transaction when its commit is in the log, which is
   * before others see it, and with synchronous replication long before: a read in between would fill the old value
   * after its deletion.
   */
  async #waitUntilVisible(xids: readonly number[]): Promise<void> {
    let left = xids;
    while (left.length > 0) {
      const [row] = await this.#pool.query("SELECT pg_current_snapshot()::text AS snapshot");
      const isVisible = visibleIn(row!["snapshot"] as string);
      left = left.filter((xid) => !isVisible(xid));
      if (this.#endedBy !== null) throw new Error(this.#endedBy);
      if (left.length === 0) return;
      await pause(VISIBLE_PAUSE_MS);
    }
  }

  async #checkCatalog(): Promise<void> {
    await this.#pool.use((session) => checkPublished(session, this.#views.followed, this.#slot));
  }

  #report(): void {
    if (!this.#isPaused && performance.now() - this.#heardMs > SILENCE_MS) {
      return this.ended(`the server has sent nothing for ${SILENCE_MS} ms`);
    }
    this.#connection!.report(this.#confirmed, true);
    this.#looking ??= this.#look().finally(() => this.#looking = undefined);
  }

  /** Looks at the catalog, at the size of the log, and at a view that is broken. */
  async #look(): Promise<void> {
    try {
      this.retainedBytes = await this.#pool.use(async (session) => {
        await checkPublished(session, this.#views.followed, this.#slot);
        return await readRetained(session, this.#slot);
      });
      const mended = await this.#views.findMended();
      if (mended !== null) this.ended(`view ${mended} fits the schema again`);
    } catch (error) {
      this.ended(reasonOf(error));
    }
  }
}

/**
 * Returns the test whether a snapshot sees a committed transaction.
 *
 * @param snapshot `xmin:xmax:xip,…`, 64 bits each.
 */
export function visibleIn(snapshot: string): (xid: number) => boolean {
  const [, xmax = "0", running = ""] = snapshot.split(":");
  const low = (text: string): number => Number(BigInt.asUintN(32, BigInt(text)));
  const end = low(xmax);
  const inProgress = new Set(running === "" ? [] : running.split(",").map(low));
  // The difference of 32 bits: numbers of transactions are circular.
  return (xid) => ((xid - end) | 0) < 0 && !inProgress.has(xid);
}
