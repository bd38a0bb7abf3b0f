import { numberBytes } from "../../support/sessions/binary_text.ts";
import { type Actor, type Answer, ask, cas, firstWord, LEASE_SEC, readRow } from "../steps.ts";
import { askBinary, casIn, extraIn, STATUS, statusOf } from "./binary.ts";

/** Larger than the server buffers outside the store, so the value arrives in pieces. */
const LONG_BYTES = 10_000;
/** TTL of values that expire. */
const VALUE_SEC = 5;

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

/** The rules: lease, read, fill under the lease. A reader that finds the key held waits, or reads and does not fill. */
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
  yield { ...ask(head), request: head };
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

/** In the binary protocol. */
export function* binaryReader(): Actor {
  const got = yield askBinary("GetSS", numberBytes(LEASE_SEC, 4), (reply) => {
    if (statusOf(reply) !== STATUS.LEASED) return { word: "value", id: 0 };
    if (extraIn(reply, 4, 4) !== 0) return { word: "held", id: 0 };
    return { word: "lease", id: casIn(reply) };
  });
  if (got.word !== "lease") return;
  const row = yield readRow;
  const cas = String(got.id);
  yield askBinary("Set", numberBytes(0, 8), () => undefined, { value: row.word, cas });
}

/** Like `reader`, but asks for another key beside it, which nobody writes. */
export function* multiGetReader(): Actor {
  const got = yield ask(`getss ${LEASE_SEC} m k`, (reply) => {
    return readOwnLease(reply.replace(/^VALUE m .*\r\n.*\r\n/, ""));
  });
  if (got.word !== "lease") return;
  const row = yield readRow;
  yield cas(row.word, got.id);
}

/** Like `reader`, but its value is to expire soon. */
export function* expiringReader(): Actor {
  const got = yield getss;
  if (got.word !== "lease") return;
  const row = yield readRow;
  yield ask(`cas k 0 ${VALUE_SEC} 1 ${got.id}\r\n${row.word}`, firstWord);
}
