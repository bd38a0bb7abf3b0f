/// <reference lib="deno.worker" />
// One thread of `neighbours.ts`: clients that misuse TLS until they are told to stop.
import { Connections, type LoadClient } from "../sockets.ts";
import { pinThread } from "../processes.ts";
import { TlsClients } from "./clients.ts";
import { shakeHandsAtOnce } from "./handshake_batch.ts";
import type { MisuseOrder } from "./misuses.ts";

const HALF_FINISHED = 10_000;
const FLOOD_IN_FLIGHT = 32;
const UNREAD = 50;
const KEY_UPDATERS = 4;
const UPDATES_AT_ONCE = 20;
const NAP_MS = 5;
const GETS = new TextEncoder().encode("get long\r\n".repeat(500));

self.onmessage = ({ data }: MessageEvent<MisuseOrder>) => {
  pinThread(data.core);
  const stop = new Int32Array(data.stop);
  const isOver = (): boolean => Atomics.load(stop, 0) !== 0;
  const nap = (): void => void Atomics.wait(stop, 0, 0, NAP_MS);
  const begun = (): void => self.postMessage("begun");
  const { port, hello } = data;
  switch (data.kind) {
    case "half-finished":
      halfFinished(port, hello, begun, isOver, nap);
      break;
    case "flood":
      flood(port, begun, isOver);
      break;
    case "unread":
      unread(port, begun, isOver, nap);
      break;
    case "key-updates":
      updateKeys(port, begun, isOver);
      break;
  }
  self.postMessage("ended");
};

/** Many connections that say hello, and nothing more. */
function halfFinished(
  port: number,
  hello: Uint8Array,
  begun: () => void,
  isOver: () => boolean,
  nap: () => void,
): void {
  const connections = new Connections(port, HALF_FINISHED, (fd) => ({ fd }));
  for (const { fd } of connections.all) connections.send(fd, hello);
  begun();
  while (!isOver()) nap();
  connections.close();
}

/** Handshakes, some at a time. */
function flood(port: number, begun: () => void, isOver: () => boolean): void {
  const tls = new TlsClients();
  begun();
  while (!isOver()) shakeHandsAtOnce(tls, port, FLOOD_IN_FLIGHT);
  tls.close();
}

/** Clients that ask for long values, and never read. */
function unread(port: number, begun: () => void, isOver: () => boolean, nap: () => void): void {
  const connections = new Connections(port, UNREAD, (fd) => ({ fd }), true);
  begun();
  // The same bytes are sent again until they are taken, as the TLS layer wants it.
  while (!isOver()) {
    for (const { fd } of connections.all) connections.send(fd, GETS);
    nap();
  }
  connections.close();
}

/** Clients that ask for new keys all the time. */
function updateKeys(port: number, begun: () => void, isOver: () => boolean): void {
  const connections = new Connections<LoadClient>(port, KEY_UPDATERS, (fd) => ({ fd }));
  const tls = new TlsClients();
  for (const { fd } of connections.all) {
    tls.add(fd);
    while (!tls.handshake(fd));
  }
  const input = new Uint8Array(4096);
  begun();
  while (!isOver()) {
    for (const { fd } of connections.all) {
      for (let count = 0; count < UPDATES_AT_ONCE; count++) tls.updateKeys(fd);
      tls.receive(fd, input);
    }
  }
  tls.close();
  connections.close();
}
