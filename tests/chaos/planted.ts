import { assert } from "@std/assert";
import { isRead } from "../judge/operation.ts";
import type { Committed } from "./history.ts";
import type { Recording } from "./recording.ts";

/** Two writes of a key, the second of which began after the first had ended, and a read that began after both. */
interface Place {
  readonly before: Committed;
  /** The key's last write. */
  readonly last: Committed;
  /** When the read began. */
  readonly began: number;
}

type Plant = (recording: Recording, place: Place) => void;

/** What a faulty server would have done. */
const PLANTS: Readonly<Record<string, Plant>> = {
  "a stale read": (recording, { before, last, began }) => {
    alterReads(recording, last, before.value, before.version, began);
  },
  "a row that has gone": (recording, { last, began }) => {
    alterReads(recording, last, null, null, began);
  },
  "a lost write": (recording, { before, last }) => {
    const { committed } = recording.history;
    committed.splice(committed.findIndex(({ value }) => value === last.value), 1);
    alterReads(recording, last, before.value, before.version);
  },
  "an older write that is applied once more": (recording, { before, last, began }) => {
    const version = last.version + 1;
    recording.history.committed.push({ ...before, version });
    alterReads(recording, last, before.value, version, began);
  },
  "the last write, applied twice": (recording, { last, began }) => {
    const version = last.version + 1;
    recording.history.committed.push({ ...last, version });
    alterReads(recording, last, last.value, version, began);
  },
};

/**
 * Plants each fault in copies of the record of a right run, one at a time, in as many keys as `placesMax`.
 *
 * @returns How many faults were planted.
 * @throws When one of the two checkers does not find one.
 */
export function assertPlantedAreFound(recording: Recording, placesMax: number): number {
  const places = placesIn(recording).slice(0, placesMax);
  for (const place of places) {
    for (const [name, plant] of Object.entries(PLANTS)) {
      const planted = recording.copy();
      plant(planted, place);
      const { byCommits, byZones } = planted.find();
      const where = `${name}, key ${place.last.key}, the read at ${place.began}`;
      assert(byCommits.length > 0, `not found by commits: ${where}`);
      assert(byZones.length > 0, `not found by zones: ${where}`);
    }
  }
  return places.length * Object.keys(PLANTS).length;
}

/** Returns a place for each key that has one. */
function placesIn({ history, operations }: Recording): Place[] {
  const told = new Map(
    operations.filter((operation) => !isRead(operation) && operation.version !== null)
      .map((write) => [`${write.key} ${write.value}`, write]),
  );
  return [...Map.groupBy(history.committed, ({ key }) => key).values()].flatMap((committed) => {
    const [last, before] = committed.toSorted((one, other) => other.version - one.version);
    if (last === undefined || before === undefined) return [];
    const [lastWrite, writeBefore] = [last, before].map(({ key, value }) =>
      told.get(`${key} ${value}`)
    );
    if (lastWrite === undefined || writeBefore === undefined) return [];
    if (writeBefore.end! >= lastWrite.start) return [];
    const read = history.observed.findLast(({ value, began }) =>
      value === last.value && began > lastWrite.end!
    );
    return read === undefined ? [] : [{ last, before, began: read.began }];
  });
}

/** Has the reads of a value return something else. @param began Of the one read, if not of all. */
function alterReads(
  { history, operations }: Recording,
  { key, value }: Committed,
  returned: string | null,
  version: number | null,
  began: number | null = null,
): void {
  for (const [index, read] of history.observed.entries()) {
    if (read.key !== key || read.value !== value || (began ?? read.began) !== read.began) continue;
    history.observed[index] = { ...read, value: returned };
  }
  for (const [index, read] of operations.entries()) {
    if (!isRead(read) || read.key !== key || read.value !== value) continue;
    if ((began ?? read.start) !== read.start) continue;
    operations[index] = { ...read, value: returned, version };
  }
}
