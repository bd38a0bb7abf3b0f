import {
  type PagePiece,
  pagePieces,
  type SnapshotHeader,
  type SnapshotTables,
  tableBytes,
  TablesCheck,
  tablesIn,
} from "../../store/setup.ts";
import {
  DamageError,
  decodeChecksums,
  type DecodedStart,
  decodeStart,
  type Description,
  partChecksum,
  SnapshotError,
} from "./snapshot_format.ts";
import {
  type PageReading,
  type PieceToRead,
  readAt,
  type ReadingMessage,
  readPages,
} from "./page_reading.ts";
import { reasonOf } from "../process/reason.ts";

/** A snapshot that is being read: its start, its tables and its checksums are in memory and intact. */
export class SnapshotReader {
  readonly description: Description;
  readonly tables: SnapshotTables;
  readonly pagesBytes: number;
  readonly #path: string;
  readonly #file: Deno.FsFile;
  readonly #pagesAt: number;
  /** Of the tables, then of each piece. */
  readonly #checksums: Uint32Array;

  private constructor(path: string, file: Deno.FsFile) {
    this.#path = path;
    this.#file = file;
    const { description, places, pieces } = this.#start();
    const { store } = description;
    const tables = this.#read(places.tables, tableBytes(store));
    this.tables = tablesIn(store, tables);
    this.pagesBytes = places.checksums - places.pages;
    this.#requirePieces(store, pieces);
    const checksums = decodeChecksums(this.#read(places.checksums, (pieces + 2) * 4));
    if (checksums === null) throw new Error("its checksums are damaged");
    if (partChecksum(tables, 0) !== checksums[0]) throw new Error("its tables are damaged");
    const fault = new TablesCheck(store, this.tables).fault();
    if (fault !== null) throw new Error(fault);
    this.description = description;
    this.#pagesAt = places.pages;
    this.#checksums = checksums;
  }

  /**
   * Opens a snapshot.
   *
   * @returns Null if there is no file.
   * @throws DamageError if the file cannot be loaded, SnapshotError if it cannot be read.
   */
  static open(path: string): SnapshotReader | null {
    let file;
    try {
      file = Deno.openSync(path);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return null;
      throw new SnapshotError(`cannot read the snapshot ${path}: ${reasonOf(error)}`);
    }
    try {
      return new SnapshotReader(path, file);
    } catch (error) {
      file.close();
      throw new DamageError(`${path}: ${reasonOf(error)}`);
    }
  }

  get store(): SnapshotHeader {
    return this.description.store;
  }

  /**
   * Reads all pages.
   *
   * @param bytesOf Returns the memory for a piece.
   * @param threads How many threads read; several need shared memory, other for each piece.
   * @param onRead Called after every piece with its length in bytes; what it returns is waited for.
   * @throws DamageError if a piece is damaged.
   */
  async readPieces(
    pieces: readonly PagePiece[],
    bytesOf: (piece: PagePiece) => Uint8Array,
    threads: number,
    onRead: (bytes: number) => Promise<void>,
  ): Promise<void> {
    let position = this.#pagesAt;
    const all = pieces.map((piece, index): PieceToRead => {
      const part = index + 1;
      const at = position;
      position += piece.bytes;
      return { bytes: bytesOf(piece), position: at, part, checksum: this.#checksums[part]! };
    });
    const taken = new Int32Array(new SharedArrayBuffer(4));
    const reading: PageReading = { path: this.#path, pieces: all, taken };
    try {
      if (threads > 1) await readByThreads(reading, threads, onRead);
      else for (const bytes of readPages(reading)) await onRead(bytes);
    } catch (error) {
      throw new DamageError(`${this.#path}: ${reasonOf(error)}`);
    }
  }

  /** Reads bytes of the pages. @param position 0 is the first byte of the first page. */
  readPages(position: number, to: Uint8Array): void {
    try {
      readAt(this.#file, this.#pagesAt + position, to);
    } catch (error) {
      throw new DamageError(`${this.#path}: ${reasonOf(error)}`);
    }
  }

  close(): void {
    this.#file.close();
  }

  /** Checks the number of pieces before memory for their checksums is allocated. @throws Error */
  #requirePieces({ layout }: SnapshotHeader, pieces: number): void {
    const found = pagePieces(this.tables.pages, layout.pageShift);
    const bytes = found.reduce((sum, piece) => sum + piece.bytes, 0);
    if (found.length !== pieces || bytes !== this.pagesBytes) {
      throw new Error("its tables are damaged, or its number of pages is");
    }
  }

  #start(): DecodedStart {
    const { size } = this.#file.statSync();
    return decodeStart((position, length) => this.#read(position, length), size);
  }

  /** Reads up to `length` bytes. */
  #read(position: number, length: number): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(length);
    this.#file.seekSync(position, Deno.SeekMode.Start);
    let at = 0;
    while (at < length) {
      const read = this.#file.readSync(bytes.subarray(at));
      if (read === null) break;
      at += read;
    }
    return at === length ? bytes : bytes.slice(0, at);
  }
}

/** Reads by other threads. Resolves when all have ended: none writes to the memory any more. */
async function readByThreads(
  reading: PageReading,
  threads: number,
  onRead: (bytes: number) => Promise<void>,
): Promise<void> {
  const reasons = await Promise.all(
    Array.from({ length: threads }, () => {
      const worker = new Worker(new URL("./read_worker.ts", import.meta.url), {
        type: "module",
        name: "leased-snapshot",
      });
      const ended = Promise.withResolvers<string | null>();
      worker.onmessage = ({ data }: MessageEvent<ReadingMessage>) => {
        if (data.kind === "read") void onRead(data.bytes);
        else ended.resolve(data.reason);
      };
      worker.onerror = (event) => {
        event.preventDefault();
        ended.resolve(`a thread that reads it has failed: ${event.message}`);
      };
      worker.postMessage(reading);
      return ended.promise;
    }),
  );
  const reason = reasons.find((each) => each !== null);
  if (reason !== undefined && reason !== null) throw new Error(reason);
}
