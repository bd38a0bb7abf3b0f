import { assert, assertEquals, assertRejects } from "@std/assert";
import { Lifecycle } from "../../../lib/process/lifecycle.ts";
import { DEFAULT_TABLE } from "../../../lib/databases/base/table.ts";
import { DatabaseThread, DatabaseThreadError } from "../../../lib/rows/database_thread.ts";
import type { RowsOptions } from "../../../lib/rows/options.ts";
import { ByteRegion } from "../../../store/base/bytes.ts";
import { formatCache, RowKind } from "../../../store/row_cache.ts";
import { createSharedMemory, Memory } from "../../../store/memory/memory.ts";
import { Outcome } from "../../../store/outcome.ts";
import { RequestState } from "../../../store/rows/row_requests.ts";
import { until } from "../../support/servers/server_process.ts";
import { keyIn, storeOptions } from "../../support/store.ts";

const EVENTS = { event: (): void => {}, deposed: (): void => {}, died: (): void => {} };

function optionsFor(path: string): RowsOptions {
  return {
    database: { kind: "sqlite", path },
    dbConnections: 4,
    dbTimeoutMs: 1000,
    names: DEFAULT_TABLE,
    rowExpiry: "refuse",
    takeover: "refuse",
    rightFrom: undefined,
    memberTimeMs: 200,
    tokenEntries: 100,
    appliedTtlSec: 60,
    follow: false,
    views: "",
    lagMaxMs: 10_000,
    lagQuarantine: false,
    verify: 0,
    stale: "log",
    driftShare: 0.1,
    prefixes: [""],
  };
}

function startOf(path: string, memory: Memory): Parameters<typeof DatabaseThread.start>[0] {
  return {
    options: optionsFor(path),
    shared: memory.shared,
    lifecycle: Lifecycle.createShared(1),
    member: { transport: "portable", workerData: null },
    savedMark: null,
    savesRows: false,
  };
}

Deno.test("the database thread takes the database over, serves requests, and ends", async () => {
  const folder = await Deno.makeTempDir();
  const memory = new Memory(
    createSharedMemory(storeOptions({ rows: { prefixes: [""], expiry: "refuse" } })),
  );
  const cache = formatCache(memory);
  const origin = await DatabaseThread.start(startOf(`${folder}/rows.db`, memory), EVENTS);
  const { requests } = cache.rows!;
  const key = new ByteRegion(new TextEncoder().encode("key").buffer);
  cache.enter();
  const slot = requests.take(RowKind.READ, keyIn(cache, key, 3), 1, 0);
  requests.submit(slot);
  requests.await(slot);
  cache.leave();
  await until(() => Promise.resolve(requests.stateOf(slot) === RequestState.DONE));
  assertEquals(requests.outcomeOf(slot), Outcome.NOT_FOUND);
  await until(() => Promise.resolve(origin.stats.some(({ name }) => name === "epoch")));
  assertEquals(origin.stats.find(({ name }) => name === "epoch")?.value, 1);
  assertEquals(origin.problem, null);
  await origin.stop();
  await Deno.remove(folder, { recursive: true });
});

Deno.test("a database that cannot be used refuses the start, with its name", async () => {
  const memory = new Memory(
    createSharedMemory(storeOptions({ rows: { prefixes: [""], expiry: "refuse" } })),
  );
  formatCache(memory);
  const start = startOf("/nowhere/rows.db", memory);
  const error = await assertRejects(() => DatabaseThread.start(start, EVENTS), DatabaseThreadError);
  assert(error.message.startsWith("cannot use the database /nowhere/rows.db: "));
});
