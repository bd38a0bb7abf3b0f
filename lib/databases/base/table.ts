/** The names of the table of rows and of its columns. */
export interface TableNames {
  readonly table: string;
  readonly key: string;
  readonly value: string;
  readonly version: string;
  readonly flags: string;
  /** Column of the time at which the row expires, in Unix seconds; "" or left out: rows do not expire. */
  readonly expiry?: string;
}

/** The names without options. */
export const DEFAULT_TABLE: TableNames = {
  table: "kv",
  key: "key",
  value: "value",
  version: "version",
  flags: "flags",
};

/** Returns a name as an SQL identifier. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Returns all names as SQL identifiers. */
export function quotedNames(
  { table, key, value, version, flags, expiry = "" }: TableNames,
): Required<TableNames> {
  return {
    table: quoted(table),
    key: quoted(key),
    value: quoted(value),
    version: quoted(version),
    flags: quoted(flags),
    expiry: expiry === "" ? "" : quoted(expiry),
  };
}
