import { CacheList, type ListChange, type Weighted } from "../../../lib/rows/flows/cache_list.ts";
import type { Flow } from "../../../lib/rows/flows/steps.ts";
import type { RecordingStates } from "./recording_states.ts";

/** The real list of caches, which tells what a flow sees of it. */
export class RecordingList extends CacheList<number> {
  readonly #states: RecordingStates;

  constructor(states: RecordingStates) {
    super(Number);
    this.#states = states;
  }

  override get all(): readonly number[] {
    this.#observe(`L${super.all}`);
    return super.all;
  }

  override isReadable(cache: number): boolean {
    const isReadable = super.isReadable(cache);
    this.#observe(isReadable ? "r" : "-");
    return isReadable;
  }

  override *change(
    target: readonly Weighted<number>[],
    originEpoch: number,
  ): Flow<number, ListChange> {
    this.#observe(this.text());
    return yield* super.change(target, originEpoch);
  }

  text(): string {
    const members = [...this.members].map(({ name, state }) => `${name}${state[0]}`);
    return `${members}/${[...this.wanted].map(([name, state]) => `${name}${state[0]}`)}`;
  }

  #observe(word: string): void {
    this.#states.observe({ word, id: 0 });
  }
}

/** Caches by number, as the list names them. */
export function weighted(caches: readonly number[]): Weighted<number>[] {
  return caches.map((cache) => ({ name: `${cache}`, weight: 1, cache }));
}
