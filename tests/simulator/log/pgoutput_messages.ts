import { latin1Bytes } from "../../../store/base/bytes.ts";
import { DDL_MARK, MESSAGE_PREFIX } from "../../../lib/databases/postgres/ddl_trigger.ts";
import type { LogRecord } from "./wal.ts";

const BYTEA_OID = 17;

/** Bytes of a message: texts, and numbers of 1, 2, 4 and 8 bytes. */
type Part = string | readonly [bytes: 1 | 2 | 4 | 8, number: number];

function message(...parts: readonly Part[]): Uint8Array {
  const bytes = parts.flatMap((part) => {
    if (typeof part === "string") return [...latin1Bytes(part)];
    const [length, number] = part;
    const view = new DataView(new ArrayBuffer(8));
    view.setBigUint64(0, BigInt(number));
    return [...new Uint8Array(view.buffer).slice(8 - length)];
  });
  return Uint8Array.from(bytes);
}

/** Describes the table of rows: its column `key` is all that is looked at. */
function relation({ oid }: LogRecord): Uint8Array {
  const column: Part[] = [[1, 1], "key\0", [4, BYTEA_OID], [4, 0xffff_ffff]];
  return message("R", [4, oid], "public\0kv\0d", [2, 1], ...column);
}

function update({ oid }: LogRecord, key: string): Uint8Array {
  const text = `\\x${latin1Bytes(key).toHex()}`;
  return message("U", [4, oid], "N", [2, 1], "t", [4, text.length], text);
}

/** A program's message, which is part of a transaction. */
function text({ end }: LogRecord, content: string): Uint8Array {
  return message("M", [1, 1], [8, end], `${MESSAGE_PREFIX}\0`, [4, content.length], content);
}

/** Returns a transaction's messages, as pgoutput sends them. @param describes Whether they describe the table, too. */
export function messagesOf(record: LogRecord, describes: boolean): Uint8Array[] {
  const { xid, end, keys, hasDdl } = record;
  return [
    message("B", [8, end], [8, 0], [4, xid % 2 ** 32]),
    ...hasDdl ? [text(record, DDL_MARK)] : [],
    ...describes ? [relation(record)] : [],
    ...keys.map((key) => update(record, key)),
    message("C", [1, 0], [8, end], [8, end], [8, 0]),
  ];
}
