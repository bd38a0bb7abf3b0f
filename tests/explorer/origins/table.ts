import {
  changeOf,
  type Found,
  type Row,
  type WriteOutcome,
  type WriteResult,
} from "../../../lib/databases/base/backend.ts";
import type { Write } from "../../../lib/databases/base/backend.ts";

/** A version of the row. */
export interface Version {
  /** The name of the writer that made it; "": nobody. */
  readonly author: string;
  readonly row: Row | null;
}

/** A plain model of a database with one row, all of whose versions are known. */
export class Table {
  epoch = 0;
  /** The mark that was noted last; "": none. */
  mark = "";
  /** By version. */
  history: Version[] = [];
  readonly #applied = new Map<number, number>();
  readonly #isUnfenced: boolean;

  /** @param isUnfenced A fault: groups do not lock the epoch. */
  constructor(isUnfenced: boolean) {
    this.#isUnfenced = isUnfenced;
  }

  start(isFilled: boolean): void {
    this.epoch = 0;
    this.mark = "";
    this.#applied.clear();
    const row = isFilled ? { flags: 0, data: new TextEncoder().encode("-"), version: 0 } : null;
    this.history = [{ author: "", row }];
  }

  get committed(): number {
    return this.history.length - 1;
  }

  read(): Found {
    const version = this.committed;
    return { row: this.history[version]!.row, version, epoch: this.epoch };
  }

  /** One transaction. @param authorOf The writer that asked for a write. */
  write(
    writes: readonly Write[],
    epoch: number,
    authorOf: (write: Write) => string,
  ): WriteResult[] {
    if (epoch !== this.epoch && !this.#isUnfenced) {
      return writes.map(() => ({ kind: "fenced", epoch: this.epoch }));
    }
    return writes.map((write) => {
      if (this.#applied.has(write.tokenId)) return { kind: "failed", reason: "applied before" };
      const { row } = this.read();
      const change = changeOf(write.edit, row);
      if (change === null) return { kind: "refused", row };
      const version = this.history.length;
      this.#applied.set(write.tokenId, version);
      const made = change === "delete" ? null : { ...change, version };
      this.history.push({ author: authorOf(write), row: made });
      return { kind: "committed", version };
    });
  }

  /** @returns False: another origin has taken over. */
  noteMark(mark: string, epoch: number): boolean {
    if (epoch !== this.epoch) return false;
    this.mark = mark;
    return true;
  }

  /** Copies the database. @returns The function that puts the copy in its place. */
  copy(): () => void {
    const { epoch, mark } = this;
    const history = [...this.history];
    const applied = [...this.#applied];
    return () => {
      this.epoch = epoch;
      this.mark = mark;
      this.history = [...history];
      this.#applied.clear();
      for (const [tokenId, version] of applied) this.#applied.set(tokenId, version);
    };
  }

  outcome(tokenId: number): WriteOutcome {
    const version = this.#applied.get(tokenId);
    return version === undefined ? { kind: "notApplied" } : { kind: "committed", version };
  }

  text(): string {
    const versions = this.history.map(({ author, row }) => `${author}${row === null ? "0" : ""}`);
    return `e${this.epoch} ${versions}`;
  }

  /** Which of these tokens were applied. */
  appliedText(ids: readonly number[], rank: (id: number) => number): string {
    return ids.filter((id) => this.#applied.has(id))
      .map((id) => `a${rank(id)}:${this.#applied.get(id)}`).join("");
  }
}
