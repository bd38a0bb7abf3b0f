import { NODES_MAX } from "./node_list.ts";

/** First wait, as a share of the member time; each further one is twice as long. */
const FIRST_SHARE = 1 / 8;
const FIRST_MS_MAX = 1000;
/** Longest wait, in member times: a node that never confirms delays writes for less than a tenth of all time. */
const LONGEST_TIMES = 16;
const LONGEST_MS_MAX = 60_000;
/** Time after which a wait is forgotten, in longest waits: the next one is a first one. */
const FORGOTTEN_TIMES = 4;

interface Wait {
  readonly ms: number;
  readonly untilMs: number;
}

/**
 * The nodes that must wait before they join again, by name: writes have waited for them in vain. A node that was slow
 * once waits for a short time; one that joins again and again and confirms nothing waits longer each time.
 */
export class NodeWaits {
  readonly #firstMs: number;
  readonly #longestMs: number;
  readonly #waits = new Map<string, Wait>();

  /** @param memberMs How long a write waits for a node that confirms nothing. */
  constructor(memberMs: number) {
    this.#firstMs = Math.min(FIRST_SHARE * memberMs, FIRST_MS_MAX);
    this.#longestMs = Math.min(LONGEST_TIMES * memberMs, LONGEST_MS_MAX);
  }

  /** Makes a name wait, because a write has waited for a node of it in vain. */
  add(name: string, nowMs: number): void {
    const last = this.#waits.get(name);
    // Several sessions may end by one write.
    if (last !== undefined && nowMs < last.untilMs) return;
    const isFirst = last === undefined || this.#isForgotten(last, nowMs);
    const ms = isFirst ? this.#firstMs : Math.min(2 * last.ms, this.#longestMs);
    // The latest name is the last one.
    this.#waits.delete(name);
    if (this.#waits.size >= NODES_MAX) this.#makeRoom(nowMs);
    this.#waits.set(name, { ms, untilMs: nowMs + ms });
  }

  /** Returns how long a node of this name must wait, in milliseconds; 0: it need not. */
  leftMs(name: string, nowMs: number): number {
    const untilMs = this.#waits.get(name)?.untilMs ?? nowMs;
    return Math.max(0, untilMs - nowMs);
  }

  /** Ends the wait of a name. @returns False: there is none. */
  forget(name: string): boolean {
    return this.#waits.delete(name);
  }

  #isForgotten({ untilMs }: Wait, nowMs: number): boolean {
    return nowMs - untilMs >= FORGOTTEN_TIMES * this.#longestMs;
  }

  #makeRoom(nowMs: number): void {
    for (const [name, wait] of this.#waits) {
      if (this.#isForgotten(wait, nowMs)) this.#waits.delete(name);
    }
    if (this.#waits.size < NODES_MAX) return;
    const [oldest] = this.#waits.keys();
    this.#waits.delete(oldest!);
  }
}
