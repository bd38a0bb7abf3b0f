/**
 * What threads do together: in process, over one store beside a store each; then over sockets,
 * beside memcached with as many threads.
 */
import { compare, fill, print } from "../clients/comparison.ts";
import { readOptions } from "../options.ts";
import {
  type BenchServer,
  type Cores,
  coresFor,
  DEBIAN_MEMCACHED,
  pinGenerator,
  say,
  startLeased,
  startMemcached,
} from "../processes.ts";
import { type BenchRow, THREAD_ROWS } from "../rows.ts";
import { TRANSPORTS } from "../../support/servers/server_process.ts";
import { ThreadsInProcess } from "./in_process.ts";

const PARTS = ["process", "sockets"];
const CORES = navigator.hardwareConcurrency;

export async function main(args: readonly string[]): Promise<void> {
  const names = THREAD_ROWS.map(({ name }) => name);
  const { only, threads, rounds, seconds, parts, memcached, io, port } = readOptions(args, {
    only: names,
    threads: Array.from({ length: CORES }, (_, index) => index + 1),
    rounds: 5,
    seconds: 0.3,
    parts: PARTS,
    memcached: [DEBIAN_MEMCACHED],
    io: "native",
    port: 21330,
  }, { only: names, parts: PARTS, io: TRANSPORTS });
  const rows = THREAD_ROWS.filter(({ name }) => only.includes(name));
  if (parts.includes("process")) await inProcess(rows, threads, rounds, seconds);
  if (!parts.includes("sockets")) return;
  for (const count of threads) {
    const servers: BenchServer[] = [];
    const { server, clients, text } = coresFor(count);
    say(`\nOver sockets, -t ${count} on ${text}`);
    try {
      servers.push(await startLeased(port, count, io, [], [], server));
      for (const [index, path] of memcached.entries()) {
        servers.push(await startMemcached(path, port + 1 + index, count, [], server));
      }
      await overSockets(rows, servers, rounds, seconds, clients);
    } finally {
      for (const one of servers) await one.stop();
    }
  }
}

async function inProcess(
  rows: readonly BenchRow[],
  threads: readonly number[],
  rounds: number,
  seconds: number,
): Promise<void> {
  say(`In process, ${CORES} cores`);
  const feeding = await ThreadsInProcess.open(threads);
  for (const row of rows) await feeding.measure(row, rounds, seconds);
  feeding.close();
}

/** @param cores Of the clients, as taskset(1) takes them: one thread on each. */
async function overSockets(
  rows: readonly BenchRow[],
  servers: readonly BenchServer[],
  rounds: number,
  seconds: number,
  clients: Cores,
): Promise<void> {
  await pinGenerator(clients.list);
  for (const server of servers) fill(server, false);
  for (const row of rows) {
    const contestants = servers.map((server) => ({ server, name: server.name, against: false }));
    const clientOptions = { count: clients.count, tls: false };
    print(row, await compare(row, contestants, rounds, seconds, clientOptions));
  }
}
