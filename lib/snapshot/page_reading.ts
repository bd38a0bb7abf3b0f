import { partChecksum } from "./snapshot_format.ts";

/** Consecutive pages of a snapshot, and the memory for them. */
export interface PieceToRead {
  readonly bytes: Uint8Array;
  /** Its offset in the file, in bytes. */
  readonly position: number;
  /** Its number among the parts that have checksums. */
  readonly part: number;
  readonly checksum: number;
}

/** Pieces that one or more threads read. Plain data and shared memory. */
export interface PageReading {
  readonly path: string;
  readonly pieces: readonly PieceToRead[];
  /** Pieces that a thread has taken; `ENDED`: none is to be taken any more. */
  readonly taken: Int32Array;
}

/** A message of a thread: bytes that it has read, or why it has ended; null: its work is done. */
export type ReadingMessage =
  | { readonly kind: "read"; readonly bytes: number }
  | { readonly kind: "ended"; readonly reason: string | null };

/** More than there can be pieces. */
const ENDED = 2 ** 30;

/**
 * Reads pieces until none is left. Reads are synchronous: they copy from the page cache, for which the runtime's
 * asynchronous ones take twice as long.
 *
 * @returns After every piece its length in bytes.
 * @throws Why the file cannot be loaded; the other threads end, too.
 */
export function* readPages({ path, pieces, taken }: PageReading): Generator<number> {
  using file = Deno.openSync(path);
  try {
    for (;;) {
      const piece = pieces[Atomics.add(taken, 0, 1)];
      if (piece === undefined) return;
      readAt(file, piece.position, piece.bytes);
      if (partChecksum(piece.bytes, piece.part) !== piece.checksum) {
        throw new Error(`the pages at byte ${piece.position} are damaged`);
      }
      yield piece.bytes.length;
    }
  } catch (error) {
    Atomics.store(taken, 0, ENDED);
    throw error;
  }
}

/** Fills `bytes` from a position on. @throws When the file ends before. */
export function readAt(file: Deno.FsFile, position: number, bytes: Uint8Array): void {
  file.seekSync(position, Deno.SeekMode.Start);
  for (let at = 0; at < bytes.length;) {
    const read = file.readSync(bytes.subarray(at));
    if (read === null) throw new Error("it is truncated");
    at += read;
  }
}
