import { numberBytes, numberOf, opcodeOf, packetText } from "../support/sessions/binary_text.ts";
import type { World } from "./world.ts";

/** Knowledge an actor gained in a step: a word, and an id or 0. */
export interface Answer {
  readonly word: string;
  readonly id: number;
}

export const NOTHING: Answer = { word: "", id: 0 };
/** The step came to nothing: the actor is where it was, and will do it again. */
export const AGAIN: Answer = { word: "again", id: 0 };

interface AnyStep {
  /** A writer's update is complete with it, although the writer goes on. */
  readonly endsUpdate?: boolean;
}

/** One command to the server, or the beginning of one. */
export interface Ask extends AnyStep {
  readonly kind: "ask";
  readonly request: string;
  /** Extracts the actor's knowledge from the reply; undefined: the actor ignores the reply. */
  read(reply: string): Answer | undefined;
}

/** One step that the server does not see. */
export interface Act extends AnyStep {
  readonly kind: "act";
  readonly note: string;
  act(world: World): Answer | undefined;
}

export type Step = Ask | Act;

/** A client: it yields its steps one by one and keeps only what their replies say. */
export type Actor = Generator<Step, void, Answer>;

/**
 * Lease times in seconds, of readers and of invalidations. Long enough to play a found transcript
 * to a server on a busy machine.
 */
export const LEASE_SEC = 20;
const INVALIDATION_SEC = 10;
/** Larger than the server buffers outside the store, so the value arrives in pieces. */
const LONG_BYTES = 10_000;

// --- steps ---------------------------------------------------------------------------------------

function ask(request: string, read: Ask["read"] = () => undefined): Ask {
  return { kind: "ask", request: `${request}\r\n`, read };
}

/** The same step, with which the update is complete. */
function completing(step: Step): Step {
  return { ...step, endsUpdate: true };
}

/** The reply's first word. */
function firstWord(reply: string): Answer {
  return { word: /^\w*/.exec(reply)![0], id: 0 };
}

function idIn(reply: string, pattern: RegExp): number {
  return Number(pattern.exec(reply)![1]);
}

/** getss: `value`, `lease` (made for the asker) or `held`; ids of leases are told. */
function readGetss(reply: string): Answer {
  const [, flags, id, data] = /^VALUE k (\d+) \d+ (\d+)\r\n(.*)\r\n/.exec(reply)!;
  if (flags !== "13107") return { word: "value", id: 0 };
  return { word: data === "0" ? "lease" : "held", id: Number(id) };
}

/** Like `readGetss`, for actors that ignore leases of others. */
function readOwnLease(reply: string): Answer {
  const answer = readGetss(reply);
  return answer.word === "lease" ? answer : { word: answer.word, id: 0 };
}

const getss = ask(`getss ${LEASE_SEC} k`, readOwnLease);
const deletess = ask(`deletess ${INVALIDATION_SEC} k`);
const deletessKeepingId = ask(
  `deletess ${INVALIDATION_SEC} k`,
  (reply) => ({ word: "lease", id: idIn(reply, / (\d+)/) }),
);
const remove = ask("delete k");

const readRow: Act = {
  kind: "act",
  note: "reads the row: version ",
  act: ({ committed }) => ({ word: `${committed}`, id: 0 }),
};
const commit: Act = {
  kind: "act",
  note: "commits version ",
  act: (world) => ({ word: `${++world.committed}`, id: 0 }),
};
const updateUncommitted: Act = {
  kind: "act",
  note: "updates the row, not committed yet",
  act: () => undefined,
};

const cas = (version: string, id: number): Ask => ask(`cas k 0 0 1 ${id}\r\n${version}`, firstWord);
const set = (version: string): Ask => ask(`set k 0 0 1\r\n${version}`, firstWord);

// --- readers -------------------------------------------------------------------------------------

/** The rules: lease, read, fill under the lease. Who finds the key held waits, or reads and does not fill. */
export function* reader(): Actor {
  const got = yield getss;
  if (got.word !== "lease") return;
  const row = yield readRow;
  yield cas(row.word, got.id);
}

/** Breaks a rule: it fills with an id that it was shown, too. */
export function* borrowingReader(): Actor {
  const got = yield ask(`getss ${LEASE_SEC} k`, readGetss);
  if (got.word === "value") return;
  const row = yield readRow;
  yield cas(row.word, got.id);
}

/** Breaks a rule: it reads the row before it asks for the lease. */
export function* hastyReader(): Actor {
  const row = yield readRow;
  const got = yield getss;
  if (got.word === "lease") yield cas(row.word, got.id);
}

/** Like `reader`, but its value arrives in two pieces. */
export function* slowReader(): Actor {
  const got = yield getss;
  if (got.word !== "lease") return;
  const row = yield readRow;
  const rest = LONG_BYTES / 2;
  const head = `cas k 0 0 ${LONG_BYTES} ${got.id}\r\n${row.word}${"x".repeat(rest - 1)}`;
  yield { kind: "ask", request: head, read: () => undefined };
  yield ask("x".repeat(rest), firstWord);
}

/** Releases the lease after reading the row, because the row must not be cached. */
export function* abandoningReader(): Actor {
  const got = yield getss;
  if (got.word !== "lease") return;
  yield readRow;
  yield ask(`cas k 0 -1 0 ${got.id}\r\n`, firstWord);
}

/** A reader that uses mcrouter's lease commands. */
export function* mcrouterReader(): Actor {
  const got = yield ask("lease-get k", (reply) => {
    if (reply.startsWith("VALUE")) return { word: "value", id: 0 };
    const id = idIn(reply, /^LVALUE k (\d+) /);
    return id === 1 ? { word: "held", id: 0 } : { word: "lease", id };
  });
  if (got.word !== "lease") return;
  const row = yield readRow;
  yield ask(`lease-set k ${got.id} 0 0 1\r\n${row.word}`, firstWord);
}

