import type { Awaitable } from "./values/awaitable.ts";
import { isId } from "./checks.ts";
import type { Encoded } from "./values/codecs.ts";
import { NEVER_MADE, Opcode } from "./net/binary_wire.ts";
import { UnreadableReply } from "./net/connection.ts";
import {
  type Packet,
  type Reply,
  type ReplyLine,
  type Request,
  textOf,
  VALUE_LENGTH,
} from "./net/wire.ts";

// Every request of the library. Arguments have been checked: keys are as `keyBytes` returns them, times as `expiryOf`
// does. A reply that does not have the form due is unreadable.

/** How a store command treats an item that is there, or not. */
export type StoreMode = "set" | "add" | "replace" | "append" | "prepend";

/** The item a lookup has found; its bytes are valid only while the reply is read. */
export interface Item {
  readonly bytes: Uint8Array;
  readonly flags: number;
  /** Its cas id. */
  readonly cas: string;
  /** Seconds until it expires; Infinity: never. */
  readonly leftSec: number;
}

/** Result of a lookup that takes a lease when the key has no value. */
export type Look<Found> =
  | { readonly state: "value"; readonly cas: string; readonly found: Found }
  /** The lease is the caller's. */
  | { readonly state: "won"; readonly cas: string }
  /** Another client has the lease, for so long. */
  | { readonly state: "held"; readonly leftSec: number }
  /** An update token is out: no value is kept. */
  | { readonly state: "uncacheable" };

/** A lookup, whose result is there at once. */
export interface LookRequest<Found> extends Request<Look<Found>> {
  read(reply: Reply): Look<Found>;
}

/** Result of a store command with a condition. */
export type Stored = "stored" | "refused" | "exists" | "missing";

/** Result of `getss`: the value, or a lease with its id; `heldSec` 0: the caller has made it. */
export type LeaseReply =
  | { readonly bytes: Uint8Array; readonly flags: number; readonly cas: string }
  | { readonly lease: string; readonly heldSec: number };

const STORED: Readonly<Record<string, Stored>> = {
  HD: "stored",
  NS: "refused",
  EX: "exists",
  NF: "missing",
};
const MODE_FLAG = { set: "", add: " ME", replace: " MR", append: " MA", prepend: " MP" };

const GET: Packet = { opcode: Opcode.GET };
const STORE_OPCODE = {
  set: Opcode.SET,
  add: Opcode.ADD,
  replace: Opcode.REPLACE,
  append: Opcode.APPEND,
  prepend: Opcode.PREPEND,
};

/** Returns a number below 2^53 as two words of 32 bits, the higher one first. */
function wordsOf(number: number): readonly [high: number, low: number] {
  return [Math.floor(number / 2 ** 32), number % 2 ** 32];
}

function unreadable(): never {
  throw new UnreadableReply();
}

/** Returns the meaning of a meta command's status, or of a line. */
function oneOf<Result>(meanings: Readonly<Record<string, Result>>, text: string): Result {
  return Object.hasOwn(meanings, text) ? meanings[text]! : unreadable();
}

/** Returns the decimal number, which may be rounded beyond 2^53. */
function numberOf(text: string | undefined): number {
  return text !== undefined && isId(text) ? Number(text) : unreadable();
}

/** Returns the id of a line that consists of a word and an id. */
function idAfter(word: string, line: string): string {
  const id = line.slice(word.length + 1);
  return line.startsWith(`${word} `) && isId(id) ? id : unreadable();
}

/** Returns the number of a line that consists of a word and a number below 2^53. */
function numberAfter(word: string, line: string): number {
  const number = Number(idAfter(word, line));
  return Number.isSafeInteger(number) ? number : unreadable();
}

/** Returns the id of an item that a lease, a fill or a tag needs. */
function itemId({ cas }: Reply): string {
  return cas === "" || cas === "0" ? unreadable() : cas;
}

/** Whether the item is a placeholder of a lease, which plain reads see as an empty value. */
function isPlaceholder({ isHeld, isWon, value }: Reply): boolean {
  return (isHeld || isWon) && value.length === 0;
}

