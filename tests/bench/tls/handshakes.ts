/** CPU time of TLS handshakes: memcached and leased in alternating rounds. */
import { EPOLLIN, EPOLLOUT } from "../../../lib/net/native/epoll.ts";
import { Certificates, tlsArguments } from "../../support/servers/certificates.ts";
import { TRANSPORTS } from "../../support/servers/server_process.ts";
import { compare } from "../clients/comparison.ts";
import { readOptions } from "../options.ts";
import { DEBIAN_MEMCACHED, pinGenerator, startLeased, startMemcached } from "../processes.ts";
import { Connections } from "../sockets.ts";
import { TlsClients } from "./clients.ts";

const KEY_OPTIONS: Readonly<Record<string, readonly string[]>> = {
  ec: ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"],
  rsa: ["rsa:2048"],
};
const KEYS = Object.keys(KEY_OPTIONS);

export async function main(args: readonly string[]): Promise<void> {
  const { rounds, count, flight, io, memcached, port, key } = readOptions(args, {
    rounds: 5,
    memcached: [DEBIAN_MEMCACHED],
    port: 21390,
    /** Handshakes of a round, and at the same time. */
    count: 640,
    flight: 32,
    io: "native",
    key: KEYS,
  }, { io: TRANSPORTS, key: KEYS });
  await pinGenerator();
  using certificates = new Certificates();
  let nextPort = port;
  for (const kind of key) {
    const certificate = certificates.make(kind, KEY_OPTIONS[kind]);
    const args = tlsArguments(certificate);
    const reading = io === "portable"
      ? [`--allow-read=${certificate.certPath},${certificate.keyPath}`]
      : [];
    await using stack = new AsyncDisposableStack();
    const servers = [stack.use(await startLeased(nextPort++, 1, io, args, reading))];
    for (const path of memcached) {
      servers.push(stack.use(await startMemcached(path, nextPort++, 1, args)));
    }
    const contestants = servers.map((server) => ({
      server,
      name: server.name.slice(0, "leased --io portable -Z".length),
      open: () => Promise.resolve({ run: () => shakeHands(server.port, count, flight) }),
    }));
    await compare(
      `${kind}: ${count} handshakes, ${flight} at a time`,
      "handshake",
      contestants,
      rounds,
      0,
    );
  }
}

/** Makes at least `count` handshakes, `inFlight` at a time. Returns their number. */
function shakeHands(port: number, count: number, inFlight: number): number {
  const tls = new TlsClients();
  let done = 0;
  for (; done < count; done += inFlight) shakeHandsAtOnce(tls, port, inFlight);
  tls.close();
  return done;
}

/** Makes `count` handshakes at the same time, and closes the connections when all are done. */
function shakeHandsAtOnce(tls: TlsClients, port: number, count: number): void {
  const connections = new Connections(port, count, (fd) => ({ fd }));
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
