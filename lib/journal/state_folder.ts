import { entryAt, kindOf, targetAt } from "../process/file_kinds.ts";
import { reasonOf } from "../process/reason.ts";
import { JOURNAL_NAMES, type JournalFile, type JournalFiles } from "./token_journal.ts";

const LOCK_NAME = "lock";
/** Zeros of one write to reserved room. */
const ZEROS = new Uint8Array(64 * 1024);

/** The state directory cannot be used. */
export class StateError extends Error {
  override readonly name = "StateError";
}

/** The identity of a file or folder, independent of its name. */
interface Identity {
  readonly dev: number;
  readonly ino: number | null;
}

/** The state directory, locked, so that only one server writes its journal. The lock ends with the process. */
export class StateFolder implements JournalFiles {
  readonly #path: string;
  readonly #folder: Identity;
  #lock: Deno.FsFile;

  /**
   * Creates the directory if it is missing, and locks it.
   *
   * @throws StateError when another server has locked it, or the system denies access.
   */
  constructor(path: string) {
    this.#path = path;
    try {
      makeFolder(path);
      this.#folder = Deno.statSync(path);
      requireOwn(path);
      this.#lock = this.#openLock();
    } catch (error) {
      if (error instanceof StateError) throw error;
      throw new StateError(`cannot use the state directory ${path}: ${reasonOf(error)}`);
    }
  }

  read(name: string): Uint8Array | null {
    try {
      return Deno.readFileSync(this.#pathOf(name));
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return null;
      throw error;
    }
  }

  /** @throws StateError when the directory no longer belongs to this server. */
  create(name: string): JournalFile {
    this.#requireOwned();
    return this.#opened(name, { write: true, create: true, truncate: true });
  }

  open(name: string, at: number): JournalFile {
    return this.#opened(name, { write: true }, at);
  }

  #opened(name: string, options: Deno.OpenOptions, at = 0): JournalFile {
    const file = Deno.openSync(this.#pathOf(name), options);
    file.lockSync(true);
    file.seekSync(at, Deno.SeekMode.Start);
    return {
      reserve: (length) => reserve(file, length),
      write: (bytes) => file.writeSync(bytes),
      sync: () => file.syncDataSync(),
      isNamed: (other) => isLocked(this.#pathOf(other)),
      close: () => file.close(),
    };
  }

  rename(from: string, to: string): void {
    Deno.renameSync(this.#pathOf(from), this.#pathOf(to));
  }

  sync(): void {
    syncFolder(this.#path);
  }

  close(): void {
    this.#lock.close();
  }

  /**
   * Checks that the directory is the one of the start, and still locked. Locks it again if the lock file was removed.
   *
   * @throws StateError when it was replaced, or when another server has locked it; the system's error when it is
   *   missing.
   */
  #requireOwned(): void {
    if (!isSame(Deno.statSync(this.#path), this.#folder)) {
      throw new StateError(
        `the state directory ${this.#path} was replaced; start the server again`,
      );
    }
    if (isSame(targetAt(this.#pathOf(LOCK_NAME)), this.#lock.statSync())) return;
    const lock = this.#openLock();
    this.#lock.close();
    this.#lock = lock;
  }

  #pathOf(name: string): string {
    return `${this.#path}/${name}`;
  }

  #openLock(): Deno.FsFile {
    const file = Deno.openSync(this.#pathOf(LOCK_NAME), { write: true, create: true });
    if (file.tryLockSync(true)) return file;
    file.close();
    throw new StateError(`the state directory ${this.#path} is in use by another server`);
  }
}

/**
 * Checks that the names of the state directory's files are free, or have files: to open a FIFO would wait for ever.
 *
 * @throws StateError
 */
function requireOwn(path: string): void {
  const info = Deno.statSync(path);
  if (!info.isDirectory) {
    const reason = `it is ${kindOf(info)}, not a folder`;
    throw new StateError(`cannot use the state directory ${path}: ${reason}`);
  }
  for (const name of [LOCK_NAME, ...JOURNAL_NAMES]) {
    const file = entryAt(`${path}/${name}`);
    if (file === null || (file.isFile && (name !== LOCK_NAME || file.size === 0))) continue;
    const what = file.isFile ? "a file of another program" : kindOf(file);
    throw new StateError(
      `${path}/${name} is ${what}: move it away, or choose another folder with --state-dir`,
    );
  }
}

/** Whether both are the same file or folder. */
function isSame(a: Identity | null, b: Identity): boolean {
  return a !== null && a.dev === b.dev && a.ino === b.ino;
}

/** Creates a folder that survives a power cut. */
function makeFolder(path: string): void {
  if (targetAt(path) !== null) return;
  Deno.mkdirSync(path, { recursive: true, mode: 0o700 });
  try {
    syncFolder(path.replace(/\/*[^/]+\/*$/, "") || (path.startsWith("/") ? "/" : "."));
  } catch (error) {
    // The common file systems write the folder's name together with the first file in it.
    if (!(error instanceof Deno.errors.NotCapable)) throw error;
  }
}

/** Syncs the names in a folder to the disk. */
export function syncFolder(path: string): void {
  const folder = Deno.openSync(path);
  try {
    folder.syncSync();
  } finally {
    folder.close();
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

/** Writes zeros after the file's position, and keeps the position. On a full disk the file keeps its length. */
function reserve(file: Deno.FsFile, length: number): void {
  const position = file.seekSync(0, Deno.SeekMode.Current);
  try {
    for (let left = length; left > 0;) left -= file.writeSync(ZEROS.subarray(0, left));
  } catch {
    file.truncateSync(position);
  }
  file.seekSync(position, Deno.SeekMode.Start);
}
