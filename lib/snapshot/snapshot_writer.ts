import type { Cache } from "../../store/cache.ts";
import { tablesIn } from "../../store/setup.ts";
import { encodeChecksums, encodeStart, partChecksum, type SavedRows } from "./snapshot_format.ts";

/**
 * Writes a store, which no thread changes, to a file and syncs it.
 *
 * @param writtenBy This version, for messages of the next one.
 * @param rows The rows in it; null: none.
 * @param onWritten Called after every piece with its length and the length of all pages, in bytes.
 * @returns The length of the file in bytes.
 * @throws The system's error, such as that of a full disk.
 */
export async function writeStore(
  cache: Cache,
  file: Deno.FsFile,
  writtenBy: string,
  rows: SavedRows | null,
  onWritten: (bytes: number, allBytes: number) => void,
): Promise<number> {
  const { snapshots } = cache;
  const store = snapshots.describe();
  const tables = snapshots.saveTables(store);
  const pieces = snapshots.pieces(store, tablesIn(store, tables));
  const pagesBytes = pieces.reduce((sum, { bytes }) => sum + bytes, 0);
  const description = { writtenBy, writtenUnixMs: Date.now(), store, rows };
  const start = encodeStart(description, tables, pieces.length, pagesBytes);
  const checksums = [partChecksum(tables, 0)];
  const longest = Math.max(0, ...pieces.map(({ bytes }) => bytes));
  const copies = [new Uint8Array(longest), new Uint8Array(longest)];
  let written = writeAll(file, start);
  for (const [index, piece] of pieces.entries()) {
    // The runtime writes from memory of its own faster than from shared memory. One copy is written meanwhile.
    const copy = copies[index % 2]!.subarray(0, piece.bytes);
    copy.set(snapshots.bytesOf(piece));
    checksums.push(partChecksum(copy, index + 1));
    await written;
    written = writeAll(file, copy);
    onWritten(piece.bytes, pagesBytes);
  }
  await written;
  const end = encodeChecksums(checksums);
  await writeAll(file, end);
  await file.sync();
  return start.length + pagesBytes + end.length;
}

async function writeAll(file: Deno.FsFile, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
}
