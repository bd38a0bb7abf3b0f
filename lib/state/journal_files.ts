import { isSame, type StateFolder, statOrNull, syncFolder } from "./state_folder.ts";

/** A file that the journal appends to. */
export interface JournalFile {
  /** Writes at the end. @returns How many bytes were written, at least 1. */
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
    return {
      write: (bytes) => file.writeSync(bytes),
      sync: () => file.syncDataSync(),
      isNamed: (other) => isSame(statOrNull(this.#path(other)), file.statSync()),
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
