import { StoreMode } from "../../../store/operation.ts";
import { Outcome } from "../../../store/outcome.ts";
import { RowKind } from "../../../store/row_cache.ts";
import { latin1Bytes, latin1Text } from "../../../store/base/bytes.ts";
import type { Row } from "../../databases/base/backend.ts";
import type { Read } from "../flows/flows.ts";
import type { WriteReply } from "../flows/row_write.ts";
import type { Due, Joined } from "../flows/node_flows.ts";
import { KEYS_MAX } from "../flows/node_service.ts";
import type { KeySet } from "../../databases/views/key_set.ts";
import type { ClientWrite } from "../flows/row_edit.ts";
import { oneLine } from "../../process/reason.ts";

// The messages between a node and its origin: blocks of records behind lines of text. Numbers are little-endian.

/** The error of a `join` whose node must wait: it may try again. */
export const WAIT_TEXT = "writes have waited for this node in vain: it must wait before it joins";

/** A node and its origin must speak the same version. */
export const WIRE_VERSION = 2;
/** Length of a block that has more than one record. */
export const BLOCK_BYTES = 64 * 1024;
/** Keys or writes of one block: more of them would keep the origin from its other requests. */
export const RECORDS_MAX = 256;

const WRITE_BYTES = 48;
const REPLY_BYTES = 40;
const READ_BYTES = 32;
const DUE_BYTES = 16;
/** Longest reply to `join`, in bytes. */
export const JOINED_BYTES_MAX = 1024;
/** Longest reply to `poll`, in bytes: prefixes have up to 255, keys up to 250. */
export const DUE_BYTES_MAX = DUE_BYTES + KEYS_MAX * (2 + 255);
/** Length of the longest other reply beyond that of the largest row, in bytes. */
export const REPLY_BYTES_MORE = BLOCK_BYTES + RECORDS_MAX * REPLY_BYTES;
/** Longest `--member-time`, in milliseconds. */
const MEMBER_MS_MAX = 3_600_000;
/** A session, of an origin of any version: one word. */
const SESSION = /^[\x21-\x7e]{1,100}$/;
/** Databases have versions of 63 bits. */
const VERSION_MAX = 2 ** 63;
const KINDS: ReadonlySet<number> = new Set([
  RowKind.STORE,
  RowKind.REMOVE,
  RowKind.TOUCH,
  RowKind.COUNT,
]);
const MODES: ReadonlySet<number> = new Set(Object.values(StoreMode));
const OUTCOMES: ReadonlySet<number> = new Set(Object.values(Outcome));
/** Outcomes of a write that changes a row, by its kind. */
const DONE: ReadonlyMap<RowKind, readonly Outcome[]> = new Map([
  [RowKind.STORE, [Outcome.STORED]],
  [RowKind.REMOVE, [Outcome.DELETED]],
  [RowKind.TOUCH, [Outcome.TOUCHED]],
  [RowKind.COUNT, [Outcome.OK, Outcome.STORED]],
]);
/** Outcomes of a write that changes nothing, because of the row. */
const REFUSED: readonly Outcome[] = [
  Outcome.NOT_STORED,
  Outcome.EXISTS,
  Outcome.NOT_FOUND,
  Outcome.NOT_NUMERIC,
  Outcome.TOO_LARGE,
];
/** 2 is not used: earlier nodes may still send it. */
const BIT = { COMPARE: 1, VIVIFY: 4, DECREMENT: 8, TOUCHES: 16 } as const;
/** Kinds of replies, by their number. */
const REPLIES = ["committed", "refused", "locked", "unknown", "failed"] as const;

/** A write of a client of a node. */
export interface SentWrite {
  readonly request: ClientWrite;
  readonly data: Uint8Array;
}

/** How it ended, and what the client is answered with. */
export interface SentReply {
  readonly reply: WriteReply;
  readonly outcome: Outcome;
  /** COUNT: the new number. */
  readonly number: bigint;
  /** TOUCH: the row. */
  readonly row: Row | null;
}

/** The result of a read; null: the block had no room for it. */
export type SentRead = Pick<Read, "row" | "version" | "cacheable" | "problem"> | null;