/** A reader that uses memcached's meta commands: flag W makes it fetch. */
export function* metaReader(): Actor {
  const got = yield ask(`mg k v c N${LEASE_SEC}`, (reply) => {
    if (!/^VA \d+ .*\bW\b/.test(reply)) return { word: "value", id: 0 };
    return { word: "lease", id: idIn(reply, /\bc(\d+)/) };
  });
  if (got.word !== "lease") return;
  const row = yield readRow;
  yield ask(`ms k 1 C${got.id}\r\n${row.word}`, firstWord);
}

// A packet's header: offsets in bytes, and the status of a lease.
const STATUS_OFFSET = 6;
const CAS_OFFSET = 16;
const HEADER_BYTES = 24;
const LEASED = 0x12;

function askBinary(name: string, extras: string, read: Ask["read"], more = {}): Ask {
  const request = packetText({ opcode: opcodeOf(name), key: "k", extras, ...more });
  return { kind: "ask", request, read };
}

/** In the binary protocol. */
export function* binaryReader(): Actor {
  const got = yield askBinary("GetSS", numberBytes(LEASE_SEC, 4), (reply) => {
    const remain = numberOf(reply.slice(HEADER_BYTES + 4, HEADER_BYTES + 8));
    if (reply.charCodeAt(STATUS_OFFSET + 1) !== LEASED) return { word: "value", id: 0 };
    if (remain !== 0n) return { word: "held", id: 0 };
    return { word: "lease", id: Number(numberOf(reply.slice(CAS_OFFSET, CAS_OFFSET + 8))) };
  });
  if (got.word !== "lease") return;
  const row = yield readRow;
  const cas = String(got.id);
  yield askBinary("Set", numberBytes(0, 8), () => undefined, { value: row.word, cas });
}

/** A client that knows of no leases: look, read, set. */
export function* plainSetter(): Actor {
  const got = yield ask("get k", firstWord);
  if (got.word !== "END") return;
  const row = yield readRow;
  yield set(row.word);
}

/** Extends the value's TTL. */
export function* toucher(): Actor {
  yield ask("touch k 0");
}

// --- writers -------------------------------------------------------------------------------------

/** The rules: invalidate after the commit. */
export function* writer(): Actor {
  yield commit;
  for (;;) {
    const answer = yield ask(`deletess ${INVALIDATION_SEC} k`, lockedOrDone);
    if (answer !== AGAIN) return;
  }
}

/** Like `writer`, in the binary protocol. */
export function* binaryWriter(): Actor {
  yield commit;
  yield askBinary("DeleteSS", numberBytes(INVALIDATION_SEC, 4), () => undefined);
}

function lockedOrDone(reply: string): Answer {
  return reply.startsWith("LOCKED") ? AGAIN : NOTHING;
}

/** Like `writer`, but its invalidation leaves no lease. */
export function* deletingWriter(): Actor {
  yield commit;
  yield remove;
}

/** Marks the value stale instead of removing it. */
export function* stalingWriter(): Actor {
  yield commit;
  yield ask("md k I");
}

/** Invalidates everything. */
export function* flushingWriter(): Actor {
  yield commit;
  yield ask("flush_all");
}

/**
 * Counts the value up with the row; where that fails, or may have gone wrong, it is satisfied that
 * nothing is there.
 */
export function* countingWriter(): Actor {
  yield commit;
  const counted = yield ask("incr k 1", firstWord);
  if (counted.word !== "NOT_FOUND") yield remove;
}

/** Breaks a rule: deletes before the commit, and stores the new value under the id of that deletess. */
export function* deleteFirstWriter(): Actor {
  const got = yield deletessKeepingId;
  const row = yield commit;
  yield cas(row.word, got.id);
}

/** Like `deleteFirstWriter`, but invalidates again when another client was faster. */
export function* carefulDeleteFirstWriter(): Actor {
  const got = yield deletessKeepingId;
  const row = yield commit;
  const stored = yield cas(row.word, got.id);
  if (stored.word !== "STORED") yield deletess;
}

/** Breaks a rule: fills with the value it wrote, without reading the row again. */
export function* selfFillingWriter(): Actor {
  const row = yield commit;
  const got = yield completing(deletessKeepingId);
  yield cas(row.word, got.id);
}

/** Like `selfFillingWriter`, but reads the row again, as a reader under its invalidation's lease. */
export function* warmingWriter(): Actor {
  yield commit;
  const got = yield completing(deletessKeepingId);
  const row = yield readRow;
  yield cas(row.word, got.id);
}

/** Breaks a rule: it deletes inside its transaction, which others cannot see yet. */
export function* inTransactionWriter(): Actor {
  yield updateUncommitted;
  yield remove;
  yield commit;
}

// --- others --------------------------------------------------------------------------------------

/** Locks the value, deletes it, and stores the row's value without a lease. */
export function* lockingSetter(): Actor {
  const locked = yield ask("lock k", firstWord);
  if (locked.word !== "OK") return;
  const row = yield readRow;
  yield remove;
  yield set(row.word);
}

/** Locks the value for a while, and does nothing to it. */
export function* lockingReader(): Actor {
  const locked = yield ask("lock k", firstWord);
  if (locked.word !== "OK") return;
  yield readRow;
  yield ask("unlock k");
}

/** Announces that everything goes a second later. */
export function* lateFlusher(): Actor {
  yield ask("flush_all 1");
}
