import { followCommand } from "../base/schema.ts";
import { quotedNames, type TableNames } from "../base/table.ts";
import {
  CHILDREN,
  hasOld,
  IDENTITY_COLUMNS,
  identityOf,
  leavesOf,
  PUBLICATION,
  PUBLICATION_STATE,
  PUBLISHED_COUNT,
} from "./publication.ts";
import { DDL_TRIGGER_FOUND, DDL_TRIGGER_NAME, MESSAGE_PREFIX } from "./ddl_trigger.ts";
import type { RowTable } from "./pgoutput.ts";
import { isInUse, type Session } from "./session.ts";
import type { ViewMapping } from "../views/view_mapping.ts";
import { pause } from "../../process/pause.ts";
import { catalogState, type Followed } from "./catalog_state.ts";
import type { ReplicationConnection } from "./replication.ts";

/** The slot of a database: names of slots are the server's, and the number of a database is its own. */
const SLOT = "'leased_' || oid FROM pg_database WHERE datname = current_database()";
const SERVER =
  "system_identifier::text || ' ' || left(pg_walfile_name(pg_current_wal_lsn()), 8) AS server";
/** Makes a slot in the session that asks. The number of the server's process keeps the names of two origins apart. */
const MAKE_TEMPORARY =
  `SELECT slot_name AS name, lsn - '0/0' AS confirmed, ${SERVER} FROM pg_control_system(), ` +
  `pg_create_logical_replication_slot((SELECT ${SLOT}) || '_' || pg_backend_pid(), 'pgoutput', true)`;
/** Only sessions of the same user may be ended. */
const END_TEMPORARY = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots " +
  "JOIN pg_stat_activity ON pid = active_pid WHERE temporary AND database = current_database() " +
  "AND starts_with(slot_name, $1 || '_') AND usename = current_user";
const LEVEL = "SELECT current_setting('wal_level') AS level";
const BOUND = "SELECT current_setting('max_slot_wal_keep_size') AS bound";
/** The first version whose plugin sends messages. */
const MESSAGES_FROM = 140_000;
const PLACE = `SELECT ${SERVER}, (SELECT ${SLOT}) AS slot, ` +
  `current_setting('server_version_num')::int >= ${MESSAGES_FROM} AS has_messages FROM pg_control_system()`;
const END =
  `SELECT ${SERVER}, pg_current_wal_flush_lsn() - '0/0' AS position FROM pg_control_system()`;
/** A commit that waits for the disk, and with it for all that was committed before without waiting. */
const FLUSH = `SELECT pg_logical_emit_message(true, '${MESSAGE_PREFIX}', '')`;
/** The table of rows, once for itself, or for each of its partitions. */
const TABLE = "SELECT followed.oid::text AS oid, followed.is_published, followed.has_heirs, " +
  `pg_class.oid::regclass::text AS name, ${IDENTITY_COLUMNS} AS identity FROM (SELECT oid, ` +
  "EXISTS (SELECT FROM pg_publication WHERE pubname = $2 AND pubinsert AND pubupdate AND pubdelete AND pubtruncate) " +
  "AND EXISTS (SELECT FROM pg_publication_tables JOIN pg_class ON relname = tablename WHERE pubname = $2 AND " +
  "pg_class.oid = to_regclass($1) AND to_jsonb(pg_publication_tables)->>'rowfilter' IS NULL) AS is_published, " +
  "relkind = 'r' AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = pg_class.oid) AS has_heirs " +
  `FROM pg_class WHERE oid = to_regclass($1)) AS followed LEFT JOIN LATERAL (SELECT pg_class.* FROM ${
    leavesOf("followed.oid")
  }) AS pg_class ON true`;
const SLOT_STATE =
  "SELECT database = current_database() AND plugin = 'pgoutput' AS is_own, wal_status, active_pid, " +
  "confirmed_flush_lsn - '0/0' AS confirmed, greatest(pg_current_wal_lsn() - restart_lsn, 0) AS retained, " +
  "to_jsonb(pg_replication_slots)->>'invalidation_reason' AS reason FROM pg_replication_slots WHERE slot_name = $1";
