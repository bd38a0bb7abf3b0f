/** An origin that follows the log of PostgreSQL: lag, changes a second, a transaction of many rows, hits of a view. */
import { assertEquals } from "@std/assert";
import { Session } from "../../lib/databases/postgres/session.ts";
import { PostgresServer } from "../support/servers/postgres.ts";
import { runInit } from "../support/servers/origin_process.ts";
import { Client } from "../support/servers/server_process.ts";
import { CLIENTS, compareAll, KEYS, loadsOf, startNodes, startOrigin } from "./database.ts";
import {
  type Cell,
  Comparison,
  type Figures,
  spread,
  typical,
  waits,
  whole,
} from "./base/measure.ts";
import { type Options, readOptions, someOf } from "../support/options.ts";
import { cpuNanoseconds } from "./base/processes.ts";
import { VALUE } from "./base/rows.ts";
import { ALL_CORES, type BenchServer, connectWhenOpen, Servers } from "./base/servers.ts";

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

const DEFAULTS = {
  seconds: 10,
  rounds: 3,
  nodes: [1, 4],
  rate: 200,
  rows: 1_000_000,
  parts: someOf(["lag", "changes", "many", "hit"]),
  folder: ".",
};

/** A database, an origin and its nodes, and a client of the origin. */
interface Setting extends Options<typeof DEFAULTS> {
  readonly shop: Awaited<ReturnType<typeof openShop>>;
  readonly origin: BenchServer;
  readonly servers: readonly BenchServer[];
  readonly client: Client;
  /** Changes a second without an origin, by round. */
  readonly alone: readonly number[];
}

interface Part {
  readonly name: string;
  readonly measure: (setting: Setting, round: number) => Promise<Figures>;
  readonly columns: Readonly<Record<string, Cell<string>>>;
}

const seconds = (ms: number): string => (ms / 1000).toFixed(1);
const PARTS: readonly Part[] = [
  {
    name: "lag",
    measure: lag,
    columns: {
      "p50, ms": typical("p50", 1),
      "p99, ms": typical("p99", 1),
      "longest, ms": typical("longest", 1),
      changes: typical("changes"),
    },
  },
  {
    name: "changes",
    measure: changes,
    columns: {
      "changes/s": typical("rate"),
      "applied/s": typical("applied"),
      "lag, ms": typical("lagMs"),
      "CPU, µs": typical("cpuUs"),
      "peak, MiB": (own) => whole(own.at(-1)!["peakMib"]!),
      "÷ pgbench alone": spread("ratio"),
    },
  },
  {
    name: "many",
    measure: many,
    columns: {
      rows: typical("rows"),
      "commit, s": typical("commitMs", seconds),
      "lag, s": typical("lagMs", seconds),
      keys: typical("keys"),
      "before, MiB": typical("beforeMib"),
      "peak, MiB": typical("peakMib"),
    },
  },
];

export async function main(args: readonly string[]): Promise<void> {
  const given = readOptions(args, DEFAULTS);
  const { rounds, parts, seconds } = given;
  await using servers = new Servers(1, ALL_CORES);
  const place = await servers.folder(given.folder);
  await using stack = new AsyncDisposableStack();
  const shop = await openShop(place, stack);
  const alone: number[] = [];
  while (parts.includes("changes") && alone.length < rounds) alone.push(await shop.change(seconds));
  const options = ["--follow", "--views", `${place}/views.jsonc`];
  assertEquals((await runInit({ url: shop.url, folder: place }, [...options, "--run"])).code, 0);
  options.push("--db", shop.url, "--rows", "*");
  for (const { name, measure, columns } of PARTS.filter(({ name }) => parts.includes(name))) {
    const table = new Comparison(`${name}, nodes`, columns);
    for (const count of name === "many" ? given.nodes.slice(0, 1) : given.nodes) {
      await using cluster = new Servers(1, ALL_CORES);
      const origin = await startOrigin(cluster, place, options);
      const all = [origin, ...await startNodes(cluster, place, origin, count)];
      using client = new Client(await connectWhenOpen(origin.port));
      await applied(client);
      const setting = { ...given, shop, origin, servers: all, client, alone };
      let round = 0;
      const contestant = { name: `${count}`, measure: () => measure(setting, round++) };
      await table.add([contestant], name === "changes" ? rounds : 1);
    }
  }
  if (!parts.includes("hit")) return;
  await using both = new Servers(1, ALL_CORES);
  const view = loadsOf(await startOrigin(both, place, options), seconds);
  const bare = loadsOf(await startOrigin(both, place), seconds);
  await bare.fill();
  await view.gets(CLIENTS);
  const gets = (of: typeof view) => () => of.gets(CLIENTS);
  await compareAll("views", { hit: [gets(view), ["without --db", gets(bare)]] }, given);
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
async function lag({ shop, servers, seconds, rate }: Setting): Promise<Figures> {
  using stack = new DisposableStack();
  const clients: Client[] = [];
  for (const { port } of servers) {
    clients.push(stack.use(new Client(await connectWhenOpen(port))));
  }
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
  return { ...waits(lagsMs), changes: lagsMs.length };
}

/** Changes at full speed. The lag is that at their end; CPU time and memory are the origin's. */
async function changes(
  { shop, origin, client, seconds, alone }: Setting,
  round: number,
): Promise<Figures> {
  const count = async (): Promise<number> => Number(await client.stat("follow_changes", "rows"));
  const before = await count();
  const beforeNs = cpuNanoseconds(origin.pid);
  const rate = await shop.change(seconds);
  const during = await count() - before;
  const lagMs = await applied(client);
  const cpuUs = (cpuNanoseconds(origin.pid) - beforeNs) / 1000 / (await count() - before);
  const [applies, ratio] = [during / seconds, rate / alone[round]!];
  return { rate, applied: applies, lagMs, cpuUs, ratio, peakMib: peakMib(origin) };
}

/** One transaction that changes many rows. */
async function many({ shop, origin, client, rows }: Setting): Promise<Figures> {
  const beforeMib = peakMib(origin);
  await shop.query(`INSERT INTO price SELECT generate_series(${KEYS}, ${rows - 1}), 0`);
  await applied(client);
  const before = Number(await client.stat("follow_keys", "rows"));
  const startMs = performance.now();
  await shop.query("UPDATE price SET cents = cents + 1");
  const commitMs = performance.now() - startMs;
  const lagMs = await applied(client);
  const keys = Number(await client.stat("follow_keys", "rows")) - before;
  return { rows, commitMs, lagMs, keys, beforeMib, peakMib: peakMib(origin) };
}

/** The most memory that a process has had. */
function peakMib({ pid }: BenchServer): number {
  const [, kib] = /VmHWM:\s+(\d+) kB/.exec(Deno.readTextFileSync(`/proc/${pid}/status`))!;
  return Number(kib) / 1024;
}
