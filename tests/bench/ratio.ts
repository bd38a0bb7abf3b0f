/**
 * Memcached and leased under the same load, in alternating rounds: requests per second, CPU per
 * request, and ours ÷ theirs.
 */
import { compare, type Contestant, fill, print } from "./clients/comparison.ts";
import { MEMCSLAP_ROWS } from "./clients/memcslap.ts";
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

export async function main(args: readonly string[]): Promise<void> {
  const names = [...ROWS, ...MEMCSLAP_ROWS].map(({ name }) => name);
  const {
    rounds,
    seconds,
    only,
    io,
    threads,
    clients,
    memcached,
    also,
    against,
    generator,
    json,
    port,
    tls,
  } = readOptions(args, {
    rounds: 5,
    seconds: 2,
    only: names,
    io: "native",
    threads: 1,
    clients: 1,
    memcached: [DEBIAN_MEMCACHED],
    /** Words of `-o` of further servers of ours, one for each, as in `--also io_uring=off`. */
    also: [""],
    json: false,
    /** Another checkout of this repository, whose server is compared too. */
    against: "",
    generator: "own",
    port: 21290,
    tls: false,
  }, { only: names, io: TRANSPORTS, generator: ["own", "memcslap"] });
  const memcslap = generator === "memcslap";
  const rows = (memcslap ? MEMCSLAP_ROWS : ROWS).filter(({ name }) => only.includes(name));
  const last = Math.max(1, Math.min(clients, navigator.hardwareConcurrency - 1));
  await pinGenerator(`1-${last}`);
  using certificates = new Certificates();
  const tlsOptions = tls ? tlsArguments(certificates.make("localhost")) : [];
  const servers: BenchServer[] = [];
  const started = async (starting: Promise<BenchServer>): Promise<BenchServer> => {
    const server = await starting;
    servers.push(server);
    fill(server, tls);
    return server;
  };
  /** Ours, by the options they were started with. */
  const ours = new Map<string, BenchServer>();
  const theirs: BenchServer[] = [];
  try {
    const load = { count: clients, tls, memcslap };
    for (const path of memcached.filter((each) => each !== "none")) {
      theirs.push(await started(startMemcached(path, port + servers.length, threads, tlsOptions)));
    }
    for (const word of also.filter((text) => text !== "")) {
      theirs.push(
        await started(startLeased(port + servers.length, threads, io, ["-o", word, ...tlsOptions])),
      );
    }
    if (against !== "") {
      const starting = startLeased(
        port + servers.length,
        threads,
        io,
        tlsOptions,
        [],
        undefined,
        Deno.realPathSync(against),
      );
      theirs.push(await started(starting));
    }
    for (const row of rows) {
      const key = row.options?.join(" ") ?? "";
      const our = ours.get(key) ??
        await started(
          startLeased(port + servers.length, threads, io, [...row.options ?? [], ...tlsOptions]),
        );
      ours.set(key, our);
      const contestants = contestantsOf(row, our, theirs);
      const found = await compare(row, contestants, rounds, seconds, load);
      if (json) say(JSON.stringify(found));
      else print(row, found);
    }
  } finally {
    for (const server of servers) await server.stop();
  }
}

/** Ours, then those it is compared with. */
function contestantsOf(
  row: BenchRow,
  our: BenchServer,
  theirs: readonly BenchServer[],
): Contestant[] {
  const own = { server: our, name: our.name, against: false };
  if (row.against === undefined) {
    return [own, ...theirs.map((server) => ({ server, name: server.name, against: false }))];
  }
  return [own, { server: our, name: "the same server", against: true }];
}
