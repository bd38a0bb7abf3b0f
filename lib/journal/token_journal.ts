import { crc32 } from "node:zlib";
import { concatBytes } from "../../store/base/bytes.ts";
import { highHalf, lowHalf } from "../../store/base/u64.ts";
import { TokenRecordType } from "../../store/setup.ts";
import { reasonOf } from "../process/reason.ts";
import { TokenSet } from "./token_records.ts";

/** A file that the journal appends to. */
export interface JournalFile {
  /**
   * Makes room for the next `length` bytes, filled with zeros. Once it is synced, and until it is full, a sync of
   * written bytes has no change of the file's size or blocks to write. If the disk has no room, the file
   * does not change.
   */
  reserve(length: number): void;
  /** Appends bytes. @returns The number of bytes written, at least 1. */
  write(bytes: Uint8Array): number;
  /** Syncs all written bytes to the disk. */
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
  /** Opens a file to write from byte `at` on. */
  open(name: string, at: number): JournalFile;
  /** Renames a file; replaces a file that has the new name. */
  rename(from: string, to: string): void;
  /** Syncs created, changed and removed names to the disk. */
  sync(): void;
}

/**
 * The journal of update tokens: one file that is only appended to, and rewritten when most of it is history.
 *
 *   a line   `leased update tokens 1 <uuid of the node>`
 *   frames   magic (4)   length of the records (4)   CRC-32 of all behind it (4)   SYNCED (8)   records
 *   zeros    room for more frames
 *
 * SYNCED is the number of bytes of the file that were known to be on the disk when the frame was written. A crash can
 * leave any bytes after that offset. Therefore the reader takes a bad frame for the torn end of the file, unless a good
 * frame further on says that the offset was on the disk: then the file is damaged.
 */
export const JOURNAL_NAME = "tokens.journal";
/** The new name of a journal that could not be read. */
export const DAMAGED_JOURNAL_NAME = "tokens.journal.damaged";
const NEW_JOURNAL_NAME = "tokens.journal.new";
/** The files of a journal in a state directory. */
export const JOURNAL_NAMES = [JOURNAL_NAME, DAMAGED_JOURNAL_NAME, NEW_JOURNAL_NAME] as const;
const VERSION = 1;
const HEADER = /^leased update tokens (\d+) ([0-9a-f-]{36})\n/;
const HEADER_BYTES_MAX = 100;

const MAGIC = 0x314a544c; // "LTJ1"
const FRAME_HEADER_BYTES = 20;
const LENGTH_AT = 4;
const CHECKSUM_AT = 8;
const SYNCED_AT = 12;

const NO_RECORDS = new Uint8Array();
/** Bytes of a frame that needs no larger buffer. */
const FRAME_BYTES = 4096;
/** A file smaller than this is not rewritten. */
const REWRITE_BYTES_MIN = 1 << 20;
/** The file is rewritten when it is this many times as long as after the last rewrite. */
const REWRITE_FACTOR = 4;

/** A journal that cannot be used as it is: damaged, or of a newer version. */
export class JournalError extends Error {
  override readonly name = "JournalError";
}

/** The content of a journal. */
export interface JournalContent {
  /** The UUID of the node that has the journal. */
  readonly nodeId: string;
  readonly tokens: TokenSet;
  /** End of the last good frame, in bytes. */
  readonly end: number;
  /** Bytes behind it that are no frame: an unfinished write. Zeros at the end do not count. */
  readonly dropped: number;
}

/**
 * Reads a journal.
 *
 * @returns Null when the journal does not exist.
 * @throws JournalError when it is damaged, or of a newer version.
 */
export function readJournal(files: JournalFiles): JournalContent | null {
  const bytes = files.read(JOURNAL_NAME);
  if (bytes === null) return null;
  const { nodeId, length } = readHeader(bytes);
  const tokens = new TokenSet();
  let at = length;
  while (at < bytes.length) {
    const frame = frameAt(bytes, at);
    if (frame === null) {
      requireTorn(bytes, at);
      break;
    }
    try {
      tokens.apply(frame.records);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      throw new JournalError(`${JOURNAL_NAME} is damaged at byte ${at}: ${error.message}`);
    }
    at = frame.end;
  }
  return { nodeId, tokens, end: at, dropped: lengthWithoutZeros(bytes.subarray(at)) };
}

function lengthWithoutZeros(bytes: Uint8Array): number {
  let length = bytes.length;
  while (length > 0 && bytes[length - 1] === 0) length--;
  return length;
}

function readHeader(bytes: Uint8Array): { nodeId: string; length: number } {
  const text = new TextDecoder("latin1").decode(bytes.subarray(0, HEADER_BYTES_MAX));
  const match = HEADER.exec(text);
  if (match === null) {
    throw new JournalError(`${JOURNAL_NAME} has no first line that names its version`);
  }
  const version = Number(match[1]);
  if (version !== VERSION) {
    throw new JournalError(
      `${JOURNAL_NAME} has version ${version}; this program understands version ${VERSION}`,
    );
  }
  return { nodeId: match[2]!, length: match[0].length };
}