/**
 * Reads a key.
 *
 * @param touchSec The item's new time to live.
 * @param read Makes the result from the item.
 */
export function get<Found>(
  key: string,
  read: (item: Item) => Awaitable<Found>,
  touchSec?: number,
): Request<Found | undefined> {
  const touch = touchSec === undefined ? "" : ` T${touchSec}`;
  return {
    line: `mg ${key} v f c t${touch}`,
    packet: touchSec === undefined ? GET : { opcode: Opcode.GET_AND_TOUCH, extras: [touchSec] },
    shape: "meta",
    key,
    read: (reply) => {
      if (reply.status === "EN") return undefined;
      return isPlaceholder(reply) ? undefined : read(itemOf(reply));
    },
  };
}

/** Like `get`, with what plain reads need. */
export function getValue<Value>(
  key: string,
  decode: (bytes: Uint8Array, flags: number) => Awaitable<Value>,
): Request<Value | undefined> {
  return {
    line: `mg ${key} v f`,
    packet: GET,
    shape: "meta",
    key,
    read: (reply) => {
      if (reply.status === "EN") return undefined;
      if (reply.status !== "VA" || reply.flags < 0) return unreadable();
      return isPlaceholder(reply) ? undefined : decode(reply.value, reply.flags);
    },
  };
}

/** Reads a key, or takes the lease for it. @param leaseSec How long others wait for the caller's fill. */
export function look<Found>(
  key: string,
  leaseSec: number,
  read: (item: Item) => Found,
): LookRequest<Found> {
  return {
    line: `mg ${key} v f c t N${leaseSec}`,
    shape: "meta",
    key,
    read: (reply) => {
      const item = itemOf(reply);
      const cas = itemId(reply);
      if (reply.isWon && !reply.isStale) return { state: "won", cas };
      if (isPlaceholder(reply)) {
        return reply.isUncacheable
          ? { state: "uncacheable" }
          : { state: "held", leftSec: item.leftSec };
      }
      return { state: "value", cas, found: read(item) };
    },
  };
}

/** Reads the version of a tag: the id of an item without a value, which it creates when it is missing. */
export function version(key: string): Request<string> {
  return {
    line: `mg ${key} c N0`,
    shape: "meta",
    key,
    read: (reply) => reply.status === "HD" ? itemId(reply) : unreadable(),
  };
}

/** Returns the item of a reply to `v f c t`. */
function itemOf({ status, value, flags, cas, ttlSec }: Reply): Item {
  if (status !== "VA" || flags < 0 || cas === "" || Number.isNaN(ttlSec)) return unreadable();
  return { bytes: value, flags, cas, leftSec: ttlSec < 0 ? Infinity : ttlSec };
}

/** Stores a value. @param cas Only if the item has this cas id. */
export function store(
  key: string,
  { bytes, flags }: Encoded,
  expiry: number,
  { mode = "set", cas }: { readonly mode?: StoreMode; readonly cas?: string | undefined } = {},
): Request<Stored> {
  const time = expiry === 0 ? "" : ` T${expiry}`;
  const condition = cas === undefined ? "" : ` C${cas}`;
  const isExtension = mode === "append" || mode === "prepend";
  return {
    line: `ms ${key} ${VALUE_LENGTH} F${flags}${time}${MODE_FLAG[mode]}${condition}`,
    packet: { opcode: STORE_OPCODE[mode], extras: isExtension ? [] : [flags, expiry], cas },
    value: bytes,
    shape: "meta",
    key,
    read: ({ status }) => oneOf(STORED, status),
  };
}

const REMOVED: Readonly<Record<string, boolean>> = { HD: true, NF: false, EX: false, NS: false };

/** Removes a value or a placeholder. @param cas Only if the item has this cas id. */
export function remove(key: string, cas?: string): Request<boolean> {
  return {
    line: `md ${key}${cas === undefined ? "" : ` C${cas}`}`,
    packet: { opcode: Opcode.DELETE, cas },
    shape: "meta",
    key,
    read: ({ status }) => oneOf(REMOVED, status),
  };
}

