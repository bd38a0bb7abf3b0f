import type { Cache } from "../../store/cache.ts";
import { type SnapshotHeader, tablesIn } from "../../store/setup.ts";
import { encodeChecksums, encodeStart, partChecksum, type SavedRows } from "./snapshot_format.ts";

/** Bytes written between two syncs, which take place while more is written. */
const SYNC_BYTES = 64 * 1024 * 1024;
/** Bytes that may be written and not synced: more would make the system stop the main thread in a write. */
const UNSYNCED_BYTES_MAX = 4 * SYNC_BYTES;

/** Creates a file that only this user can read. @throws When the path has something already, a link included. */
export function createFile(path: string): Deno.FsFile {
  return Deno.openSync(path, { write: true, createNew: true, mode: 0o600 });
}

/**
 * Writes a store, which no thread changes, to a new file and syncs it. Closes the file.
 *
 * @param path Of the file.
 * @param writtenBy This version, for messages of the next one.
 * @param rows The rows in it; null: none.
 * @param onWritten Called after every piece with its length and the length of all pages, in bytes; what it returns is
 *   waited for.
 * @returns The length of the file in bytes.
 * @throws The system's error, such as that of a full disk; Error if the store has been changed: its pages are not those
 *   of its tables, and the next process would refuse the file.
 */
export async function writeStore(
  cache: Cache,
  newFile: Deno.FsFile,
  path: string,
  writtenBy: string,
  rows: SavedRows | null,
  onWritten: (bytes: number, allBytes: number) => Promise<void>,
): Promise<number> {
  using file = new SyncedFile(newFile, path);
  const { snapshots } = cache;
  const store = snapshots.describe();
  const tables = snapshots.saveTables(store);
  const pieces = snapshots.pieces(store, tablesIn(store, tables));
  const pagesBytes = pieces.reduce((sum, { bytes }) => sum + bytes, 0);
  const description = { writtenBy, writtenUnixMs: Date.now(), store, rows };
  const start = encodeStart(description, tables, pieces.length, pagesBytes);
  const checksums = [partChecksum(tables, 0)];
  const copy = new Uint8Array(Math.max(0, ...pieces.map(({ bytes }) => bytes)));
  await file.write(start);
  // After a power cut the next process knows the file by its first bytes.
  await file.end();
  for (const [index, piece] of pieces.entries()) {
    // The runtime writes from memory of its own four times as fast as from shared memory.
    const bytes = copy.subarray(0, piece.bytes);
    bytes.set(snapshots.bytesOf(piece));
    checksums.push(partChecksum(bytes, index + 1));
    await file.write(bytes);
    await onWritten(piece.bytes, pagesBytes);
  }
  requireUnchanged(cache, store, tables);
  const end = encodeChecksums(checksums);
  await file.write(end);
  await file.end();
  return start.length + pagesBytes + end.length;
}

function requireUnchanged(cache: Cache, store: SnapshotHeader, tables: Uint8Array): void {
  const now = cache.snapshots.describe();
  const nowTables = cache.snapshots.saveTables(now);
  if (
    JSON.stringify(now) !== JSON.stringify(store) ||
    !nowTables.every((byte, at) => byte === tables[at])
  ) {
    throw new Error("the store has changed while it was written");
  }
}

/**
 * A new file that is synced while it is written, so that the disk and the processor work at the same time. Writes are
 * synchronous: they copy to the page cache, for which the runtime's asynchronous ones take three times as long.
 */
class SyncedFile implements Disposable {
  readonly #file: Deno.FsFile;
  /** The runtime refuses a write to a file during its sync, not to another one with the same data. */
  readonly #synced: Deno.FsFile;
  #writtenBytes = 0;
  /** Bytes that were written when the last sync began. */
  #syncedBytes = 0;
  #syncing: Promise<void> | null = null;
  #failure: unknown = null;

  constructor(file: Deno.FsFile, path: string) {
    this.#file = file;
    this.#synced = Deno.openSync(path, { write: true });
  }

  /** @throws The error of this write, or of a sync. */
  async write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) at += this.#file.writeSync(bytes.subarray(at));
    this.#writtenBytes += bytes.length;
    const unsynced = this.#writtenBytes - this.#syncedBytes;
    if (unsynced >= UNSYNCED_BYTES_MAX) await this.#syncing;
    if (this.#failure !== null) throw this.#failure;
    if (unsynced >= SYNC_BYTES) this.#syncing ??= this.#sync();
  }

  async #sync(): Promise<void> {
    const bytes = this.#writtenBytes;
    try {
      await this.#synced.syncData();
      this.#syncedBytes = bytes;
    } catch (error) {
      this.#failure = error;
    }
    this.#syncing = null;
  }

  /** Syncs the rest. @throws The error of a sync. */
  async end(): Promise<void> {
    await this.#syncing;
    if (this.#failure !== null) throw this.#failure;
    await this.#file.sync();
  }

  [Symbol.dispose](): void {
    this.#file.close();
    this.#synced.close();
  }
}