interface Frame {
  readonly at: number;
  readonly records: Uint8Array;
  readonly synced: number;
  readonly end: number;
}

/** Returns the frame at an offset, or null if it is not valid. */
function frameAt(bytes: Uint8Array, at: number): Frame | null {
  if (bytes.length - at < FRAME_HEADER_BYTES) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset + at, bytes.length - at);
  if (view.getUint32(0, true) !== MAGIC) return null;
  const end = FRAME_HEADER_BYTES + view.getUint32(LENGTH_AT, true);
  if (end > view.byteLength) return null;
  const checked = bytes.subarray(at + SYNCED_AT, at + end);
  if (crc32(checked) !== view.getUint32(CHECKSUM_AT, true)) return null;
  return {
    at,
    records: bytes.subarray(at + FRAME_HEADER_BYTES, at + end),
    synced: Number(view.getBigUint64(SYNCED_AT, true)),
    end: at + end,
  };
}

/** Yields the valid frames that begin at `from` or later, whatever is between them. */
function* framesFrom(bytes: Uint8Array, from: number): Generator<Frame> {
  for (let at = from; at <= bytes.length - FRAME_HEADER_BYTES;) {
    const frame = bytes[at] === (MAGIC & 0xff) ? frameAt(bytes, at) : null;
    if (frame !== null) yield frame;
    at = frame?.end ?? at + 1;
  }
}

/**
 * Returns an id at least as high as every id in the readable parts of a journal, however damaged it is; 0 without
 * any.
 */
export function highestIdIn(files: JournalFiles): number {
  const bytes = files.read(JOURNAL_NAME) ?? new Uint8Array();
  let highest = 0;
  for (const { records } of framesFrom(bytes, 0)) {
    highest = Math.max(highest, highestIdOf(records));
  }
  return highest;
}

