import {
  type Change,
  changeOf,
  type Found,
  type Row,
  type Write,
  type WriteResult,
} from "../base/backend.ts";
import { latin1Bytes } from "../../../store/base/bytes.ts";
import { reasonOf } from "../../process/reason.ts";
import { type Stored, storedAs } from "./columns.ts";
import type { Parameter } from "./session.ts";
import type { Statements } from "./statements.ts";

/** A key that the group writes: its last change, and the tokens of all its changes. */
interface Target {
  readonly key: Stored;
  /** Whether the key was locked, and not found: it may only be inserted. */
  isNew: boolean;
  /** The row after the changes so far, for edits that are computed from it. */
  row: Row | null;
  version: number;
  flags: number;
  value: Stored | null;
  expiresUnixSec: number;
  /** Indexes of the writes that change it, in their order. */
  readonly changes: number[];
}

/** The writes of one transaction: which of them change something, and the parameters of the statement that does. */
export class WriteGroup {
  readonly writes: readonly Write[];
  /** Those that its values are encoded for: columns of other types have others. */
  readonly statements: Statements;
  /** Whether a change depends on the row: all rows must be locked and read first. */
  readonly isComputed: boolean;
  /** The results; undefined: it depends on the statement. */
  readonly results: (WriteResult | undefined)[];
  readonly #targets = new Map<string, Target>();

  constructor(writes: readonly Write[], statements: Statements) {
    this.writes = writes;
    this.results = writes.map(() => undefined);
    this.statements = statements;
    this.isComputed = writes.some(({ edit }) => typeof edit === "function");
    for (const [index, { key }] of writes.entries()) {
      const stored = storedAs(latin1Bytes(key), statements.types.key);
      if (stored === undefined) {
        this.results[index] = failed("the key is not UTF-8 without zero bytes");
      } else if (!this.#targets.has(key)) {
        const target = {
          key: stored,
          isNew: this.isComputed,
          row: null,
          version: 0,
          flags: 0,
          value: null,
          expiresUnixSec: 0,
          changes: [],
        };
        this.#targets.set(key, target);
      }
    }
  }

  /** The tags of the writers, separated by spaces. */
  get owners(): string {
    return this.writes.map(({ owner }) => owner).filter((owner) => owner !== "").join(" ");
  }

  /** All keys, as an array of SQL. */
  get keys(): string {
    return arrayOf([...this.#targets.values()].map(({ key }) => key));
  }

  /** Notes a row that is locked. */
  found(key: string, { row, version }: Pick<Found, "row" | "version">): void {
    const target = this.#targets.get(key)!;
    target.isNew = false;
    target.row = row;
    target.version = version;
  }

  /** Decides what each write changes, one after the other. */
  decide(): void {
    for (const [index, write] of this.writes.entries()) {
      if (this.results[index] !== undefined) continue;
      const target = this.#targets.get(write.key)!;
      try {
        this.results[index] = this.#decideOne(target, index, changeOf(write.edit, target.row));
      } catch (error) {
        this.results[index] = failed(reasonOf(error));
      }
    }
  }

  #decideOne(target: Target, index: number, change: Change | null): WriteResult | undefined {
    if (change === null) return { kind: "refused", row: target.row };
    const isDelete = change === "delete";
    const value = isDelete ? null : storedAs(change.data, this.statements.types.value);
    if (value === undefined) return failed("the value is not UTF-8 without zero bytes");
    target.version++;
    target.row = isDelete ? null : { ...change, version: target.version };
    target.flags = isDelete ? 0 : change.flags;
    target.value = value;
    target.expiresUnixSec = isDelete ? 0 : change.expiresUnixSec ?? 0;
    target.changes.push(index);
    return undefined;
  }

  /**
   * The parameters of the statement that writes, in its order; null: nothing changes.
   *
   * @param lockTimeout How long the statement waits for a lock, in milliseconds; "0": without a bound of its own.
   */
  parameters(epoch: number, nowUnixMs: number, lockTimeout: string): readonly Parameter[] | null {
    const changed = [...this.#targets.values()].filter(({ changes }) => changes.length > 0);
    if (changed.length === 0) return null;
    const tokens: number[] = [];
    const positions: number[] = [];
    const behind: number[] = [];
    for (const [at, { changes }] of changed.entries()) {
      for (const [order, index] of changes.entries()) {
        tokens.push(this.writes[index]!.tokenId);
        positions.push(at + 1);
        behind.push(changes.length - 1 - order);
      }
    }
    const hasExpiry = this.statements.expire !== "";
    return [
      epoch,
      arrayOf(changed.map(({ key }) => key)),
      numbersOf(changed.map(({ flags }) => flags)),
      arrayOf(changed.map(({ value }) => value)),
      numbersOf(changed.map(({ changes }) => changes.length)),
      numbersOf(tokens),
      numbersOf(positions),
      numbersOf(behind),
      nowUnixMs,
      `{${changed.map(({ isNew }) => isNew).join(",")}}`,
      lockTimeout,
      ...hasExpiry ? [numbersOf(changed.map(({ expiresUnixSec }) => expiresUnixSec))] : [],
    ];
  }

  /** Notes the version of each token's row. @returns The indexes of writes without one. */
  committed(versions: ReadonlyMap<number, number>): number[] {
    const left: number[] = [];
    for (const [index, { tokenId }] of this.writes.entries()) {
      if (this.results[index] !== undefined) continue;
      const version = versions.get(tokenId);
      if (version === undefined) left.push(index);
      else this.results[index] = { kind: "committed", version };
    }
    return left;
  }

  /** Notes the results of writes that were repeated. @returns All results. */
  place(indexes: readonly number[], results: readonly WriteResult[]): readonly WriteResult[] {
    for (const [at, index] of indexes.entries()) this.results[index] = results[at]!;
    return this.results as readonly WriteResult[];
  }

  /** Returns all results; those that are not decided yet become this one. */
  end(result: WriteResult): readonly WriteResult[] {
    return this.results.map((each) => each ?? result);
  }
}

export function failed(reason: string): WriteResult {
  return { kind: "failed", reason };
}

/** Returns numbers as an array of SQL. */
function numbersOf(numbers: readonly number[]): string {
  return `{${numbers.join(",")}}`;
}

/** Returns values as an array of SQL: bytes of a bytea, or text. */
export function arrayOf(values: readonly (Stored | null)[]): string {
  return `{${values.map(elementOf).join(",")}}`;
}

function elementOf(value: Stored | null): string {
  if (value === null) return "NULL";
  if (typeof value === "string") return `"${value.replace(/["\\]/g, "\\$&")}"`;
  return `"\\\\x${value.toHex()}"`;
}
