import { COLUMNS_ADVICE, postgresSchema } from "../base/schema.ts";
import { quotedNames, type TableNames } from "../base/table.ts";
import type { ColumnType, ColumnTypes } from "./columns.ts";
import type { Session } from "./session.ts";

/** Key of the advisory lock under which an origin creates tables: an arbitrary number. */
const SCHEMA_LOCK = 7_305_803;

/**
 * Creates missing tables and columns.
 *
 * @returns The types of the columns.
 * @throws When a column's type compares different keys as equal, or does not preserve every byte.
 */
export async function prepareTables(session: Session, names: TableNames): Promise<ColumnTypes> {
  let types = await readTypes(session, names);
  if (types === null) {
    await session.query("BEGIN");
    await session.query(`SELECT pg_advisory_xact_lock(${SCHEMA_LOCK})`);
    await session.query(postgresSchema(names));
    if (!await session.commit()) throw new Error("cannot make the origin's tables");
    types = await readTypes(session, names);
  }
  return checkedTypes(types, names);
}

/** Returns the types of the columns as they are now. @throws As `prepareTables`. */
export async function readColumnTypes(session: Session, names: TableNames): Promise<ColumnTypes> {
  return checkedTypes(await readTypes(session, names), names);
}

function checkedTypes(types: ReadonlyMap<string, string> | null, names: TableNames): ColumnTypes {
  if (types === null) {
    throw new Error(`table ${names.table} or one of its columns is missing: ${COLUMNS_ADVICE}`);
  }
  const key = columnType(types.get(names.key), /^(?:bytea|text|character varying(?:\(\d+\))?)$/);
  const value = columnType(types.get(names.value), /^(?:bytea|text|character varying)$/);
  if (key === null || value === null) {
    const name = key === null ? names.key : names.value;
    const type = types.get(name) ?? "missing";
    throw new Error(
      `column ${name} of table ${names.table} is ${type}: must be bytea or text; ${COLUMNS_ADVICE}`,
    );
  }
  return { key, value };
}

/** Returns the types of the table's columns, or null if a table or a column is missing. */
async function readTypes(
  session: Session,
  names: TableNames,
): Promise<ReadonlyMap<string, string> | null> {
  const rows = await session.query(
    "SELECT attname AS name, format_type(atttypid, atttypmod) || " +
      "CASE WHEN collisdeterministic IS FALSE THEN ' with a nondeterministic collation' ELSE '' END AS type " +
      "FROM pg_attribute LEFT JOIN pg_collation AS used ON used.oid = attcollation " +
      "WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped " +
      "AND EXISTS (SELECT FROM pg_attribute AS origin WHERE origin.attrelid = to_regclass('leased_proxy') " +
      "AND origin.attname = 'mark') AND to_regclass('leased_applied') IS NOT NULL",
    [quotedNames(names).table],
  );
  const types = new Map(rows.map(({ name, type }) => [name as string, type as string]));
  const { key, value, version, flags, expiry = "" } = names;
  const columns = [key, value, version, flags, ...expiry === "" ? [] : [expiry]];
  const isWhole = columns.every((name) => types.has(name));
  return isWhole ? types : null;
}

function columnType(type: string | undefined, allowed: RegExp): ColumnType | null {
  if (type === undefined || !allowed.test(type)) return null;
  return type === "bytea" ? "bytea" : "text";
}
