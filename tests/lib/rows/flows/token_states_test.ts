import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  EPOCH_MAX,
  TokenLimitError,
  TokenStates,
} from "../../../../lib/rows/flows/token_states.ts";
import { randomFrom } from "../../../support/random.ts";
import { drawSeed, withSeed } from "../../../support/seed.ts";

function states(epoch = 1): TokenStates {
  return new TokenStates(epoch, 100, 10);
}

Deno.test("a key is cacheable while it has no token that is idle, busy or unknown", () => {
  const tokens = states();
  assert(tokens.isCacheable("k"));
  const id = tokens.get("k", "");
  assert(!tokens.isCacheable("k"));
  assert(tokens.isCacheable("other"));
  assertEquals(tokens.beginPut("k", id), { kind: "begun" });
  assert(!tokens.isCacheable("k"));
  tokens.endPut("k", id, { kind: "unknown" });
  assert(!tokens.isCacheable("k"));
  assertEquals(tokens.beginPut("k", id), { kind: "unknown" });
  assertEquals(tokens.beginPut("k", id), { kind: "busy" }, "the database is asked once");
  assert(!tokens.isCacheable("k"));
  tokens.endPut("k", id, { kind: "committed", version: 7 });
  assert(tokens.isCacheable("k"));
});

Deno.test("a used token answers the same write again with the same version", () => {
  const tokens = states();
  const id = tokens.get("k", "");
  tokens.beginPut("k", id);
  assertEquals(tokens.beginPut("k", id), { kind: "busy" });
  tokens.endPut("k", id, { kind: "committed", version: 3 });
  assertEquals(tokens.beginPut("k", id), { kind: "used", version: 3 });
  assertEquals(tokens.beginPut("other", id), { kind: "none" });
  assertEquals(tokens.beginPut("k", id + 1), { kind: "none" });
  assertEquals(tokens.release("k", id), "none");
});

Deno.test("a write that failed for certain leaves its token idle", () => {
  const tokens = states();
  const id = tokens.get("k", "");
  tokens.beginPut("k", id);
  tokens.endPut("k", id, { kind: "failed" });
  assertEquals(tokens.beginPut("k", id), { kind: "begun" });
  tokens.endPut("k", id, { kind: "failed" });
  assertEquals(tokens.release("k", id), "released");
  assert(tokens.isCacheable("k"));
  assertEquals(tokens.release("k", id), "none");
});

Deno.test("revoke ends idle tokens, and none whose write runs or may have run", () => {
  const tokens = states();
  const [idle, busy, unknown] = [1, 2, 3].map(() => tokens.get("k", ""));
  tokens.beginPut("k", busy!);
  tokens.beginPut("k", unknown!);
  tokens.endPut("k", unknown!, { kind: "unknown" });
  assertEquals(tokens.revoke("k"), { revoked: 1, busy: 2 });
  assertEquals(tokens.beginPut("k", idle!), { kind: "revoked" });
  assertEquals(tokens.revoke("k", busy), { revoked: 0, busy: 1 });
  assertEquals(tokens.release("k", busy!), "busy");
  assertEquals(tokens.revoke("k", 12345), { revoked: 0, busy: 0 });
  assertEquals(tokens.counts(), { idle: 0, busy: 1, unknown: 1, used: 0, revoked: 1 });
});

Deno.test("an owner that asks again gets its live token, and a new one after the end of that", () => {
  const tokens = states();
  const id = tokens.get("k", "me");
  assertEquals(tokens.get("k", "me"), id);
  assert(tokens.get("k", "") !== tokens.get("k", ""));
  tokens.revoke("k");
  assert(tokens.get("k", "me") !== id);
});

Deno.test("ids of different epochs never meet, and stay below 2^53", () => {
  const first = states(1).get("k", "");
  const second = states(2).get("k", "");
  assert(second > first);
  assertEquals(states(2).beginPut("k", first), { kind: "none" });
  assert(new TokenStates(EPOCH_MAX, 10, 10).get("k", "") < 2 ** 53);
  assertThrows(() => states(0), RangeError, "epoch 0: must be 1..2097151");
  assertThrows(() => states(EPOCH_MAX + 1), RangeError);
});