/** The oldest transaction that writes, also a prepared one. Everybody may see its lock. */
const OLDEST_WRITER =
  "SELECT pid, gid, age(transactionid) AS transactions, quote_ident(current_user) AS role, " +
  "extract(epoch FROM now() - coalesce(prepared, xact_start))::int AS sec " +
  "FROM pg_locks LEFT JOIN pg_prepared_xacts ON transaction = transactionid LEFT JOIN pg_stat_activity USING (pid) " +
  "WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted AND pid IS DISTINCT FROM pg_backend_pid() " +
  "ORDER BY age(transactionid) DESC LIMIT 1";
const END_READER =
  "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1";
const NOTE = "SELECT place FROM leased_follow";
const FORGET = "DELETE FROM leased_follow";
const REMEMBER =
  "INSERT INTO leased_follow VALUES (1, $1) ON CONFLICT (one) DO UPDATE SET place = $1";

/** How often a slot is dropped, or looked at, that is in use, and the pause in between: for a second. */
const DROPS_MAX = 50;
const DROP_PAUSE_MS = 20;

/** Pause before a transaction that is not visible yet is looked for again. */
export const VISIBLE_PAUSE_MS = 2;

/** What is followed, and where. */
interface Place {
  /** The slot's name. */
  readonly name: string;
  /** The state of the publication, and of the catalog. */
  readonly published: string;
  /** The server and its timeline. */
  readonly server: string;
  readonly rows: RowTable;
  /** Whether the log tells of DDL. */
  readonly hasMessages: boolean;
}

/** The slot that keeps the log for the origin. */
export interface Slot extends Place {
  /** The server, its timeline, the slot and `published`, to be noted; null: the slot ends with its connection. */
  readonly place: string | null;
  /** Why changes may be missing; null: none is. */
  readonly gap: string | null;
  readonly confirmed: bigint;
}

/**
 * Records a gap if the log lacks changes, or values may be others although no row has changed.
 *
 * @throws The remedy.
 */
export async function checkPublished(
  session: Session,
  { mapping, words }: Followed,
  slot: Slot | null = null,
): Promise<void> {
  // First: of a change in between, the more exact reason is told.
  const isOther = slot !== null &&
    slot.published !== await publishedAs(session, await catalogState(session, words));
  const missing = await findUnpublished(session, mapping);
  if (!isOther && missing === null) return;
  await forgetPlace(session);
  throw new Error(
    missing ?? `the publication ${PUBLICATION}, a table in it, or what views read has changed`,
  );
}

/**
 * Goes on for other views: the state of the catalog counts that was found before they were inspected.
 *
 * @throws The state of what was followed before has changed.
 */
export async function followOthers(
  session: Session,
  before: Followed,
  now: Followed,
  slot: Slot,
): Promise<Slot> {
  await checkPublished(session, before, slot);
  const published = await publishedAs(session, now.state);
  const place = slot.place === null ? null : placeOf(slot.server, slot.name, published);
  const others = { ...slot, published, place };
  await noteFollowed(session, others);
  return others;
}

/** Returns the setting without which the log cannot be followed, and the remedy; null: none is missing. */
export async function missingSetting(session: Session): Promise<string | null> {
  const [server] = await session.query(LEVEL);
  const { level } = server!;
  if (level === "logical") return null;
  return `wal_level is ${level}: --follow needs wal_level = logical, and a restart of PostgreSQL`;
}

/** Returns why the log may fill the server's disk, and the remedy; null: it is bounded. */
export async function unboundedLog(session: Session): Promise<string | null> {
  const [server] = await session.query(BOUND);
  if (server!["bound"] !== "-1") return null;
  return "max_slot_wal_keep_size is -1: PostgreSQL keeps its log while no origin reads it, until the disk is full; " +
    "set it, see docs/follow.md";
}

