import { assertEquals, assertMatch } from "@std/assert";
import { AcceptFailures } from "../../../lib/net/accept_failures.ts";
import type { TransportEvent } from "../../../lib/net/transport.ts";

Deno.test("the first failed accept is reported at once, then all others of a minute together", () => {
  const events: TransportEvent[] = [];
  const failures = new AcceptFailures((event) => events.push(event), "--counter-conn-limit");
  for (let atMs = 1000; atMs <= 61_000; atMs += 50) failures.add("EMFILE", atMs);
  const counts = events.map(({ fields }) => fields!["count"]);
  assertEquals(counts, [1, 1200]);
  assertMatch(events[0]!.message, /^cannot accept connections: EMFILE; raise .*counter-conn-limit/);
  assertMatch(events[1]!.message, /EMFILE \(1200 times since the last message\)/);
});
