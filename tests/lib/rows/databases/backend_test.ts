import { assert, assertEquals } from "@std/assert";
import type { Change, Edit, NotedState, Row } from "../../../../lib/rows/databases/backend.ts";
import { DEFAULT_TABLE } from "../../../../lib/rows/databases/table.ts";
import { EDIT_FORMS } from "../../../support/edits.ts";
import { type TestDatabase, testDatabases } from "../../../support/servers/databases.ts";

const KEY = new TextEncoder().encode("k\0ey");
const set = (text: string, flags = 0): Change => ({
  flags,
  data: new TextEncoder().encode(text),
});

/** A test with the edits of each form. */
function testEdits(
  name: string,
  run: (database: TestDatabase, edit: (change: Change) => Edit) => Promise<void>,
): void {
  for (const [form, edit] of EDIT_FORMS) {
    testDatabases(`${name}; edits ${form}`, (database) => run(database, edit));
  }
}

testEdits(
  "a backend writes, reads and deletes rows, and versions only grow",
  async (database, edit) => {
    const backend = await database.open();
    const epoch = await backend.takeOver();
    assertEquals(await backend.read(KEY), { row: null, version: 0, epoch });
    assertEquals(await backend.write(KEY, 1, epoch, edit(set("one", 7))), {
      kind: "committed",
      version: 1,
    });
    const { row } = await backend.read(KEY);
    assertEquals(row, { flags: 7, data: new TextEncoder().encode("one"), version: 1 });
    assertEquals(await backend.write(KEY, 2, epoch, edit("delete")), {
      kind: "committed",
      version: 2,
    });
    assertEquals(await backend.read(KEY), { row: null, version: 2, epoch });
    assertEquals(await backend.write(KEY, 3, epoch, edit(set(""))), {
      kind: "committed",
      version: 3,
    });
    assertEquals((await backend.read(KEY)).row?.data, new Uint8Array());
    await backend.close();
  },
);

testDatabases(
  "a write is computed from the row as it is, and refused without a trace",
  async (database) => {
    const backend = await database.open();
    const epoch = await backend.takeOver();
    await backend.write(KEY, 1, epoch, set("one"));
    const seen: (Row | null)[] = [];
    const refused = await backend.write(KEY, 2, epoch, (row) => {
      seen.push(row);
      return null;
    });
    assertEquals(seen[0]?.version, 1);
    assert(refused.kind === "refused" && refused.row?.version === 1);
    const failed = await backend.write(KEY, 3, epoch, () => {
      throw new Error("too large");
    });
    assertEquals(failed, { kind: "failed", reason: "too large" });
    assertEquals((await backend.read(KEY)).version, 1);
    for (const token of [2, 3]) assertEquals(await backend.outcome(token), { kind: "notApplied" });
    await backend.close();
  },
);

testDatabases("caches are noted, but not by a proxy that has been taken over", async (database) => {
  const first = await database.open();
  const epoch = await first.takeOver();
  assertEquals(await first.readNotes(), { epoch: 0, caches: new Map() });
  const caches = new Map<string, NotedState>([["a:1", "listed"], ["[::1]:2", "out"]]);
  assertEquals(await first.noteCaches(caches, epoch), { kind: "noted", epoch: 1 });
  const second = await database.open();
  const later = await second.takeOver();
  assertEquals(await first.noteCaches(new Map(), epoch), { kind: "fenced", epoch: later });
  assertEquals(await second.readNotes(), { epoch: 1, caches });
  assertEquals(await second.noteCaches(new Map(), later), { kind: "noted", epoch: 2 });
  assertEquals(await second.readNotes(), { epoch: 2, caches: new Map() });
  await first.close();
  await second.close();
});

testEdits(
  "a proxy that has been taken over is fenced in writes and sees it in reads",
  async (database, edit) => {
    const first = await database.open();
    const epoch = await first.takeOver();
    const second = await database.open();
    const later = await second.takeOver();
    assertEquals(later, epoch + 1);
    assertEquals(await first.write(KEY, 1, epoch, edit(set("x"))), { kind: "fenced", epoch: 2 });
    assertEquals((await first.read(KEY)).epoch, later);
    assertEquals((await second.write(KEY, 1, later, edit(set("x")))).kind, "committed");
    await first.close();
    await second.close();
  },
);

testEdits(
  "the database knows which tokens were applied, until it forgets them",
  async (database, edit) => {
    let nowMs = 1000;
    const backend = await database.open(DEFAULT_TABLE, () => nowMs);
    const epoch = await backend.takeOver();
    await backend.write(KEY, 11, epoch, edit(set("a")));
    nowMs = 5000;
    await backend.write(KEY, 12, epoch, edit(set("b")));
    assertEquals(await backend.outcome(11), { kind: "committed", version: 1 });
    const again = await backend.write(KEY, 11, epoch, edit(set("c")));
    assertEquals(again.kind, "failed", "a token is applied once");
    await backend.purgeApplied(2000);
    assertEquals(await backend.outcome(11), { kind: "notApplied" });
    assertEquals(await backend.outcome(12), { kind: "committed", version: 2 });
    await backend.close();
  },
);

testEdits(
  "a table that an application has keeps its rows, whatever its columns are called",
  async (database, edit) => {
    const names = {
      table: 'user "x"',
      key: "id",
      value: "body",
      version: "epoch",
      flags: "token",
    };
    const backend = await database.open(names);
    const epoch = await backend.takeOver();
    await backend.write(KEY, 1, epoch, edit(set("one")));
    await backend.write(KEY, 2, epoch, edit(set("two")));
    await backend.close();
    const again = await database.open(names);
    assertEquals((await again.read(KEY)).version, 2);
    await again.close();
  },
);
