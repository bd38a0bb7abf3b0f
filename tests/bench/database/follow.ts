/** An origin that follows the log of PostgreSQL: lag, changes a second, a transaction of many rows, hits of a view. */
import { assertEquals } from "@std/assert";
import { Session } from "../../../lib/rows/databases/postgres/session.ts";
import { PostgresServer } from "../../support/servers/postgres.ts";
import { runInit } from "../../support/servers/proxy_process.ts";
import { Client } from "../../support/servers/server_process.ts";
import { readOptions } from "../options.ts";
import { type BenchServer, connectWhenOpen, cpuNanoseconds } from "../processes.ts";
import { VALUE } from "../rows.ts";
import { quantile, ranged, Table, whole } from "../table.ts";
import { benchFolder, CLIENTS, compareAll, KEYS, loadsOf, start } from "./run.ts";

const LAG = ["p50, ms", "p99, ms", "longest, ms", "changes"];
const CHANGES = ["changes/s", "applied/s", "lag, ms", "CPU, µs", "peak, MiB", "÷ pgbench alone"];
const MANY = ["rows", "commit, s", "lag, s", "keys", "before, MiB", "peak, MiB"];
const VIEWS = {
  "product:{id}": {
    query: "SELECT id, name, cents FROM product JOIN price ON product_id = id WHERE id = {id}",
    changes: { product: "product:{id}", price: "product:{product_id}" },
  },
  "key:{name}": {
    query: `SELECT '${VALUE}' FROM product WHERE name = {name}`,
    value: "raw",
    changes: { product: "key:{name}" },
  },
};
const SHOP = `
  CREATE TABLE product (id integer PRIMARY KEY, name text NOT NULL UNIQUE);
  CREATE TABLE price (product_id integer PRIMARY KEY, cents integer NOT NULL);
  ALTER TABLE product REPLICA IDENTITY FULL;
  INSERT INTO product SELECT at, lpad(at::text, 8, '0') FROM generate_series(0, ${KEYS} - 1) AS at;
  INSERT INTO price SELECT id, 0 FROM product`;
/** Spares the first product, whose lag is measured. */
const CHANGE = `\\set id random(1, ${KEYS - 1})\n` +
  "UPDATE price SET cents = cents + 1 WHERE product_id = :id;\n";

/** A database, an origin and its nodes, and a client of the origin. */
interface Setting {
  readonly shop: Awaited<ReturnType<typeof openShop>>;
  readonly origin: BenchServer;
  readonly ports: readonly number[];
  readonly client: Client;
}

export async function main(args: readonly string[]): Promise<void> {
  const { seconds, rounds, port, nodes, rate, rows, parts, folder } = readOptions(args, {
    seconds: 10,
    rounds: 3,
    port: 21390,
    nodes: [1, 4],
    rate: 200,
    rows: 1_000_000,
    parts: ["lag", "changes", "many", "hit"],
    folder: ".",
  }, { parts: ["lag", "changes", "many", "hit"] });
  await using stack = new AsyncDisposableStack();
  const place = await benchFolder(folder, stack);
  const shop = await openShop(place, stack);
  const alone: number[] = [];
  for (let round = 0; parts.includes("changes") && round < rounds; round++) {
    alone.push(await shop.change(seconds));
  }
  const options = ["--follow", "--views", `${place}/views.jsonc`];
  assertEquals((await runInit({ url: shop.url, folder: place }, [...options, "--run"])).code, 0);
  options.push("--db", shop.url);
  const measure = async (
    part: string,
    counts: readonly number[],
    heads: readonly string[],
    cells: (setting: Setting) => Promise<string[]>,
  ): Promise<void> => {
    if (!parts.includes(part)) return;
    const table = new Table(`${part}, nodes`, ...heads);
    for (const count of counts) {
      await using started = new AsyncDisposableStack();
      const origin = started.use(await start(port, place, options));
      const ports = [port];
      for (let each = port + 2; each < port + 2 + count; each++) {
        const node = ["--origin", `127.0.0.1:${port}`, "--node-name", `node-${each}`];
        ports.push(started.use(await start(each, place, node)).port);
      }
      const client = started.use(new Client(await connectWhenOpen(port)));
      await applied(client);
      table.row(`${count}`, ...await cells({ shop, origin, ports, client }));
    }
  };
  await measure("lag", nodes, LAG, (setting) => lag(setting, seconds, rate));
  await measure("changes", nodes, CHANGES, (setting) => changes(setting, alone, seconds));
  await measure("many", nodes.slice(0, 1), MANY, (setting) => many(setting, rows));
  if (!parts.includes("hit")) return;
  stack.use(await start(port, place, options));
  stack.use(await start(port + 1, place));
  const [view, bare] = [loadsOf(port, seconds), loadsOf(port + 1, seconds)];
  await bare.fill();
  await view.gets(CLIENTS);
  const both = [view, bare].map((each) => () => each.gets(CLIENTS));
  await compareAll([["hit", "p50Ms", "", both[0]!, both[1]!]], parts, rounds);
}

