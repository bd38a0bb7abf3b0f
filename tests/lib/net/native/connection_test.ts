import { assertEquals } from "@std/assert";
import { NativeConnection, RunQueue } from "../../../../lib/net/native/connection.ts";
import type { ServedConversation, Service } from "../../../../lib/net/service.ts";
import { ConnectionKind } from "../../../../store/connections.ts";

/** A connection between two requests, with other fields. */
function connectionOf(
  fields: Partial<NativeConnection> = {},
  idle = true,
): NativeConnection {
  const conversation = { owner: 5, idle, unauthenticatedSinceSec: 7 } as ServedConversation;
  const connection = new NativeConnection(3, 2, ConnectionKind.TCP, {} as Service, conversation);
  return Object.assign(connection, fields);
}

const BYTES = new Uint8Array(1);

Deno.test("a connection is read unless it is closed, waits, has more to do or unsent bytes", () => {
  const cases:
    readonly (readonly [fields: Partial<NativeConnection>, reads: boolean, fits: boolean])[] = [
      [{}, true, false],
      [{ readsAreShort: true }, true, true],
      [{ readsAreShort: true, pending: BYTES }, true, false],
      [{ readsAreShort: true, queued: true }, true, false],
      [{ readsAreShort: true, closed: true }, false, false],
      [{ readsAreShort: true, waiting: true }, false, false],
      [{ readsAreShort: true, unfinished: true }, false, false],
      [{ readsAreShort: true, unsent: BYTES }, false, false],
      [{ readsAreShort: true, unsent: new Uint8Array(0) }, false, false],
    ];
  for (const [fields, reads, fits] of cases) {
    const connection = connectionOf(fields);
    const name = Object.keys(fields).join();
    assertEquals([connection.mayRead, connection.fitsSlot], [reads, fits], name);
  }
});

Deno.test("a connection is idle between two requests with all replies sent", () => {
  assertEquals(connectionOf().isIdle, true);
  assertEquals(connectionOf({}, false).isIdle, false);
  assertEquals(connectionOf({ unsent: BYTES }).isIdle, false);
  assertEquals(connectionOf({ progressAtSec: 9 }).sendingSinceSec, 0);
  assertEquals(connectionOf({ progressAtSec: 9, unsent: BYTES }).sendingSinceSec, 9);
  const { id, unauthenticatedSinceSec } = connectionOf();
  assertEquals([id, unauthenticatedSinceSec], [5, 7]);
});

Deno.test("a run queue gives connections in their order, each once, also after it was empty", () => {
  const queue = new RunQueue();
  const [first, second, third] = [connectionOf(), connectionOf(), connectionOf()];
  for (let round = 0; round < 2; round++) {
    for (const connection of [first, second, first]) queue.add(connection);
    assertEquals(queue.length, 2);
    assertEquals(queue.take() === first, true);
    assertEquals([first.unfinished, first.next, second.unfinished], [false, null, true]);
    queue.add(third);
    queue.add(first);
    assertEquals(queue.length, 3);
    for (const connection of [second, third, first]) {
      assertEquals(queue.take() === connection, true);
      assertEquals(connection.unfinished, false);
    }
    assertEquals(queue.length, 0);
  }
});
