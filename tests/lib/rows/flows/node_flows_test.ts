import { assert, assertEquals, assertThrows } from "@std/assert";
import { type Joined, NodeFlows } from "../../../../lib/rows/flows/node_flows.ts";

const GRANTED_MS = 100;
const ENDED = -1;
const FOUND = [{ row: null, version: 0, epoch: 1, cacheable: true }];

/** A node that has joined at 0 ms, and the end of its right. */
class Member {
  deadlineMs = 0;
  readonly flows = new NodeFlows({
    nowMs: () => 0,
    renew: (deadlineMs) => this.deadlineMs = deadlineMs,
    end: () => this.deadlineMs = ENDED,
  });

  constructor(session = "one") {
    const joining = this.flows.join();
    assertEquals(joining.next().value!.kind, "delete");
    assertEquals(joining.next().value!.kind, "join");
    assert(joining.next({ session, grantedMs: GRANTED_MS }).done);
    assertEquals(this.deadlineMs, GRANTED_MS);
  }
}

Deno.test("an answer to a node that has signed off renews nothing", () => {
  const member = new Member();
  const serving = member.flows.serve();
  assertEquals(serving.next().value.kind, "poll");
  const { value } = member.flows.signOff().next();
  assertEquals(value, { kind: "leave", session: "one" });
  assertEquals(member.deadlineMs, ENDED);
  assertThrows(() => serving.next({ seq: 0, keys: [], prefixes: [], grantedMs: GRANTED_MS }));
  assertEquals(member.deadlineMs, ENDED);
});

Deno.test("a session that a join has not ended is named at the next one, and no longer", () => {
  const { flows } = new Member();
  const named = (end: Joined | Error): string => {
    const joining = flows.join();
    joining.next();
    const { value } = joining.next();
    assert(value?.kind === "join");
    if (end instanceof Error) assertThrows(() => joining.throw(end), Error, end.message);
    else joining.next(end);
    return value.session;
  };
  const joined = { session: "two", grantedMs: GRANTED_MS };
  const lost = new Error("the reply is lost");
  assertEquals([named(lost), named(lost), named(joined)], ["one", "one", "one"]);
  assertEquals([named(joined), named(lost), named(joined)], ["two", "two", "two"]);
});

Deno.test("a node keeps no row that it has read without a membership", () => {
  const right = { nowMs: () => 0, renew: () => {}, end: () => {} };
  for (
    const [flows, cacheable] of [[new NodeFlows(right), false], [new Member().flows, true]] as const
  ) {
    const reading = flows.read(["k"]);
    reading.next();
    assertEquals(reading.next(FOUND).value, [{ ...FOUND[0]!, cacheable }]);
  }
});