/** Returns the consequence of a missing event trigger, and the remedy; null: it is there. */
export async function missingTrigger(session: Session): Promise<string | null> {
  const [found] = await session.query(DDL_TRIGGER_FOUND);
  if (found !== undefined) return null;
  return `only a superuser can make the event trigger ${DDL_TRIGGER_NAME}: changes of the schema are noticed within a second, ` +
    "not at once; let a superuser start the same init";
}

/** Returns that the event trigger is left, and the remedy; null: there is none. */
export async function leftTrigger(session: Session): Promise<string | null> {
  const [found] = await session.query(DDL_TRIGGER_FOUND);
  if (found === undefined) return null;
  return `the event trigger ${DDL_TRIGGER_NAME} is left: let a superuser execute ${
    found["remedy"]
  }`;
}

/**
 * Finds the slot, or makes it. A new one has missed changes, and so has one on another timeline: `gap` says why. The
 * note of the earlier place goes before the slot is made, and comes back when everything is emptied: a crash in between
 * is a gap, too.
 *
 * @param evicts Whether a connection that uses the slot is ended: it is that of an origin before.
 * @throws When the log cannot be followed, with the remedy.
 */
export async function prepareSlot(
  session: Session,
  names: TableNames,
  { state: catalog }: Followed,
  evicts: boolean,
): Promise<Slot> {
  const before = await readPlace(session, names, catalog);
  const { name, server, published } = before;
  const place = placeOf(server, name, published);
  const [note] = await session.query(NOTE);
  const [state] = await session.query(SLOT_STATE, [name]);
  if (state !== undefined && !state["is_own"]) {
    throw new Error(
      `the replication slot ${name} is not one of pgoutput in this database: drop it`,
    );
  }
  if (evicts) await session.query(END_TEMPORARY, [name]);
  const gap = gapOf(note?.["place"] as string | undefined, place, state, name);
  if (gap !== null) {
    await forgetPlace(session);
    if (state !== undefined) await dropSlot(session, name);
    const [made] = await session.query(
      "SELECT lsn - '0/0' AS confirmed FROM pg_create_logical_replication_slot($1, 'pgoutput')",
      [name],
    );
    // A commit before the slot's start may not be visible yet: a read would fill the old value for good.
    await endOfTransactions(session);
    const confirmed = BigInt(made!["confirmed"] as string);
    return { ...before, place, gap, confirmed };
  }
  const confirmed = evicts && state!["active_pid"] !== null
    ? await evict(session, name)
    : BigInt(state!["confirmed"] as string);
  return { ...before, place, gap, confirmed };
}

/** Ends the connection that uses a slot. @returns The last position that it has confirmed. */
async function evict(session: Session, name: string): Promise<bigint> {
  await session.query(END_READER, [name]);
  for (let tries = DROPS_MAX;; tries--) {
    const [state] = await session.query(SLOT_STATE, [name]);
    if (state === undefined) throw new Error(`the replication slot ${name} was dropped`);
    if (state["active_pid"] === null || tries === 1) return BigInt(state["confirmed"] as string);
    await pause(DROP_PAUSE_MS);
  }
}

/** Returns what is to be followed, and the name of the permanent slot. @throws The remedy. */
async function readPlace(session: Session, names: TableNames, catalog: string): Promise<Place> {
  const missing = await missingSetting(session);
  if (missing !== null) throw new Error(missing);
  const [found] = await session.query(PLACE);
  const { server, slot } = found as { server: string; slot: string };
  const rows = await checkTable(session, names);
  const published = await publishedAs(session, catalog);
  return { name: slot, published, server, rows, hasMessages: found!["has_messages"] === true };
}

