import { assertEquals } from "@std/assert";
import { CounterRows } from "../../../store/base/counter_rows.ts";

const WIDTH = 5;
const THREADS = 3;

function rowsOf(shared: SharedArrayBuffer): CounterRows[] {
  return Array.from({ length: THREADS }, (_, index) => new CounterRows(shared, WIDTH, index));
}

/** Adds to every counter of every thread a number that no other one gets. */
function countAll(rows: readonly CounterRows[]): void {
  for (const [thread, { own }] of rows.entries()) {
    for (let index = 0; index < WIDTH; index++) own[index]! += 10 ** thread * (index + 1);
  }
}

Deno.test("a sum has every thread's count, and a thread its own", () => {
  const rows = rowsOf(CounterRows.createShared(THREADS, WIDTH));
  countAll(rows);
  for (const each of rows) {
    assertEquals(each.own.length, WIDTH);
    for (let index = 0; index < WIDTH; index++) {
      assertEquals(each.sum(index), 111 * (index + 1));
      assertEquals(each.ofThread(2, index), 100 * (index + 1));
    }
  }
});

Deno.test("after a reset, of whichever thread, all counts begin at 0; the rows keep growing", () => {
  const rows = rowsOf(CounterRows.createShared(THREADS, WIDTH));
  for (const { reset } of [{ reset: 0 }, { reset: 2 }]) {
    countAll(rows);
    const before = rows[1]!.own[4]!;
    rows[reset]!.reset();
    for (const each of rows) {
      for (let index = 0; index < WIDTH; index++) {
        assertEquals(each.sum(index), 0);
        for (let thread = 0; thread < THREADS; thread++) {
          assertEquals(each.ofThread(thread, index), 0);
        }
      }
    }
    assertEquals(rows[1]!.own[4], before);
    countAll(rows);
    assertEquals(rows[0]!.sum(3), 444);
    assertEquals(rows[0]!.ofThread(1, 3), 40);
  }
});

Deno.test("a count that a thread was writing when another one reset is not lost", () => {
  const [ours, theirs] = rowsOf(CounterRows.createShared(THREADS, WIDTH));
  theirs!.own[0] = 7;
  const readBefore = theirs!.own[0]!;
  ours!.reset();
  theirs!.own[0] = readBefore + 1;
  assertEquals(ours!.sum(0), 1);
});

Deno.test("no two rows touch the same pair of cache lines, wherever the buffer starts", () => {
  const shared = CounterRows.createShared(THREADS, WIDTH);
  const ends = rowsOf(shared).map(({ own }) => [own.byteOffset, own.byteOffset + own.byteLength]);
  let end = 0;
  for (const [start, next] of ends) {
    assertEquals(start! - end >= 128, true, `${start} follows ${end}`);
    end = next!;
  }
  assertEquals(shared.byteLength / 2 >= end, true);
});
