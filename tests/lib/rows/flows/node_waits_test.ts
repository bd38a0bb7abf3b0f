import { assert, assertEquals } from "@std/assert";
import { NODES_MAX } from "../../../../lib/rows/flows/node_list.ts";
import { NodeWaits } from "../../../../lib/rows/flows/node_waits.ts";

const MEMBER_MS = 2000;

/** The waits of a node that joins as soon as it may, and confirms nothing. */
function waitsOf(waits: NodeWaits, count: number, goodMs = 0): number[] {
  const found: number[] = [];
  for (let nowMs = 0; found.length < count;) {
    nowMs += MEMBER_MS + goodMs;
    waits.add("one", nowMs);
    found.push(waits.leftMs("one", nowMs));
    nowMs += found.at(-1)!;
    assertEquals(waits.leftMs("one", nowMs), 0);
  }
  return found;
}

Deno.test("a node that was slow once waits for a short time; one that always is waits longer and longer", () => {
  const longest = 16 * MEMBER_MS;
  assertEquals(
    waitsOf(new NodeWaits(MEMBER_MS), 10),
    [250, 500, 1000, 2000, 4000, 8000, 16_000, longest, longest, longest],
  );
  // A slow node of now and then.
  assertEquals(waitsOf(new NodeWaits(MEMBER_MS), 3, 4 * longest), [250, 250, 250]);
});

Deno.test("no wait is longer than a minute, however long memberships are", () => {
  const found = waitsOf(new NodeWaits(3_600_000), 10);
  assertEquals([found[0], found.at(-1)], [1000, 60_000]);
});

Deno.test("several sessions of a name that end by one write count once; other names do not wait", () => {
  const waits = new NodeWaits(MEMBER_MS);
  for (let session = 0; session < 100; session++) waits.add("one", session);
  assertEquals([waits.leftMs("one", 100), waits.leftMs("two", 100)], [150, 0]);
  assert(waits.forget("one"));
  assertEquals([waits.leftMs("one", 100), waits.forget("one")], [0, false]);
});

Deno.test("no more names wait than there may be nodes", () => {
  const waits = new NodeWaits(MEMBER_MS);
  for (let index = 0; index <= NODES_MAX; index++) waits.add(`node${index}`, 0);
  assertEquals([waits.leftMs("node0", 0), waits.leftMs("node1", 0)], [0, 250]);
  assertEquals(waits.leftMs(`node${NODES_MAX}`, 0), 250);
});
