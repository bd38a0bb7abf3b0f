import { type StateFolder, syncFolder } from "./state_folder.ts";

/** Bytes that one write to reserved room fills. */
const ZEROS = new Uint8Array(64 * 1024);

/** A file that the journal appends to. */
export interface JournalFile {
  /**
   * Makes room for the next `length` bytes, filled with zeros. Once it is synced, and until it is full, a sync of
   * written bytes has no change of the file's size or blocks to write. Without room on the disk the file stays as it
   * is.
   */
  reserve(length: number): void;
  /** Writes behind the bytes written before. @returns How many bytes were written, at least 1. */
  write(bytes: Uint8Array): number;
  /** Returns when all written bytes are on the disk. */
  sync(): void;
  /** Whether the folder still has this file under that name: it was neither removed nor replaced. */
  isNamed(name: string): boolean;
  close(): void;
}

/** The journal's operations on its folder. Every call may throw the disk's error. */
export interface JournalFiles {
  /** Returns a file's bytes, or null if the file does not exist. */
  read(name: string): Uint8Array | null;
  /** Creates an empty file, in place of any file of that name. */
  create(name: string): JournalFile;
  /** Renames a file; replaces a file that has the new name. */
  rename(from: string, to: string): void;
  /** Returns when created, changed and removed names are on the disk. */
  sync(): void;
}

/** The files of the state directory. */
export class FolderFiles implements JournalFiles {
  readonly #folder: StateFolder;

  constructor(folder: StateFolder) {
    this.#folder = folder;
  }

  read(name: string): Uint8Array | null {
    try {
      return Deno.readFileSync(this.#path(name));
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return null;
      throw error;
    }
  }

  /** @throws StateError when the directory does not belong to this server any more. */
  create(name: string): JournalFile {
    this.#folder.requireOwned();
    const file = Deno.openSync(this.#path(name), { write: true, create: true, truncate: true });
    file.lockSync(true);
    return {
      reserve: (length) => reserve(file, length),
      write: (bytes) => file.writeSync(bytes),
      sync: () => file.syncDataSync(),
      isNamed: (other) => isLocked(this.#path(other)),
      close: () => file.close(),
    };
  }

  rename(from: string, to: string): void {
    Deno.renameSync(this.#path(from), this.#path(to));
  }

  sync(): void {
    syncFolder(this.#folder.path);
  }

  #path(name: string): string {
    return `${this.#folder.path}/${name}`;
  }
}

/**
 * Whether a file exists and is locked. Unlike a comparison of inode numbers it does not read the file's times: Linux
 * 6.13 and later would give the next write a new time, and the next sync would have to write the inode.
 */
function isLocked(path: string): boolean {
  let file;
  try {
    file = Deno.openSync(path, { write: true });
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
  try {
    return !file.tryLockSync(true);
  } finally {
    file.close();
  }
}

/** Writes zeros from the file's position on, which stays. On a full disk the file keeps its length. */
function reserve(file: Deno.FsFile, length: number): void {
  const position = file.seekSync(0, Deno.SeekMode.Current);
  try {
    for (let left = length; left > 0;) left -= file.writeSync(ZEROS.subarray(0, left));
  } catch {
    file.truncateSync(position);
  }
  file.seekSync(position, Deno.SeekMode.Start);
}
