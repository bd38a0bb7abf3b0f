/** CPU time of TLS handshakes: memcached and leased in alternating rounds. */
import { EPOLLIN, EPOLLOUT } from "../../lib/net/native/epoll.ts";
import { Certificates, tlsArguments } from "../support/servers/certificates.ts";
import { compareLoads, type Loaded } from "./base/busy.ts";
import { readOptions } from "../support/options.ts";
import { DEBIAN_MEMCACHED, IO, Servers } from "./base/servers.ts";
import { Connections } from "./base/sockets.ts";
import { TlsClients } from "./base/tls_clients.ts";

/** At the same time. */
const IN_FLIGHT = 32;

export async function main(args: readonly string[]): Promise<void> {
  const { rounds, count, io, memcached } = readOptions(args, {
    rounds: 5,
    memcached: [DEBIAN_MEMCACHED],
    /** Handshakes of a round. */
    count: 640,
    io: IO,
  });
  await using servers = new Servers(1);
  await servers.pinClients();
  using certificates = new Certificates();
  const certificate = certificates.make("localhost");
  const options = tlsArguments(certificate);
  const permissions = io === "portable"
    ? [`--allow-read=${certificate.certPath},${certificate.keyPath}`]
    : [];
  const all = [await servers.leased(io, options, { permissions })];
  for (const path of memcached) all.push(await servers.memcached(path, options));
  const loads = all.map((server): Loaded => ({
    server,
    name: server.name.split(" -Z")[0]!,
    run: () => shakeHands(server.port, count),
  }));
  const title = `${count} handshakes, ${IN_FLIGHT} at a time`;
  await compareLoads(title, "handshake", loads, rounds, 0);
}

/** Makes at least `count` handshakes. Returns their number. */
function shakeHands(port: number, count: number): number {
  const tls = new TlsClients();
  let done = 0;
  for (; done < count; done += IN_FLIGHT) shakeHandsAtOnce(tls, port);
  tls.close();
  return done;
}

/** Makes handshakes at the same time, and closes the connections when all are done. */
function shakeHandsAtOnce(tls: TlsClients, port: number): void {
  const connections = new Connections(port, IN_FLIGHT, (fd) => ({ fd }));
  const open = new Set(connections.all);
  for (const { fd } of open) {
    tls.add(fd);
    tls.handshake(fd);
    connections.epoll.modify(fd, EPOLLIN, 0);
  }
  while (open.size > 0) {
    const ready = connections.epoll.wait(-1);
    for (let index = 0; index < ready; index++) {
      const client = connections.ready(index);
      if ((connections.epoll.events(index) & ~EPOLLOUT) === 0 || !open.has(client)) continue;
      if (!tls.handshake(client.fd)) continue;
      connections.epoll.modify(client.fd, 0, 0);
      open.delete(client);
    }
  }
  for (const { fd } of connections.all) tls.remove(fd);
  connections.close();
}
