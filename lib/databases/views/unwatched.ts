import type { TransportEvent } from "../../net/transport.ts";
import type { View, Views } from "./view.ts";
import { COMMENT_OR_QUOTED } from "./views_file.ts";

/** What has another value without a change of a table: time, chance, the session. PostgreSQL and SQLite. */
const CALLS = [
  ...["now", "clock_timestamp", "statement_timestamp", "transaction_timestamp", "timeofday"],
  ...["random", "randomblob", "random_normal", "gen_random_uuid", "nextval", "lastval"],
  ...["changes", "total_changes", "last_insert_rowid", "txid_current", "pg_current_xact_id"],
  ...["current_setting", "pg_backend_pid", "inet_client_addr"],
];
const WORDS = [
  ...["current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"],
  ...["current_user", "session_user", "current_role", "current_schema", "tablesample"],
];
const UNWATCHED = new RegExp(
  `\\b(?:(?:${CALLS.join("|")})\\s*\\(|(?:${
    WORDS.join("|")
  })\\b|(?:date|time|datetime|julianday|unixepoch)\\s*\\(\\s*\\))`,
  "i",
);
const TIMES = /^'(?:now|today|tomorrow|yesterday)'$/i;

/** Returns what the result of a view's query depends on beside its tables, as the query has it; null: on nothing. */
export function unwatchedPart({ query }: View): string | null {
  const parts = query.match(COMMENT_OR_QUOTED) ?? [];
  const time = parts.find((part) => TIMES.test(part));
  if (time !== undefined) return time;
  const [found] = UNWATCHED.exec(query.replaceAll(COMMENT_OR_QUOTED, " ")) ?? [];
  return found === undefined ? null : found.replace(/\s*\(.*/s, "()").toLowerCase();
}

/** Says why values of a view may be old unnoticed; null: they are not, or not for longer than its `max-age`. */
export function unwatchedWarning(view: View): string | null {
  const part = view.maxAgeSec > 0 ? null : unwatchedPart(view);
  return part && `its result depends on ${part}, no change of which is noticed: give it a max-age`;
}

/** Returns the warnings of views for the log. */
export function unwatchedEvents({ all }: Views): TransportEvent[] {
  return all.flatMap((view) => {
    const reason = unwatchedWarning(view);
    if (reason === null) return [];
    const { name } = view;
    const message = `view ${name}: ${reason}`;
    return [{ level: "warning", event: "view_unwatched", message, fields: { view: name, reason } }];
  });
}
