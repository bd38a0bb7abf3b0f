import { numberOf } from "../support/binary_text.ts";
import type { Holes } from "../support/transcript.ts";

/** Names cas ids of two servers alike: what both give at the same place is the same change. */
export class IdPairs {
  /** By name, the id as each server knows it. */
  readonly ours: Holes = new Map();
  readonly theirs: Holes = new Map();
  readonly #names = new Map<string, string>();
  readonly #learned: (name: string) => void;

  constructor(learned: (name: string) => void) {
    this.#learned = learned;
  }

  /** Whether two ids stand for the same change; what was never seen before does from now on. */
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

/** First byte of a reply of the binary protocol; no line begins with it. */
const PACKET_MAGIC = "\x81";
const HEADER_LENGTH = 24;
const BODY_LENGTH_OFFSET = 8;
const CAS_OFFSET = 16;

/** Takes a stream of replies apart: packets, lines, and values with their lines. */
export function* splitReplies(text: string): Generator<string> {
  for (let at = 0; at < text.length;) {
    if (text[at] === PACKET_MAGIC) {
      const bodyLength = Number(numberOf(text.slice(at + BODY_LENGTH_OFFSET, at + 12)));
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

const WITH_ID = /^(VALUE \S+ \d+ \d+) (\d+)(\r\n[^]*)$/;
const META_REPLY = /^((?:HD|VA|NS|EX|NF)(?: [^\r]*)?)(\r\n[^]*)$/;
/** Seconds left and seconds idle: one server may see the tick of its clock sooner. */
const TIME_FLAG = /^[tl]\d+$/;

/** Whether two replies are equal but for cas ids, which must stand for the same change. */
export function equalReplies(ours: string, theirs: string, ids: IdPairs): boolean {
  if (ours.startsWith(PACKET_MAGIC) && theirs.startsWith(PACKET_MAGIC)) {
    return equalPackets(ours, theirs, ids);
  }
  const metaOurs = META_REPLY.exec(ours);
  const metaTheirs = META_REPLY.exec(theirs);
  if (metaOurs !== null && metaTheirs !== null) {
    return metaOurs[2] === metaTheirs[2] && equalFlags(metaOurs[1]!, metaTheirs[1]!, ids);
  }
  const a = WITH_ID.exec(ours);
  const b = WITH_ID.exec(theirs);
  if (a === null || b === null) return ours === theirs;
  return a[1] === b[1] && a[3] === b[3] && ids.agree(a[2]!, b[2]!);
}

function equalPackets(ours: string, theirs: string, ids: IdPairs): boolean {
  const withoutCas = (packet: string): string =>
    packet.slice(0, CAS_OFFSET) + packet.slice(HEADER_LENGTH);
  if (withoutCas(ours) !== withoutCas(theirs)) return false;
  const a = numberOf(ours.slice(CAS_OFFSET, HEADER_LENGTH));
  const b = numberOf(theirs.slice(CAS_OFFSET, HEADER_LENGTH));
  return a === b && a === 0n || a !== 0n && b !== 0n && ids.agree(String(a), String(b));
}

function equalFlags(ours: string, theirs: string, ids: IdPairs): boolean {
  const a = ours.split(" ");
  const b = theirs.split(" ");
  return a.length === b.length && a.every((flag, index) => equalFlag(flag, b[index]!, ids));
}

function equalFlag(ours: string, theirs: string, ids: IdPairs): boolean {
  if (ours === theirs && !/^c[1-9]/.test(ours)) return true;
  if (/^c[1-9]\d*$/.test(ours) && /^c[1-9]\d*$/.test(theirs)) {
    return ids.agree(ours.slice(1), theirs.slice(1));
  }
  return TIME_FLAG.test(ours) && TIME_FLAG.test(theirs) && ours[0] === theirs[0] &&
    Math.abs(Number(ours.slice(1)) - Number(theirs.slice(1))) <= 1;
}
