import { quotedNames, type TableNames } from "../table.ts";
import { PUBLICATION } from "../schema.ts";
import type { RowTable } from "./pgoutput.ts";
import type { Session } from "./session.ts";
import type { ViewMapping } from "../../views/view_mapping.ts";

/** The slot of a database: names of slots are the server's, and the number of a database is its own. */
const SLOT = "'leased_' || oid FROM pg_database WHERE datname = current_database()";
const SERVER = "SELECT current_setting('wal_level') AS level, system_identifier::text AS system, " +
  `left(pg_walfile_name(pg_current_wal_lsn()), 8) AS timeline, (SELECT ${SLOT}) AS slot FROM pg_control_system()`;
/** `is_whole`: an update or a deletion logs the key of the old row. */
const TABLE =
  "SELECT pg_class.oid::text AS oid, EXISTS (SELECT FROM pg_publication WHERE pubname = $2 AND pubinsert AND pubupdate AND pubdelete AND pubtruncate) " +
  "AND EXISTS (SELECT FROM pg_publication_tables JOIN pg_class ON relname = tablename " +
  "WHERE pubname = $2 AND pg_class.oid = to_regclass($1)) AS is_published, " +
  "relreplident = 'f' OR EXISTS (SELECT FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey) " +
  "WHERE indrelid = pg_class.oid AND attname = $3 AND " +
  "CASE relreplident WHEN 'd' THEN indisprimary WHEN 'i' THEN indisreplident ELSE false END) AS is_whole " +
  "FROM pg_class WHERE oid = to_regclass($1)";
const SLOT_STATE =
  "SELECT database = current_database() AND plugin = 'pgoutput' AS is_own, wal_status, active_pid, " +
  "confirmed_flush_lsn - '0/0' AS confirmed, greatest(pg_current_wal_lsn() - restart_lsn, 0) AS retained, " +
  "to_jsonb(pg_replication_slots)->>'invalidation_reason' AS reason FROM pg_replication_slots WHERE slot_name = $1";
const PUBLISHED =
  "SELECT count(*)::int AS count FROM pg_publication_rel JOIN pg_publication ON pg_publication.oid = prpubid " +
  "WHERE pubname = $1 AND prrelid = ANY ($2::oid[])";
const NOTE = "SELECT place FROM leased_follow";
const FORGET = "DELETE FROM leased_follow";
const REMEMBER =
  "INSERT INTO leased_follow VALUES (1, $1) ON CONFLICT (one) DO UPDATE SET place = $1";

/** Pause before a transaction that is not visible yet is looked for again. */
export const VISIBLE_PAUSE_MS = 2;

/** The slot that keeps the log for the origin. */
export interface Slot {
  readonly name: string;
  /** The server and its timeline, and the slot. */
  readonly place: string;
  /** Why changes may be missing; null: none is. */
  readonly gap: string | null;
  readonly confirmed: bigint;
  readonly rows: RowTable;
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
  evicts: boolean,
): Promise<Slot> {
  const [server] = await session.query(SERVER);
  const { level, system, timeline, slot } = server!;
  if (level !== "logical") {
    throw new Error(
      `wal_level is ${level}: --follow needs wal_level = logical, and a restart of PostgreSQL`,
    );
  }
  const rows = await checkTable(session, names);
  const name = slot as string;
  const place = `${system} ${timeline} ${name}`;
  const [note] = await session.query(NOTE);
  const [state] = await session.query(SLOT_STATE, [name]);
  if (state !== undefined && !state["is_own"]) {
    throw new Error(
      `the replication slot ${name} is not one of pgoutput in this database: drop it`,
    );
  }
  const gap = gapOf(note?.["place"] as string | undefined, place, state, name);
  if (gap !== null) {
    await session.query(FORGET);
    if (state !== undefined) await dropSlot(session, name);
    const [made] = await session.query(
      "SELECT lsn - '0/0' AS confirmed FROM pg_create_logical_replication_slot($1, 'pgoutput')",
      [name],
    );
    // A commit before the slot's start may not be visible yet: a read would fill the old value for good.
    await endOfTransactions(session);
    return { name, place, gap, confirmed: BigInt(made!["confirmed"] as string), rows };
  }
  if (evicts && state!["active_pid"] !== null) {
    await session.query("SELECT pg_terminate_backend($1)", [Number(state!["active_pid"])]);
  }
  return { name, place, gap, confirmed: BigInt(state!["confirmed"] as string), rows };
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
    await new Promise((resolve) => setTimeout(resolve, VISIBLE_PAUSE_MS));
  }
}

/** @throws When the log has not the changes of a table of views any more: it was made anew, or taken out. */
export async function checkPublished(session: Session, { tables }: ViewMapping): Promise<void> {
  if (tables.length === 0) return;
  const [row] = await session.query(PUBLISHED, [PUBLICATION, `{${tables.join(",")}}`]);
  if (row!["count"] === tables.length) return;
  throw new Error(
    `a table of views was made anew, or is not in the publication ${PUBLICATION} any more: ` +
      "start `leased proxy init --follow --views <file> --run`, and send this server SIGHUP",
  );
}

/** Notes that everything was emptied after the slot was made. */
export async function noteFollowed(session: Session, { place }: Slot): Promise<void> {
  await session.query(REMEMBER, [place]);
}

/** Returns the bytes of the log that the slot retains. */
export async function readRetained(session: Session, { name }: Slot): Promise<number> {
  const [state] = await session.query(SLOT_STATE, [name]);
  if (state === undefined) throw new Error(`the replication slot ${name} was dropped`);
  return Number(state["retained"]);
}

async function dropSlot(session: Session, name: string): Promise<void> {
  await session.query(
    "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1",
    [name],
  );
  await session.query("SELECT pg_drop_replication_slot($1)", [name]);
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
  if (note === undefined) return "the log was not followed before";
  if (note !== place) return `the server or its timeline has changed: ${note} is now ${place}`;
  return null;
}

/** @throws When the log would not have the keys of the table's changes. */
async function checkTable(session: Session, names: TableNames): Promise<RowTable> {
  const { table } = quotedNames(names);
  const [found] = await session.query(TABLE, [table, PUBLICATION, names.key]);
  if (!found?.["is_published"]) {
    throw new Error(
      `table ${names.table} is not in the publication ${PUBLICATION} with all kinds of changes: ` +
        "let its owner start `leased proxy init --follow --run`",
    );
  }
  if (found["is_whole"]) return { oid: found["oid"] as string, keyName: names.key };
  throw new Error(
    `table ${names.table} does not log the old ${names.key} of a changed row: ` +
      `ALTER TABLE ${table} REPLICA IDENTITY USING INDEX … of ${names.key}, or FULL`,
  );
}
