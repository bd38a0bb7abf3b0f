import { assert, assertEquals } from "@std/assert";
import { ADDRESSES_MAX, Throttle, WAIT_MS_MAX } from "../../../lib/auth/throttle.ts";
import { addressOf } from "../../../lib/auth/authenticator.ts";

Deno.test("five wrong passwords cost nothing; further checks of the address are spaced out", () => {
  const throttle = new Throttle();
  for (let index = 0; index < 5; index++) {
    assertEquals(throttle.reserve("a", 0), 0);
    assertEquals(throttle.failed("a", 0), false);
  }
  assertEquals(throttle.reserve("a", 0), 0);
  assertEquals(throttle.failed("a", 0), true);
  assertEquals(throttle.reserve("a", 0), 25);
  assertEquals(throttle.reserve("a", 0), 50);
  assertEquals(throttle.failed("a", 100), false);
  assertEquals(throttle.reserve("a", 100), 50);
  assertEquals(throttle.reserve("b", 100), 0);
});

Deno.test("a further wrong password does not bring the next check forward", () => {
  const throttle = new Throttle();
  for (let index = 0; index < 6; index++) throttle.failed("a", 0);
  const waits = Array.from({ length: 10 }, () => throttle.reserve("a", 0));
  assertEquals(waits, [25, 50, 75, 100, 125, 150, 175, 200, 225, 250]);
  throttle.failed("a", 10);
  assertEquals(throttle.reserve("a", 10), 275 - 10);
});

Deno.test("an address waits for a bounded time, and is forgiven by and by", () => {
  const throttle = new Throttle();
  for (let index = 0; index < 40; index++) throttle.failed("a", 0);
  let waiting = 0;
  while (throttle.reserve("a", 0) !== null) waiting++;
  assertEquals(waiting, WAIT_MS_MAX / 250);
  // 40, 20, 10, 5.
  assertEquals(throttle.reserve("a", 3 * 60_000), 0);
  assertEquals(throttle.reserve("a", 3 * 60_000), 0);
});

Deno.test("half of an address's failures are forgotten after each minute without one", () => {
  // Pairs of a time and the gap that two checks at that time show.
  const gaps:
    readonly (readonly [failures: number, ...gaps: readonly [ms: number, gap: number][]])[] = [
      [12, [0, 250], [59_999, 250], [60_000, 25], [60_001, 25], [119_999, 25], [120_000, 0]],
      [40, [119_000, 250], [120_000, 250], [180_000, 0]],
    ];
  for (const [failures, ...expected] of gaps) {
    const throttle = new Throttle();
    for (let index = 0; index < failures; index++) throttle.failed("a", 0);
    for (const [ms, gap] of expected) {
      const first = throttle.reserve("a", ms)!;
      assertEquals(throttle.reserve("a", ms)! - first, gap, `${failures} failures, ${ms} ms`);
    }
  }
});

Deno.test("the addresses remembered are bounded; the one that failed longest ago is forgotten", () => {
  const throttle = new Throttle();
  for (let index = 0; index < 10; index++) throttle.failed("first", 0);
  for (let index = 0; index < ADDRESSES_MAX - 1; index++) throttle.failed(`a${index}`, 0);
  assert(throttle.isSuspect("first"));
  throttle.failed("last", 0);
  assertEquals(["first", "a0", "last"].map((name) => throttle.isSuspect(name)), [
    false,
    true,
    true,
  ]);
});

Deno.test("an address that fails again is forgotten after those that do not", () => {
  const throttle = new Throttle();
  for (const name of ["again", "once"]) throttle.failed(name, 0);
  throttle.failed("again", 1);
  for (let index = 0; index < ADDRESSES_MAX - 1; index++) throttle.failed(`a${index}`, 2);
  assertEquals(["again", "once"].map((name) => throttle.isSuspect(name)), [true, false]);
});

Deno.test("old failures are forgotten before the next one counts", () => {
  const HALF_LIFE_MS = 60_000;
  for (const halvings of [3, 30, 31, 32, 64, 1000]) {
    const throttle = new Throttle();
    for (let index = 0; index < 40; index++) throttle.failed("a", 0);
    const ms = halvings * HALF_LIFE_MS;
    const left = halvings === 3 ? 5 : 0;
    for (let failures = left + 1; failures <= 6; failures++) {
      assertEquals(throttle.failed("a", ms), failures === 6, `${failures} after ${halvings}`);
    }
  }
});

Deno.test("addressOf() names a client without its port, and an IPv6 network", () => {
  const peers = {
    "tcp:192.0.2.1:40000": "192.0.2.1",
    "192.0.2.1:40000": "192.0.2.1",
    "tcp6:[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1:2::/64",
    "tcp6:[2001:db8::1]:1": "2001:db8:0:0::/64",
    "tcp6:[::1]:1": "0:0:0:0::/64",
    "[::1]:1": "0:0:0:0::/64",
    "tcp6:[::ffff:192.0.2.1]:1": "192.0.2.1",
    "unix:/run/leased": "unix:/run/leased",
  };
  for (const [peer, address] of Object.entries(peers)) assertEquals(addressOf(peer), address);
});
