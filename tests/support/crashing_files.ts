import type { JournalFile, JournalFiles } from "../../lib/journal/token_journal.ts";

/** The error of the simulated disk. */
export class DiskError extends Error {
  override readonly name = "DiskError";
}

/** A file's bytes as programs see them, and as they are on the disk. */
interface Inode {
  bytes: Uint8Array;
  durable: Uint8Array;
  /** End of the bytes that were written, */
  written: number;
  /** of these on the disk. Reserved zeros may follow. */
  synced: number;
}

/** Room is reserved for so many bytes only, so that writes soon get beyond it. */
const RESERVED_MAX = 300;

/** A number below `bound`. */
type Below = (bound: number) => number;

/**
 * A folder in memory on a disk that can fail and crash. Unsynced bytes may survive a crash in whole, in part or
 * garbled; an unsynced name may be the old one or the new one.
 */
export class CrashingFiles implements JournalFiles {
  #names = new Map<string, Inode>();
  #durableNames = new Map<string, Inode>();
  /** Calls so far. */
  calls = 0;
  /** Files that are not closed. */
  openFiles = 0;
  /** Files that were created. */
  created = 0;
  #failFrom = Infinity;
  #failTo = Infinity;
  #below: Below = () => 0;

  /**
   * Makes the disk fail.
   *
   * @param calls Number of calls that succeed before; Infinity: the disk does not fail.
   * @param below Decides how much of a failing write is written, and whether a failing rename takes place.
   * @param failures Number of calls that fail then.
   */
  failAfter(calls: number, below: Below = () => 0, failures = Infinity): void {
    this.#failFrom = this.calls + calls;
    this.#failTo = this.#failFrom + failures;
    this.#below = below;
  }

  /** The machine stops and starts again. */
  crash(below: Below): void {
    if (below(2) === 0) this.#names = this.#durableNames;
    this.#durableNames = new Map(this.#names);
    for (const inode of this.#names.values()) {
      const { synced, written } = inode;
      const end = synced + below(written - synced + 1);
      const bytes = new Uint8Array(Math.max(inode.durable.length, end));
      bytes.set(inode.durable);
      bytes.set(inode.bytes.subarray(synced, end), synced);
      if (end > synced && below(3) === 0) {
        // A page that was not written in the middle of those that were.
        const from = synced + below(end - synced);
        bytes.fill(0, from, Math.min(end, from + 1 + below(40)));
      }
      Object.assign(inode, { bytes, durable: bytes.slice(), written: end, synced: end });
    }
  }

  /** The bytes that were written, without reserved ones. */
  bytes(name: string): Uint8Array {
    const { bytes, written } = this.#names.get(name)!;
    return bytes.slice(0, written);
  }

  length(name: string): number {
    return this.#names.get(name)!.written;
  }

  put(name: string, bytes: Uint8Array): void {
    this.#names.set(name, { bytes, durable: bytes, written: bytes.length, synced: bytes.length });
  }

  read(name: string): Uint8Array | null {
    return this.#names.get(name)?.bytes ?? null;
  }

  create(name: string): JournalFile {
    if (this.#fails()) throw new DiskError("create");
    this.created++;
    const inode: Inode = {
      bytes: new Uint8Array(),
      durable: new Uint8Array(),
      written: 0,
      synced: 0,
    };
    this.#names.set(name, inode);
    return this.#opened(inode);
  }

  open(name: string, at: number): JournalFile {
    if (this.#fails()) throw new DiskError("open");
    const inode = this.#names.get(name)!;
    inode.written = at;
    inode.synced = Math.min(inode.synced, at);
    return this.#opened(inode);
  }

  #opened(inode: Inode): JournalFile {
    let isOpen = true;
    this.openFiles++;
    const put = (piece: Uint8Array): void => {
      const end = inode.written + piece.length;
      if (end > inode.bytes.length) {
        const { buffer } = inode.bytes;
        const larger = end <= buffer.byteLength ? buffer : new ArrayBuffer(2 * end);
        const bytes = new Uint8Array(larger, 0, end);
        if (larger !== buffer) bytes.set(inode.bytes);
        inode.bytes = bytes;
      }
      inode.bytes.set(piece, inode.written);
    };
    const write = (bytes: Uint8Array): number => {
      if (!isOpen) throw new Error("the file is closed");
      const fails = this.#fails();
      const length = fails ? this.#below(bytes.length + 1) : bytes.length;
      put(bytes.subarray(0, length));
      if (fails) throw new DiskError("write");
      return length;
    };
    return {
      reserve: (length) => {
        const left = inode.bytes.length - inode.written;
        write(new Uint8Array(Math.min(length, Math.max(RESERVED_MAX, left))));
      },
      write: (bytes) => {
        const length = write(bytes);
        inode.written += length;
        return length;
      },
      sync: () => {
        if (!isOpen) throw new Error("the file is closed");
        if (this.#fails()) throw new DiskError("sync");
        inode.durable = inode.bytes.slice();
        inode.synced = inode.written;
      },
      isNamed: (other) => this.#names.get(other) === inode,
      close: () => {
        if (isOpen) this.openFiles--;
        isOpen = false;
      },
    };
  }

  rename(from: string, to: string): void {
    const fails = this.#fails();
    if (!fails || this.#below(2) === 0) {
      this.#names.set(to, this.#names.get(from)!);
      this.#names.delete(from);
    }
    if (fails) throw new DiskError("rename");
  }

  sync(): void {
    if (this.#fails()) throw new DiskError("sync of the folder");
    this.#durableNames = new Map(this.#names);
  }

  #fails(): boolean {
    const call = this.calls++;
    return call >= this.#failFrom && call < this.#failTo;
  }
}
