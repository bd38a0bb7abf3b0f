import { freePorts } from "../free_ports.ts";
import { untilItListens } from "./memcached.ts";
import { SocketSide } from "../sessions/socket_side.ts";

const SERVER = "/usr/sbin/yrmcdsd";
/** Its replication listens on the virtual address too, so the others must be other addresses. */
const VIRTUAL_IP = "127.0.0.1";
const BIND_IP = "127.0.0.2";
/** Another process may take a port between our look and its start. */
const TRIES = 5;
const FORGOTTEN_AFTER_MS = 300;
/** One for each of its worker threads. */
const ANSWERS_IN_A_ROW = 8;

/** Returns whether the real yrmcds is installed. */
export function yrmcdsInstalled(): boolean {
  try {
    return Deno.statSync(SERVER).isFile;
  } catch {
    return false;
  }
}

/** Starts the real yrmcds. Returns a side that talks to its cache. */
export function startYrmcds(): Promise<SocketSide> {
  return start("yrmcds", ({ port }) => port);
}

/** Starts the real yrmcds. Returns a side that talks to its counter port. */
export function startYrmcdsCounters(): Promise<SocketSide> {
  return start("yrmcds's counters", ({ counterPort }) => counterPort);
}

interface Ports {
  readonly port: number;
  readonly counterPort: number;
}

async function start(name: string, portOf: (ports: Ports) => number): Promise<SocketSide> {
  for (let tries = 1;; tries++) {
    try {
      return await tryToStart(name, portOf);
    } catch (error) {
      if (tries === TRIES) throw error;
    }
  }
}

async function tryToStart(name: string, portOf: (ports: Ports) => number): Promise<SocketSide> {
  const folder = Deno.makeTempDirSync({ prefix: "leased-test-" });
  // yrmcds cannot choose free ports itself.
  const [port, replicationPort, counterPort] = freePorts(3, VIRTUAL_IP) as [number, number, number];
  const config = `${folder}/yrmcds.conf`;
  Deno.writeTextFileSync(
    config,
    [
      `virtual_ip = ${VIRTUAL_IP}`,
      `bind_ip = ${BIND_IP}`,
      `port = ${port}`,
      `repl_port = ${replicationPort}`,
      "counter.enable = true",
      `counter.port = ${counterPort}`,
      "buckets = 1000",
      "counter.buckets = 1000",
    ].join("\n") + "\n",
  );
  const child = new Deno.Command(SERVER, {
    args: ["-f", config],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  const address = { hostname: VIRTUAL_IP, port: portOf({ port, counterPort }) };
  const side = new SocketSide(name, address, async () => {
    try {
      child.kill("SIGKILL");
    } catch {
      // It ended by itself.
    }
    await child.status;
    Deno.removeSync(folder, { recursive: true });
  });
  try {
    await untilItListens(side, child.status);
    for (let inARow = 0; inARow < ANSWERS_IN_A_ROW;) inARow = await answers(port) ? inARow + 1 : 0;
  } catch (error) {
    await side.close();
    throw error;
  }
  return side;
}

/** Whether it answers on a new connection: of those that come right after its start, it may forget one. */
async function answers(port: number): Promise<boolean> {
  using connection = await Deno.connect({ hostname: VIRTUAL_IP, port });
  const timer = setTimeout(() => connection.close(), FORGOTTEN_AFTER_MS);
  try {
    await connection.write(new TextEncoder().encode("version\r\n"));
    return await connection.read(new Uint8Array(100)) !== null;
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
  }
}
