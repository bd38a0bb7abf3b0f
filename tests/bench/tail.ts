/**
 * Latency of leased and memcached at half of what the slower one can do, with eviction, expiry and
 * changing sizes, in alternating rounds. A request counts from the moment at which it should have
 * been sent.
 */
import { ClientThreads } from "./clients/threads.ts";
import type { RunResult } from "./generator.ts";
import { readOptions } from "./options.ts";
import {
  coresFor,
  DEBIAN_MEMCACHED,
  pinGenerator,
  say,
  startLeased,
  startMemcached,
} from "./processes.ts";
import { median } from "./rows.ts";
import { alternate, quantile, ranged, ratios, Table, whole } from "./table.ts";
import { TRANSPORTS } from "../support/servers/server_process.ts";

/** Less than the keys need, so that there is eviction. */
const MEMORY = ["-m", "64"];
/** As fast as a server answers: measures its capacity and fills the store. */
const CLOSED_SEC = 4;
const LOAD = 0.5;
/** How often an open page of the dashboard reads its tables. */
const PAGE_MS = 5000;
const SHARES = [0.5, 0.99, 0.999, 1];

export async function main(args: readonly string[]): Promise<void> {
  const { seconds, rounds, io, threads, clients, rate, page, memcached, port } = readOptions(args, {
    seconds: 60,
    rounds: 30,
    io: "native",
    threads: 1,
    /** Threads that load the servers. */
    clients: 1,
    rate: 0,
    /** Compare the server under an open page of its dashboard with the one without. */
    page: false,
    memcached: DEBIAN_MEMCACHED,
    port: 21310,
  }, { io: TRANSPORTS });
  const cores = coresFor(threads);
  say(`-t ${threads} on ${cores.text}; ${clients} client threads`);
  await using stack = new AsyncDisposableStack();
  const admin = page ? ["--admin", `${port + 2}`] : [];
  const servers = [
    stack.use(await startLeased(port, threads, io, [...MEMORY, ...admin], [], cores.server)),
    stack.use(
      page
        ? await startLeased(port + 1, threads, io, MEMORY, [], cores.server)
        : await startMemcached(memcached, port + 1, threads, MEMORY, cores.server),
    ),
  ];
  if (page) stack.use(openPage(port + 2));
  await pinGenerator(cores.clients.list);
  const loads: ClientThreads[] = [];
  const most: number[] = [];
  for (const server of servers) {
    const load = await ClientThreads.open(server.port, "mix", { count: clients });
    const filled = await load.run({ seconds: CLOSED_SEC, perSecond: 0 });
    most.push(filled.count / filled.seconds);
    loads.push(load);
  }
  const perSecond = rate > 0 ? rate : Math.min(...most) * LOAD;
  const schedule = { seconds: seconds / rounds, perSecond };
  const results = await alternate(loads, rounds, (load) => load.run(schedule));
  for (const load of loads) await load.close();
  say(`${rounds} rounds of ${whole([perSecond])} requests/s; medians in ms:`);
  const heads = SHARES.map((share) => share === 1 ? "longest" : `p${share * 100}`);
  const table = new Table("", "requests/s at most", ...heads, "generator's pauses");
  for (const [index, { name }] of servers.entries()) {
    const figures = SHARES.map((share) => median(quantiles(results[index]!, share)).toFixed(3));
    const pauses = median(results[index]!.map(({ ownPauseMs }) => ownPauseMs)).toFixed(3);
    table.row(name, whole([most[index]!]), ...figures, pauses);
  }
  const [ours, theirs] = results as [RunResult[], RunResult[]];
  const compared = new Table(
    "",
    ...heads.map((head) => head.padStart("0.85 (0.71 … 0.89)".length)),
  );
  compared.row(
    "ours ÷ theirs",
    ...SHARES.map((share) => ranged(ratios(quantiles(ours, share), quantiles(theirs, share)))),
  );
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

/** The quantile `share` of each round. */
function quantiles(rounds: readonly RunResult[], share: number): number[] {
  return rounds.map(({ latenciesMs }) => quantile(latenciesMs, share));
}