/** Removes a value and its leases, after a commit. @returns False: another connection holds the key's lock. */
export function invalidate(key: string): Request<boolean> {
  return {
    ...remove(key),
    read: ({ status }) => oneOf({ HD: true, NF: true, NS: false }, status),
  };
}

/** Sets an item's time to live. */
export function touch(key: string, expiry: number): Request<boolean> {
  return {
    line: `mg ${key} T${expiry}`,
    packet: { opcode: Opcode.TOUCH, extras: [expiry] },
    shape: "meta",
    key,
    read: ({ status }) => oneOf({ HD: true, EN: false, NF: false }, status),
  };
}

/** Adds to a number, or subtracts. @param initial Of a key that is missing; undefined: it stays missing. */
export function arithmetic(
  key: string,
  delta: number,
  initial: number | undefined,
  expiry: number,
): Request<number | undefined> {
  const mode = delta < 0 ? " MD" : "";
  const vivify = initial === undefined ? "" : ` N${expiry} J${initial}`;
  return {
    line: `ma ${key} v D${Math.abs(delta)}${mode}${vivify}`,
    packet: {
      opcode: delta < 0 ? Opcode.DECREMENT : Opcode.INCREMENT,
      extras: [
        ...wordsOf(Math.abs(delta)),
        ...wordsOf(initial ?? 0),
        initial === undefined ? NEVER_MADE : expiry,
      ],
    },
    shape: "meta",
    key,
    read: ({ status, value }) => {
      if (status === "NF" || status === "NS") return undefined;
      return status === "VA" ? numberOf(textOf(value)) : unreadable();
    },
  };
}

const META_STATUSES = ["HD", "VA", "EN", "NF", "NS", "EX"];

/** Any meta command. @param flags Without the opaque, which the library adds. */
export function meta(
  command: string,
  key: string,
  flags: readonly string[],
  value: Uint8Array | undefined,
): Request<MetaReply> {
  const length = value === undefined ? [] : [VALUE_LENGTH];
  return {
    line: [command, key, ...length, ...flags].join(" "),
    ...(value === undefined ? {} : { value }),
    shape: "meta",
    key,
    read: ({ status, value, flags, cas, ttlSec, isWon, isStale, isHeld }) => {
      if (!META_STATUSES.includes(status)) return unreadable();
      return {
        ...{ status, value: new Uint8Array(value), flags: Math.max(flags, 0), cas },
        ...{ ttlSec: Number.isNaN(ttlSec) ? -1 : ttlSec, isWon, isStale, isHeld },
      };
    },
  };
}

/** Reply to a meta command. */
export interface MetaReply {
  /** `HD`, `VA`, `EN`, `NF`, `NS` or `EX`. */
  readonly status: string;
  readonly value: Uint8Array;
  /** Flag f: the item's client flags. 0: also if not asked for. */
  readonly flags: number;
  /** Flag c. "": not asked for. */
  readonly cas: string;
  /** Flag t: seconds; -1: for ever, or not asked for. */
  readonly ttlSec: number;
  /** Flag W. */
  readonly isWon: boolean;
  /** Flag X. */
  readonly isStale: boolean;
  /** Flag Z. */
  readonly isHeld: boolean;
}

/** `getss`, of leased with `-z`. @param leaseFlag As `-z` has it. */
export function getss(key: string, leaseSec: number, leaseFlag: number): Request<LeaseReply> {
  return {
    line: `getss ${leaseSec} ${key}`,
    shape: "lines",
    key,
    read: ({ lines: [line, more] }) => {
      const [, named, flags, , cas, rest] = line?.words ?? [];
      if (line?.value === undefined || more !== undefined || named !== key) return unreadable();
      if (cas === undefined || !isId(cas) || rest !== undefined) return unreadable();
      return numberOf(flags) === leaseFlag
        ? { lease: cas, heldSec: numberOf(textOf(line.value)) }
        : { bytes: new Uint8Array(line.value), flags: numberOf(flags), cas };
    },
  };
}

