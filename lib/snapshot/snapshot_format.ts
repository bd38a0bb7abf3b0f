import { crc32 } from "node:zlib";
import {
  CLOCK_MS_MAX,
  headerFault,
  isReadable,
  type SnapshotHeader,
  tableBytes,
} from "../../store/setup.ts";

/** Why a file cannot be loaded, or a snapshot cannot be written. The message begins with the path. */
export class SnapshotError extends Error {
  override readonly name = "SnapshotError";
}

/** A snapshot is damaged, or has another version's format. */
export class DamageError extends SnapshotError {}

/**
 * A snapshot, little-endian. docs/internals/snapshot.md describes it.
 *
 *   byte 0   MAGIC
 *   16       version of the format
 *   20       bytes of the description
 *   24       pieces of pages
 *   28       CRC-32 of bytes 0..27 and of the description
 *   32       bytes of all pages, a double
 *   40       zeros
 *   48       the description: JSON
 *   …        tables, from a multiple of 8 on
 *   …        pages, from a multiple of PAGES_ALIGNMENT on
 *   …        CRC-32 of the tables, of each piece, and of all these
 */
export const MAGIC = new TextEncoder().encode("leased snapshot\n");
const VERSION = 1;
const AT = {
  VERSION: 16,
  DESCRIPTION_BYTES: 20,
  PIECES: 24,
  CHECKSUM: 28,
  PAGES_BYTES: 32,
} as const;
const DESCRIPTION_AT = 48;
const PAGES_ALIGNMENT = 4096;
/** A file whose description claims more is damaged. */
const DESCRIPTION_BYTES_MAX = 1024 * 1024;
const CHECKSUM_BYTES = 4;

/** The description of a database's rows in a snapshot. */
export interface SavedRows {
  /** Prefixes of the keys that are rows; "": all. */
  readonly prefixes: readonly string[];
  /** The options on which the values of rows depend. */
  readonly options: string;
  /** The note that the origin has left in the database at its end: no other origin was active before it. */
  readonly mark: string;
}

/** The description of a snapshot. */
export interface Description {
  readonly writtenBy: string;
  readonly writtenUnixMs: number;
  readonly store: SnapshotHeader;
  /** Null or left out: there are no rows in it. */
  readonly rows?: SavedRows | null;
}

/** Offsets of the parts of a snapshot, in bytes. */
export interface Places {
  readonly tables: number;
  readonly pages: number;
  readonly checksums: number;
  readonly end: number;
}

function placesOf(
  descriptionBytes: number,
  store: SnapshotHeader,
  pieces: number,
  pagesBytes: number,
): Places {
  const tables = Math.ceil((DESCRIPTION_AT + descriptionBytes) / 8) * 8;
  const pages = Math.ceil((tables + tableBytes(store)) / PAGES_ALIGNMENT) * PAGES_ALIGNMENT;
  const checksums = pages + pagesBytes;
  return { tables, pages, checksums, end: checksums + (pieces + 2) * CHECKSUM_BYTES };
}

/** Returns the bytes in front of the pages. */
export function encodeStart(
  description: Description,
  tables: Uint8Array,
  pieces: number,
  pagesBytes: number,
): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder().encode(JSON.stringify(description));
  const places = placesOf(text.length, description.store, pieces, pagesBytes);
  const bytes = new Uint8Array(places.pages);
  const view = new DataView(bytes.buffer);
  bytes.set(MAGIC);
  view.setUint32(AT.VERSION, VERSION, true);
  view.setUint32(AT.DESCRIPTION_BYTES, text.length, true);
  view.setUint32(AT.PIECES, pieces, true);
  view.setFloat64(AT.PAGES_BYTES, pagesBytes, true);
  bytes.set(text, DESCRIPTION_AT);
  bytes.set(tables, places.tables);
  view.setUint32(AT.CHECKSUM, startChecksum(bytes, text.length), true);
  return bytes;
}

function startChecksum(bytes: Uint8Array, descriptionBytes: number): number {
  const head = crc32(bytes.subarray(0, AT.CHECKSUM));
  return crc32(bytes.subarray(AT.PAGES_BYTES, DESCRIPTION_AT + descriptionBytes), head);
}

/** Returns the checksum of a part, the tables (0) or a piece (1 …): parts in each other's place are found out. */
export function partChecksum(bytes: Uint8Array, part: number): number {
  return crc32(bytes, part);
}