// deno-lint-ignore explicit-function-return-type
async function openShop(place: string, stack: AsyncDisposableStack) {
  const server = await PostgresServer.start({ folder: place, durable: true });
  stack.defer(() => server.stop());
  const url = await server.createDatabase();
  const session = await Session.open({ url, timeoutMs: 600_000 });
  stack.defer(() => session.close());
  await server.execute(SHOP, url);
  await Deno.writeTextFile(`${place}/views.jsonc`, JSON.stringify(VIEWS));
  await Deno.writeTextFile(`${place}/changes.sql`, CHANGE);
  return {
    url,
    query: (sql: string) => session.query(sql),
    async change(seconds: number, ...options: string[]): Promise<number> {
      const words = ["-n", "-M", "prepared", "-f", `${place}/changes.sql`, "-T", `${seconds}`];
      const output = await server.run("pgbench", [...words, "-c", "8", ...options, url]);
      return Number(/tps = ([\d.]+)/.exec(output)![1]);
    },
  };
}

/** Waits until everything is applied. @returns Milliseconds. */
async function applied(client: Client): Promise<number> {
  const startMs = performance.now();
  await client.ask("follow wait now 60000\r\n", "OK\r\n");
  return performance.now() - startMs;
}

/** From the end of a commit until no server has the old value, beside a modest rate of other changes. */
async function lag({ shop, ports }: Setting, seconds: number, rate: number): Promise<string[]> {
  using stack = new DisposableStack();
  const clients: Client[] = [];
  for (const port of ports) clients.push(stack.use(new Client(await connectWhenOpen(port))));
  const get = async (client: Client): Promise<string> => {
    await client.send("get product:0\r\n");
    return await client.until("END\r\n");
  };
  const lagsMs: number[] = [];
  let isOver = false;
  const others = shop.change(seconds, "-R", `${rate}`).finally(() => isOver = true);
  while (!isOver) {
    for (const client of clients) await get(client);
    const [row] = await shop.query(
      "UPDATE price SET cents = cents + 1 WHERE product_id = 0 RETURNING cents",
    );
    const startMs = performance.now();
    let lagMs = 0;
    for (const client of clients) {
      for (;;) {
        const sentMs = performance.now();
        if ((await get(client)).includes(`"cents":${row!["cents"]}}`)) break;
        // The deletion is after the last request that gets the old value.
        lagMs = sentMs - startMs;
      }
    }
    lagsMs.push(lagMs);
  }
  await others;
  const sorted = lagsMs.toSorted((one, other) => one - other);
  return [...[0.5, 0.99, 1].map((share) => quantile(sorted, share).toFixed(1)), `${sorted.length}`];
}

/** Changes at full speed. The lag is that at their end; CPU time and memory are the origin's. */
async function changes(
  { shop, origin, client }: Setting,
  alone: readonly number[],
  seconds: number,
): Promise<string[]> {
  const count = async (): Promise<number> => Number(await client.stat("follow_changes", "rows"));
  const samples: number[][] = [];
  for (const one of alone) {
    const before = await count();
    const beforeNs = cpuNanoseconds(origin.pid);
    const rate = await shop.change(seconds);
    const during = await count() - before;
    const lagMs = await applied(client);
    const cpuUs = (cpuNanoseconds(origin.pid) - beforeNs) / 1000 / (await count() - before);
    samples.push([rate, during / seconds, lagMs, cpuUs, rate / one]);
  }
  const columns = [0, 1, 2, 3, 4].map((at) => samples.map((each) => each[at]!));
  return [...columns.slice(0, 4).map(whole), peakMib(origin), ranged(columns[4]!)];
}

/** One transaction that changes many rows. */
async function many({ shop, origin, client }: Setting, rows: number): Promise<string[]> {
  const beforeMib = peakMib(origin);
  await shop.query(`INSERT INTO price SELECT generate_series(${KEYS}, ${rows - 1}), 0`);
  await applied(client);
  const before = Number(await client.stat("follow_keys", "rows"));
  const startMs = performance.now();
  await shop.query("UPDATE price SET cents = cents + 1");
  const timesMs = [performance.now() - startMs, await applied(client)];
  const keys = Number(await client.stat("follow_keys", "rows")) - before;
  const seconds = timesMs.map((ms) => (ms / 1000).toFixed(1));
  return [rows.toLocaleString("en"), ...seconds, `${keys}`, beforeMib, peakMib(origin)];
}

/** The most memory that a process has had. */
function peakMib({ pid }: BenchServer): string {
  const [, kib] = /VmHWM:\s+(\d+) kB/.exec(Deno.readTextFileSync(`/proc/${pid}/status`))!;
  return (Number(kib) / 1024).toFixed(0);
}
