import { assertEquals } from "@std/assert";
import { AgeList } from "../../../store/memory/age_list.ts";

const RECORDS = 5;

/** A list whose records of two words begin behind a header of two. */
class Ages {
  readonly words = new Int32Array(2 + 2 * RECORDS);
  readonly list = new AgeList(this.words, 0, this.words, {
    start: 0,
    recordWords: 2,
    newer: 0,
    older: 1,
  });

  /** The records in the order of both links. */
  get shown(): [oldestFirst: number[], newestFirst: number[]] {
    const { list } = this;
    const up: number[] = [];
    const down: number[] = [];
    for (let record = list.oldest; record !== 0; record = list.newer(record)) up.push(record);
    for (let record = list.newest; record !== 0; record = list.older(record)) down.push(record);
    return [up, down];
  }
}

function withRecords(...records: number[]): Ages {
  const ages = new Ages();
  for (const record of records) ages.list.add(record);
  return ages;
}

Deno.test("records are in the order in which they were added", () => {
  assertEquals(withRecords(3, 1, 5).shown, [[3, 1, 5], [5, 1, 3]]);
});

for (const [removed, rest] of [[3, [1, 5]], [1, [3, 5]], [5, [3, 1]]] as const) {
  Deno.test(`record ${removed} of 3, 1, 5 leaves the list`, () => {
    const ages = withRecords(3, 1, 5);
    ages.list.remove(removed);
    assertEquals(ages.shown, [[...rest], [...rest].reverse()]);
    ages.list.add(removed);
    assertEquals(ages.shown[0], [...rest, removed]);
  });
}

Deno.test("a list whose only record leaves is empty", () => {
  const ages = withRecords(2);
  ages.list.remove(2);
  assertEquals(ages.shown, [[], []]);
});