Deno.test("live tokens have a limit, and ended ones are forgotten, the oldest first", () => {
  const tokens = new TokenStates(1, 3, 2);
  const ids = [1, 2, 3].map((key) => tokens.get(`k${key}`, ""));
  assertThrows(() => tokens.get("k4", ""), TokenLimitError, "too many update tokens");
  for (let key = 1; key <= 3; key++) tokens.revoke(`k${key}`);
  assertEquals(tokens.beginPut("k1", ids[0]!), { kind: "none" });
  assertEquals(tokens.beginPut("k2", ids[1]!), { kind: "revoked" });
  assertEquals(tokens.beginPut("k3", ids[2]!), { kind: "revoked" });
  tokens.get("k4", "");
});

Deno.test("the oldest live token has the age of its first request", () => {
  let nowMs = 5000;
  const tokens = new TokenStates(1, 10, 10, () => nowMs);
  assertEquals(tokens.oldestAgeSec(), 0);
  const first = tokens.get("k", "web1");
  nowMs += 2500;
  tokens.get("l", "web2");
  tokens.get("k", "web1");
  assertEquals(tokens.oldestAgeSec(), 2);
  assertEquals([...tokens.list("k")].map(({ sinceMs }) => sinceMs), [5000]);
  tokens.release("k", first);
  nowMs += 1000;
  assertEquals(tokens.oldestAgeSec(), 1);
});

Deno.test("no sequence of calls makes a key with a live token cacheable, or applies a token twice", () =>
  withSeed(drawSeed(), (seed) => {
    const random = randomFrom(seed);
    const below = (bound: number): number => Math.floor(random() * bound);
    const tokens = new TokenStates(1, 20, 5);
    const model = new Map<number, { key: string; state: string }>();
    const applied = new Set<number>();
    const pick = (): number => [...model.keys()][below(model.size)] ?? 1;
    for (let step = 0; step < 20_000; step++) {
      const key = `k${below(3)}`;
      const id = pick();
      const known = model.get(id);
      switch (below(5)) {
        case 0:
          if ([...model.values()].filter(({ state }) => isLive(state)).length < 20) {
            model.set(tokens.get(key, ""), { key, state: "idle" });
          }
          break;
        case 1: {
          const start = tokens.beginPut(known?.key ?? key, id);
          if (start.kind === "begun") known!.state = "busy";
          break;
        }
        case 2:
          if (known?.state === "busy" || known?.state === "unknown") {
            const end = (["committed", "failed", "unknown"] as const)[below(3)]!;
            tokens.endPut(known.key, id, { kind: end, version: 1 } as never);
            known.state = { committed: "used", failed: "idle", unknown: "unknown" }[end];
            if (end === "committed") {
              assert(!applied.has(id));
              applied.add(id);
            }
          }
          break;
        case 3:
          if (tokens.release(known?.key ?? key, id) === "released") model.delete(id);
          break;
        case 4:
          tokens.revoke(key);
          for (const token of model.values()) {
            if (token.key === key && token.state === "idle") token.state = "revoked";
          }
      }
      for (const each of ["k0", "k1", "k2"]) {
        const live = [...model.values()].some((token) => token.key === each && isLive(token.state));
        assertEquals(tokens.isCacheable(each), !live);
      }
      if (model.size > 60) {
        for (const [old, { state }] of model) if (!isLive(state)) model.delete(old);
      }
    }
  }));

function isLive(state: string): boolean {
  return state === "idle" || state === "busy" || state === "unknown";
}

Deno.test("a list does not include tokens that are created during it", () => {
  const tokens = states();
  const ids = [tokens.get("a", ""), tokens.get("b", "")];
  const listed: number[] = [];
  for (const { id, key } of tokens.list()) {
    listed.push(id);
    tokens.get(key, "");
    tokens.get(`${key}${id}`, "");
  }
  assertEquals(listed, ids);
});
