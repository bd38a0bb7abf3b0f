import { EPOLLIN, EPOLLOUT } from "../../../lib/net/native/epoll.ts";
import { Connections } from "../sockets.ts";
import type { TlsClients } from "./clients.ts";

/** Makes `count` handshakes at the same time, and closes the connections when all are done. */
export function shakeHandsAtOnce(tls: TlsClients, port: number, count: number): void {
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
