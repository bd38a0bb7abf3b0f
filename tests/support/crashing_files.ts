import type { JournalFile, JournalFiles } from "../../lib/state/journal_files.ts";

/** The error of the simulated disk. */
export class DiskError extends Error {
  override readonly name = "DiskError";
}

/** A file's bytes as programs see them, and as they are on the disk. */
interface Inode {
  bytes: Uint8Array;
  durable: Uint8Array;
}

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
      const kept = inode.durable.length;
      const more = Math.max(0, inode.bytes.length - kept);
      const bytes = inode.bytes.slice(0, kept + below(more + 1));
      bytes.set(inode.durable.subarray(0, bytes.length));
      if (bytes.length > kept && below(3) === 0) {
        // A page that was not written in the middle of those that were.
        const from = kept + below(bytes.length - kept);
        bytes.fill(0, from, from + 1 + below(40));
      }
      inode.bytes = bytes;
      inode.durable = bytes.slice();
    }
  }

  bytes(name: string): Uint8Array {
    return this.#names.get(name)!.bytes.slice();
  }

  length(name: string): number {
    return this.#names.get(name)!.bytes.length;
  }

  put(name: string, bytes: Uint8Array): void {
    this.#names.set(name, { bytes, durable: bytes });
  }

  read(name: string): Uint8Array | null {
    return this.#names.get(name)?.bytes ?? null;
  }

  create(name: string): JournalFile {
    if (this.#fails()) throw new DiskError("create");
    const inode: Inode = { bytes: new Uint8Array(), durable: new Uint8Array() };
    this.#names.set(name, inode);
    let capacity = 0;
    let isOpen = true;
    const append = (piece: Uint8Array): void => {
      const length = inode.bytes.length;
      if (length + piece.length > capacity) {
        capacity = 2 * (length + piece.length);
        const larger = new Uint8Array(capacity);
        larger.set(inode.bytes);
        inode.bytes = larger.subarray(0, length);
      }
      inode.bytes = new Uint8Array(inode.bytes.buffer, 0, length + piece.length);
      inode.bytes.set(piece, length);
    };
    return {
      write: (bytes) => {
        if (!isOpen) throw new Error("the file is closed");
        const fails = this.#fails();
        const length = fails ? this.#below(bytes.length + 1) : bytes.length;
        append(bytes.subarray(0, length));
        if (fails) throw new DiskError("write");
        return length;
      },
      sync: () => {
        if (!isOpen) throw new Error("the file is closed");
        if (this.#fails()) throw new DiskError("sync");
        inode.durable = inode.bytes.slice();
      },
      isNamed: (other) => this.#names.get(other) === inode,
      close: () => {
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
