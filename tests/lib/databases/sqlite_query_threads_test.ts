import { assertEquals, assertRejects } from "@std/assert";
import { QueryThreads, type QueryWorker } from "../../../lib/databases/sqlite/query_threads.ts";
import type { QueryCommand, QueryMessage } from "../../../lib/databases/sqlite/query_worker.ts";
import type { View } from "../../../lib/databases/views/view.ts";
import { parseViews } from "../../../lib/databases/views/views_file.ts";
import { pause } from "../../../lib/process/pause.ts";
import { until } from "../../support/servers/server_process.ts";

const [A, B, C, D, E] = parseViews(
  JSON.stringify(Object.fromEntries([..."abcde"].map((name) => [
    `${name}:{id}`,
    { query: "SELECT {id}", changes: { t: `${name}:*` } },
  ]))),
  "views.jsonc",
  [""],
).all as readonly [View, View, View, View, View];

/** A worker that answers a query whose SQL is a text at once, and one whose SQL is "slow" when it is told. */
class FakeWorker implements QueryWorker {
  onmessage: QueryWorker["onmessage"] = null;
  onerror: QueryWorker["onerror"] = null;
  isOver = false;
  readonly asked: string[] = [];

  /** @param runs Whether it says so soon. */
  constructor(runs: boolean) {
    if (runs) queueMicrotask(() => this.answer(null));
  }

  postMessage({ query: { sql } }: QueryCommand): void {
    this.asked.push(sql);
    if (sql === "slow") return;
    queueMicrotask(() => this.answer(sql === "gone" ? "no file" : { epoch: 1, text: sql }));
  }

  answer(data: QueryMessage): void {
    this.onmessage!.call(this as unknown as Worker, { data } as MessageEvent);
  }

  fail(message: string): void {
    const event = { message, preventDefault: () => {} } as ErrorEvent;
    this.onerror!.call(this as unknown as Worker, event);
  }

  terminate(): void {
    this.isOver = true;
  }
}

class Setting {
  readonly workers: FakeWorker[] = [];
  readonly threads: QueryThreads;

  constructor(timeoutMs = 1, runs = true) {
    this.threads = new QueryThreads("x.db", timeoutMs, () => {
      const worker = new FakeWorker(runs);
      this.workers.push(worker);
      return worker as unknown as QueryWorker;
    });
  }

  async ask(view: View, sql: string): Promise<string | null> {
    const query = { sql, parameters: [], result: "raw", bytesMax: 9, generation: 1 } as const;
    const answer = await this.threads.execute(view, query);
    return typeof answer === "string" ? answer : answer.text;
  }

  get running(): number {
    return this.workers.filter(({ isOver }) => !isOver).length;
  }
}

const SLOW = "its query has been running for more than 1 ms (--db-timeout)";

Deno.test("a query that does not end is given up at its time: its view is refused until it ends", async () => {
  const setting = new Setting();
  const { threads, workers } = setting;
  assertEquals(await Promise.all(["1", "2"].map((sql) => setting.ask(A, sql))), ["1", "2"]);
  assertEquals(workers.length, 1, "a view has one query under way");
  assertEquals(await Promise.all([setting.ask(A, "slow"), setting.ask(A, "3")]), [SLOW, SLOW]);
  assertEquals([...threads.slow], [A]);
  assertEquals([await setting.ask(B, "4"), await setting.ask(A, "5")], ["4", SLOW]);
  workers[0]!.answer({ epoch: 1, text: "late" });
  assertEquals([threads.slow.size, workers[0]!.isOver], [0, true]);
  assertEquals(await setting.ask(A, "6"), "6");
  assertEquals(workers[0]!.asked, ["1", "2", "slow"]);
  threads.close();
  assertEquals(setting.running, 0);
});

Deno.test("the time of a query counts from when its thread runs", async () => {
  const setting = new Setting(1, false);
  const { threads, workers } = setting;
  const answer = setting.ask(A, "slow");
  await pause(20);
  assertEquals(threads.slow.size, 0);
  workers[0]!.answer(null);
  assertEquals(await answer, SLOW);
  workers[0]!.answer({ epoch: 1, text: "late" });
  threads.close();
  assertEquals(setting.running, 0);
});

Deno.test("two views are read at the same time, further ones in their order", async () => {
  const setting = new Setting(600_000);
  const { threads, workers } = setting;
  const answers = [A, B, C].map((view) => setting.ask(view, "slow"));
  assertEquals(workers.map(({ asked }) => asked.length), [1, 1]);
  workers[1]!.answer({ epoch: 1, text: "b" });
  assertEquals(workers.map(({ asked }) => asked.length), [1, 2]);
  threads.close();
  assertEquals(setting.running, 2, "reads under way end as usual");
  workers[1]!.answer({ epoch: 1, text: "c" });
  workers[0]!.answer({ epoch: 1, text: "a" });
  assertEquals(await Promise.all(answers), ["a", "b", "c"]);
  assertEquals(setting.running, 0);
});

Deno.test("four slow queries are the most: then views are refused until one has ended", async () => {
  const setting = new Setting();
  const { threads, workers } = setting;
  for (const view of [A, B, C, D]) assertEquals(await setting.ask(view, "slow"), SLOW);
  const refusal = "slow queries of other views have not ended: a:{id}, b:{id}, c:{id}, d:{id}";
  assertEquals(await setting.ask(E, "1"), refusal);
  assertEquals(workers.length, 4);
  workers[2]!.answer({ epoch: 1, text: null });
  assertEquals([await setting.ask(E, "2"), await setting.ask(C, "3")], ["2", "3"]);
  for (const index of [0, 1, 3]) workers[index]!.answer({ epoch: 1, text: null });
  threads.close();
  assertEquals(setting.running, 0);
});

Deno.test("a file that cannot be read, and a thread that fails, fail the read; the next one has another thread", async () => {
  const setting = new Setting(600_000);
  const { threads, workers } = setting;
  await assertRejects(() => setting.ask(A, "gone"), Error, "no file");
  const lost = setting.ask(A, "slow");
  await until(() => workers.length === 2);
  workers[1]!.fail("out of memory");
  await assertRejects(() => lost, Error, "a thread of queries failed: out of memory");
  assertEquals(await setting.ask(A, "1"), "1");
  threads.close();
  assertEquals([workers.length, setting.running], [3, 0]);
});
