import type { Encoded } from "./codecs.ts";
import { UnreadableReply } from "./connection.ts";
import { type Reply, type ReplyLine, type Request, VALUE_LENGTH } from "./wire.ts";

// Every request of the library. Keys are as `keyBytes` returns them, times as `expiryOf` does.

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
  | { readonly state: "held"; readonly leftSec: number };

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

function unreadable(): never {
  throw new UnreadableReply();
}

function oneOf<Result>(words: Readonly<Record<string, Result>>, status: string): Result {
  return Object.hasOwn(words, status) ? words[status]! : unreadable();
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
  read: (item: Item) => Found,
  touchSec?: number,
): Request<Found | undefined> {
  const touch = touchSec === undefined ? "" : ` T${touchSec}`;
  return {
    line: `mg ${key} v f c t${touch}`,
    shape: "meta",
    key,
    read: (reply) => {
      if (reply.status === "EN") return undefined;
      if (reply.status !== "VA") return unreadable();
      return isPlaceholder(reply) ? undefined : read(itemOf(reply));
    },
  };
}

/** Like `get`, with what plain reads need. */
export function getValue<Value>(
  key: string,
  decode: (bytes: Uint8Array, flags: number) => Value,
): Request<Value | undefined> {
  return {
    line: `mg ${key} v f`,
    shape: "meta",
    key,
    read: (reply) => {
      if (reply.status === "EN") return undefined;
      if (reply.status !== "VA") return unreadable();
      return isPlaceholder(reply) ? undefined : decode(reply.value, reply.flags);
    },
  };
}

/** Reads a key, or takes the lease for it. @param leaseSec How long others wait for the caller's fill. */
export function look<Found>(
  key: string,
  leaseSec: number,
  read: (item: Item) => Found,
): Request<Look<Found>> {
  return {
    line: `mg ${key} v f c t N${leaseSec}`,
    shape: "meta",
    key,
    read: (reply) => {
      if (reply.status !== "VA" || reply.cas === "") return unreadable();
      if (reply.isWon && !reply.isStale) return { state: "won", cas: reply.cas };
      if (isPlaceholder(reply)) return { state: "held", leftSec: secondsOf(reply) };
      return { state: "value", cas: reply.cas, found: read(itemOf(reply)) };
    },
  };
}

/** Reads the version of a tag: the id of an item without a value, which it creates when it is missing. */
export function version(key: string): Request<string> {
  return {
    line: `mg ${key} c N0`,
    shape: "meta",
    key,
    read: ({ status, cas }) => status === "HD" && cas !== "" ? cas : unreadable(),
  };
}

function itemOf(reply: Reply): Item {
  const { value, flags, cas } = reply;
  return { bytes: value, flags, cas, leftSec: secondsOf(reply) };
}

function secondsOf({ ttlSec }: Reply): number {
  return ttlSec < 0 ? Infinity : ttlSec;
}

/** Stores a value. @param cas Only if the item has this cas id. */
export function store(
  key: string,
  { bytes, flags }: Encoded,
  expiry: number,
  { mode = "set", cas }: { readonly mode?: StoreMode; readonly cas?: string } = {},
): Request<Stored> {
  const time = expiry === 0 ? "" : ` T${expiry}`;
  const condition = cas === undefined ? "" : ` C${cas}`;
  return {
    line: `ms ${key} ${VALUE_LENGTH} F${flags}${time}${MODE_FLAG[mode]}${condition}`,
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
    shape: "meta",
    key,
    read: ({ status, value }) => {
      if (status === "NF" || status === "NS") return undefined;
      if (status !== "VA") return unreadable();
      return Number(String.fromCharCode(...value));
    },
  };
}

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
    read: ({ status, value, flags, cas, ttlSec, isWon, isStale, isHeld, opaque }) => {
      if (opaque < 0) return unreadable();
      return { status, value: new Uint8Array(value), flags, cas, ttlSec, isWon, isStale, isHeld };
    },
  };
}

/** Reply to a meta command. */
export interface MetaReply {
  /** `HD`, `VA`, `EN`, `NF`, `NS` or `EX`. */
  readonly status: string;
  readonly value: Uint8Array;
  /** Flag f: the item's client flags. */
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
    read: ({ lines: [line] }) => {
      const [, , flags, , cas] = line?.words ?? [];
      if (line?.value === undefined || cas === undefined) return unreadable();
      return Number(flags) === leaseFlag
        ? { lease: cas, heldSec: Number(String.fromCharCode(...line.value)) }
        : { bytes: new Uint8Array(line.value), flags: Number(flags), cas };
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
      if (status === "LOCKED") return "locked";
      const [, id] = line.split(" ");
      if (id === undefined) return unreadable();
      return { lease: id, existed: oneOf({ DELETED: true, NOT_FOUND: false }, status) };
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
      if (status === "OK") return { fence: Number(line.slice("OK ".length)) };
      return oneOf({ LOCKED: "locked", NOT_FOUND: "missing" } as const, status);
    },
  };
}

/** `unlock`. */
export function unlock(key: string): Request<void> {
  return { line: `unlock ${key}`, shape: "line", key, read: onlyOk };
}

function onlyOk({ status }: Reply): void {
  if (status !== "OK") unreadable();
}

/** `token get`: an update token, or undefined if another connection holds the key's lock. */
export function takeToken(key: string, owner: string): Request<string | undefined> {
  return {
    line: `token get ${key} ${owner}`,
    shape: "line",
    key,
    read: ({ status, line }) => {
      if (status === "TOKEN") return line.slice("TOKEN ".length);
      return oneOf({ LOCKED: undefined }, status);
    },
  };
}

/** `token release`. @returns Whether the token was out until now. */
export function releaseToken(key: string, id: string): Request<boolean> {
  return {
    line: `token release ${key} ${id}`,
    shape: "line",
    key,
    read: ({ status }) => oneOf({ OK: true, NOT_FOUND: false }, status),
  };
}

/** `token release` of a token of rows. @returns Whether it was out and unused until now. */
export function endToken(key: string, id: string): Request<boolean> {
  return {
    ...releaseToken(key, id),
    read: ({ status }) => oneOf({ OK: true, NOT_FOUND: false, BUSY: false }, status),
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
      const [word, version] = line.split(" ");
      if ((word === "STORED" || word === "DELETED") && version !== undefined) {
        return Number(version);
      }
      return oneOf(
        { REVOKED: "revoked", NOT_FOUND: "none", BUSY: "busy", LOCKED: "locked" } as const,
        status,
      );
    },
  };
}

/** A classic command whose reply is lines up to END, as `stats`. */
export function lines(line: string): Request<readonly ReplyLine[]> {
  return { line, shape: "lines", key: "", read: ({ lines }) => lines };
}
