import { assert, assertEquals, assertNotEquals } from "@std/assert";
import {
  Activity,
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
