import { assert, assertEquals, assertNotEquals } from "@std/assert";
import {
  Activity,
  type ConnectionId,
  ConnectionKind,
  ConnectionTable,
  LISTENERS_MAX,
  NO_OWNER,
} from "../../store/connections.ts";

const LISTENER = "tcp:127.0.0.1:11211";

function newTable(rows: number): ConnectionTable {
  return new ConnectionTable(new SharedArrayBuffer(ConnectionTable.bytesNeeded(rows)));
}

Deno.test("ConnectionTable gives positive ids that differ, and 0 when all rows are taken", () => {
  for (const rows of [1, 2, 3, 1000, 1024, 1025]) {
    const table = newTable(rows);
    assertEquals(table.rows, rows);
    const ids = new Set<number>();
    for (let count = 0; count < rows; count++) {
      const id = table.open(ConnectionKind.TCP, 0, "tcp:127.0.0.1:1", LISTENER, 2);
      assert(id > 0 && id < 2 ** 31);
      ids.add(id);
    }
    assertEquals(ids.size, rows);
    assertEquals(table.openCount, rows);
    assertEquals(table.open(ConnectionKind.TCP, 0, "", LISTENER, 2), NO_OWNER);
  }
});

Deno.test("ConnectionTable.close() frees the row for a connection with another id", () => {
  const table = newTable(1);
  const first = table.open(ConnectionKind.TCP, 0, "a", LISTENER, 2);
  table.close(first);
  table.close(first);
  assertEquals(table.openCount, 0);
  const second = table.open(ConnectionKind.TCP, 0, "b", LISTENER, 2);
  assertNotEquals(second, first);
  assert(!table.isOpen(first));
  table.close(first);
  assert(table.isOpen(second), "a stale id closes nobody else's row");
  assertEquals(table.openCount, 1);
});

Deno.test("ConnectionTable ids stay positive when the generations are used up", () => {
  const table = newTable(1 << 20);
  for (let round = 0; round < 5000; round++) {
    const id = table.open(ConnectionKind.TCP, 0, "a", LISTENER, 2);
    assert(id > 0 && table.isOpen(id));
    table.close(id);
  }
});

Deno.test("ConnectionTable lists what is open, as every thread sees it", () => {
  const shared = new SharedArrayBuffer(ConnectionTable.bytesNeeded(8));
  const table = new ConnectionTable(shared);
  table.addListener(LISTENER);
  const a = table.open(ConnectionKind.TCP, 3, "tcp:127.0.0.1:40000", LISTENER, 2);
  const b = table.open(ConnectionKind.UNIX, 1, "unix:/tmp/ü", "unix:/tmp/ü", 4);
  const c = table.open(ConnectionKind.TCP, 0, "x".repeat(100), LISTENER, 5);
  table.close(a);
  table.seen(b, 9);
  table.setActivity(b, Activity.WRITING);
  const other = new ConnectionTable(shared);
  assertEquals(other.listeners(), [LISTENER, "unix:/tmp/ü"]);
  assertEquals([...other], [
    {
      id: b,
      index: 1,
      kind: ConnectionKind.UNIX,
      thread: 1,
      peer: "unix:/tmp/ü",
      listener: "unix:/tmp/ü",
      activity: Activity.WRITING,
      seenAtSec: 9,
    },
    {
      id: c,
      index: 2,
      kind: ConnectionKind.TCP,
      thread: 0,
      peer: "x".repeat(64),
      listener: LISTENER,
      activity: Activity.READING,
      seenAtSec: 5,
    },
  ]);
  assertEquals(other.threadOf(b), 1);
  assertEquals(other.seenAtSec(b), 9);
});

Deno.test("ConnectionTable keeps to its bound of listeners", () => {
  const table = newTable(1);
  for (let number = 0; number < LISTENERS_MAX + 3; number++) table.addListener(`tcp:h:${number}`);
  assertEquals(table.listeners().length, LISTENERS_MAX);
});

Deno.test("rows that were given back are all given again, with nothing of their last connection", () => {
  const table = newTable(5);
  const open = (thread: number, nowSec: number): ConnectionId =>
    table.open(ConnectionKind.TCP, thread, `tcp:h:${thread}`, LISTENER, nowSec);
  let ids = Array.from({ length: 5 }, (_, index) => open(index, 10));
  for (let round = 1; round < 4; round++) {
    for (const id of ids) {
      table.seen(id, 1000);
      table.setActivity(id, Activity.WRITING);
    }
    const closed = ids.filter((_, index) => index !== 2);
    for (const id of closed) {
      table.close(id);
      assertEquals([table.peerOf(id), table.threadOf(id), table.isOpen(id)], ["?", 0, false]);
    }
    const opened = closed.map((_, index) => open(10 * round + index, 20));
    assertEquals(new Set(opened.map((id) => table.rowOf(id))).size, 4);
    for (const [index, id] of opened.entries()) {
      const thread = 10 * round + index;
      assertEquals([table.peerOf(id), table.threadOf(id)], [`tcp:h:${thread}`, thread]);
      assertEquals(table.seenAtSec(id), 20);
    }
    const seen = [...table].map(({ seenAtSec, activity }) => `${seenAtSec} ${activity}`).sort();
    assertEquals(seen, ["1000 1", "20 0", "20 0", "20 0", "20 0"]);
    assertEquals(open(0, 10), NO_OWNER);
    assertEquals(table.openCount, 5);
    ids = [...opened.slice(0, 2), ids[2]!, ...opened.slice(2)];
  }
});

Deno.test("a connection's number counts on from the listeners", () => {
  const table = newTable(3);
  for (const name of ["a", "b", "a"]) table.addListener(name);
  const ids = [1, 2, 3].map(() => table.open(ConnectionKind.TCP, 0, "p", "b", 2));
  assertEquals(ids.map((id) => [table.rowOf(id), table.numberOf(id)]), [[0, 2], [1, 3], [2, 4]]);
  assertEquals([...table].map(({ listener }) => listener), ["b", "b", "b"]);
});
