import {
  changeOf,
  type Found,
  type WriteOutcome,
  type WriteResult,
} from "../../../lib/databases/base/backend.ts";
import type { Write } from "../../../lib/databases/base/backend.ts";
import { latin1Bytes } from "../../../store/base/bytes.ts";
import type { Database } from "../steps.ts";

/**
 * A plain model of what lib/databases/base/backend.ts promises, with one row: its value is its version.
 * Each call is one transaction, or one statement with a snapshot of its own.
 */
export class RowDatabase implements Database {
  committed = 0;
  epoch = 0;
  /** The version that each token's write gave the row. */
  readonly #applied = new Map<number, number>();
  /** Tokens of which somebody was told that they write nothing any more. */
  readonly #refused = new Set<number>();
  readonly #isUnfenced: boolean;
  #broken: string | undefined;

  /** @param isUnfenced A fault: writes do not look at the epoch. */
  constructor(isUnfenced: boolean) {
    this.#isUnfenced = isUnfenced;
  }

  start(): void {
    this.committed = 0;
    this.epoch = 0;
    this.#applied.clear();
    this.#refused.clear();
    this.#broken = undefined;
  }

  /** Why something does not hold; undefined: all does. */
  get broken(): string | undefined {
    return this.#broken;
  }

  takeOver(): number {
    return ++this.epoch;
  }

  read(): Found {
    const version = this.committed;
    const row = { flags: 0, data: latin1Bytes(String(version)), version };
    return { row, version, epoch: this.epoch };
  }

  write({ tokenId, edit }: Write, epoch: number): WriteResult {
    if (epoch !== this.epoch && !this.#isUnfenced) return { kind: "fenced", epoch: this.epoch };
    if (this.#applied.has(tokenId)) return { kind: "failed", reason: "applied before" };
    const { row } = this.read();
    if (changeOf(edit, row) === null) return { kind: "refused", row };
    if (this.#refused.has(tokenId)) {
      this.#broken ??= "S8: a write reaches the database under a token that was said to be over";
    }
    this.#applied.set(tokenId, ++this.committed);
    return { kind: "committed", version: this.committed };
  }

  outcome(tokenId: number): WriteOutcome {
    const version = this.#applied.get(tokenId);
    return version === undefined ? { kind: "notApplied" } : { kind: "committed", version };
  }

  /** Somebody was told that nothing is written under this token from now on. */
  refuse(tokenId: number): void {
    this.#refused.add(tokenId);
  }

  /** A writer was told how its write under a token ended. */
  settle(tokenId: number, outcome: "done" | "failed"): void {
    const isApplied = this.#applied.has(tokenId);
    if (isApplied !== (outcome === "done")) {
      this.#broken ??= `a writer was told that its write is ${outcome}, and it is not`;
    }
    if (!isApplied) this.refuse(tokenId);
  }

  /** The states of these tokens. */
  text(ids: readonly number[], rank: (id: number) => number): string {
    let text = `e${this.epoch}`;
    for (const id of ids) {
      if (this.#applied.has(id)) text += `a${rank(id)}:${this.#applied.get(id)}`;
      if (this.#refused.has(id)) text += `x${rank(id)}`;
    }
    return text;
  }
}
