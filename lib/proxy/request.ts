import type { PutReply } from "./flows.ts";
import type { Proxy } from "./proxy.ts";
import { failedLine, REPLY, unknownLine } from "./replies.ts";

/** A request with its data block. */
export interface ProxyRequest {
  /** Characters below 256, without the command and without `noreply`. */
  readonly words: readonly string[];
  /** null: the command has none. */
  readonly data: Uint8Array | null;
}

/** The connection, as handlers see it. */
export interface ProxySession {
  readonly proxy: Proxy;
  /** The reply to `version`: the supported version of memcached, then `leased` and its version. */
  readonly version: string;
  /** Appends a line to the replies. */
  line(text: string): void;
  /** Appends a data block and its end. */
  block(data: Uint8Array): void;
  /** Sends the replies if they are long: a request for many keys does not keep all their values in memory. */
  sendLong(): Promise<void>;
}

/** Executes a request. @throws Refusal */
export type ProxyHandler = (session: ProxySession, request: ProxyRequest) => Promise<void> | void;

const KEY_LENGTH_MAX = 250;
/** Flags have 32 bits. */
export const UINT32_MAX = 2 ** 32 - 1;

/** An invalid request; the message is the reply line. */
export class Refusal extends Error {
  override readonly name = "Refusal";
}

/** Returns the word as a key. @throws Refusal when it is longer than 250 bytes. */
export function keyOf(word: string): string {
  if (word.length > KEY_LENGTH_MAX) throw new Refusal(REPLY.BAD_FORMAT);
  return word;
}

/** Returns the word as a whole number 0..max. @throws Refusal */
export function numberOf(word: string, max: number): number {
  const number = /^\d{1,16}$/.test(word) ? Number(word) : NaN;
  if (!(number <= max)) throw new Refusal(REPLY.BAD_FORMAT);
  return number;
}

/** Returns the word as a version or a token's id. @throws Refusal */
export function idOf(word: string): number {
  return numberOf(word, Number.MAX_SAFE_INTEGER);
}

/** Refuses every exptime but 0: rows do not expire. @throws Refusal */
export function requireNoExpiry(word: string): void {
  if (!/^-?\d+$/.test(word)) throw new Refusal(REPLY.BAD_FORMAT);
  if (Number(word) !== 0) throw new Refusal(REPLY.NO_EXPIRY);
}

/** Replies to a write that was neither committed nor refused. @returns Whether it has replied. */
export function answerUnfinished(session: ProxySession, reply: PutReply): boolean {
  switch (reply.kind) {
    case "committed":
    case "refused":
      return false;
    case "unknown":
      session.line(unknownLine(reply.reason));
      return true;
    case "failed":
      session.line(failedLine(reply.reason));
      return true;
    case "revoked":
      session.line(REPLY.REVOKED);
      return true;
    case "busy":
      session.line(REPLY.BUSY);
      return true;
    default:
      session.line(REPLY.NOT_FOUND);
      return true;
  }
}
