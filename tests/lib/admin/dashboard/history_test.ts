import { assertEquals } from "@std/assert";
import { History } from "../../../../lib/admin/dashboard/history.ts";
import { Recorder } from "../../../../lib/admin/dashboard/recorder.ts";
import { COLUMNS, takeSnapshot } from "../../../../lib/admin/dashboard/series.ts";
import { parseStats } from "../../../support/sessions/side.ts";
import { ConversationSide } from "../../../support/sessions/conversation_side.ts";

Deno.test("a history keeps the last rows, the oldest first; unknown numbers are null", () => {
  const history = new History(2, 3);
  assertEquals(history.rows(), []);
  for (let second = 1; second <= 5; second++) history.add(second, [second / 4, NaN]);
  assertEquals(history.rows(), [[3, 0.75, null], [4, 1, null], [5, 1.25, null]]);
});

/** More short values than fit into the least memory. */
const FLOOD = 30_000;

/** A recorder over a store, and a clock that the test moves. */
class Recorded extends ConversationSide {
  readonly recorder = new Recorder((atMs) => takeSnapshot(this.thread, [], atMs));
  readonly #startMs = Date.now();
  #seconds = 0;

  tick(): Map<string, number | null> {
    this.recorder.tick(this.#startMs + ++this.#seconds * 1000);
    const row = this.recorder.past.seconds.at(-1)!;
    return new Map(COLUMNS.map((name, index) => [name, row[index + 1]!]));
  }
}

/** The recorder's start and the test's clock are not the same moment: rates of the first second are about right. */
const near = (value: number | null | undefined): number => Math.round(value!);

Deno.test("counters become rates, states stay; stats reset gives no negative rate", () => {
  using side = new Recorded();
  const peer = side.connect();
  side.tick();
  peer.ask("set a 0 0 1\r\n1\r\nget a\r\nget a\r\nget b\r\nlock a\r\n");
  side.thread.times.record();
  const row = side.tick();
  assertEquals(near(row.get("get_hits")), 2);
  assertEquals(near(row.get("get_misses")), 1);
  assertEquals(near(row.get("requests_get")), 3);
  assertEquals(row.get("lock_curr"), 1);
  assertEquals(row.get("curr_items"), 1);
  assertEquals(row.get("p99_us"), 1);
  const idle = side.tick();
  assertEquals(idle.get("get_hits"), 0);
  assertEquals(idle.get("p99_us"), null);
  peer.ask("stats reset\r\nget a\r\n");
  assertEquals([...side.tick().values()].every((value) => value === null || value >= 0), true);
});

Deno.test("the age of evicted items is that of the classes that have evicted", () => {
  using side = new Recorded(["-m", "1"]);
  const peer = side.connect();
  const evictedAge = (): number | null | undefined => side.tick().get("class_evicted_time");
  const store = (key: number, length: number): string =>
    peer.ask(`set ${key} 0 0 ${length} noreply\r\n${"x".repeat(length)}\r\n`);
  side.tick();
  for (let key = 0; key < FLOOD / 2; key++) store(key, 1);
  assertEquals(evictedAge(), null);
  side.advanceNow(60);
  for (let key = FLOOD / 2; key < FLOOD; key++) store(key, 1);
  store(FLOOD, 5000);
  const ages = parseStats(peer.ask("stats items\r\n")).entries()
    .filter(([name]) => name.endsWith(":evicted_time")).map(([, age]) => age);
  assertEquals([...ages].sort(), [0, 60]);
  assertEquals(evictedAge(), 60);
});

Deno.test("a row a minute is kept beside a row a second", () => {
  using side = new Recorded();
  for (let second = 0; second < 150; second++) side.tick();
  assertEquals(side.recorder.past.seconds.length, 150);
  assertEquals(side.recorder.past.minutes.length, 2);
});

Deno.test("listeners get each second's row until they end", () => {
  using side = new Recorded();
  const heard: number[] = [];
  const end = side.recorder.listen((row) => heard.push(row.length));
  side.tick();
  end();
  side.tick();
  assertEquals(heard, [COLUMNS.length + 1]);
});