/**
 * Makes a slot that ends with the connection which will read it. Changes from before it are a gap. Drops the permanent
 * slot that an origin has left: it would fill the disk.
 *
 * @param evicts Whether connections that use slots are ended: they are those of an origin before.
 * @throws When the log cannot be followed, with the remedy.
 */
export async function makeTemporarySlot(
  session: Session,
  connection: Pick<ReplicationConnection, "query">,
  names: TableNames,
  { state: catalog }: Followed,
  evicts: boolean,
): Promise<Slot> {
  const before = await readPlace(session, names, catalog);
  await forgetPlace(session);
  const [state] = await session.query(SLOT_STATE, [before.name]);
  if (evicts) await session.query(END_TEMPORARY, [before.name]);
  if (state?.["is_own"] && (evicts || state["active_pid"] === null)) {
    await dropSlot(session, before.name);
  }
  const made = await connection.query(MAKE_TEMPORARY);
  if (made["server"] !== before.server) {
    throw new Error("the connection of the log has reached another server");
  }
  // As with a permanent one.
  await endOfTransactions(session);
  const name = made["name"] as string;
  const gap = `the replication slot ${name} is temporary, and has no changes from before it`;
  const confirmed = BigInt(made["confirmed"] as string);
  return { ...before, name, place: null, gap, confirmed };
}

/**
 * Resolves when all transactions that write, and have begun before this call, have ended: reads see those that were
 * committed.
 */
export async function endOfTransactions(session: Session): Promise<void> {
  // A snapshot's end is no number to wait for: transactions behind it may have begun.
  const [own] = await session.query("SELECT pg_current_xact_id()::text AS id");
  for (;;) {
    const [row] = await session.query(
      "SELECT pg_snapshot_xmin(pg_current_snapshot()) > $1::text::xid8 AS is_over",
      [own!["id"] as string],
    );
    if (row!["is_over"]) return;
    await pause(VISIBLE_PAUSE_MS);
  }
}

/** Notes that everything must be emptied before the log is followed again. */
export async function forgetPlace(session: Session): Promise<void> {
  await session.query(FORGET);
}

/** Returns the transaction of others that has written for longest, with what ends it; null: there is none. */
export async function oldestWriter(session: Session): Promise<string | null> {
  const [row] = await session.query(OLDEST_WRITER);
  if (row === undefined) return null;
  const age = row["sec"] === null
    ? `${row["transactions"]} transactions old (GRANT pg_read_all_stats TO ${
      row["role"]
    } shows the seconds)`
    : `open for ${row["sec"]} s`;
  return row["gid"] === null
    ? `the transaction of process ${row["pid"]}, ${age}: commit or end it (pg_terminate_backend)`
    : `the prepared transaction '${row["gid"]}', ${age}: COMMIT PREPARED or ROLLBACK PREPARED it`;
}

/** Notes that everything was emptied after the slot was made. */
export async function noteFollowed(session: Session, { place }: Slot): Promise<void> {
  if (place === null) return;
  await session.query(REMEMBER, [place]);
}

/** The end of the log that is on the disk, and the server whose log it is: `Slot.server`. */
export interface LogEnd {
  readonly server: string;
  readonly position: bigint;
}

/** Returns the end of the log that is on the disk. */
export async function readEnd(session: Session): Promise<LogEnd> {
  const [row] = await session.query(END);
  return { server: row!["server"] as string, position: BigInt(row!["position"] as string) };
}

/** As `readEnd`, after everything that was committed before is on the disk. */
export async function flushToEnd(session: Session): Promise<LogEnd> {
  await session.query(FLUSH);
  return await readEnd(session);
}

/**
 * Records a gap if the slot has confirmed more than this server has: another one has read the log meanwhile. Once the
 * log is sent to this server, nobody else can.
 *
 * @param confirmed The position up to which this server has applied the log.
 * @throws The gap.
 */
