/** A file that the journal appends to. */
export interface JournalFile {
  /** Writes at the end. @returns How many bytes were written, at least 1. */
  write(bytes: Uint8Array): number;
  /** Returns when all that was written is on the disk. */
  sync(): void;
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

/** The files of a real folder. */
export class FolderFiles implements JournalFiles {
  readonly #folder: string;

  /** @param folder Its path. It exists. */
  constructor(folder: string) {
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

  create(name: string): JournalFile {
    const file = Deno.openSync(this.#path(name), { write: true, create: true, truncate: true });
    return {
      write: (bytes) => file.writeSync(bytes),
      sync: () => file.syncDataSync(),
      close: () => file.close(),
    };
  }

  rename(from: string, to: string): void {
    Deno.renameSync(this.#path(from), this.#path(to));
  }

  sync(): void {
    const folder = Deno.openSync(this.#folder);
    try {
      folder.syncSync();
    } finally {
      folder.close();
    }
  }

  #path(name: string): string {
    return `${this.#folder}/${name}`;
  }
}
