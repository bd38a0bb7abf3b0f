import { type RowFlow, step } from "../../../lib/rows/flows/steps.ts";
import { Flows, type Read } from "../../../lib/rows/flows/flows.ts";
import type { Revoked } from "../../../lib/rows/flows/token_states.ts";
import { RecordingStates } from "./recording_states.ts";

// Faults that the origin's core could have: parts of it, with one decision made otherwise.

/** A token whose write runs makes its key cacheable again. */
export class FreesBeforeCommit extends RecordingStates {
  protected override judge(key: string): boolean {
    return [...this.list(key)].every(({ state }) => state === "busy");
  }
}

/** revoke ends tokens whose writes run. */
export class RevokesBusyTokens extends RecordingStates {
  readonly #gone = new Set<number>();

  override revoke(key: string, id?: number): Revoked {
    const busy = [...this.list(key)].filter(({ state }) => state === "busy");
    for (const token of busy) this.#gone.add(token.id);
    const { revoked } = super.revoke(key, id);
    return { revoked: revoked + busy.length, busy: 0 };
  }

  protected override judge(key: string): boolean {
    return [...this.list(key)].every(({ id }) => this.#gone.has(id));
  }

  override text(ids: readonly number[], rank: (id: number) => number): string {
    return `${super.text(ids, rank)}-${[...this.#gone].map(rank)}`;
  }
}

/** Looks whether the key is cacheable after the read. */
export class ChecksAfterRead extends Flows {
  override *read(keys: readonly string[]): RowFlow<readonly Read[]> {
    const found = yield* step({ kind: "readRows", keys });
    return found.map((each, at) => ({
      ...each,
      cacheable: this.states.isCacheable(keys[at]!),
    }));
  }
}

/** Does not look at the epoch that it reads beside the row. */
export class IgnoresEpoch extends Flows {
  override *read(keys: readonly string[]): RowFlow<readonly Read[]> {
    const areCacheable = keys.map((key) => this.states.isCacheable(key));
    const found = yield* step({ kind: "readRows", keys });
    return found.map((each, at) => ({ ...each, cacheable: areCacheable[at]! }));
  }
}
