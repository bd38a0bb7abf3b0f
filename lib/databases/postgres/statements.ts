import { foundOf } from "../base/found.ts";
import { type Found, PURGE_MAX } from "../base/backend.ts";
import { quotedNames, type TableNames } from "../base/table.ts";
import { bytesOf, type ColumnTypes } from "./columns.ts";
import type { ResultRow, Session } from "./session.ts";

/** `$2` bounds later waits for locks of the transaction, in milliseconds; 0: only the statement's time-out does. */
export const LOCK_EPOCH = "SELECT epoch, set_config('lock_timeout', $2, true) FROM leased_proxy " +
  "WHERE epoch = $1 FOR SHARE";

/** The SQL statements of a backend, and the types of columns that their parameters are encoded for. */
export type Statements = ReturnType<typeof statementsFor>;

// deno-lint-ignore explicit-function-return-type -- its keys are its type
export function statementsFor(names: TableNames, types: ColumnTypes) {
  const { table, key, value, version, flags, expiry } = quotedNames(names);
  const [ofRow, ofInput, update, list, given] = expiry === "" ? ["NULL", "", "", "", ""] : [
    `row.${expiry}`,
    ", $12::bigint[]",
    `, ${expiry} = nullif(input.expiry, 0)`,
    `, ${expiry}`,
    ", nullif(expiry, 0)",
  ];
  const named = expiry === "" ? "" : ", expiry";
  const columns =
    `row.${key} AS key, row.${flags} AS flags, row.${value} AS data, row.${version} AS version, ` +
    `${ofRow} AS expires`;
  // The server would write bytes to a column that has become text as `\\x…`: a CASE refuses to mix both.
  const sameType = `CASE WHEN true THEN input.value ELSE row.${value} END`;
  const rowOfTable = `(${key}, ${flags}, ${value}, ${version}${list})`;
  return {
    types,
    read: `SELECT ${columns}, origin.epoch AS epoch FROM leased_proxy AS origin ` +
      `LEFT JOIN ${table} AS row ON row.${key} = ANY ($1::${types.key}[])`,
    lockRows: `SELECT ${columns}, 0 AS epoch FROM ${table} AS row ` +
      `WHERE row.${key} = ANY ($1::${types.key}[]) ORDER BY row.${key} FOR UPDATE`,
    lockedRows: `WITH free AS MATERIALIZED (SELECT row.${key} AS key FROM ${table} AS row ` +
      `WHERE row.${key} = ANY ($1::${types.key}[]) FOR UPDATE SKIP LOCKED) ` +
      `SELECT row.${key} AS key FROM ${table} AS row WHERE row.${key} = ANY ($1::${types.key}[]) ` +
      `AND NOT EXISTS (SELECT FROM free WHERE free.key = row.${key})`,
    expire: expiry === "" ? "" : `UPDATE ${table} SET ${flags} = 0, ${value} = NULL, ` +
      `${expiry} = NULL, ${version} = ${version} + 1 WHERE ${key} IN (SELECT ${key} FROM ${table} ` +
      `WHERE ${expiry} > 0 AND ${expiry} <= $1 LIMIT ${PURGE_MAX} FOR UPDATE SKIP LOCKED)`,
    // The lock on the epoch comes first: without it, no other part has a row. `count` is the number of a key's writes.
    write: `WITH origin AS (${LOCK_EPOCH.replace("$2", "$11")}), ` +
      `input AS (SELECT input.* FROM unnest($2::${types.key}[], $3::bigint[], $4::${types.value}[], $5::bigint[], $10::boolean[]${ofInput}) ` +
      `WITH ORDINALITY AS input (key, flags, value, count, is_new${named}, position), origin), ` +
      `locked AS MATERIALIZED (SELECT row.${key} AS key FROM ${table} AS row, origin ` +
      `WHERE row.${key} = ANY ($2) ORDER BY row.${key} FOR UPDATE OF row), ` +
      `updated AS (UPDATE ${table} AS row SET ${flags} = input.flags, ${value} = ${sameType}${update}, ` +
      `${version} = row.${version} + input.count FROM input, locked ` +
      `WHERE row.${key} = input.key AND locked.key = input.key AND NOT input.is_new ` +
      `RETURNING input.key AS key, row.${version} AS version), ` +
      `inserted AS (INSERT INTO ${table} ${rowOfTable} SELECT key, flags, value, count${given} FROM input ` +
      `WHERE NOT EXISTS (SELECT FROM updated WHERE updated.key = input.key) ORDER BY key ` +
      `ON CONFLICT (${key}) DO NOTHING RETURNING ${key} AS key, ${version} AS version), ` +
      "written AS (SELECT position, version FROM (SELECT * FROM updated UNION ALL SELECT * FROM inserted) AS row " +
      "JOIN input USING (key)) " +
      "INSERT INTO leased_applied (token, version, at) SELECT used.token, version - used.behind, $9 " +
      "FROM unnest($6::bigint[], $7::bigint[], $8::bigint[]) AS used (token, position, behind) " +
      "JOIN written USING (position) RETURNING token, version",
  };
}

export async function readEpoch(session: Session): Promise<number> {
  const [row] = await session.query("SELECT epoch FROM leased_proxy");
  return Number(row!["epoch"]);
}

/** Returns the row of a result, and the version. */
export function foundIn(
  { epoch, flags, data, version, expires = null }: ResultRow,
  nowUnixMs: number,
): Found {
  const numberOf = (value: unknown): number | null => value === null ? null : Number(value);
  const row = {
    flags: numberOf(flags),
    data: data === null ? null : bytesOf(data),
    version: numberOf(version),
    expires: numberOf(expires),
  };
  return foundOf(row, Number(epoch), nowUnixMs);
}
