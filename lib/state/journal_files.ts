import { isSame, type StateFolder, statOrNull, syncFolder } from "./state_folder.ts";

/** A file that the journal appends to. */
export interface JournalFile {
  /** Writes at the end. @returns How many bytes were written, at least 1. */
  write(bytes: Uint8Array): number;
  /** Returns when all that was written is on the disk. */
  sync(): void;
  /** Whether the folder has this file under that name: nobody has removed or replaced it. */
  isNamed(name: string): boolean;
  close(): void;
}

/** The folder of the journal, as far as the journal needs it. Every call may throw, as the disk does. */
export interface JournalFiles {
  /** A file's bytes; null when there is no such file. */
  read(name: string): Uint8Array | null;
  /** Makes an empty file in place of any other of that name. */
  create(name: string): JournalFile;
  /** Gives a file another name; a file that has that name goes. */
  rename(from: string, to: string): void;
  /** Returns when names that were made, changed or removed are on the disk. */
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
