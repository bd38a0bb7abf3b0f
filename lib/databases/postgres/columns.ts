/** The type of a column of bytes. */
export type ColumnType = "bytea" | "text";

/** The types of a table's columns. */
export interface ColumnTypes {
  readonly key: ColumnType;
  readonly value: ColumnType;
}

/** Bytes as a value of their column. */
export type Stored = Uint8Array | string;

/** Returns bytes as a value of a column, or undefined if the column cannot hold them. */
export function storedAs(bytes: Uint8Array, type: ColumnType): Stored | undefined {
  if (type === "bytea") return bytes;
  if (bytes.includes(0)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** Returns the bytes of a value of a column. */
export function bytesOf(value: unknown): Uint8Array {
  if (typeof value === "string") return new TextEncoder().encode(value);
  const { buffer, byteOffset, byteLength } = value as Uint8Array;
  return new Uint8Array(buffer, byteOffset, byteLength);
}
