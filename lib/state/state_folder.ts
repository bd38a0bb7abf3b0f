const LOCK_NAME = "lock";

/** The state directory cannot be used. */
export class StateError extends Error {
  override readonly name = "StateError";
}

/** Which file or folder it is, whatever its name. */
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
   * Makes the directory if it is missing, and locks it.
   *
   * @throws StateError when another server has it, or the system refuses.
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
   * Checks that the directory is the one of the start, and still locked; locks it again if somebody removed the lock.
   *
   * @throws StateError when it was replaced, or when another server has it. What the system says when it is gone.
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

/** Whether two are the same file, or folder. */
export function isSame(a: Identity | null, b: Identity): boolean {
  return a !== null && a.dev === b.dev && a.ino === b.ino;
}

/** What the system knows of a file; null when there is none. */
export function statOrNull(path: string): Deno.FileInfo | null {
  try {
    return Deno.statSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

/** Makes a folder, so that a power cut does not take it away again. */
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

/** Returns when the names in a folder are on the disk. */
export function syncFolder(path: string): void {
  const folder = Deno.openSync(path);
  try {
    folder.syncSync();
  } finally {
    folder.close();
  }
}

/** Returns the message of an error. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
