/** Ours and other servers under the same load, in alternating rounds: requests a second, and CPU time of each. */
import { Certificates, tlsArguments } from "../support/servers/certificates.ts";
import { compareLoads, type Loaded, runOf } from "./base/busy.ts";
import { ClientThreads, fill } from "./base/clients.ts";
import { CheckoutWithout, MECHANISMS } from "./base/mechanisms.ts";
import { memcslap, MEMCSLAP_ROWS } from "./base/memcslap.ts";
import { oneOf, readOptions, someOf } from "../support/options.ts";
import { ROWS } from "./base/rows.ts";
import { type BenchServer, DEBIAN_MEMCACHED, IO, ROOT, Servers } from "./base/servers.ts";

export async function main(args: readonly string[]): Promise<void> {
  const { io, tls, clients, rounds, seconds, ...options } = readOptions(args, {
    rounds: 5,
    seconds: 2,
    only: someOf([...ROWS, ...MEMCSLAP_ROWS].map(({ name }) => name)),
    io: IO,
    /** Threads that load the servers. */
    clients: 1,
    memcached: [DEBIAN_MEMCACHED],
    /** Words of `-o` of further servers of ours, one for each, as in `--also io_uring=off`. */
    also: [] as readonly string[],
    /** Another checkout of this repository, whose server is compared too. */
    against: "",
    /** Mechanisms: a server of ours without each is compared too. */
    without: someOf(Object.keys(MECHANISMS), []),
    generator: oneOf("memcslap", "own"),
    tls: false,
  });
  await using servers = new Servers(1);
  await servers.pinClients();
  using certificates = new Certificates();
  const secure = tls ? tlsArguments(certificates.make("localhost")) : [];
  const filled = async (starting: Promise<BenchServer>): Promise<BenchServer> => {
    const server = await starting;
    fill(server.port, tls);
    return server;
  };
  const start = (own: readonly string[], checkout = ROOT): Promise<BenchServer> =>
    filled(servers.leased(io, [...own, ...secure], { checkout }));
  const theirs: BenchServer[] = [];
  for (const path of options.memcached.filter((each) => each !== "none")) {
    theirs.push(await filled(servers.memcached(path, secure)));
  }
  for (const word of options.also) theirs.push(await start(["-o", word]));
  using copies = new DisposableStack();
  for (const mechanism of options.without) {
    const { folder } = copies.use(new CheckoutWithout(mechanism));
    theirs.push(await start([], folder));
  }
  if (options.against !== "") theirs.push(await start([], Deno.realPathSync(options.against)));
  /** Ours, by the options they were started with. */
  const ours = new Map<string, BenchServer>();
  const isOwn = options.generator === "own";
  const rows = isOwn ? ROWS : MEMCSLAP_ROWS;
  for (const row of rows.filter(({ name }) => options.only.includes(name))) {
    const key = row.options?.join(" ") ?? "";
    const our = ours.get(key) ?? await start(row.options ?? []);
    ours.set(key, our);
    await using stack = new AsyncDisposableStack();
    const loaded = async (server: BenchServer, against = false): Promise<Loaded> => {
      if (!isOwn) return { server, run: () => memcslap(server.port, row.name) };
      const load = { row: row.name, against };
      const threads = await ClientThreads.open(server.port, load, { count: clients, tls });
      const run = runOf(stack.use(threads));
      return { server, name: against ? "the same server" : server.name, run };
    };
    const loads = [await loaded(our)];
    if (row.against !== undefined) loads.push(await loaded(our, true));
    else for (const server of theirs) loads.push(await loaded(server));
    await compareLoads(`${row.name}: ${row.title}`, row.unit, loads, rounds, seconds);
  }
}