/** `deletess`: removes a value and leaves a lease. @returns The id of the lease, and whether there was a value. */
export function deletess(
  key: string,
  leaseSec: number,
): Request<{ readonly lease: string; readonly existed: boolean } | "locked"> {
  return {
    line: `deletess ${leaseSec} ${key}`,
    shape: "line",
    key,
    read: ({ status, line }) => {
      if (line === "LOCKED") return "locked";
      const existed = oneOf({ DELETED: true, NOT_FOUND: false }, status);
      return { lease: idAfter(status, line), existed };
    },
  };
}

/** `lock`. @returns The fencing number. @param waitMs The server waits so long for the lock. */
export function lock(
  key: string,
  waitMs: number,
): Request<{ readonly fence: number } | "locked" | "missing"> {
  return {
    line: `lock ${key} ${waitMs} fence`,
    shape: "line",
    key,
    extraMs: waitMs,
    read: ({ status, line }) => {
      if (status === "OK") return { fence: numberAfter("OK", line) };
      return oneOf({ LOCKED: "locked", NOT_FOUND: "missing" } as const, line);
    },
  };
}

/** `version`: asks nothing but whether the server answers. @param key Of the connection's lock. */
export function probe(key: string): Request<void> {
  return {
    line: "version",
    shape: "line",
    key,
    read: ({ status }) => status === "VERSION" ? undefined : unreadable(),
  };
}

/** `unlock`. */
export function unlock(key: string): Request<void> {
  return {
    line: `unlock ${key}`,
    shape: "line",
    key,
    read: ({ line }) => oneOf({ OK: undefined }, line),
  };
}

/** `token get`: an update token, or undefined if another connection holds the key's lock. */
export function takeToken(key: string, owner: string): Request<string | undefined> {
  return {
    line: `token get ${key} ${owner}`,
    shape: "line",
    key,
    read: ({ status, line }) => {
      return status === "TOKEN" ? idAfter("TOKEN", line) : oneOf({ LOCKED: undefined }, line);
    },
  };
}

/** `token release`. @returns Whether the token was out until now. */
export function releaseToken(key: string, id: string): Request<boolean> {
  return {
    line: `token release ${key} ${id}`,
    shape: "line",
    key,
    read: ({ line }) => oneOf({ OK: true, NOT_FOUND: false }, line),
  };
}

/** `token release` of a token of rows. @returns Whether it was out and unused until now. */
export function endToken(key: string, id: string): Request<boolean> {
  return {
    ...releaseToken(key, id),
    read: ({ line }) => oneOf({ OK: true, NOT_FOUND: false, BUSY: false }, line),
  };
}

/** `uput` or `udelete`. @param row Undefined: deletes it. @returns Its version, or why it has none. */
export function writeRow(
  key: string,
  row: Encoded | undefined,
  id: string,
): Request<number | "revoked" | "none" | "busy" | "locked"> {
  return {
    ...(row === undefined
      ? { line: `udelete ${key} ${id}` }
      : { line: `uput ${key} ${row.flags} ${VALUE_LENGTH} ${id}`, value: row.bytes }),
    shape: "line",
    key,
    read: ({ status, line }) => {
      if (status === (row === undefined ? "DELETED" : "STORED")) return numberAfter(status, line);
      return oneOf(
        { REVOKED: "revoked", NOT_FOUND: "none", BUSY: "busy", LOCKED: "locked" } as const,
        line,
      );
    },
  };
}

/** `stats`. @param group "": the general one. */
export function stats(group: string): Request<Map<string, string>> {
  return {
    line: group === "" ? "stats" : `stats ${group}`,
    packet: { opcode: Opcode.STAT, key: group },
    shape: "lines",
    key: "",
    read: ({ lines }) => new Map(lines.map(statOf)),
  };
}

function statOf({ words: [word, name, ...text] }: ReplyLine): [string, string] {
  return word === "STAT" && name !== undefined ? [name, text.join(" ")] : unreadable();
}
