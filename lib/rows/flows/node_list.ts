import { assert } from "../../../store/base/assert.ts";
import { type KeyRange, type KeySet, keySetOf } from "../../databases/views/key_set.ts";
import { waitFor } from "./takeover.ts";

/** Nodes of one origin. Each has one request waiting at the origin. */
export const NODES_MAX = 1000;
/** How long a node that is no member any more is shown. */
const SHOWN_MS = 600_000;
/** A deletion delays writes if it is not confirmed within this share of the member time: a node polls as often. */
const DELAY_SHARE = 0.25;

/** A node, as `nodes` shows it. */
export interface NodeState {
  readonly name: string;
  /** `member`: it may serve rows. `silent`: its time is over. `lost`: a write went on without it. */
  readonly state: "member" | "silent" | "lost";
  /** Time since its last renewal. */
  readonly ageMs: number;
  /** Rows that it has fetched. */
  readonly fetched: number;
}

/** An event of nodes, for the log. */
export interface NodeChange {
  readonly name: string;
  /**
   * `silent`: its time is over. `lost`: besides, a write went on without it. `returned`: it is a member after it was
   * silent or lost. `left`: it has ended.
   */
  readonly kind: "joined" | "returned" | "silent" | "lost" | "left";
  /** Time since its last renewal. */
  readonly ageMs: number;
}

interface Pending extends KeyRange {
  readonly seq: number;
  readonly sinceMs: number;
}

interface Node {
  readonly name: string;
  /** Its part of the session that others cannot guess. */
  readonly secret: string;
  /** Until when it may serve rows, the margin included. */
  untilMs: number;
  renewedMs: number;
  fetched: number;
  /** Number of the last deletion; they count from 1. */
  lastSeq: number;
  /** Number of the last deletion that was sent to it: it cannot have executed a later one. */
  sentSeq: number;
  /** Deletions that it has not confirmed, the oldest first. */
  pending: Pending[];
  /** A write went on without it: it may have old rows, and must join again without them. */
  isLost: boolean;
  /** Whether its silence was told. */
  isSilent: boolean;
  /** Whether its loss is this origin's own, which had no time to give: its return is not told either. */
  isLostQuietly: boolean;
  /** Whether a deletion has waited for it in vain. */
  hasDelayed: boolean;
}

/** Deletions of one group of writes. */
export class Deletion {
  /** Nodes that have not confirmed it, with the number of its last key there. */
  readonly missing: Map<Node, number>;

  constructor(missing: Map<Node, number>) {
    this.missing = missing;
  }
}

/** Rows that a node must delete. */
export interface DueRows extends KeySet {
  /** The number of the last deletion; 0: none is due. */
  readonly seq: number;
}

/**
 * The nodes of an origin: which of them may serve rows, until when, and which deletions they have not confirmed.
 *
 *   join     a session begins; the node has no row, and may serve until its time is over
 *   renew    moves the end of its time on; from when the origin answers, with a margin
 *   leave    the node serves no row any more
 *   delete   a write before its commit, or a change in the log: until the node confirms it, or its time is over
 *
 * A node counts its time from before it asks, and the origin from its answer, with a margin for clocks that differ. So
 * a node whose time is over here serves no row any more. A write does not wait for it, and its session is over: it
 * joins again, without rows. No socket, and the clock is an argument.
 */
export class NodeList {
  readonly #newSecret: () => string;
  readonly #memberMs: number;
  readonly #driftShare: number;
  /** By the number of the session, which is public. */
  readonly #nodes = new Map<number, Node>();
  #sessions = 0;
  /** Told of every change. */
  tell: (change: NodeChange) => void = () => {};
  /** Told of the name of a node whose session has ended, and for which a deletion has waited in vain. */
  delayed: (name: string, nowMs: number) => void = () => {};

  /**
   * @param newSecret Returns a text that was never returned before and that nobody can guess, for a session.
   * @param memberMs How long a node may serve after a renewal.
   * @param driftShare How much slower a node's clock may run, as a share of the time.
   */
  constructor(newSecret: () => string, memberMs: number, driftShare: number) {
    this.#newSecret = newSecret;
    this.#memberMs = memberMs;
    this.#driftShare = driftShare;
  }

