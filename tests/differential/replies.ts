import { numberBytes, numberOf } from "../support/sessions/binary_text.ts";
import type { Holes } from "../support/sessions/transcript.ts";

/** Names cas ids of two servers alike. */
export interface Ids {
  /** Each server's id, by name. */
  readonly ours: Holes;
  readonly theirs: Holes;
  /**
   * Whether two ids stand for the same change; what was never seen before does from now on.
   *
   * @param key Of the item that has the id, if the reply says it.
   */
  agree(ours: string, theirs: string, key?: string): boolean;
}

/** Ids that both servers return in the same place stand for the same change. */
export class IdPairs implements Ids {
  readonly ours: Holes = new Map();
  readonly theirs: Holes = new Map();
  readonly #names = new Map<string, string>();
  readonly #learned: (name: string) => void;

  constructor(learned: (name: string) => void) {
    this.#learned = learned;
  }

  agree(ours: string, theirs: string): boolean {
    const known = this.#names.get(`ours ${ours}`);
    if (known !== this.#names.get(`theirs ${theirs}`)) return false;
    if (known !== undefined) return true;
    const name = `id${this.ours.size + 1}`;
    this.#names.set(`ours ${ours}`, name);
    this.#names.set(`theirs ${theirs}`, name);
    this.ours.set(name, ours);
    this.theirs.set(name, theirs);
    this.#learned(name);
    return true;
  }
}

const VALUE_LINE_LENGTH_MAX = 300;

const HEADER_LENGTH = 24;

/** Replies of the binary protocol. */
export const PACKET = {
  headerLength: HEADER_LENGTH,
  opcode: (reply: string): number => reply.charCodeAt(1),
  keyLength: (reply: string): number => numberAt(reply, 2, 2),
  extrasLength: (reply: string): number => reply.charCodeAt(4),
  status: (reply: string): number => numberAt(reply, 6, 2),
  withStatus: (reply: string, status: number): string =>
    reply.slice(0, 6) + numberBytes(status, 2) + reply.slice(8),
  bodyLength: (reply: string): number => numberAt(reply, 8, 4),
  cas: (reply: string): string => String(numberOf(reply.slice(16, HEADER_LENGTH))),
  withoutCas: (reply: string): string => reply.slice(0, 16) + reply.slice(HEADER_LENGTH),
  key(reply: string): string {
    const start = HEADER_LENGTH + PACKET.extrasLength(reply);
    return reply.slice(start, start + PACKET.keyLength(reply));
  },
  /** Opcode, status, opaque and cas id alone. */
  withoutBody(reply: string): string {
    const zeros = (length: number): string => "\0".repeat(length);
    return reply.slice(0, 2) + zeros(4) + reply.slice(6, 8) + zeros(4) +
      reply.slice(12, HEADER_LENGTH);
  },
};

function numberAt(bytes: string, offset: number, length: number): number {
  return Number(numberOf(bytes.slice(offset, offset + length)));
}

/** Returns whether a reply is binary. No text line begins with that byte. */
export function isPacket(text: string, at = 0): boolean {
  return text[at] === "\x81";
}

/** Takes a stream of replies apart: packets, lines, and values with their lines. */
export function* splitReplies(text: string): Generator<string> {
  for (let at = 0; at < text.length;) {
    if (isPacket(text, at)) {
      const bodyLength = PACKET.bodyLength(text.slice(at, at + HEADER_LENGTH));
      yield text.slice(at, at += HEADER_LENGTH + bodyLength);
      continue;
    }
    const lineEnd = text.indexOf("\r\n", at);
    if (lineEnd < 0) {
      yield text.slice(at);
      return;
    }
    const line = text.slice(at, Math.min(lineEnd, at + VALUE_LINE_LENGTH_MAX));
    const [, length] = /^(?:VALUE \S+ \d+|VA) (\d+)/.exec(line) ?? [];
    const end = length === undefined ? lineEnd + 2 : lineEnd + 2 + Number(length) + 2;
    yield text.slice(at, end);
    at = end;
  }
}

const WITH_ID = /^(VALUE (\S+) \d+ \d+) (\d+)(\r\n[^]*)$/;
const META_REPLY = /^((?:HD|VA|NS|EX|NF)(?: [^\r]*)?)(\r\n[^]*)$/;
/** Seconds left: on a busy machine one server's clock is some ticks behind. */
const TIME_FLAG = /^t\d+$/;
const IDLE_FLAG = /^l\d+$/;
const BEHIND_SEC_MAX = 5;

const DEBUG_REPLY = /^(ME \S+ )exp=(-?\d+) la=(\d+) cas=(\d+) (fetch=\w+) cls=\d+ size=\d+\r\n$/;

/** Returns whether two replies are equal except for cas ids, which must stand for the same change. */
export function equalReplies(ours: string, theirs: string, ids: Ids): boolean {
  if (isPacket(ours) && isPacket(theirs)) return equalPackets(ours, theirs, ids);
  const metaOurs = META_REPLY.exec(ours);
  const metaTheirs = META_REPLY.exec(theirs);
  if (metaOurs !== null && metaTheirs !== null) {
    return metaOurs[2] === metaTheirs[2] && equalFlags(metaOurs[1]!, metaTheirs[1]!, ids);
  }
  const debugOurs = DEBUG_REPLY.exec(ours);
  const debugTheirs = DEBUG_REPLY.exec(theirs);
  if (debugOurs !== null && debugTheirs !== null) return equalDebug(debugOurs, debugTheirs, ids);
  const a = WITH_ID.exec(ours);
  const b = WITH_ID.exec(theirs);
  if (a === null || b === null) return ours === theirs;
  return a[1] === b[1] && a[4] === b[4] && ids.agree(a[3]!, b[3]!, a[2]);
}

/** Class and size are the layout's. */
function equalDebug(ours: RegExpExecArray, theirs: RegExpExecArray, ids: Ids): boolean {
  const [, key, exp, idle, id, fetched] = ours;
  return key === theirs[1] && isNear(exp!, theirs[2]!) && isIdleFor(idle!, theirs[3]!) &&
    ids.agree(id!, theirs[4]!) && fetched === theirs[5];
}

/** Returns whether two numbers of seconds can agree on two clocks; -1 means never. */
function isNear(ours: string, theirs: string): boolean {
  if (ours === "-1" || theirs === "-1") return ours === theirs;
  return Math.abs(Number(ours) - Number(theirs)) <= BEHIND_SEC_MAX;
}

/** Returns whether idle times agree. memcached skips some accesses, so its time may be longer. */
function isIdleFor(ours: string, theirs: string): boolean {
  return Number(ours) <= Number(theirs) + BEHIND_SEC_MAX;
}

function equalPackets(ours: string, theirs: string, ids: Ids): boolean {
  if (PACKET.withoutCas(ours) !== PACKET.withoutCas(theirs)) return false;
  const a = PACKET.cas(ours);
  const b = PACKET.cas(theirs);
  if (a === "0" || b === "0") return a === b;
  return ids.agree(a, b, PACKET.key(ours) || undefined);
}

function equalFlags(ours: string, theirs: string, ids: Ids): boolean {
  const a = ours.split(" ");
  const b = theirs.split(" ");
  return a.length === b.length && a.every((flag, index) => equalFlag(flag, b[index]!, ids));
}

function equalFlag(ours: string, theirs: string, ids: Ids): boolean {
  if (ours === theirs && !/^c[1-9]/.test(ours)) return true;
  if (/^c[1-9]\d*$/.test(ours) && /^c[1-9]\d*$/.test(theirs)) {
    return ids.agree(ours.slice(1), theirs.slice(1));
  }
  const agree = IDLE_FLAG.test(ours) && IDLE_FLAG.test(theirs)
    ? isIdleFor
    : TIME_FLAG.test(ours) && TIME_FLAG.test(theirs)
    ? isNear
    : undefined;
  return agree !== undefined && agree(ours.slice(1), theirs.slice(1));
}
