import type { DatabaseSync, StatementSync } from "node:sqlite";
import { PURGE_MAX } from "../base/backend.ts";
import { quotedNames, type TableNames } from "../base/table.ts";

/** A row of a result; all columns are null if the row does not exist. */
export interface SqliteRow {
  readonly flags: number | null;
  /** A text or a number has its bytes in the encoding of the file. */
  readonly data: Uint8Array | null;
  /** The storage class of `data`. */
  readonly type: string;
  readonly version: number | null;
  readonly expires: number | null;
  readonly epoch: number;
}

/** The SQL statements of a backend. */
export type SqliteStatements = ReturnType<typeof sqliteStatements>;

// deno-lint-ignore explicit-function-return-type -- its keys are its type
export function sqliteStatements(database: DatabaseSync, names: TableNames) {
  const prepare = (sql: string): StatementSync => database.prepare(sql);
  const { table, key, value, version, flags, expiry } = quotedNames(names);
  const hasExpiry = expiry !== "";
  const columns = [key, flags, value, ...hasExpiry ? [expiry] : []];
  const changes = columns.slice(1).map((name) => `${name} = excluded.${name}`);
  return {
    read: prepare(
      // The runtime would cut a text at the character NUL.
      `SELECT row.${flags} AS flags, CAST(row.${value} AS BLOB) AS data, typeof(row.${value}) AS type, ` +
        `row.${version} AS version, ` +
        `${hasExpiry ? `row.${expiry}` : "NULL"} AS expires, ` +
        `origin.epoch AS epoch FROM leased_proxy AS origin LEFT JOIN ${table} AS row ` +
        `ON row.${key} = ?`,
    ),
    put: prepare(
      `INSERT INTO ${table} (${columns.join(", ")}, ${version}) ` +
        `VALUES (${columns.map(() => "?").join(", ")}, 1) ` +
        `ON CONFLICT (${key}) DO UPDATE SET ${changes.join(", ")}, ` +
        `${version} = ${table}.${version} + 1 RETURNING ${version} AS version`,
    ),
    epoch: prepare("UPDATE leased_proxy SET epoch = epoch + 1 RETURNING epoch"),
    apply: prepare(
      "INSERT INTO leased_applied (token, version, at) " +
        "SELECT CAST(key AS INTEGER), value, ?2 FROM json_each(?1)",
    ),
    applied: prepare("SELECT version FROM leased_applied WHERE token = ?"),
    purge: prepare("DELETE FROM leased_applied WHERE at < ?"),
    servedByNodes: prepare("SELECT serves_ms AS ms FROM leased_nodes"),
    noteNodes: prepare(
      "UPDATE leased_nodes SET serves_ms = ? FROM leased_proxy AS origin WHERE origin.epoch = ? " +
        "RETURNING serves_ms AS ms",
    ),
    mark: prepare("SELECT mark FROM leased_mark"),
    noteMark: prepare(
      "UPDATE leased_mark SET mark = ? FROM leased_proxy AS origin WHERE origin.epoch = ? RETURNING mark",
    ),
    /** Null: rows have no expiry times. */
    expire: hasExpiry
      ? prepare(
        `UPDATE ${table} SET ${flags} = 0, ${value} = NULL, ${expiry} = NULL, ` +
          `${version} = ${version} + 1 WHERE ${key} IN (SELECT ${key} FROM ${table} ` +
          `WHERE ${expiry} > 0 AND ${expiry} <= ? LIMIT ${PURGE_MAX})`,
      )
      : null,
  };
}