function highestIdOf(records: Uint8Array): number {
  const set = new TokenSet();
  try {
    set.apply(records);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  return set.highestId;
}

/** Checks that a bad frame is a torn end. @throws JournalError when a later frame says that `start` was on the disk. */
function requireTorn(bytes: Uint8Array, start: number): void {
  for (const { at, synced } of framesFrom(bytes, start + 1)) {
    if (synced <= start) continue;
    throw new JournalError(
      `${JOURNAL_NAME} is damaged at byte ${start}: a good record at byte ${at} follows`,
    );
  }
}

/**
 * Appends to the journal. After an error the tokens of that call are not out, and the file's content is unknown: the
 * next call writes a new file.
 */
export class TokenJournal {
  readonly nodeId: string;
  /** The journal's content: the tokens that are out, and the highest id that may have been handed out. */
  readonly tokens: TokenSet;
  /** The reason why the start could not write a new file; "": it did. */
  readonly startFailure: string = "";
  readonly #files: JournalFiles;
  /** Null: the next call writes a new file. */
  #file: JournalFile | null = null;
  /** Bytes of the file with valid frames, */
  #length = 0;
  /** of these up to the last frame with records, */
  #recordsEnd = 0;
  /** and on the disk. */
  #synced = 0;
  #rewriteAtLength = 0;
  #syncs = 0;
  readonly #frame = new FrameBuffer();

  /**
   * Rewrites the journal from the content that was read. If the disk refuses, it continues in the old file, or, if that
   * fails too, leaves the new file to the next call.
   *
   * @param content The result of `readJournal`; null creates a journal.
   * @param newNodeId A UUID for the first line of a new journal.
   * @throws The disk's error when there is no old file.
   */
  constructor(files: JournalFiles, content: JournalContent | null, newNodeId: string) {
    this.#files = files;
    this.nodeId = content?.nodeId ?? newNodeId;
    this.tokens = content?.tokens ?? new TokenSet();
    try {
      this.#rewrite();
    } catch (error) {
      // The file may also be the new one, if only the sync of the folder failed.
      const old = content === null ? null : readJournal(files);
      if (old === null) throw error;
      this.startFailure = reasonOf(error);
      this.#resume(old);
    }
  }

  /** Number of syncs so far. */
  get syncs(): number {
    return this.#syncs;
  }

  /** Whether `sync` has anything to do. */
  get isUnsynced(): boolean {
    return this.#file === null || this.#synced < this.#recordsEnd;
  }

  /**
   * Appends records.
   *
   * @param sync Whether they must be on the disk when the call returns.
   * @throws The disk's error. Tokens among the records are then not out; the other records are kept, and written by the
   *   next call that succeeds.
   */
  append(records: Uint8Array, sync: boolean): void {
    try {
      if (this.#file === null) this.#rewrite();
      this.#write(records);
      if (sync) this.sync();
    } catch (error) {
      this.tokens.apply(records, TokenRecordType.GET);
      this.#forgetFile();
      throw error;
    }
    this.tokens.apply(records);
  }

  /** Rewrites the journal if most of it is history. Call it when no connection waits. */
  tidy(): void {
    if (this.#length > this.#rewriteAtLength) this.#tryToRewrite();
  }

  /** @throws The disk's error. */
  sync(): void {
    if (this.#file === null) return this.#rewrite();
    if (!this.isUnsynced) return;
    try {
      this.#file.sync();
      if (!this.#file.isNamed(JOURNAL_NAME)) {
        throw new Error(`${JOURNAL_NAME} was removed or replaced`);
      }
    } catch (error) {
      this.#forgetFile();
      throw error;
    }
    this.#synced = this.#length;
    this.#syncs++;
  }

  /**
   * Appends an empty frame after the last synced one, so that a later change of that one is not taken for a torn end.
   * Does not sync it. After an error the next call writes a new file.
   */
  mark(): void {
    if (this.isUnsynced || this.#length > this.#recordsEnd) return;
    try {
      this.#writeFrame(NO_RECORDS);
    } catch {
      this.#forgetFile();
    }
  }

  /** Marks the end, syncs the mark and closes the file. */
  close(): void {
    this.mark();
    try {
      this.#file?.sync();
    } catch {
      // Only the mark is lost.
    }
    this.#forgetFile();
  }

  #write(records: Uint8Array): void {
    this.#writeFrame(records);
    this.#recordsEnd = this.#length;
  }

  #writeFrame(records: Uint8Array): void {
    const frame = this.#frame.encode(records, this.#synced);
    writeAll(this.#file!, frame);
    this.#length += frame.length;
  }

  #forgetFile(): void {
    const file = this.#file;
    this.#file = null;
    try {
      file?.close();
    } catch {
      // The content of the file is given up already.
    }
  }

  /** Continues in a file that was read. After an error the next call writes a new file. */
  #resume({ end, dropped }: JournalContent): void {
    try {
      const file = this.#files.open(JOURNAL_NAME, end);
      this.#use(file, end, end);
      file.reserve(dropped);
      file.sync();
      this.#files.sync();
    } catch {
      this.#forgetFile();
    }
  }

  #tryToRewrite(): void {
    try {
      this.#rewrite();
    } catch {
      // Keeps the longer file, if it is still open.
      this.#rewriteAtLength = this.#length + REWRITE_BYTES_MIN;
    }
  }

  /** Writes the tokens and ids into a new file, which replaces the old one. */
  #rewrite(): void {
    const file = this.#files.create(NEW_JOURNAL_NAME);
    let length;
    let rewriteAtLength;
    try {
      const header = new TextEncoder().encode(`leased update tokens ${VERSION} ${this.nodeId}\n`);
      const frame = new FrameBuffer().encode(concatBytes(this.tokens.encode()), 0);
      length = header.length + frame.length;
      writeAll(file, header);
      writeAll(file, frame);
      rewriteAtLength = Math.max(REWRITE_BYTES_MIN, REWRITE_FACTOR * length);
      file.reserve(rewriteAtLength - length);
      file.sync();
    } catch (error) {
      file.close();
      throw error;
    }
    // Until the folder is on the disk, a restart after a crash may find either file.
    this.#forgetFile();
    try {
      this.#files.rename(NEW_JOURNAL_NAME, JOURNAL_NAME);
      this.#files.sync();
    } catch (error) {
      file.close();
      throw error;
    }
    this.#use(file, length, rewriteAtLength);
    this.#syncs++;
  }

  /** Appends to a file from now on. @param length Number of its bytes, all synced. */
  #use(file: JournalFile, length: number, rewriteAtLength: number): void {
    this.#file = file;
    this.#length = this.#recordsEnd = this.#synced = length;
    this.#rewriteAtLength = rewriteAtLength;
  }
}

/** Memory for one frame at a time: syncs are frequent, and frames of the same size in new memory would be garbage. */
class FrameBuffer {
  #bytes = new Uint8Array(FRAME_BYTES);
  #view = new DataView(this.#bytes.buffer);

  /** @param synced Number of the file's bytes that are on the disk. @returns The frame; good until the next call. */
  encode(records: Uint8Array, synced: number): Uint8Array {
    const length = FRAME_HEADER_BYTES + records.length;
    if (length > this.#bytes.length) {
      this.#bytes = new Uint8Array(2 * length);
      this.#view = new DataView(this.#bytes.buffer);
    }
    const bytes = this.#bytes.subarray(0, length);
    const view = this.#view;
    view.setUint32(0, MAGIC, true);
    view.setUint32(LENGTH_AT, records.length, true);
    view.setUint32(SYNCED_AT, lowHalf(synced), true);
    view.setUint32(SYNCED_AT + 4, highHalf(synced), true);
    bytes.set(records, FRAME_HEADER_BYTES);
    view.setUint32(CHECKSUM_AT, crc32(bytes.subarray(SYNCED_AT)), true);
    return bytes;
  }
}

function writeAll(file: JournalFile, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length;) at += file.write(bytes.subarray(at));
}
