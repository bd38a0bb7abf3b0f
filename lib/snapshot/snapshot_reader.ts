import {
  isReadable,
  type PagePiece,
  type SnapshotHeader,
  type SnapshotTables,
  tableBytes,
  tablesIn,
} from "../../store/setup.ts";
import {
  decodeChecksums,
  type DecodedStart,
  decodeStart,
  type Description,
  partChecksum,
  SnapshotError,
} from "./snapshot_format.ts";
import { reasonOf } from "../reason.ts";

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
    if (!isReadable(store)) throw new Error("its items have the layout of another version");
    const checksums = decodeChecksums(this.#read(places.checksums, (pieces + 2) * 4));
    if (checksums === null) throw new Error("its checksums are damaged");
    const tables = this.#read(places.tables, tableBytes(store));
    if (partChecksum(tables, 0) !== checksums[0]) throw new Error("its tables are damaged");
    this.description = description;
    this.tables = tablesIn(store, tables);
    this.pagesBytes = places.checksums - places.pages;
    this.#pagesAt = places.pages;
    this.#checksums = checksums;
  }

  /**
   * Opens a snapshot.
   *
   * @returns Null if there is no file.
   * @throws SnapshotError if the file cannot be loaded.
   */
  static open(path: string): SnapshotReader | null {
    let file;
    try {
      file = Deno.openSync(path);
      return new SnapshotReader(path, file);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return null;
      file?.close();
      throw new SnapshotError(`${path}: ${reasonOf(error)}`);
    }
  }

  get store(): SnapshotHeader {
    return this.description.store;
  }

  /**
   * Reads all pages.
   *
   * @param bytesOf Returns the memory for a piece.
   * @param onRead Called after every piece with its length in bytes.
   * @throws SnapshotError if a piece is damaged.
   */
  async readPieces(
    pieces: readonly PagePiece[],
    bytesOf: (piece: PagePiece) => Uint8Array,
    onRead: (bytes: number) => void,
  ): Promise<void> {
    let position = this.#pagesAt;
    this.#file.seekSync(position, Deno.SeekMode.Start);
    for (const [index, piece] of pieces.entries()) {
      const bytes = bytesOf(piece);
      for (let at = 0; at < bytes.length;) {
        const read = await this.#file.read(bytes.subarray(at));
        if (read === null) throw new SnapshotError(`${this.#path}: it is truncated`);
        at += read;
      }
      if (partChecksum(bytes, index + 1) !== this.#checksums[index + 1]) {
        throw new SnapshotError(`${this.#path}: the pages at byte ${position} are damaged`);
      }
      position += bytes.length;
      onRead(bytes.length);
    }
  }

  /** Reads bytes of the pages. @param position 0 is the first byte of the first page. */
  readPages(position: number, to: Uint8Array): void {
    this.#file.seekSync(this.#pagesAt + position, Deno.SeekMode.Start);
    for (let at = 0; at < to.length;) {
      const read = this.#file.readSync(to.subarray(at));
      if (read === null) throw new SnapshotError(`${this.#path}: it is truncated`);
      at += read;
    }
  }

  close(): void {
    this.#file.close();
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
