/** The benches: `deno task bench` lists them, `deno task bench <name> --help` shows the options of one. */
import { EX_USAGE } from "./options.ts";
import { say } from "./processes.ts";

interface Bench {
  main(args: readonly string[]): void | Promise<void>;
}

// deno-fmt-ignore
const BENCHES: readonly (readonly [name: string, purpose: string, load: () => Promise<Bench>])[] = [
  ["ratio",       "CPU time per request beside memcached under the same load, or beside another checkout", () => import("./ratio.ts")],
  ["tail",        "latency beside memcached's at half load: median, p99, p99.9 and the longest",        () => import("./tail.ts")],
  ["threads",     "1 to all cores' threads: over one store beside stores of their own, and over sockets", () => import("./threads/run.ts")],
  ["fairness",    "the longest wait of a client beside one packet of each command and deep pipelines",   () => import("./fairness/run.ts")],
  ["fairness-rows", "cached rows beside clients that misbehave, at an origin and without --db: p50, p99, memory", () => import("./fairness/rows.ts")],
  ["tls",         "CPU time of handshakes",     () => import("./tls/handshakes.ts")],
  ["connections", "first replies of a new server; memory of 10,000 idle connections", () => import("./connections.ts")],
  ["memory",      "growth of the process as part of -m, and CPU time of sets while items arrive",        () => import("./memory.ts")],
  ["restart",     "stop and start of a full store with --snapshot, beside memcached -e and the bare disk", () => import("./restart.ts")],
  ["feed",        "CPU time of a request in process, without a transport",                              () => import("./feed.ts")],
  ["herd",        "200 clients, one hot key, a slow database: database reads and stale values",          () => import("./herd.ts")],
  ["rows",        "rows of a database: hits, misses and writes beside a server without --db and the bare database", () => import("./database/run.ts")],
  ["nodes",       "nodes of an origin: hits beside a server without --origin, misses and writes beside the origin", () => import("./database/nodes.ts")],
  ["follow",      "an origin that follows PostgreSQL: lag, changes a second, a large transaction, hits of a view", () => import("./database/follow.ts")],
  ["tokens",      "durable update tokens: pairs a second beside bare syncs",  () => import("./tokens.ts")],
  ["client",      "client libraries of Node and Deno: gets a second, CPU time per get; needs their packages", () => import("./client/run.ts")],
  ["client-herd", "client libraries: 500 callers in 4 processes, one hot key, a slow database; needs their packages", () => import("./client/herd.ts")],
  ["store",       "miss ratios of traces, and pauses, in process; needs the traces",       () => import("./store.ts")],
];

const [name, ...args] = Deno.args;
const bench = BENCHES.find(([known]) => known === name);
if (bench !== undefined) {
  await (await bench[2]()).main(args);
} else {
  if (name !== undefined) say(`There is no bench ${name}. The benches:`);
  for (const [known, purpose] of BENCHES) say(`${known.padEnd(12)} ${purpose}`);
  if (name !== undefined) Deno.exit(EX_USAGE);
}
