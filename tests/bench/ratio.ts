/**
 * Memcached and leased under the same load, in alternating rounds: requests per second, CPU per
 * request, and ours ÷ theirs.
 */
import { compare, type Contestant, fill, threadLoad } from "./clients/comparison.ts";
import { Memcslap, MEMCSLAP_ROWS } from "./clients/memcslap.ts";
import { readOptions } from "./options.ts";
import {
  type BenchServer,
  DEBIAN_MEMCACHED,
  pinGenerator,
  say,
  startLeased,
  startMemcached,
} from "./processes.ts";
import { Certificates, tlsArguments } from "../support/servers/certificates.ts";
import { TRANSPORTS } from "../support/servers/server_process.ts";
import { type BenchRow, ROWS } from "./rows.ts";

const NAMES = [...ROWS, ...MEMCSLAP_ROWS].map(({ name }) => name);
const DEFAULTS = {
  rounds: 5,
  seconds: 2,
  only: NAMES,
  io: "native",
  threads: 1,
  clients: 1,
  memcached: [DEBIAN_MEMCACHED],
  /** Words of `-o` of further servers of ours, one for each, as in `--also io_uring=off`. */
  also: [] as readonly string[],
  json: false,
  /** Another checkout of this repository, whose server is compared too. */
  against: "",
  generator: "own",
  port: 21290,
  tls: false,
};

export async function main(args: readonly string[]): Promise<void> {
  const options = readOptions(args, DEFAULTS, {
    only: NAMES,
    io: TRANSPORTS,
    generator: ["own", "memcslap"],
  });
  const { io, threads, clients, tls, port } = options;
  await pinGenerator(`1-${Math.max(1, Math.min(clients, navigator.hardwareConcurrency - 1))}`);
  using certificates = new Certificates();
  const tlsOptions = tls ? tlsArguments(certificates.make("localhost")) : [];
  let nextPort = port;
  await using servers = new AsyncDisposableStack();
  const started = async (starting: Promise<BenchServer>): Promise<BenchServer> => {
    const server = servers.use(await starting);
    fill(server, tls);
    return server;
  };
  const startOurs = (own: readonly string[], checkout?: string): Promise<BenchServer> =>
    started(
      startLeased(nextPort++, threads, io, [...own, ...tlsOptions], [], undefined, checkout),
    );
  const theirs: BenchServer[] = [];
  for (const path of options.memcached.filter((each) => each !== "none")) {
    theirs.push(await started(startMemcached(path, nextPort++, threads, tlsOptions)));
  }
  for (const word of options.also) theirs.push(await startOurs(["-o", word]));
  if (options.against !== "") theirs.push(await startOurs([], Deno.realPathSync(options.against)));
  /** Ours, by the options they were started with. */
  const ours = new Map<string, BenchServer>();
  const memcslap = options.generator === "memcslap";
  const rows = memcslap ? MEMCSLAP_ROWS : ROWS;
  for (const row of rows.filter(({ name }) => options.only.includes(name))) {
    const key = row.options?.join(" ") ?? "";
    const our = ours.get(key) ?? await startOurs(row.options ?? []);
    ours.set(key, our);
    const contestant = (server: BenchServer, name: string, against: boolean): Contestant => ({
      server,
      name,
      open: () =>
        memcslap
          ? Promise.resolve(new Memcslap(server.port, row.name))
          : threadLoad(server, { row: row.name, against }, { count: clients, tls }),
    });
    const rivals = row.against === undefined
      ? theirs.map((server) => contestant(server, server.name, false))
      : [contestant(our, "the same server", true)];
    const contestants = [contestant(our, our.name, false), ...rivals];
    const title = titleOf(row);
    const samples = await compare(title, row.unit, contestants, options.rounds, options.seconds);
    if (options.json) say(JSON.stringify({ row: row.name, samples }));
  }
}

function titleOf({ name, title, goal }: BenchRow): string {
  return `${name}: ${title} (goal ${goal.toFixed(2)})`;
}
