import { quotedNames, type TableNames } from "./table.ts";

/** The remedy for a table of an application's. */
export const COLUMNS_ADVICE =
  "rows need columns for key, value, version and flags: name them with --key-column, --value-column, " +
  "--version-column and --flags-column, or choose another --table; `leased rows init` prints the SQL";

/** Returns the command that makes what an origin follows. @param hasViews Also for the tables of views. */
export function followCommand(hasViews: boolean): string {
  return `leased rows init --follow${hasViews ? " --views <file>" : ""} --run --db <database>`;
}

/** Returns the statements that create the missing tables in an SQLite file. */
export function sqliteSchema(names: TableNames): string {
  const { table, key, value, version, flags, expiry } = quotedNames(names);
  return `CREATE TABLE IF NOT EXISTS ${table} (
  ${key} BLOB PRIMARY KEY,
  ${flags} INTEGER NOT NULL DEFAULT 0,
  ${value} BLOB,
  ${version} INTEGER NOT NULL DEFAULT 1${
    expiry === "" ? "" : `,
  ${expiry} INTEGER`
  }
);
CREATE TABLE IF NOT EXISTS leased_proxy (one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER NOT NULL);
INSERT OR IGNORE INTO leased_proxy VALUES (1, 0);
CREATE TABLE IF NOT EXISTS leased_nodes (one INTEGER PRIMARY KEY CHECK (one = 1), serves_ms INTEGER NOT NULL);
INSERT OR IGNORE INTO leased_nodes VALUES (1, 0);
CREATE TABLE IF NOT EXISTS leased_mark (one INTEGER PRIMARY KEY CHECK (one = 1), mark TEXT NOT NULL);
INSERT OR IGNORE INTO leased_mark VALUES (1, '');
CREATE TABLE IF NOT EXISTS leased_applied (token INTEGER PRIMARY KEY, version INTEGER NOT NULL, at INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS leased_applied_at ON leased_applied (at);
`;
}

/** Changes that an SQLite file keeps at most while no origin reads them. */
export const CHANGES_MAX = 1_000_000;
/** How often their number is looked at, in changes. */
const BOUND_EVERY = 1000;

/**
 * Returns the statements that create the table of changes of an SQLite file, which triggers write. The oldest changes
 * go when there are too many: the next origin then finds that it has not followed this schema.
 *
 * @param changesMax After how many changes; tests set fewer.
 */
export function sqliteFollowSchema(changesMax = CHANGES_MAX): string {
  return `CREATE TABLE IF NOT EXISTS leased_changes (id INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB);
CREATE TABLE IF NOT EXISTS leased_follow (one INTEGER PRIMARY KEY CHECK (one = 1), own INTEGER NOT NULL, followed INTEGER NOT NULL);
INSERT OR IGNORE INTO leased_follow VALUES (1, 0, 0);
CREATE TRIGGER IF NOT EXISTS leased_changes_bound AFTER INSERT ON leased_changes WHEN NEW.id % ${BOUND_EVERY} = 0 BEGIN UPDATE leased_follow SET followed = 0 WHERE EXISTS (SELECT 1 FROM leased_changes WHERE id <= NEW.id - ${changesMax}); DELETE FROM leased_changes WHERE id <= NEW.id - ${changesMax}; END;
`;
}

/** Returns the statements that create missing tables and columns in a PostgreSQL database. */
export function postgresSchema(names: TableNames): string {
  const { table, key, value, version, flags, expiry } = quotedNames(names);
  const addExpiry = expiry === ""
    ? ""
    : `ALTER TABLE ${table} ADD COLUMN IF NOT EXISTS ${expiry} bigint;
`;
  return `CREATE TABLE IF NOT EXISTS ${table} (
  ${key} bytea PRIMARY KEY,
  ${flags} bigint NOT NULL DEFAULT 0,
  ${value} bytea,
  ${version} bigint NOT NULL DEFAULT 1
);
ALTER TABLE ${table} ADD COLUMN IF NOT EXISTS ${flags} bigint NOT NULL DEFAULT 0;
ALTER TABLE ${table} ADD COLUMN IF NOT EXISTS ${version} bigint NOT NULL DEFAULT 1;
${addExpiry}CREATE TABLE IF NOT EXISTS leased_proxy (one integer PRIMARY KEY CHECK (one = 1), epoch bigint NOT NULL);
ALTER TABLE leased_proxy ADD COLUMN IF NOT EXISTS serves_ms bigint NOT NULL DEFAULT 0;
ALTER TABLE leased_proxy ADD COLUMN IF NOT EXISTS mark text NOT NULL DEFAULT '';
INSERT INTO leased_proxy VALUES (1, 0) ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS leased_applied (token bigint PRIMARY KEY, version bigint NOT NULL, at bigint NOT NULL);
CREATE INDEX IF NOT EXISTS leased_applied_at ON leased_applied (at);
`;
}
