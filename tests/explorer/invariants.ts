import { NO_ITEM } from "../../store/memory/item.ts";
import { numberOf } from "../support/sessions/binary_text.ts";
import type { CacheNode } from "./cache_node.ts";
import { KEY, type KeyRecord, type KeyToken } from "./key_record.ts";
import type { Invariant } from "./scenario.ts";

/** An id that a reply tells of the key. */
const TOLD_ID = /(?:VALUE k|DELETED|NOT_FOUND|TOKEN) [^\r]*?(\d{15,})/g;

/**
 * The invariants of one cache, whatever its clients do, by the specification and independently of the
 * store: it sees the key's record before and after each event, and the replies.
 */
export class Invariants {
  readonly #node: CacheNode;
  readonly #ignored: ReadonlySet<Invariant>;
  #broken: string | undefined;
  /** The highest id that was issued. */
  #highestId = 0;
  /** End of the time in which a plain write on a lease may be read; and the id of its value. */
  #dirtyUntilSec = 0;
  #doubtfulId = 0;
  #doubtfulUntilSec = 0;
  /** The id of a value whose deadline has passed. */
  #deadId = 0;

  constructor(node: CacheNode, ignored: readonly Invariant[] = []) {
    this.#node = node;
    this.#ignored = new Set(ignored);
  }

  start(): void {
    this.#broken = undefined;
    this.#highestId = 0;
    this.#deadId = 0;
    this.#forgetDoubt();
  }

  /** Why something does not hold; undefined: all does. */
  get broken(): string | undefined {
    return this.#broken;
  }

  /** Whether the record's value is one that a plain write left on a lease. */
  isDoubtful({ id }: KeyRecord): boolean {
    return id === this.#doubtfulId;
  }

  /** The next instant at which a plain write must be gone. */
  get doubtfulUntilSec(): number {
    return this.#doubtfulUntilSec;
  }

  /** The part of the past that the invariants need. */
  text(record: KeyRecord): string {
    const { nowSec } = this.#node;
    let text = "";
    if (record.item !== NO_ITEM && this.isDoubtful(record)) {
      text += `?${this.#doubtfulUntilSec - nowSec}`;
    }
    if (this.#dirtyUntilSec > nowSec) text += ` D${this.#dirtyUntilSec - nowSec}`;
    return text;
  }

  // --- events --------------------------------------------------------------------------------------

  /** A client has got a reply. */
  commanded(request: string, reply: string, owner: number, before: KeyRecord): void {
    const after = this.#node.record();
    this.#noteDoubt(request, reply, before, after);
    this.#checkIds(reply, before, after);
    if (!request.startsWith("token drop")) {
      const released = releasedId(request);
      this.#checkKept(before.tokens.filter(({ id }) => id !== released), after.tokens);
    }
    if (before.isLocked && before.lockOwner !== owner && after.id !== before.id) {
      this.#fail("S5", "a locked value was changed by a client that does not hold the lock");
    }
    if (request === "flush_all\r\n" && reply === "OK\r\n") this.#checkFlushed(after);
    this.#check(after);
  }

  /** Something else has happened. */
  happened(before: KeyRecord): void {
    const after = this.#node.record();
    this.#noteDead(before);
    this.#checkKept(before.tokens, after.tokens);
    this.#check(after);
  }

  /** The journal has written, or could not. */
  journaled(before: KeyRecord): void {
    const after = this.#node.record();
    this.#checkKept(before.tokens.filter(({ isPending }) => !isPending), after.tokens);
    this.#check(after);
  }

  /** The cache has restarted. @param keepsTokens It has a journal. */
  restarted(before: KeyRecord, keepsTokens: boolean): void {
    this.#forgetDoubt();
    this.#deadId = 0;
    if (keepsTokens) this.journaled(before);
    else this.#check(this.#node.record());
  }

  /** The cache has restarted with its snapshot. @param keepsTokens It has a journal. */
  restartedCleanly(before: KeyRecord, keepsTokens: boolean): void {
    const after = this.#node.record();
    this.#dirtyUntilSec = 0;
    this.#noteDead(before);
    if (after.item !== NO_ITEM && after.id !== before.id) {
      this.#fail("S3", "an item has another id after the restart");
    }
    if (after.isHeld || after.isLocked) this.#fail("S5", "a lease or a lock outlives the process");
    if (keepsTokens) this.journaled(before);
    else this.#check(after);
  }

  /** The lease was dropped, and all that is known of the key with it. */
  leaseEvicted(): void {
    this.#forgetDoubt();
  }

  /** Asks as any client does, which may change what the store knows of the key. */
  checkReads(client: number): void {
    const { item } = this.#node.record();
    const reply = this.#node.ask(client, `get ${KEY}\r\n`);
    if (item === NO_ITEM && reply !== "END\r\n") {
      this.#fail("S6", `get answers ${JSON.stringify(reply)}, but there is no value`);
    }
  }

  // --- private -------------------------------------------------------------------------------------

  #fail(invariant: Invariant, reason: string): void {
    if (!this.#ignored.has(invariant)) this.#broken ??= `${invariant}: ${reason}`;
  }

  #check(record: KeyRecord): void {
    const { nowSec } = this.#node;
    const isThere = record.item !== NO_ITEM;
    if ((record.tokens.length > 0 || record.isQuarantined) && (isThere || record.isHeld)) {
      const why = record.isQuarantined ? "in quarantine" : "under an update token";
      this.#fail("S4", `a key ${why} has a ${isThere ? "value" : "lease"}`);
    }
    if (record.isLocked && !this.#node.owners.includes(record.lockOwner)) {
      this.#fail("S5", "a lock has outlived its connection");
    }
    if (
      isThere && this.isDoubtful(record) && this.#doubtfulUntilSec <= nowSec && !record.isLocked
    ) {
      this.#fail("S7", "a plain write outlives the lease it was made on");
    }
    if (isThere && record.id === this.#deadId) {
      this.#fail("S10", "a value is readable after its deadline");
    }
  }

