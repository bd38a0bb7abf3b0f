/**
 * Latency of leased and memcached at half of what the slower one can do, with eviction, expiry and
 * changing sizes, in alternating rounds. A request counts from the moment at which it should have
 * been sent.
 */
import { freePort } from "../support/free_ports.ts";
import { ClientThreads } from "./base/clients.ts";
import { Comparison, ratio, say, typical, waits, whole } from "./base/measure.ts";
import { readOptions } from "../support/options.ts";
import { DEBIAN_MEMCACHED, IO, Servers } from "./base/servers.ts";

/** Less than the keys need, so that there is eviction. */
const MEMORY = ["-m", "64"];
/** As fast as a server answers: measures its capacity and fills the store. */
const CLOSED_SEC = 4;
const LOAD = 0.5;
/** The interval at which an open page of the dashboard reads its tables. */
const PAGE_MS = 5000;
const HEADS = { p50: "p50", p99: "p99", p999: "p99.9", longest: "longest" } as const;

export async function main(args: readonly string[]): Promise<void> {
  const { seconds, rounds, io, threads, clients, page, memcached } = readOptions(args, {
    seconds: 60,
    rounds: 30,
    io: IO,
    threads: 1,
    /** Threads that load the servers. */
    clients: 1,
    /** Compare the server under an open page of its dashboard with the one without. */
    page: false,
    memcached: DEBIAN_MEMCACHED,
  });
  await using servers = new Servers(threads);
  using stack = new DisposableStack();
  const admin = freePort();
  const ours = await servers.leased(io, page ? [...MEMORY, "--admin", `${admin}`] : MEMORY);
  const theirs = page
    ? await servers.leased(io, MEMORY)
    : await servers.memcached(memcached, MEMORY);
  if (page) stack.use(openPage(admin));
  await servers.pinClients();
  await using loads = new AsyncDisposableStack();
  const contestants = [];
  const most: number[] = [];
  for (const { name, port } of [ours, theirs]) {
    const load = loads.use(await ClientThreads.open(port, "mix", { count: clients }));
    const filled = await load.run({ seconds: CLOSED_SEC });
    most.push(filled.count / filled.seconds);
    contestants.push({ name, measure: () => measure(load) });
  }
  const schedule = { seconds: seconds / rounds, perSecond: Math.min(...most) * LOAD };
  const measure = async (load: ClientThreads) => {
    const { latenciesMs, ownPauseMs } = await load.run(schedule);
    return { ...waits(latenciesMs), ownPauseMs };
  };
  say(`At most ${most.map(whole).join(" and ")} requests/s`);
  const shares = Object.entries(HEADS) as [keyof typeof HEADS, string][];
  const title = `${rounds} rounds of ${whole(schedule.perSecond)} requests/s, ms`;
  await new Comparison(title, {
    ...Object.fromEntries(shares.map(([share, head]) => [head, typical(share, 3)])),
    "generator's pauses": typical("ownPauseMs", 3),
    ...Object.fromEntries(shares.map(([share, head]) => [`${head}, ours ÷ theirs`, ratio(share)])),
  }).add(contestants, rounds);
}

/** Reads what an open page of the dashboard reads. */
function openPage(port: number): Disposable {
  const controller = new AbortController();
  const read = async (path: string): Promise<void> => {
    const { signal } = controller;
    try {
      const { body } = await fetch(`http://127.0.0.1:${port}/api/${path}`, { signal });
      for await (const _ of body!);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  };
  void read("stream");
  const timer = setInterval(() => ["tables/hot-keys", "tables/classes"].map(read), PAGE_MS);
  return {
    [Symbol.dispose]: () => {
      clearInterval(timer);
      controller.abort();
    },
  };
}
