import { assertEquals } from "@std/assert";
import type { Committed } from "../chaos/history.ts";
import { assertPlantedAreFound } from "../chaos/planted.ts";
import { type Read, Recording, type Write } from "../chaos/recording.ts";
import { type Applied, oldReads, type Seen } from "../chaos/views.ts";

/** Keys in which faults are planted after a segment. */
const PLANTED_KEYS = 2;

/** What a segment has shown. */
export interface Judged {
  readonly reads: number;
  readonly writes: number;
  /** Reads of views, and changes that were applied. */
  readonly viewReads: number;
  readonly applied: number;
}

/** Some minutes of a soak, whose keys no other segment has: its history is judged while the next one goes on. */
export class Segment {
  readonly recording = new Recording();
  readonly applied: Applied[] = [];
  readonly seen: Seen[] = [];
  /** Requests whose end is not recorded yet. */
  underWay = 0;

  /** @param index Of the segment. @param applied What was applied before it. */
  constructor(readonly index: number, applied: readonly Applied[]) {
    const newest = new Map<number, Applied>();
    for (const each of applied) {
      if (each.count > (newest.get(each.id)?.count ?? -1)) newest.set(each.id, each);
    }
    this.applied.push(...newest.values());
  }

  /** A key of rows (r), or of applications (a). */
  key(kind: "r" | "a", number: number): string {
    return `${kind}${this.index}.${number}`;
  }

  read(read: Read): void {
    this.recording.read(read);
  }

  /** Notes a request, which records its end. */
  async during<Result>(request: () => Promise<Result>): Promise<Result> {
    this.underWay++;
    try {
      return await request();
    } finally {
      this.underWay--;
    }
  }

  begin(by: string, operation: string, key: string, value: string, start: number): Write {
    return this.recording.begin(by, operation, key, value, start);
  }

  /**
   * Judges the history in both ways, and then the judges, by planted faults.
   *
   * @param committed All versions of all rows; those of other segments do not count.
   * @throws When there is a violation, or a planted one is not found.
   */
  async judge(committed: readonly Committed[]): Promise<Judged> {
    const keys = [this.key("r", 0), this.key("a", 0)].map((key) => key.slice(0, -1));
    this.recording.commit(committed.filter(({ key }) => keys.some((own) => key.startsWith(own))));
    await this.recording.keep(`soak-${this.index}`);
    this.recording.assertIsRight();
    assertPlantedAreFound(this.recording, PLANTED_KEYS);
    const old = oldReads(this.applied, this.seen);
    assertEquals(old, [], `${old.length} old values of views`);
    const { observed, acknowledged } = this.recording.history;
    return {
      reads: observed.length,
      writes: acknowledged.length,
      viewReads: this.seen.length,
      applied: this.applied.length,
    };
  }
}
