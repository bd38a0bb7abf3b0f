import type { Operation } from "./operation.ts";

/**
 * A state of a row: the write that makes it, and the reads that return it. Two moments say where it can stand among the
 * others: whatever ends before `lastStart` comes before one of its operations, and whatever starts after `firstEnd`
 * comes after one.
 */
export class Cluster {
  readonly reads: Operation[] = [];
  #firstEnd = Infinity;
  #lastStart = -Infinity;
  #write: Operation | null = null;
  #isInitial = false;

  /** Returns the state before all writes: absent. It was written before the history began. */
  static initial(): Cluster {
    const cluster = new Cluster();
    cluster.#isInitial = true;
    cluster.#firstEnd = -Infinity;
    return cluster;
  }

  /** Returns the state that a read has met. */
  static met(read: Operation): Cluster {
    const cluster = new Cluster();
    cluster.addRead(read);
    return cluster;
  }

  /** Returns the state that a write makes. */
  static of(write: Operation): Cluster {
    const cluster = new Cluster();
    cluster.addWrite(write);
    return cluster;
  }

  get firstEnd(): number {
    return this.#firstEnd;
  }

  get lastStart(): number {
    return this.#lastStart;
  }

  get isInitial(): boolean {
    return this.#isInitial;
  }

  get isAbsence(): boolean {
    return this.#isInitial || (this.#write ?? this.reads[0]!).value === null;
  }

  /** Null: none is known. */
  get write(): Operation | null {
    return this.#write;
  }

  /** Whether an operation ends before another one starts, so that the state lasts for the time between. */
  get isForward(): boolean {
    return this.#firstEnd < this.#lastStart;
  }

  addWrite(write: Operation): void {
    this.#write = write;
    this.#extend(write);
  }

  /** Adds a write that may be that of the state: its start counts, its end does not. */
  assumeWrite(write: Operation): void {
    this.#write = write;
    this.#lastStart = Math.max(this.#lastStart, write.start);
  }

  addRead(read: Operation): void {
    this.reads.push(read);
    this.#extend(read);
  }

  /** Returns the write, if one is known, and the reads. */
  operations(): readonly Operation[] {
    return this.#write === null ? this.reads : [this.#write, ...this.reads];
  }

  #extend(operation: Operation): void {
    this.#firstEnd = Math.min(this.#firstEnd, endOf(operation));
    this.#lastStart = Math.max(this.#lastStart, operation.start);
  }
}

/**
 * Returns the moment after which an operation has no effect any more. A write of unknown outcome is open to the end; if
 * nobody has seen it, it contradicts nothing.
 */
export function endOf({ end, outcome }: Operation): number {
  return outcome === "unknown" || end === null ? Infinity : end;
}