export async function checkConfirmed(
  session: Session,
  { name }: Slot,
  confirmed: bigint,
): Promise<void> {
  const [state] = await session.query(SLOT_STATE, [name]);
  if (state !== undefined && BigInt(state["confirmed"] as string) <= confirmed) return;
  await forgetPlace(session);
  throw new Error(`another server has read the log of the replication slot ${name}`);
}

/** Returns the bytes of the log that the slot retains. */
export async function readRetained(session: Session, { name }: Slot): Promise<number> {
  const [state] = await session.query(SLOT_STATE, [name]);
  if (state === undefined) throw new Error(`the replication slot ${name} was dropped`);
  return Number(state["retained"]);
}

/** Drops a slot. A connection that uses it is ended, which takes the server a moment. */
async function dropSlot(session: Session, name: string): Promise<void> {
  await session.query(END_READER, [name]);
  for (let tries = DROPS_MAX;; tries--) {
    try {
      await session.query("SELECT pg_drop_replication_slot($1)", [name]);
      return;
    } catch (error) {
      if (!isInUse(error) || tries === 1) throw error;
      await pause(DROP_PAUSE_MS);
    }
  }
}

function gapOf(
  note: string | undefined,
  place: string,
  state: Readonly<Record<string, unknown>> | undefined,
  name: string,
): string | null {
  if (state === undefined) return `the replication slot ${name} does not exist`;
  if (state["wal_status"] === "lost") {
    const reason = (state["reason"] as string | null) ?? "max_slot_wal_keep_size";
    return `the replication slot ${name} is lost: ${reason}`;
  }
  if (note === undefined) return "the log was not followed before, or had not all changes";
  if (note !== place) {
    return `the server, its timeline, the publication, a table in it, or what views read has changed: ${note} is now ${place}`;
  }
  return null;
}

/** @throws When the log would not have the keys of the table's changes. */
async function checkTable(session: Session, names: TableNames): Promise<RowTable> {
  const { table } = quotedNames(names);
  const leaves = await session.query(TABLE, [table, PUBLICATION]);
  // In this order: a table without a key for the log must not be published.
  for (const leaf of leaves) {
    const { name } = leaf;
    if (name === null || hasOld(identityOf(leaf), names.key)) continue;
    throw new Error(
      `table ${name} does not log the old ${names.key} of a changed row: ` +
        `ALTER TABLE ${name} REPLICA IDENTITY USING INDEX … of ${names.key}, or FULL`,
    );
  }
  const [found] = leaves;
  if (found?.["has_heirs"]) {
    throw new Error(
      `tables inherit from table ${names.table}, whose log has no changes of their rows: name another --table`,
    );
  }
  if (!found?.["is_published"]) {
    throw new Error(
      `table ${names.table} is not in the publication ${PUBLICATION} with all its changes: ` +
        `let its owner start \`${followCommand(false)}\``,
    );
  }
  return { oid: found["oid"] as string, keyName: names.key };
}

function placeOf(server: string, name: string, published: string): string {
  return `${server} ${name} ${published}`;
}

/** Returns the state of the publication and of the catalog. */
async function publishedAs(session: Session, catalog: string): Promise<string> {
  const [row] = await session.query(PUBLICATION_STATE);
  return `${row?.["state"] ?? "none"} ${catalog}`;
}

/** Returns why the log has not all changes of the tables of views; null: it has. */
async function findUnpublished(
  session: Session,
  { tables }: ViewMapping,
): Promise<string | null> {
  if (tables.length === 0) return null;
  const oids = `{${tables.join(",")}}`;
  const [row] = await session.query(PUBLISHED_COUNT, [oids]);
  if (row!["count"] !== tables.length) {
    return `a table of views was dropped and made again, or the publication ${PUBLICATION} has not all its changes any more: ` +
      `start \`${followCommand(true)}\``;
  }
  const [child] = await session.query(CHILDREN, [oids]);
  return child === undefined
    ? null
    : `table ${
      child["name"]
    } inherits from a table of views: the changes of a view must name it, too`;
}
