import { PUBLICATION_STATE, WITHDRAW } from "../../../lib/databases/postgres/publication.ts";

/**
 * The statements of a session that belong to the log, by a part of their texts that no other one has. The model
 * executes what stands for the text.
 */
const TEXTS = {
  hello: "current_setting('server_version_num')::int AS version",
  withdraw: WITHDRAW,
  catalogState: "WITH RECURSIVE space",
  publicationState: PUBLICATION_STATE,
  level: "current_setting('wal_level')",
  bound: "current_setting('max_slot_wal_keep_size')",
  place: "AS has_messages FROM pg_control_system()",
  end: "pg_current_wal_flush_lsn() - '0/0' AS position",
  flush: "pg_logical_emit_message(true",
  table: "followed.is_published",
  slotState: "confirmed_flush_lsn - '0/0' AS confirmed",
  endTemporary: "WHERE temporary AND database = current_database()",
  note: "SELECT place FROM leased_follow",
  forget: "DELETE FROM leased_follow",
  remember: "INSERT INTO leased_follow",
  makeSlot: "FROM pg_create_logical_replication_slot($1",
  dropSlot: "SELECT pg_drop_replication_slot($1)",
  endReader:
    "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1",
  xid: "SELECT pg_current_xact_id()::text",
  isOver: "pg_snapshot_xmin(pg_current_snapshot()) >",
  snapshot: "pg_current_snapshot()::text AS snapshot",
  oldestWriter: "FROM pg_locks LEFT JOIN pg_prepared_xacts",
} as const;

/** Name of a statement of the log. */
export type LogStatementName = keyof typeof TEXTS;

/** A row of a result. */
export type LogRow = Readonly<Record<string, string | number | boolean | null>>;

/** Returns the name of a statement. @throws When the model does not know it. */
export function nameOf(text: string): LogStatementName {
  for (const [name, part] of Object.entries(TEXTS)) {
    if (text.includes(part)) return name as LogStatementName;
  }
  throw new Error(`the model of PostgreSQL does not know the statement ${text}`);
}
