import { assertEquals, assertLessOrEqual } from "@std/assert";
import {
  bucketBoundUs,
  countOf,
  kindOf,
  type LatencyHistogram,
  quantileUs,
  REQUEST_KINDS,
  RequestTimes,
} from "../../../protocol/counts/request_times.ts";
import { COMMANDS } from "../../../protocol/text/table.ts";
import { BINARY_COMMANDS } from "../../../protocol/binary/table.ts";
import { ConversationSide } from "../../support/sessions/conversation_side.ts";

const GET = REQUEST_KINDS.indexOf("get");

class Times extends RequestTimes {
  constructor() {
    super(RequestTimes.createShared(1), 0);
  }

  /** Records a get that takes `us` microseconds. */
  add(us: number): void {
    this.clockUs[0] = 1000;
    this.beginRound();
    this.begin(GET);
    this.suspend(true);
    this.clockUs[0] = 1000 + us;
    this.record();
  }
}

function bucketsOf(histogram: LatencyHistogram): [boundUs: number, count: number][] {
  return histogram.counts.flatMap((count, bucket) =>
    count === 0 ? [] : [[bucketBoundUs(bucket), count]]
  );
}

Deno.test("a latency is in the bucket below whose bound it lies, an eighth wide at most", () => {
  for (const us of [0, 1, 7, 8, 9, 15, 16, 17, 1000, 65_535, 65_536, 10_000_000, 134_217_727]) {
    const times = new Times();
    times.add(us);
    const [[boundUs, count]] = bucketsOf(times.histogram(GET)) as [[number, number]];
    assertEquals(count, 1);
    assertEquals(us < boundUs, true, `${us} below ${boundUs}`);
    assertLessOrEqual(boundUs - us, Math.max(1, us / 8), `${us}`);
    assertEquals(times.histogram(GET).sumUs, us);
  }
});

Deno.test("latencies of minutes are in the last bucket, and a clock that goes back in the first", () => {
  const times = new Times();
  times.add(1e12);
  times.add(-5);
  const { counts } = times.histogram(GET);
  assertEquals([counts[0], counts.at(-1)], [1, 1]);
});

Deno.test("a round without requests reads the clock once", () => {
  const times = new Times();
  times.add(3);
  let reads = 0;
  times.readClock = () => reads++;
  times.beginRound();
  times.record();
  assertEquals(reads, 1);
  times.add(3);
  assertEquals(reads, 3);
});

Deno.test("a quantile is the bound of the bucket in which the request of that rank lies", () => {
  const times = new Times();
  assertEquals(quantileUs(times.histogram(GET), 0.5), 0);
  for (let count = 0; count < 99; count++) times.add(3);
  times.add(1000);
  const histogram = times.histogram(GET);
  assertEquals(countOf(histogram), 100);
  assertEquals([0.5, 0.99, 0.999].map((share) => quantileUs(histogram, share)), [4, 4, 1024]);
});

Deno.test("every command has its kind", () => {
  const kinds = new Map<string, string[]>(REQUEST_KINDS.map((kind) => [kind, []]));
  for (const { name } of [...COMMANDS, ...BINARY_COMMANDS]) {
    if (!/Q$/.test(name)) kinds.get(REQUEST_KINDS[kindOf(name)]!)!.push(name);
  }
  assertEquals(kinds.get("get"), ["get", "gets", "mg", "Get", "GetK"]);
  assertEquals(kinds.get("lock"), [
    ...["lock", "unlock", "unlock_all", "Lock", "Unlock", "UnlockAll", "LaG", "LaGK", "RaU"],
  ]);
  assertEquals(kinds.get("lease"), [
    ...["getss", "deletess", "lease-get", "lease-set", "lease", "GetSS", "GetSSK", "DeleteSS"],
  ]);
  assertEquals(kinds.get("other")!.filter((name) => /get|set|delete/i.test(name)), []);
});

/** A side whose clock the test moves. */
class TimedSide extends ConversationSide {
  get times(): RequestTimes {
    return this.thread.times;
  }

  read(atUs: number): void {
    this.times.clockUs[0] = atUs;
    this.times.beginRound();
  }

  sent(atUs: number): void {
    this.times.clockUs[0] = atUs;
    this.times.record();
  }

  latencies(kind: typeof REQUEST_KINDS[number]): [number, number][] {
    return bucketsOf(this.times.histogram(REQUEST_KINDS.indexOf(kind)));
  }
}