  #checkKept(before: readonly KeyToken[], after: readonly KeyToken[]): void {
    if (before.every(({ id }) => after.some((token) => token.id === id))) return;
    this.#fail("S4", "an update token is gone that nobody released");
  }

  #checkFlushed({ item, isLocked, isHeld }: KeyRecord): void {
    if (item !== NO_ITEM && !isLocked) this.#fail("S9", "a value has outlived flush_all");
    if (isHeld) this.#fail("S9", "a lease has outlived flush_all");
  }

  #checkIds(reply: string, before: KeyRecord, after: KeyRecord): void {
    const known = new Set(idsOf(before));
    const told = [...reply.matchAll(TOLD_ID)].map(([, id]) => Number(id));
    let highest = Math.max(this.#highestId, ...known);
    const old = highest;
    for (const id of [...told, ...idsOf(after)]) {
      if (!known.has(id) && id <= old) this.#fail("S3", "an id is issued a second time");
      highest = Math.max(highest, id);
    }
    this.#highestId = Math.max(highest, this.#node.lastId);
  }

  #noteDead(before: KeyRecord): void {
    const { item, id, deadlineSec, isLocked } = before;
    const isOver = deadlineSec !== 0 && deadlineSec <= this.#node.nowSec;
    if (item !== NO_ITEM && isOver && !isLocked) this.#deadId = id;
  }

  #noteDoubt(request: string, reply: string, before: KeyRecord, after: KeyRecord): void {
    const { nowSec } = this.#node;
    if (/^(?:set|add) /.test(request) && reply === "STORED\r\n") {
      if (before.isHeld) this.#dirtyUntilSec = Math.max(this.#dirtyUntilSec, before.leaseUntilSec);
      this.#doubtfulId = 0;
      if (this.#dirtyUntilSec > nowSec) {
        this.#doubtfulId = after.id;
        this.#doubtfulUntilSec = this.#dirtyUntilSec;
      }
    } else if (
      /^(?:DELETED|TOKEN)/.test(reply) || after.tokens.length > 0 ||
      request.startsWith("token release") ||
      (before.isHeld && /^(?:cas|lease-set) /.test(request) && reply === "STORED\r\n")
    ) this.#forgetDoubt();
  }

  #forgetDoubt(): void {
    this.#dirtyUntilSec = 0;
    this.#doubtfulId = 0;
    this.#doubtfulUntilSec = 0;
  }
}

/** All ids that the record has. */
export function idsOf({ id, leaseId, tokens }: KeyRecord): number[] {
  const ids = tokens.map((token) => token.id);
  if (id !== 0) ids.push(id);
  if (leaseId !== 0) ids.push(leaseId);
  return ids;
}

const TOKEN_RELEASE = /^\x80\x6a[^]{22}([^]{8})/;

/** The id of the token that the request releases, if it does. */
function releasedId(request: string): number | undefined {
  const binary = TOKEN_RELEASE.exec(request);
  if (binary !== null) return Number(numberOf(binary[1]!));
  const text = /^token release k (\d+)/.exec(request);
  return text === null ? undefined : Number(text[1]);
}
