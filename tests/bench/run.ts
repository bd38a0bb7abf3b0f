/** The benches: `deno task bench` lists them, `deno task bench <name> --help` shows the options of one. */
import { say } from "./base/measure.ts";
import { EX_USAGE } from "../support/options.ts";

/** Loads a bench's module, and returns what runs it. */
type Load = () => Promise<(args: readonly string[]) => void | Promise<void>>;

// deno-fmt-ignore
const BENCHES: readonly (readonly [name: string, purpose: string, load: Load])[] = [
  ["ratio",       "CPU time per request beside memcached under the same load, or beside another checkout", async () => (await import("./ratio.ts")).main],
  ["tail",        "latency beside memcached's at half load: median, p99, p99.9 and the longest",        async () => (await import("./tail.ts")).main],
  ["threads",     "1 to all cores' threads: over one store beside stores of their own, and over sockets", async () => (await import("./threads.ts")).main],
  ["fairness",    "the longest wait of a client beside one packet of each command and deep pipelines",   async () => (await import("./fairness.ts")).main],
  ["fairness-rows", "cached rows beside clients that misbehave, at an origin and without --db: p50, p99, memory", async () => (await import("./fairness_rows.ts")).main],
  ["tls",         "CPU time of handshakes",     async () => (await import("./tls.ts")).main],
  ["connections", "first replies of a new server; memory of 10,000 idle connections", async () => (await import("./connections.ts")).main],
  ["memory",      "growth of the process as part of -m, and CPU time of sets while items arrive",        async () => (await import("./memory.ts")).main],
  ["restart",     "stop and start of a full store with --snapshot, beside memcached -e and the bare disk", async () => (await import("./restart.ts")).main],
  ["feed",        "CPU time of a request in process, without a transport",                              async () => (await import("./feed.ts")).main],
  ["herd",        "200 clients, one hot key, a slow database: database reads and stale values",          async () => (await import("./herd.ts")).main],
  ["rows",        "rows of a database: hits, misses and writes beside a server without --db and the bare database", async () => (await import("./database.ts")).rows],
  ["nodes",       "nodes of an origin: hits beside a server without --origin, misses and writes beside the origin", async () => (await import("./database.ts")).nodes],
  ["follow",      "an origin that follows PostgreSQL: lag, changes a second, a large transaction, hits of a view", async () => (await import("./follow.ts")).main],
  ["tokens",      "durable update tokens: pairs a second beside bare syncs",  async () => (await import("./tokens.ts")).main],
  ["client",      "client libraries of Node and Deno: gets a second, CPU time per get; needs their packages", async () => (await import("./client.ts")).drive],
  ["client-herd", "client libraries: 500 callers in 4 processes, one hot key, a slow database; needs their packages", async () => (await import("./client.ts")).herd],
  ["client-outages", "client libraries while the database or the server is away or slow; needs their packages", async () => (await import("./client.ts")).outages],
  ["store",       "miss ratios of traces, and pauses, in process; needs the traces",       async () => (await import("./store.ts")).main],
];

const [name, ...args] = Deno.args;
const bench = BENCHES.find(([known]) => known === name);
if (bench !== undefined) {
  await (await bench[2]())(args);
} else {
  if (name !== undefined) say(`There is no bench ${name}. The benches:`);
  for (const [known, purpose] of BENCHES) say(`${known.padEnd(13)} ${purpose}`);
  if (name !== undefined) Deno.exit(EX_USAGE);
}
