import { assignDeletes } from "./assign_deletes.ts";
import { Cluster } from "./cluster.ts";
import { INITIAL_VERSION, isRead, type Operation, valueText } from "./operation.ts";
import { HistoryError } from "./read_history.ts";

/** Operations on one key that cannot be those of one register. */
export interface Violation {
  readonly key: string;
  readonly reason: string;
  /** The operations that contradict each other, by their starts, or pairs of one that came before the other. */
  readonly operations: readonly Operation[];
}

/** The operations on a key, by the states that they make and return. */
export interface ClustersOfKey {
  /** The first one is the state before all writes. */
  readonly clusters: readonly Cluster[];
  /** Reads of what nobody wrote, or before it was written, and versions that contradict each other. */
  readonly violations: readonly Violation[];
  /** Of each read that may have met one absence or another. */
  readonly unclear: readonly Cluster[];
  /** Reads that say nothing, as they have not ended well. */
  readonly leftOut: number;
}

/**
 * Groups the operations on a key.
 *
 * @throws {HistoryError} When two writes have the same value.
 */
export function clustersOfKey(key: string, operations: readonly Operation[]): ClustersOfKey {
  return new Grouping(key).group(operations);
}

class Grouping {
  readonly #initial = Cluster.initial();
  readonly #values = new Map<string, Cluster>();
  /** By version: the initial state, and those of deletions that have ended. */
  readonly #absences = new Map<number, Cluster>([[INITIAL_VERSION, this.#initial]]);
  /** Deletions that have ended, whose version nobody knows. */
  readonly #namelessDeletes: Cluster[] = [];
  /** Deletions that may have made an absence of `#unmade`, or nothing. */
  readonly #unknownDeletes: Operation[] = [];
  /** By version: absences that were read, and that no deletion is known to have made. */
  readonly #unmade = new Map<number, Cluster>();
  readonly #failed = new Map<string, Operation>();
  readonly #unclear: Cluster[] = [];
  readonly #violations: Violation[] = [];
  #leftOut = 0;

  constructor(private readonly key: string) {}

  group(operations: readonly Operation[]): ClustersOfKey {
    for (const operation of operations) if (!isRead(operation)) this.#addWrite(operation);
    for (const operation of operations) if (isRead(operation)) this.#addRead(operation);
    const nameless = this.#namelessDeletes.map(({ write }) => write!);
    assignDeletes([...this.#unmade.values()], [...this.#unknownDeletes, ...nameless]);
    const absences = [this.#absences.values(), this.#namelessDeletes, this.#unmade.values()];
    const clusters = [...absences, this.#values.values()].flatMap((each) => [...each]);
    for (const cluster of clusters) this.#checkWrite(cluster);
    this.#checkVersions(clusters);
    const [unclear, violations, leftOut] = [this.#unclear, this.#violations, this.#leftOut];
    return { clusters, unclear, violations, leftOut };
  }

  #addWrite(write: Operation): void {
    const { value, outcome } = write;
    if (value === null) return this.#addDelete(write);
    const other = this.#failed.get(value) ?? this.#values.get(value)?.write;
    if (other !== undefined && other !== null) {
      const what = `key ${valueText(this.key)}: ${valueText(value)}`;
      throw new HistoryError(
        `${what} is written twice, at ${other.start} and at ${write.start}: ` +
          "every write needs a value of its own",
      );
    }
    if (outcome === "failed") this.#failed.set(value, write);
    else this.#values.set(value, Cluster.of(write));
  }

  #addDelete(write: Operation): void {
    const { version, outcome } = write;
    if (outcome === "failed") return;
    if (outcome === "unknown") {
      this.#unknownDeletes.push(write);
      return;
    }
    const cluster = Cluster.of(write);
    if (version === null) this.#namelessDeletes.push(cluster);
    else if (!this.#absences.has(version)) this.#absences.set(version, cluster);
    else this.#complain("two states have one version", this.#absences.get(version)!.write, write);
  }

  #addRead(read: Operation): void {
    if (read.outcome !== "ok") {
      this.#leftOut++;
      return;
    }
    if (read.value === null) return this.#addAbsence(read);
    const cluster = this.#values.get(read.value);
    if (cluster !== undefined) return cluster.addRead(read);
    const failed = this.#failed.get(read.value);
    if (failed === undefined) this.#complain("nobody has written what was read", read);
    else this.#complain("what was read is of a write that has failed", failed, read);
  }

  #addAbsence(read: Operation): void {
    const isOnce = this.#absences.size === 1 && this.#namelessDeletes.length === 0 &&
      this.#unknownDeletes.length === 0;
    const version = read.version ?? (isOnce ? INITIAL_VERSION : null);
    const known = version === null ? undefined : this.#absences.get(version);
    if (version === null) this.#unclear.push(Cluster.met(read));
    else if (known !== undefined) known.addRead(read);
    else if (!this.#unmade.has(version)) this.#unmade.set(version, Cluster.met(read));
    else this.#unmade.get(version)!.addRead(read);
  }

  /** Complains of a state without a write, and of one that was read before its write. */
  #checkWrite({ reads, write, firstEnd, isInitial }: Cluster): void {
    if (isInitial) return;
    if (write === null) this.#complain("nobody has made the absence that was read", reads[0]!);
    else if (firstEnd < write.start) {
      const early = reads.find(({ end }) => end === firstEnd)!;
      this.#complain("a read has ended before the write of its value began", early, write);
    }
  }

  /** A state has one version, and a version is of one state: else a write was applied twice, or another's. */
  #checkVersions(clusters: readonly Cluster[]): void {
    const byVersion = new Map<number, Operation | null>();
    for (const cluster of clusters) {
      const versioned = cluster.operations().filter(({ version }) => version !== null);
      const version = cluster.isInitial ? INITIAL_VERSION : versioned[0]?.version;
      if (version === undefined || version === null) continue;
      const [first = null] = versioned;
      const other = versioned.find((operation) => operation.version !== version);
      if (other !== undefined) this.#complain("one state has two versions", first, other);
      if (byVersion.has(version)) {
        this.#complain("two states have one version", byVersion.get(version)!, first);
      } else byVersion.set(version, first);
    }
  }

  #complain(reason: string, ...operations: (Operation | null)[]): void {
    const present = operations.filter((operation) => operation !== null)
      .sort((one, other) => one.start - other.start);
    this.#violations.push({ key: this.key, reason, operations: present });
  }
}
