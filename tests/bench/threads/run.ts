/**
 * What threads do together: in process, over one store beside a store each; then over sockets,
 * beside memcached with as many threads.
 */
import { compare, fill, threadLoad } from "../clients/comparison.ts";
import { readOptions } from "../options.ts";
import {
  coresFor,
  DEBIAN_MEMCACHED,
  pinGenerator,
  say,
  startLeased,
  startMemcached,
} from "../processes.ts";
import { THREAD_ROWS } from "../rows.ts";
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
  if (parts.includes("process")) {
    say(`In process, ${CORES} cores`);
    const feeding = await ThreadsInProcess.open(threads);
    for (const row of rows) await feeding.measure(row, rounds, seconds);
    feeding.close();
  }
  if (!parts.includes("sockets")) return;
  for (const count of threads) {
    const cores = coresFor(count);
    say(`\nOver sockets, -t ${count} on ${cores.text}`);
    await using stack = new AsyncDisposableStack();
    const servers = [stack.use(await startLeased(port, count, io, [], [], cores.server))];
    for (const path of memcached) {
      const at = port + servers.length;
      servers.push(stack.use(await startMemcached(path, at, count, [], cores.server)));
    }
    await pinGenerator(cores.clients.list);
    for (const server of servers) fill(server);
    for (const { name, title, unit } of rows) {
      const load = { row: name, against: false };
      const contestants = servers.map((server) => ({
        server,
        name: server.name,
        // A thread on each core of the clients.
        open: () => threadLoad(server, load, { count: cores.clients.count }),
      }));
      await compare(`${name}: ${title}`, unit, contestants, rounds, seconds);
    }
  }
}
