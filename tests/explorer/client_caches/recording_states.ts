import {
  type PutEnd,
  type PutStart,
  type Revoked,
  TokenStates,
} from "../../../lib/rows/flows/token_states.ts";
import type { Answer } from "../steps.ts";

const TOKENS_MAX = 100;

/** The real states of tokens, which tell what a flow sees of them, and what the explorer compares. */
export class RecordingStates extends TokenStates {
  /** Learns what the running flow sees. */
  observe: (seen: Answer) => void = () => {};
  readonly #ended = new Map<number, string>();

  constructor(epoch: number) {
    super(epoch, TOKENS_MAX, TOKENS_MAX);
  }

  override isCacheable(key: string): boolean {
    const isCacheable = this.judge(key);
    this.observe({ word: isCacheable ? "c" : "n", id: 0 });
    return isCacheable;
  }

  /** The result of `isCacheable`, unless a fault changes it. */
  protected judge(key: string): boolean {
    return super.isCacheable(key);
  }

  override get(key: string, owner: string): number {
    const id = super.get(key, owner);
    this.observe({ word: "t", id });
    return id;
  }

  override beginPut(key: string, id: number): PutStart {
    const start = super.beginPut(key, id);
    this.observe({ word: start.kind, id });
    return start;
  }

  override endPut(key: string, id: number, end: PutEnd): void {
    super.endPut(key, id, end);
    if (end.kind === "committed") this.#ended.set(id, `u${end.version}`);
  }

  override revoke(key: string, id?: number): Revoked {
    const before = [...this.list(key)].map((token) => token.id);
    const revoked = super.revoke(key, id);
    const after = new Set([...this.list(key)].map((token) => token.id));
    for (const each of before) if (!after.has(each)) this.#ended.set(each, "r");
    return revoked;
  }

  liveIds(): number[] {
    return [...this.list()].map(({ id }) => id);
  }

  /** @param ids Tokens that matter, beside live ones. */
  text(ids: readonly number[], rank: (id: number) => number): string {
    const live = [...this.list()].map(({ id, state }) => `${rank(id)}${state[0]}${state[1]}`);
    const ended = ids.filter((id) => this.#ended.has(id))
      .map((id) => `${rank(id)}${this.#ended.get(id)}`);
    return `${live.sort()}/${ended}`;
  }
}
