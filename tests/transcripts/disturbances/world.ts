import { assertEquals } from "@std/assert";
import { ThreadProtocols } from "../../../protocol/thread_protocols.ts";
import { walkItems } from "../../../store/items/item_walk.ts";
import { STATE, WORD } from "../../../store/memory/item.ts";
import { CONTROL, PAGE, PAGE_OWNER } from "../../../store/memory/memory.ts";
import { createParts } from "../../../store/operations/parts.ts";
import { PageEvacuator } from "../../../store/space/page_evacuator.ts";
import { SavedStore } from "../../support/saved_store.ts";
import {
  type ConversationPeer,
  ConversationSide,
} from "../../support/sessions/conversation_side.ts";
import { bytesOf, type Peer, type Side } from "../../support/sessions/side.ts";
import { held } from "../../support/store.ts";
import { joinThread } from "../../support/threads.ts";

/** The places of a case that are disturbed: before each request and step of the clock, or before the n-th alone. */
export type Where = "everywhere" | number;

/** An event at a server beside the requests of a transcript. No reply may depend on it. */
export interface Disturbance {
  readonly name: string;
  /** Options of the server, in front of those of the transcript. */
  readonly options?: readonly string[];
  /** Happens between two requests. Returns whether it could happen there. Left out: only the options differ. */
  readonly apply?: (world: World) => boolean;
}

/** A server in process that is disturbed between the requests it gets. */
export class World implements Side {
  readonly name: string;
  readonly secondsMax = Infinity;
  readonly unsteadyStats: ReadonlySet<string> = new Set();
  /** How often the disturbance has happened in this case. */
  applied = 0;
  /** Requests and steps of the clock of this case so far. */
  places = 0;
  #side: ConversationSide;
  #peers: WorldPeer[] = [];
  /** Counts that restarts have lost, by the name of the counter. */
  readonly #lost = new Map<string, number>();
  readonly #options: readonly string[];
  /** Options in front of those of the transcript. */
  #added: readonly string[];
  readonly #disturbance: Disturbance;
  #where: Where = "everywhere";
  /** The thread that serves no connection now. */
  #otherThread: ThreadProtocols | null = null;

  /** @param options Of the transcript. */
  constructor(options: readonly string[], disturbance: Disturbance) {
    this.name = disturbance.name;
    this.#options = options;
    this.#disturbance = disturbance;
    this.#added = disturbance.options ?? [];
    this.#side = new ConversationSide([...this.#added, ...options]);
  }

