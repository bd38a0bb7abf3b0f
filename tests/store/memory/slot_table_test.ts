import { assert, assertEquals } from "@std/assert";
import { ByteRegion } from "../../../store/base/bytes.ts";
import {
  NO_SLOT,
  slotsFor,
  slotsWithin,
  SlotTable,
  slotTableBytes,
} from "../../../store/memory/slot_table.ts";

const LENGTH_MAX = 400;

function region(length: number, first: number): ByteRegion {
  const made = new ByteRegion(new ArrayBuffer(length));
  for (let at = 0; at < length; at++) made.bytes[at] = first + at;
  return made;
}

Deno.test("SlotTable keeps the bytes of records of every length", () => {
  const table = new SlotTable(SlotTable.create(100), 100);
  for (let length = 0; length <= LENGTH_MAX; length++) {
    const data = region(length, length);
    const other = region(length, length + 1);
    const record = table.allocate(length);
    table.insert(record, 0);
    table.write(record, length, 0, length, data, 0);
    assertEquals(100 - table.freeSlots, slotsFor(length));
    for (const start of [0, 1, 27, 28, 29, 31, 32, 33, 88, 89, length - 1]) {
      if (start < 0 || start > length) continue;
      const rest = length - start;
      const read = new ByteRegion(new ArrayBuffer(rest));
      table.read(record, length, start, rest, read, 0);
      assertEquals(read.bytes, data.bytes.slice(start));
      assert(table.equals(record, length, start, rest, data, start));
      assertEquals(table.equals(record, length, start, rest, other, start), rest === 0);
    }
    table.remove(record, 0, length);
    assertEquals(table.freeSlots, 100);
  }
});

Deno.test("SlotTable writes in the middle of a record only what it was given", () => {
  const table = new SlotTable(SlotTable.create(20), 20);
  const record = table.allocate(200);
  table.write(record, 200, 0, 200, region(200, 0), 0);
  const middle = region(90, 100);
  table.write(record, 200, 20, 90, middle, 0);
  const read = new ByteRegion(new ArrayBuffer(200));
  table.read(record, 200, 0, 200, read, 0);
  const expected = region(200, 0).bytes;
  expected.set(middle.bytes, 20);
  assertEquals(read.bytes, expected);
});

Deno.test("SlotTable gives NO_SLOT when too few slots are free, and takes nothing then", () => {
  const table = new SlotTable(SlotTable.create(5), 5);
  const records = [table.allocate(10), table.allocate(10), table.allocate(10)];
  assertEquals(table.freeSlots, 2);
  assertEquals(table.allocate(200), NO_SLOT);
  assertEquals(table.freeSlots, 2);
  for (const record of records) table.insert(record, 3);
  assertEquals(table.count, 3);
  table.remove(records[1]!, 3, 10);
  const bucket: number[] = [];
  for (let at = table.head(table.bucketOf(3)); at !== NO_SLOT; at = table.next(at)) bucket.push(at);
  assertEquals(bucket, [records[2]!, records[0]!]);
});

Deno.test("SlotTable of no slots has no records and costs nothing", () => {
  assertEquals(slotTableBytes(0), 0);
  const table = new SlotTable(SlotTable.create(0), 0);
  assertEquals([table.count, table.freeSlots, table.bucketCount], [0, 0, 0]);
  assertEquals(table.allocate(1), NO_SLOT);
});

Deno.test("slotsWithin() is never too large", () => {
  for (let bytes = 0; bytes < 100_000; bytes += 97) {
    assert(slotTableBytes(slotsWithin(bytes)) <= bytes, `${bytes}`);
  }
});