/** A block does not have the form that the version asks for. */
export class WireError extends Error {
  override readonly name = "WireError";
}

/** Appends records to a block. */
class Writer {
  #bytes = new Uint8Array(1024);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Returns a view of the next bytes, which are zero. */
  record(length: number): DataView {
    const start = this.#length;
    this.#grow(length);
    return new DataView(this.#bytes.buffer, start, length);
  }

  bytes(bytes: Uint8Array): void {
    const start = this.#length;
    this.#grow(bytes.length);
    this.#bytes.set(bytes, start);
  }

  end(): Uint8Array<ArrayBuffer> {
    return this.#bytes.subarray(0, this.#length);
  }

  #grow(by: number): void {
    this.#length += by;
    if (this.#length <= this.#bytes.length) return;
    const larger = new Uint8Array(Math.max(this.#length, 2 * this.#bytes.length));
    larger.set(this.#bytes);
    this.#bytes = larger;
  }
}

/** Takes records from a block. @throws WireError at its end. */
class Reader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  record(length: number): DataView {
    const { buffer, byteOffset } = this.bytes(length);
    return new DataView(buffer, byteOffset, length);
  }

  bytes(length: number): Uint8Array {
    const start = this.#at;
    this.#at += length;
    if (this.#at > this.#bytes.length) throw new WireError("a block ends in a record");
    return this.#bytes.subarray(start, this.#at);
  }
}

// --- keys ------------------------------------------------------------------------------------------

export function packKeys(keys: readonly string[]): Uint8Array<ArrayBuffer> {
  return packKeySet({ keys, prefixes: [] });
}

/** @throws WireError */
export function unpackKeys(block: Uint8Array): readonly string[] {
  const { keys, prefixes } = unpackKeySet(block);
  if (prefixes.length > 0) throw new WireError("a key of 0 bytes");
  return keys;
}

function packKeySet({ keys, prefixes }: KeySet): Uint8Array<ArrayBuffer> {
  const writer = new Writer();
  const add = (text: string): void => {
    writer.record(1).setUint8(0, text.length);
    writer.bytes(latin1Bytes(text));
  };
  for (const prefix of prefixes) {
    // A length of 0, which no key has, and the prefix.
    writer.record(1).setUint8(0, 0);
    add(prefix);
  }
  for (const key of keys) add(key);
  return writer.end();
}

/** @throws WireError */
function unpackKeySet(block: Uint8Array, most = RECORDS_MAX): KeySet {
  const reader = new Reader(block);
  const keys: string[] = [];
  const prefixes: string[] = [];
  while (!reader.isAtEnd) {
    checkCount(keys.length + prefixes.length + 1, most);
    const length = reader.record(1).getUint8(0);
    if (length === 0) prefixes.push(prefixOf(reader));
    else keys.push(keyOf(reader, length));
  }
  return { keys, prefixes };
}

function checkCount(count: number, most = RECORDS_MAX): void {
  if (count > most) throw new WireError(`a block of more than ${most} records`);
}

function keyOf(reader: Reader, length: number): string {
  if (length === 0 || length > 250) throw new WireError(`a key of ${length} bytes`);
  return latin1Text(reader.bytes(length));
}

function prefixOf(reader: Reader): string {
  return latin1Text(reader.bytes(reader.record(1).getUint8(0)));
}

// --- writes ----------------------------------------------------------------------------------------

/** A block of writes. */
export interface WriteBlock {
  readonly block: Uint8Array<ArrayBuffer>;
  readonly writes: readonly SentWrite[];
}

/** Returns blocks with the writes, in their order. */
export function packWrites(writes: readonly SentWrite[]): WriteBlock[] {
  const blocks: WriteBlock[] = [];
  let writer = new Writer();
  let packed: SentWrite[] = [];
  const end = (): void => {
    if (packed.length > 0) blocks.push({ block: writer.end(), writes: packed });
    writer = new Writer();
    packed = [];
  };
  for (const write of writes) {
    const { request, data } = write;
    // A touch is answered with its row: the reply must not have several.
    const isAlone = request.kind === RowKind.TOUCH;
    if (isAlone || writer.length + WRITE_BYTES + data.length > BLOCK_BYTES) end();
    const record = writer.record(WRITE_BYTES);
    record.setUint8(0, request.kind);
    record.setUint8(1, request.mode);
    record.setUint8(2, bitsOf(request));
    record.setUint8(3, request.key.length);
    record.setUint32(4, request.flags, true);
    record.setUint32(8, data.length, true);
    record.setFloat64(16, request.expiresUnixSec, true);
    record.setFloat64(24, request.compare ?? 0, true);
    record.setBigUint64(32, request.delta, true);
    record.setBigUint64(40, request.initial, true);
    writer.bytes(latin1Bytes(request.key));
    writer.bytes(data);
    packed.push(write);
    if (isAlone) end();
  }
  end();
  return blocks;
}

/** @throws WireError */
export function unpackWrites(block: Uint8Array): SentWrite[] {
  const reader = new Reader(block);
  const writes: SentWrite[] = [];
  while (!reader.isAtEnd) {
    checkCount(writes.length + 1);
    const record = reader.record(WRITE_BYTES);
    const kind = numberIn(KINDS, record.getUint8(0), "kind") as RowKind;
    const mode = numberIn(MODES, record.getUint8(1), "mode") as StoreMode;
    const bits = record.getUint8(2);
    const valueLength = record.getUint32(8, true);
    const request = {
      kind,
      mode,
      key: keyOf(reader, record.getUint8(3)),
      flags: record.getUint32(4, true),
      valueLength,
      expiresUnixSec: wholeOf(record.getFloat64(16, true)),
      compare: (bits & BIT.COMPARE) === 0 ? null : wholeOf(record.getFloat64(24, true)),
      vivify: (bits & BIT.VIVIFY) !== 0,
      decrement: (bits & BIT.DECREMENT) !== 0,
      touches: (bits & BIT.TOUCHES) !== 0,
      delta: record.getBigUint64(32, true),
      initial: record.getBigUint64(40, true),
    };
    writes.push({ request, data: reader.bytes(valueLength).slice() });
  }
  return writes;
}

function bitsOf({ compare, ...request }: SentWrite["request"]): number {
  return (compare === null ? 0 : BIT.COMPARE) | (request.vivify ? BIT.VIVIFY : 0) |
    (request.decrement ? BIT.DECREMENT : 0) | (request.touches ? BIT.TOUCHES : 0);
}

function numberIn(allowed: ReadonlySet<number>, number: number, what: string): number {
  if (!allowed.has(number)) throw new WireError(`no ${what} has the number ${number}`);
  return number;
}

function wholeOf(number: number): number {
  if (!Number.isSafeInteger(number)) throw new WireError(`${number} is no whole number`);
  return number;
}

/** Returns the number. @throws WireError that names `what`, the number and its range, when it is outside. */
function within(number: number, least: number, most: number, what: string): number {
  if (number >= least && number <= most) return number;
  throw new WireError(`${what} is ${number}, and must be ${least} to ${most}`);
}

function versionIn(record: DataView): number {
  const version = within(record.getFloat64(16, true), 0, VERSION_MAX, "a version");
  if (!Number.isInteger(version)) throw new WireError(`the version ${version} is no whole number`);
  return version;
}

/** Returns the expiry time of a row, in seconds since 1970; 0: none, or another program has written no number. */
function expiryOf(row: Row | null): number {
  const sec = Math.trunc(Number(row?.expiresUnixSec ?? 0));
  return Number.isSafeInteger(sec) ? sec : 0;
}

export function packReplies(replies: readonly SentReply[]): Uint8Array<ArrayBuffer> {
  const writer = new Writer();
  for (const { reply, outcome, number, row } of replies) {
    const known = (REPLIES as readonly string[]).indexOf(reply.kind);
    const reason = oneLine("reason" in reply ? reply.reason : known < 0 ? reply.kind : "");
    const data = row?.data ?? new TextEncoder().encode(reason);
    const record = writer.record(REPLY_BYTES);
    record.setUint8(0, known < 0 ? REPLIES.indexOf("failed") : known);
    record.setUint8(1, outcome);
    record.setUint8(2, row === null ? 0 : 1);
    record.setUint32(4, row?.flags ?? 0, true);
    record.setUint32(8, data.length, true);
    record.setFloat64(16, versionOf(reply), true);
    record.setBigUint64(24, number, true);
    record.setFloat64(32, expiryOf(row), true);
    writer.bytes(data);
  }
  return writer.end();
}

function versionOf(reply: WriteReply): number {
  if (reply.kind === "committed") return reply.version;
  return reply.kind === "refused" ? reply.row?.version ?? 0 : 0;
}

/**
 * Returns the replies to writes.
 *
 * @throws WireError when there is not one for each, or when one cannot be the reply to its write.
 */
export function unpackReplies(block: Uint8Array, writes: readonly SentWrite[]): SentReply[] {
  const reader = new Reader(block);
  const replies = writes.map(({ request }) => {
    const record = reader.record(REPLY_BYTES);
    const kind = REPLIES[record.getUint8(0)];
    if (kind === undefined) throw new WireError("no such reply");
    const outcome = numberIn(OUTCOMES, record.getUint8(1), "outcome") as Outcome;
    const hasRow = record.getUint8(2) !== 0;
    const version = versionIn(record);
    const expiresUnixSec = wholeOf(record.getFloat64(32, true));
    const data = reader.bytes(record.getUint32(8, true)).slice();
    const row = { flags: record.getUint32(4, true), version, expiresUnixSec, data };
    checkReply(request, kind, outcome, version, hasRow);
    return {
      reply: replyOf(kind, version, data),
      outcome,
      number: record.getBigUint64(24, true),
      row: hasRow ? row : null,
    };
  });
  if (!reader.isAtEnd) throw new WireError(`more replies than the ${writes.length} writes`);
  return replies;
}

/** A committed write has changed its row, and a refused one has not. @throws WireError */
function checkReply(
  { kind, compare }: ClientWrite,
  reply: typeof REPLIES[number],
  outcome: Outcome,
  version: number,
  hasRow: boolean,
): void {
  const isCommitted = reply === "committed";
  if (hasRow !== (isCommitted && kind === RowKind.TOUCH)) {
    throw new WireError("a reply has a row that it must not have, or lacks its row");
  }
  if (!isCommitted && reply !== "refused") return;
  const allowed = isCommitted ? DONE.get(kind)! : REFUSED;
  if (!allowed.includes(outcome)) {
    throw new WireError(`a write is ${reply} with the outcome ${outcome}`);
  }
  if (isCommitted && version < (compare ?? 0) + 1) {
    throw new WireError(`a write of version ${compare ?? 0} has made version ${version}`);
  }
}

function replyOf(kind: typeof REPLIES[number], version: number, data: Uint8Array): WriteReply {
  switch (kind) {
    case "committed":
      return { kind, version };
    case "refused":
      return { kind, row: version === 0 ? null : { flags: 0, version, data: new Uint8Array() } };
    case "locked":
      return { kind };
    default:
      return { kind, reason: new TextDecoder().decode(data) };
  }
}

// --- reads -----------------------------------------------------------------------------------------

/**
 * Packs the first reads, as many as a block holds. The node asks for the others again.
 *
 * @param asked Keys of the request; those behind the reads were not read.
 */
export function packReads(
  reads: readonly Read[],
  asked = reads.length,
): Uint8Array<ArrayBuffer> {
  const writer = new Writer();
  let isFull = false;
  for (const { row, version, cacheable, problem } of reads) {
    const data = problem === undefined
      ? row?.data ?? new Uint8Array()
      : new TextEncoder().encode(oneLine(problem));
    isFull ||= writer.length > 0 && writer.length + READ_BYTES + data.length > BLOCK_BYTES;
    const record = writer.record(READ_BYTES);
    if (isFull) continue;
    record.setUint8(0, problem !== undefined ? 3 : row === null ? 1 : 2);
    record.setUint8(1, cacheable ? 1 : 0);
    record.setUint32(4, row?.flags ?? 0, true);
    record.setUint32(8, data.length, true);
    record.setFloat64(16, version, true);
    record.setFloat64(24, expiryOf(row), true);
    writer.bytes(data);
  }
  for (let index = reads.length; index < asked; index++) writer.record(READ_BYTES);
  return writer.end();
}

/** @throws WireError */
export function unpackReads(block: Uint8Array): SentRead[] {
  const reader = new Reader(block);
  const reads: SentRead[] = [];
  while (!reader.isAtEnd) {
    checkCount(reads.length + 1);
    const record = reader.record(READ_BYTES);
    const found = within(record.getUint8(0), 0, 3, "the kind of a read");
    const data = reader.bytes(record.getUint32(8, true)).slice();
    const version = versionIn(record);
    if (found === 0) {
      reads.push(null);
      continue;
    }
    const expiresUnixSec = wholeOf(record.getFloat64(24, true));
    const flags = record.getUint32(4, true);
    const cacheable = record.getUint8(1) === 1;
    if (found === 3) {
      reads.push({ row: null, version, cacheable, problem: new TextDecoder().decode(data) });
      continue;
    }
    const row = found === 1 ? null : { flags, version, expiresUnixSec, data };
    reads.push({ row, version, cacheable });
  }
  return reads;
}

// --- membership ------------------------------------------------------------------------------------

/** A node's request to become a member. */
export interface Join {
  readonly version: number;
  readonly name: string;
  /** Its session before; "": none. */
  readonly session: string;
  readonly prefixes: readonly string[];
  readonly expiry: string;
}

/** The reply to a new member: its session. */
export interface SentJoined extends Joined {
  /** How long a renewal lasts in general. */
  readonly memberMs: number;
}

export function packDue({ seq, grantedMs, ...rows }: Due): Uint8Array {
  const writer = new Writer();
  const record = writer.record(DUE_BYTES);
  record.setFloat64(0, seq, true);
  record.setFloat64(8, grantedMs, true);
  writer.bytes(packKeySet(rows));
  return writer.end();
}

/**
 * Returns the deletions that an origin asks for.
 *
 * @param confirmed The last one that the node has executed: others have greater numbers.
 * @param memberMs The longest time that the origin may grant.
 * @throws WireError
 */
export function unpackDue(block: Uint8Array, confirmed: number, memberMs: number): Due {
  const record = new Reader(block).record(DUE_BYTES);
  const seq = wholeOf(record.getFloat64(0, true));
  const grantedMs = within(record.getFloat64(8, true), 0, memberMs, "the time of a renewal");
  const rows = unpackKeySet(block.subarray(DUE_BYTES), KEYS_MAX);
  const count = rows.keys.length + rows.prefixes.length;
  if (count === 0 ? seq !== 0 : seq < confirmed + count) {
    throw new WireError(
      `${count} deletions end with number ${seq}, after number ${confirmed}`,
    );
  }
  return { seq, grantedMs, ...rows };
}

/** @throws WireError */
export function unpackJoined(block: Uint8Array): SentJoined {
  const { session, grantedMs, memberMs } = objectIn(block) as Partial<SentJoined>;
  if (
    typeof session !== "string" || !SESSION.test(session) || typeof grantedMs !== "number" ||
    typeof memberMs !== "number"
  ) {
    throw new WireError("a malformed session");
  }
  within(memberMs, 1, MEMBER_MS_MAX, "the time of members");
  return {
    session,
    grantedMs: within(grantedMs, 0, memberMs, "the time of a new member"),
    memberMs,
  };
}

/** Returns the object that a block has in JSON; an empty one: it has none. */
function objectIn(block: Uint8Array): object {
  try {
    const value: unknown = JSON.parse(latin1Text(block));
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {};
  }
}

/**
 * Returns the word of a request as a whole number.
 *
 * @throws WireError that names what it is, its text and the range.
 */
export function wholeNumber(word: string, what: string): number {
  const number = /^\d{1,16}$/.test(word) ? Number(word) : NaN;
  if (Number.isSafeInteger(number)) return number;
  throw new WireError(`${what} is ${word}, and must be 0 to ${Number.MAX_SAFE_INTEGER}`);
}
