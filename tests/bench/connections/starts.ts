/**
 * How soon a server replies over TCP and UDP to the client that connects first, over each transport.
 */
import { UdpClient } from "../../support/servers/udp_client.ts";
import { connectWhenOpen, coresFor, say, startLeased } from "../processes.ts";
import { median } from "../rows.ts";

/** Between two attempts to connect. */
const PAUSE_MS = 1;
const REQUEST = "mn\r\n";
const REPLY_BYTES = 4;

/** Prints how soon `starts` servers reply to the first client, over each of the transports. */
export async function compareStarts(
  starts: number,
  transports: readonly string[],
  threads: number,
  port: number,
): Promise<void> {
  say(`${starts} starts with -t ${threads}; ms from the first connection to the first replies:`);
  for (const io of transports) {
    const waits: FirstReplies[] = [];
    while (waits.length < starts) waits.push(await firstReplies(port, threads, io));
    say(`  ${io.padEnd(8)}  TCP ${summary(waits.map(({ tcpMs }) => tcpMs))}`);
    say(`  ${io.padEnd(8)}  UDP ${summary(waits.map(({ udpMs }) => udpMs))}`);
  }
}

/** Times since a client could connect. */
interface FirstReplies {
  readonly tcpMs: number;
  readonly udpMs: number;
}

/** Starts a server, and stops it after its first replies. */
async function firstReplies(port: number, threads: number, io: string): Promise<FirstReplies> {
  const { server: cores } = coresFor(threads);
  const starting = startLeased(port, threads, io, ["-U", `${port}`], [], cores);
  const connection = await connectWhenOpen(port, PAUSE_MS);
  const startMs = performance.now();
  const elapsed = (): number => performance.now() - startMs;
  using udp = new UdpClient(port);
  const [tcpMs, udpMs] = await Promise.all([
    ask(connection).then(elapsed),
    udp.send(1, REQUEST).then(() => udp.receive()).then(elapsed),
  ]);
  connection.close();
  await (await starting).stop();
  return { tcpMs, udpMs };
}

async function ask(connection: Deno.Conn): Promise<void> {
  await connection.write(new TextEncoder().encode(REQUEST));
  const reply = new Uint8Array(REPLY_BYTES);
  for (let received = 0; received < REPLY_BYTES;) {
    const count = await connection.read(reply.subarray(received));
    if (count === null) throw new Error("The server closed the first connection");
    received += count;
  }
}

function summary(waitsMs: readonly number[]): string {
  return `median ${median(waitsMs).toFixed(1)}, longest ${Math.max(...waitsMs).toFixed(1)}`;
}
