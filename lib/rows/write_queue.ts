import type { RowWrite } from "./flows/row_write.ts";

/** Writes in one transaction. */
const GROUP_MAX = 256;
/** Bytes of values in one transaction; one longer value goes alone. */
const GROUP_BYTES_MAX = 4 * 1024 * 1024;
/** Writes of a group that begins while others are in progress: fewer go with the next one. */
const FURTHER_GROUP_MIN = 16;

/**
 * The writes of the database thread, in groups. Those that arrive while groups are in progress gather. A write waits
 * while an earlier one of its key, or of its connection, is in progress: they take effect in their order.
 */
export class WriteQueue {
  #waiting: RowWrite[] = [];
  /** Keys and connections of the writes in progress. */
  readonly #keys = new Set<string>();
  readonly #connections = new Set<number>();
  readonly #groupsMax: () => number;
  #groups = 0;

  /** @param groupsMax Groups that may be in progress at the same time. */
  constructor(groupsMax: () => number) {
    this.#groupsMax = groupsMax;
  }

  add(write: RowWrite): void {
    this.#waiting.push(write);
  }

  /** Whether writes wait, and one more group may be in progress. */
  get mayBegin(): boolean {
    return this.#waiting.length > 0 && this.#groups < this.#groupsMax();
  }

  /**
   * Takes the writes of a group, which is in progress until `end`.
   *
   * @param isOverdue Whether the groups in progress take long: a further one may be small.
   * @returns None: no group may begin now.
   */
  take(isOverdue = false): readonly RowWrite[] {
    const least = this.#groups === 0 || isOverdue ? 1 : FURTHER_GROUP_MIN;
    if (this.#groups >= this.#groupsMax() || this.#waiting.length < least) return [];
    const group: RowWrite[] = [];
    const left: RowWrite[] = [];
    const keys = new Set(this.#keys);
    const connections = new Set(this.#connections);
    let bytes = 0;
    for (const write of this.#waiting) {
      const { key, connection } = write;
      const fits = group.length === 0 ||
        (group.length < GROUP_MAX && bytes + write.bytes <= GROUP_BYTES_MAX);
      if (fits && !keys.has(key) && !connections.has(connection)) {
        bytes += write.bytes;
        group.push(write);
        continue;
      }
      left.push(write);
      keys.add(key);
      if (connection !== 0) connections.add(connection);
    }
    if (group.length < least) return [];
    this.#waiting = left;
    this.#groups++;
    for (const { key, connection } of group) {
      this.#keys.add(key);
      if (connection !== 0) this.#connections.add(connection);
    }
    return group;
  }

  /**
   * Ends a group: all its writes are answered.
   *
   * @param postponed Those that are not: they go with the next group, before later ones of their keys and connections.
   */
  end(group: readonly RowWrite[], postponed: readonly RowWrite[] = []): void {
    this.#groups--;
    if (postponed.length > 0) this.#waiting.unshift(...postponed);
    for (const { key, connection } of group) {
      this.#keys.delete(key);
      this.#connections.delete(connection);
    }
  }
}