  /** Sessions that are not over. */
  get size(): number {
    let size = 0;
    for (const { isLost } of this.#nodes.values()) if (!isLost) size++;
    return size;
  }

  /** Whether a node may serve rows now. */
  mayServe(nowMs: number): boolean {
    return [...this.#nodes.values()].some(({ isLost, untilMs }) => !isLost && nowMs < untilMs);
  }

  /**
   * Begins the session of a node that has no rows.
   *
   * @param old Its session before, which ends; "": none.
   * @returns The session; null: there are too many nodes.
   */
  join(name: string, old: string, nowMs: number): string | null {
    this.#forgetOld(nowMs);
    const before = this.#find(old);
    let lastMs = before?.renewedMs;
    let isQuiet = before?.isLostQuietly ?? false;
    if (before !== undefined) {
      this.#end(before, nowMs);
      this.#nodes.delete(numberOf(old));
    }
    for (const [number, node] of this.#nodes) {
      if (!node.isLost || node.name !== name) continue;
      lastMs = Math.max(lastMs ?? 0, node.renewedMs);
      isQuiet ||= node.isLostQuietly;
      this.#nodes.delete(number);
    }
    if (this.#nodes.size >= NODES_MAX && !this.#forgetEnded(nowMs)) return null;
    const number = ++this.#sessions;
    assert(!this.#nodes.has(number), "a session is given once");
    const secret = this.#newSecret();
    this.#nodes.set(number, {
      name,
      secret,
      untilMs: nowMs,
      renewedMs: nowMs,
      fetched: 0,
      lastSeq: 0,
      sentSeq: 0,
      pending: [],
      isLost: false,
      isSilent: false,
      isLostQuietly: false,
      hasDelayed: false,
    });
    const kind = lastMs === undefined ? "joined" : "returned";
    if (!isQuiet) this.tell({ name, kind, ageMs: nowMs - (lastMs ?? nowMs) });
    return `${number}-${secret}`;
  }

  /**
   * Renews the right of a node to serve rows.
   *
   * @param mostMs How long the origin itself may serve.
   * @returns How long the node may serve, counted from before it asked; null: its session is over.
   */
  renew(session: string, mostMs: number, nowMs: number): number | null {
    const node = this.#live(session);
    if (node === undefined) return null;
    const [oldest] = node.pending;
    // A node that asks and confirms nothing keeps no write waiting for longer than one that does not ask.
    const askedMs = oldest === undefined ? 0 : nowMs - oldest.sinceMs;
    // In this order, or rounding would make it longer than the member time.
    const confirmsMs = this.#memberMs - askedMs;
    if (confirmsMs < 0) return null;
    const grantedMs = Math.max(0, Math.min(confirmsMs, mostMs));
    if (node.isSilent) {
      node.isSilent = false;
      this.tell({ name: node.name, kind: "returned", ageMs: nowMs - node.renewedMs });
    }
    assert(nowMs >= node.renewedMs, "the clock of memberships does not go back");
    node.untilMs = Math.max(node.untilMs, nowMs + waitFor(grantedMs, this.#driftShare));
    node.renewedMs = nowMs;
    assert(node.untilMs >= nowMs + grantedMs, "the origin waits for longer than a node may serve");
    return grantedMs;
  }

  /** Ends the session of a node that serves no row any more. */
  leave(session: string, nowMs: number): void {
    const node = this.#live(session);
    if (node === undefined) return;
    this.#end(node, nowMs);
    this.#nodes.delete(numberOf(session));
    this.tell({ name: node.name, kind: "left", ageMs: nowMs - node.renewedMs });
  }

  /** Whether a node may keep what it reads now: later writes delete in it. */
  isReadable(session: string): boolean {
    return this.#live(session) !== undefined;
  }

  /** Whether a session is known, and no deletion has waited for its node in vain. */
  isPrompt(session: string, nowMs: number): boolean {
    const node = this.#find(session);
    return node !== undefined && !node.hasDelayed && !this.#delays(node, nowMs);
  }

  countFetched(session: string, rows: number): void {
    const node = this.#live(session);
    if (node !== undefined) node.fetched += rows;
  }

  /**
   * Removes the deletions up to this number from those that a node must confirm.
   *
   * @throws RangeError for a number that was not sent to it: nothing is confirmed.
   */
  confirm(session: string, seq: number): void {
    const node = this.#live(session);
    if (node === undefined) return;
    if (!(seq >= 0 && seq <= node.sentSeq)) {
      throw new RangeError(
        `node ${node.name} confirms deletion ${seq}; it was sent those up to ${node.sentSeq}`,
      );
    }
    node.pending = node.pending.filter((each) => each.seq > seq);
    const last = node.pending.at(-1)?.seq ?? node.lastSeq;
    assert(last === node.lastSeq, "the last deletion is due until it is confirmed");
  }

  /** Returns the oldest deletions of a node. @param most Keys and prefixes. */
  due(session: string, most: number): DueRows {
    const due = this.#live(session)?.pending.slice(0, most) ?? [];
    return { seq: due.at(-1)?.seq ?? 0, ...keySetOf(due) };
  }

  /** Returns the deletions that are sent to a node now: from here on it may confirm them. */
  send(session: string, most: number): DueRows {
    const due = this.due(session, most);
    const node = this.#live(session);
    if (node !== undefined) node.sentSeq = Math.max(node.sentSeq, due.seq);
    return due;
  }

  /** Begins to delete rows in all nodes that may have them. Call it after the tokens of the keys are out. */
  delete({ keys, prefixes }: KeySet, nowMs: number): Deletion {
    const missing = new Map<Node, number>();
    for (const node of this.#nodes.values()) {
      if (this.#hasEnded(node, nowMs)) continue;
      const add = (text: string, isPrefix: boolean): void => {
        node.pending.push({ seq: ++node.lastSeq, text, isPrefix, sinceMs: nowMs });
      };
      for (const prefix of prefixes) add(prefix, true);
      for (const key of keys) add(key, false);
      const [oldest] = node.pending;
      assert(oldest === undefined || oldest.seq <= node.lastSeq, "the number of deletions grows");
      missing.set(node, node.lastSeq);
    }
    return new Deletion(missing);
  }

  /** Whether every node has confirmed a deletion, or serves no row any more. */
  isDone({ missing }: Deletion, nowMs: number): boolean {
    for (const [node, seq] of missing) {
      const isConfirmed = node.pending.length === 0 || node.pending[0]!.seq > seq;
      assert(seq <= node.lastSeq, "a deletion has a number that was given");
      if (isConfirmed || this.#hasEnded(node, nowMs)) missing.delete(node);
    }
    return missing.size === 0;
  }

  /** When the first of the nodes that have not confirmed a deletion serves no row any more. */
  endMs({ missing }: Deletion): number {
    return Math.min(...[...missing.keys()].map(({ untilMs }) => untilMs));
  }

  /** Tells of nodes whose time is over, and which do not ask for more. */
  watch(nowMs: number): void {
    for (const node of this.#nodes.values()) {
      if (node.isLost || node.isSilent || nowMs < node.untilMs) continue;
      if (this.#isWaiting(node, nowMs)) continue;
      node.isSilent = true;
      this.tell({ name: node.name, kind: "silent", ageMs: nowMs - node.renewedMs });
    }
  }

  /** Forgets a node that serves no row. @returns False for an unknown node. */
  forget(name: string, nowMs: number): boolean {
    let isForgotten = false;
    for (const [number, node] of this.#nodes) {
      if (node.name !== name || nowMs < node.untilMs && !node.isLost) continue;
      this.#end(node, nowMs);
      isForgotten = this.#nodes.delete(number);
    }
    return isForgotten;
  }

  /** Yields the nodes. */
  *states(nowMs: number): Generator<NodeState> {
    for (const { name, isLost, untilMs, renewedMs, fetched } of this.#nodes.values()) {
      const state = isLost ? "lost" : nowMs < untilMs ? "member" : "silent";
      yield { name, state, ageMs: Math.max(0, nowMs - renewedMs), fetched };
    }
  }

  /** Finds the node of a session by its number, and compares the secret in constant time. */
  #find(session: string): Node | undefined {
    const node = this.#nodes.get(numberOf(session));
    if (node === undefined) return undefined;
    return isEqual(session.slice(session.indexOf("-") + 1), node.secret) ? node : undefined;
  }

  #live(session: string): Node | undefined {
    const node = this.#find(session);
    return node?.isLost === false ? node : undefined;
  }

  /** Ends the session of a node: writes no longer wait for it. */
  #end(node: Node, nowMs: number): void {
    assert(!node.isLost || node.pending.length === 0, "nothing is due at a node that is lost");
    if (this.#delays(node, nowMs)) {
      node.hasDelayed = true;
      this.delayed(node.name, nowMs);
    }
    node.isLost = true;
    node.pending = [];
  }

  #delays({ pending: [oldest] }: Node, nowMs: number): boolean {
    return oldest !== undefined && nowMs - oldest.sinceMs >= DELAY_SHARE * this.#memberMs;
  }

  /** Whether a node whose time is over has asked in time: this origin had none to give. */
  #isWaiting({ renewedMs }: Node, nowMs: number): boolean {
    return nowMs < renewedMs + this.#memberMs;
  }

  /** Ends the session of a node whose time is over. @returns Whether it has ended. */
  #hasEnded(node: Node, nowMs: number): boolean {
    if (!node.isLost && nowMs >= node.untilMs) {
      // It confirms in time, too.
      node.isLostQuietly = this.#isWaiting(node, nowMs) && !this.#delays(node, nowMs);
      this.#end(node, nowMs);
      if (!node.isLostQuietly) {
        this.tell({ name: node.name, kind: "lost", ageMs: nowMs - node.renewedMs });
      }
    }
    return node.isLost;
  }

  /** Makes room: forgets a node that serves no row, if possible one that a write went on without. */
  #forgetEnded(nowMs: number): boolean {
    const nodes = [...this.#nodes];
    const ended = nodes.find(([, { isLost }]) => isLost) ??
      nodes.find(([, node]) => this.#hasEnded(node, nowMs));
    return ended !== undefined && this.#nodes.delete(ended[0]);
  }

  #forgetOld(nowMs: number): void {
    for (const [number, node] of this.#nodes) {
      if (nowMs - node.renewedMs < SHOWN_MS || !this.#hasEnded(node, nowMs)) continue;
      this.#nodes.delete(number);
    }
  }
}

/** Returns the number of a session; NaN: the text has not the form of one. */
function numberOf(session: string): number {
  return /^[1-9]\d{0,15}-/.test(session) ? Number(session.slice(0, session.indexOf("-"))) : NaN;
}

/** Compares texts; how long that takes does not tell where they differ. */
function isEqual(given: string, secret: string): boolean {
  if (given.length !== secret.length) return false;
  let difference = 0;
  for (let at = 0; at < secret.length; at++) {
    difference |= given.charCodeAt(at) ^ secret.charCodeAt(at);
  }
  return difference === 0;
}
