import { assertEquals } from "@std/assert";
import { RowWrite } from "../../../lib/rows/flows/row_write.ts";
import { WriteQueue } from "../../../lib/rows/write_queue.ts";

/** Writes are named by their connection and their key. */
function write(name: string, bytes = 0): RowWrite {
  const [connection, key] = name.split(":");
  return new RowWrite({ key: key!, edit: "delete", connection: Number(connection), bytes });
}

function add(queue: WriteQueue, names: readonly string[]): void {
  for (const name of names) queue.add(write(name));
}

const namesOf = (group: readonly RowWrite[]): string[] =>
  group.map(({ connection, key }) => `${connection}:${key}`);
const many = (count: number, from = 1): string[] =>
  Array.from({ length: count }, (_, at) => `${from + at}:k${from + at}`);

Deno.test("the first group begins with one write, further ones with several", () => {
  const queue = new WriteQueue(() => 4);
  add(queue, ["1:a"]);
  assertEquals(namesOf(queue.take()), ["1:a"]);
  add(queue, ["2:b"]);
  assertEquals(queue.take(), []);
  add(queue, many(20, 3));
  assertEquals(queue.take().length, 21);
});

Deno.test("a group that takes long keeps few others waiting", () => {
  const queue = new WriteQueue(() => 4);
  assertEquals(queue.mayBegin, false);
  add(queue, ["1:a"]);
  queue.take();
  for (const name of ["2:b", "3:c", "4:d"]) {
    add(queue, [name]);
    assertEquals([queue.mayBegin, namesOf(queue.take()), namesOf(queue.take(true))], [true, [], [
      name,
    ]]);
  }
  add(queue, ["5:e"]);
  assertEquals([queue.mayBegin, queue.take(true)], [false, []]);
});

Deno.test("a write waits for earlier ones of its key and of its connection", () => {
  const queue = new WriteQueue(() => 4);
  add(queue, ["1:a", "2:b"]);
  const first = queue.take();
  add(queue, ["3:a", "3:c", "1:d", "4:d", "0:e", "0:f", ...many(20, 100)]);
  const second = queue.take();
  assertEquals(namesOf(second), ["0:e", "0:f", ...many(20, 100)]);
  queue.end(first);
  assertEquals(queue.take(), []);
  queue.end(second);
  assertEquals(namesOf(queue.take()), ["3:a", "3:c", "1:d", "4:d"]);
});

Deno.test("postponed writes go before later ones of their keys and connections", () => {
  const queue = new WriteQueue(() => 4);
  add(queue, ["1:a", "2:b", "3:c"]);
  const group = queue.take();
  add(queue, ["2:d", "4:a", "5:e"]);
  queue.end(group, group.slice(0, 2));
  assertEquals(namesOf(queue.take()), ["1:a", "2:b", "2:d", "4:a", "5:e"]);
});

Deno.test("no more than four groups are in progress, of 256 writes at most", () => {
  const queue = new WriteQueue(() => 4);
  add(queue, many(1100));
  const lengths = Array.from({ length: 5 }, () => queue.take().length);
  assertEquals(lengths, [256, 256, 256, 256, 0]);
});

Deno.test("a source that takes one group at a time gets one; one that takes fewer than are in progress gets none", () => {
  let groupsMax = 1;
  const queue = new WriteQueue(() => groupsMax);
  add(queue, many(16));
  const first = queue.take();
  add(queue, many(16, 17));
  assertEquals([queue.mayBegin, queue.take(), queue.take(true)], [false, [], []]);
  groupsMax = 3;
  assertEquals(queue.take().length, 16);
  add(queue, many(16, 33));
  groupsMax = 1;
  assertEquals([queue.mayBegin, queue.take()], [false, []]);
  queue.end(first);
  assertEquals(queue.take(), []);
});

Deno.test("long values share a group up to 4 MiB", () => {
  const queue = new WriteQueue(() => 4);
  for (const name of many(5)) queue.add(write(name, 3 * 1024 * 1024));
  queue.add(write("6:short", 1));
  assertEquals(namesOf(queue.take()), ["1:k1", "6:short"]);
});
