import { reasonOf } from "../reason.ts";

const LOCK_NAME = "lock";

/** The state directory cannot be used. */
export class StateError extends Error {
  override readonly name = "StateError";
}

/** The identity of a file or folder, independent of its name. */
interface Identity {
  readonly dev: number;
  readonly ino: number | null;
}

/** The state directory, locked, so that no two servers write the same journal. The lock ends with the process. */
export class StateFolder {
  readonly path: string;
  readonly #folder: Identity;
  #lock: Deno.FsFile;

  /**
   * Creates the directory if it is missing, and locks it.
   *
   * @throws StateError when another server has locked it, or the system denies access.
   */
  constructor(path: string) {
    this.path = path;
    try {
      makeFolder(path);
      this.#folder = Deno.statSync(path);
      this.#lock = this.#openLock();
    } catch (error) {
      if (error instanceof StateError) throw error;
      throw new StateError(`cannot use the state directory ${path}: ${reasonOf(error)}`);
    }
  }

  /**
   * Checks that the directory is the one of the start, and still locked. Locks it again if the lock file was removed.
   *
   * @throws StateError when it was replaced, or when another server has locked it; the system's error when it is
   *   missing.
   */
  requireOwned(): void {
    if (!isSame(Deno.statSync(this.path), this.#folder)) {
      throw new StateError(`the state directory ${this.path} was replaced; start the server again`);
    }
    if (isSame(statOrNull(this.#lockPath), this.#lock.statSync())) return;
    const lock = this.#openLock();
    this.#lock.close();
    this.#lock = lock;
  }

  close(): void {
    this.#lock.close();
  }

  get #lockPath(): string {
    return `${this.path}/${LOCK_NAME}`;
  }

  #openLock(): Deno.FsFile {
    const file = Deno.openSync(this.#lockPath, { write: true, create: true });
    if (file.tryLockSync(true)) return file;
    file.close();
    throw new StateError(`the state directory ${this.path} is in use by another server`);
  }
}

/** Whether both are the same file or folder. */
export function isSame(a: Identity | null, b: Identity): boolean {
  return a !== null && a.dev === b.dev && a.ino === b.ino;
}

/** Returns a file's metadata, or null if the file does not exist. */
export function statOrNull(path: string): Deno.FileInfo | null {
  try {
    return Deno.statSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

/** Creates a folder that survives a power cut. */
function makeFolder(path: string): void {
  if (statOrNull(path) !== null) return;
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