Deno.test("requests that are read and answered together have one latency, by kind", () => {
  using side = new TimedSide();
  const peer = side.connect();
  side.read(100);
  peer.ask("set a 0 0 1\r\n1\r\nget a\r\nget b\r\nmg a v\r\nincr a 1\r\ndelete a\r\n");
  side.sent(106);
  for (const [kind, count] of [["get", 3], ["set", 1], ["arithmetic", 1], ["delete", 1]] as const) {
    assertEquals(side.latencies(kind), [[7, count]], kind);
  }
});

Deno.test("a request is counted when its reply is complete, not when its line has arrived", () => {
  using side = new TimedSide();
  const peer = side.connect();
  side.read(0);
  peer.ask("get a\r\nset long 0 0 40000\r\n");
  side.sent(2);
  assertEquals(side.latencies("set"), []);
  assertEquals(side.latencies("get"), [[3, 1]]);
  side.read(1_000_000);
  assertEquals(peer.ask(`${"v".repeat(40_000)}\r\nget b\r\n`), "STORED\r\nEND\r\n");
  side.sent(1_000_004);
  assertEquals(side.latencies("set"), [[5, 1]]);
});

Deno.test("a wait counts from the read to the reply, and what waited behind it too", () => {
  using side = new TimedSide();
  const [holder, waiter] = [side.connect(), side.connect()];
  holder.ask("set a 0 0 1\r\n1\r\nlock a\r\n");
  side.sent(0);
  const locksBefore = side.latencies("lock");
  side.read(1000);
  assertEquals(waiter.ask("get x\r\nlock a 100\r\nget y\r\n"), "END\r\n");
  side.sent(1001);
  assertEquals(side.latencies("lock"), locksBefore);
  // As a transport resumes it: late, with the time at which it was read.
  side.read(1030);
  holder.ask("unlock a\r\n");
  assertEquals(countOf({ counts: side.latencies("lock").map(([, count]) => count) }), 1);
  side.sent(1031);
  assertEquals(waiter.ask(""), "OK\r\nEND\r\n");
});

Deno.test("late requests have the time at which they were read; those of the round keep theirs", () => {
  const times = new Times();
  times.clockUs[0] = 100;
  times.beginRound();
  times.begin(GET);
  const waiting = times.suspend(false);
  times.record();
  assertEquals(countOf(times.histogram(GET)), 0);
  const readAtUs = times.startUs;
  times.clockUs[0] = 1000;
  times.beginRound();
  times.begin(GET);
  times.suspend(true);
  times.beginLate(readAtUs);
  times.resume(waiting);
  times.suspend(true);
  times.clockUs[0] = 1001;
  times.endLate();
  times.record();
  assertEquals(bucketsOf(times.histogram(GET)), [[2, 1], [960, 1]]);
});

Deno.test("of small rounds within a tick one of four is measured, and all requests are counted", () => {
  const times = new Times();
  let clockReads = 0;
  times.readClock = () => {
    clockReads++;
    times.clockUs[0]! += 10;
  };
  const round = (sockets: number, tick: number): void => {
    times.beginRound(sockets, tick);
    times.begin(GET);
    times.suspend(true);
    times.record();
  };
  for (let count = 0; count < 9; count++) round(1, 5);
  assertEquals(clockReads, 2 * 3);
  assertEquals(bucketsOf(times.histogram(GET)), [[11, 9]]);
  round(1, 6);
  round(8, 6);
  assertEquals(clockReads, 2 * 5);
  assertEquals(countOf(times.histogram(GET)), 11);
  // A request that waits is measured, whatever the round.
  times.beginRound(1, 6);
  times.begin(GET);
  times.suspend(false);
  assertEquals(times.startUs, times.clockUs[0]);
  assertEquals(clockReads, 11);
});

Deno.test("stats latency shows every kind, stats reset forgets", () => {
  using side = new TimedSide();
  const peer = side.connect();
  side.read(0);
  peer.ask("get a\r\nget b\r\n");
  side.sent(100);
  const lines = peer.ask("stats latency\r\n").split("\r\n");
  assertEquals(lines.filter((line) => /^STAT (all|get):/.test(line)), [
    ...["all", "get"].flatMap((kind) => [
      `STAT ${kind}:count 2`,
      `STAT ${kind}:mean_us 100`,
      `STAT ${kind}:p50_us 104`,
      `STAT ${kind}:p90_us 104`,
      `STAT ${kind}:p99_us 104`,
      `STAT ${kind}:p999_us 104`,
      `STAT ${kind}:max_us 104`,
    ]),
  ]);
  assertEquals(lines.includes("STAT token:count 0"), true);
  peer.ask("stats reset\r\n");
  assertEquals(side.latencies("get"), []);
});