/** Returns the bytes behind the pages. */
export function encodeChecksums(checksums: readonly number[]): Uint8Array<ArrayBuffer> {
  const words = new Uint32Array(checksums.length + 1);
  words.set(checksums);
  const bytes = new Uint8Array(words.buffer);
  words[checksums.length] = crc32(bytes.subarray(0, checksums.length * CHECKSUM_BYTES));
  return bytes;
}

/** Returns the checksums of the parts, or null if they are damaged. */
export function decodeChecksums(bytes: Uint8Array<ArrayBuffer>): Uint32Array | null {
  const words = new Uint32Array(bytes.buffer);
  const parts = words.subarray(0, -1);
  return crc32(bytes.subarray(0, -CHECKSUM_BYTES)) === words.at(-1) ? parts : null;
}

/** Reads the description. @throws Error naming what cannot be true. */
function descriptionIn(text: string): Description {
  let value: Partial<Description> | null;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error("its description is no JSON");
  }
  const fault = headerFault(value?.store);
  if (fault !== null) throw new Error(fault);
  const { writtenBy, writtenUnixMs, store, rows } = value as Description;
  if (typeof writtenBy !== "string" || !/^[!-~]{1,64}$/.test(writtenBy)) {
    throw new Error("the version that has written it is damaged");
  }
  if (!(Number.isSafeInteger(writtenUnixMs) && writtenUnixMs >= 0)) {
    throw new Error("the time at which it was written is damaged");
  }
  // A version with another layout may have other words.
  if (isReadable(store) && store.clockMs + Date.now() - writtenUnixMs > CLOCK_MS_MAX) {
    throw new Error("it is too old: the store's clock ends");
  }
  if (rows !== undefined && rows !== null && !areRows(rows)) {
    throw new Error("its description of rows is damaged");
  }
  return { writtenBy, writtenUnixMs, store, rows: rows ?? null };
}

function areRows({ prefixes, options, mark }: Partial<SavedRows>): boolean {
  return Array.isArray(prefixes) && prefixes.every((prefix) => typeof prefix === "string") &&
    typeof options === "string" && typeof mark === "string";
}

/** The start of a file, read. */
export interface DecodedStart {
  readonly description: Description;
  readonly places: Places;
  readonly pieces: number;
}

/**
 * Reads the start of a file.
 *
 * @param read Reads so many bytes from a position on; fewer at the end of the file.
 * @param fileBytes The length of the file.
 * @throws Error with the reason why the file cannot be loaded.
 */
export function decodeStart(
  read: (position: number, length: number) => Uint8Array<ArrayBuffer>,
  fileBytes: number,
): DecodedStart {
  const head = read(0, DESCRIPTION_AT);
  if (!MAGIC.every((byte, at) => head[at] === byte)) throw new Error("it is no snapshot");
  if (head.length < DESCRIPTION_AT) throw new Error("it is truncated");
  const view = new DataView(head.buffer);
  const version = view.getUint32(AT.VERSION, true);
  if (version !== VERSION) {
    throw new Error(`it has format ${version}, and this version reads format ${VERSION}`);
  }
  const descriptionBytes = view.getUint32(AT.DESCRIPTION_BYTES, true);
  if (descriptionBytes > DESCRIPTION_BYTES_MAX) throw new Error("its start is damaged");
  const start = read(0, DESCRIPTION_AT + descriptionBytes);
  if (start.length < DESCRIPTION_AT + descriptionBytes) throw new Error("it is truncated");
  if (startChecksum(start, descriptionBytes) !== view.getUint32(AT.CHECKSUM, true)) {
    throw new Error("its start is damaged");
  }
  const text = new TextDecoder().decode(start.subarray(DESCRIPTION_AT));
  const description = descriptionIn(text);
  const pieces = view.getUint32(AT.PIECES, true);
  const pagesBytes = view.getFloat64(AT.PAGES_BYTES, true);
  if (!isReadable(description.store)) {
    throw new Error("its items have the layout of another version");
  }
  const places = placesOf(descriptionBytes, description.store, pieces, pagesBytes);
  if (fileBytes !== places.end) {
    throw new Error(`it is truncated: it has ${fileBytes} bytes instead of ${places.end}`);
  }
  return { description, places, pieces };
}