  open(): Promise<WorldPeer> {
    const peer = new WorldPeer(() => this.#place(), this.#side.connect());
    this.#peers.push(peer);
    return Promise.resolve(peer);
  }

  advance(seconds: number): Promise<void> {
    this.#place();
    this.#advance(seconds);
    return Promise.resolve();
  }

  settle(): Promise<void> {
    return Promise.resolve();
  }

  async stats(): Promise<Map<string, number>> {
    const stats = await this.#side.stats();
    for (const [name, lost] of this.#lost) stats.set(name, stats.get(name)! + lost);
    return stats;
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  /** For the next case. */
  begin(where: Where): void {
    this.#where = where;
    this.#peers = [];
    this.applied = 0;
    this.places = 0;
  }

  /** Checks the memory, and forgets what the case has stored. */
  end(): void {
    this.#side.check();
    this.#side.empty();
  }

  #place(): void {
    const place = this.places++;
    if (this.#where !== "everywhere" && this.#where !== place) return;
    this.#peers = this.#peers.filter(({ isOpen }) => isOpen);
    if (this.#disturbance.apply?.(this)) this.applied++;
  }

  // --- what disturbances do ------------------------------------------------------------------------

  /**
   * Stops the server and starts it with its snapshot.
   *
   * @param options Of the new process, in front of those of the transcript. If the server has them, it loses
   *   them again: each restart changes them.
   * @returns False, and does nothing, where a claim would end, or a request is under way.
   */
  restart(options: readonly string[]): boolean {
    if (this.#hasClaims() || this.#peers.some(({ inner }) => inner.isBusy)) return false;
    const before = this.#side.statsNow();
    const saved = new SavedStore(this.#side.thread.cache);
    const items = this.#itemCount();
    this.#added = options === this.#added ? this.#disturbance.options ?? [] : options;
    this.#side = new ConversationSide([...this.#added, ...this.#options], undefined, saved);
    this.#otherThread = null;
    for (const peer of this.#peers) peer.goOn(this.#side.connect());
    const after = this.#side.statsNow();
    assertEquals(this.#itemCount(), items, "items after a restart");
    for (const [name, value] of before) {
      // `before` has counted the connection that asked.
      const lost = value - after.get(name)! - (name === "total_connections" ? 1 : 0);
      if (name !== "curr_items") this.#lost.set(name, (this.#lost.get(name) ?? 0) + lost);
    }
    return true;
  }

  /** Walks the memory, and fails if its parts disagree. */
  check(): boolean {
    this.#side.check();
    return true;
  }

  /** Moves everything in every page to another place. */
  movePages(): boolean {
    const { cache, memory } = this.#side.thread;
    const { links, eviction } = createParts(memory, () => {});
    let isMoved = false;
    held(cache, () => {
      const evacuator = new PageEvacuator(links, eviction);
      const end = memory.control[CONTROL.PAGES_EVER_USED]!;
      for (let page = 0; page < end; page++) {
        const classId = memory.pages[page * PAGE.WORDS + PAGE.CLASS]!;
        if (classId <= 0 || evacuator.isActive || !links.slabs.addPage(classId)) continue;
        evacuator.start(page, PAGE_OWNER.NOBODY);
        if (evacuator.finish()) isMoved = true;
      }
    });
    return isMoved;
  }

  /** Moves the connections that are between two requests to the other of two threads. */
  changeThread(): boolean {
    const { shared, thread, protocols } = this.#side;
    const { settings, hooks } = thread;
    this.#otherThread ??= new ThreadProtocols(joinThread({ shared, settings }, 1, hooks));
    let isMoved = false;
    for (const { inner } of this.#peers) {
      if (inner.isWaiting || inner.isBusy) continue;
      // As above.
      inner.protocols.thread.cache.applyHits();
      inner.moveTo(inner.protocols === protocols ? this.#otherThread : protocols);
      isMoved = true;
    }
    return isMoved;
  }

  /** Lets time pass, unless something would end by it. */
  advanceUnseen(seconds: number): boolean {
    if (this.#hasClaims() || this.#hasDeadlines()) return false;
    this.#advance(seconds);
    return true;
  }

  #advance(seconds: number): void {
    // As a transport does before its thread sleeps.
    this.#otherThread?.thread.cache.applyHits();
    this.#side.advanceNow(seconds);
  }

  /** Whether something is promised to a client that ends with the process, or with its time. */
  #hasClaims(): boolean {
    const { cache, memory } = this.#side.thread;
    return cache.leases.count > 0 || cache.locks.count > 0 ||
      memory.control[CONTROL.UNCACHEABLE] !== 0 ||
      this.#peers.some(({ inner }) => inner.isWaiting) ||
      this.#hasItem((item) => (cache.items.state(item) & (STATE.STUB | STATE.WON)) !== 0);
  }

  #hasDeadlines(): boolean {
    const { cache, memory } = this.#side.thread;
    return memory.control[CONTROL.FLUSH_AT_SEC] !== 0 ||
      this.#hasItem((item) => cache.items.word(item, WORD.DEADLINE_SEC) !== 0);
  }

  /** The number of items that a read can find. */
  #itemCount(): number {
    let count = 0;
    this.#hasItem(() => ++count < 0);
    return count;
  }

  #hasItem(is: (item: number) => boolean): boolean {
    const { cache } = this.#side.thread;
    let found = false;
    held(cache, () => {
      for (const _ of walkItems(cache.links, null, (item) => found ||= is(item)));
    });
    return found;
  }
}

/** A connection that outlives the servers it speaks to. */
class WorldPeer implements Peer {
  inner: ConversationPeer;
  /** Replies of the servers before. */
  #received = "";
  readonly #before: () => void;

  /** @param before Called before each request. */
  constructor(before: () => void, inner: ConversationPeer) {
    this.#before = before;
    this.inner = inner;
  }

  get isOpen(): boolean {
    return !this.inner.closed;
  }

  /** Goes on with a connection to another server. */
  goOn(inner: ConversationPeer): void {
    this.#received += this.inner.takeAll();
    this.inner = inner;
  }

  send(text: string): Promise<void> {
    this.#before();
    this.inner.feed(bytesOf(text));
    return Promise.resolve();
  }

  receive(_known: number): Promise<string> {
    this.#received += this.inner.takeAll();
    return Promise.resolve(this.#received);
  }

  take(length: number): void {
    this.#received = this.#received.slice(length);
  }

  isClosed(): Promise<boolean> {
    return this.inner.isClosed();
  }

  disconnect(): void {
    this.inner.disconnect();
  }
}
