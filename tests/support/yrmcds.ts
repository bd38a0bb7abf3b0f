import { untilItListens } from "./memcached.ts";
import { SocketSide } from "./socket_side.ts";

const SERVER = "/usr/sbin/yrmcdsd";
/** Its replication listens on the virtual address too, so the others must be other addresses. */
const VIRTUAL_IP = "127.0.0.1";
const BIND_IP = "127.0.0.2";

/** Whether the real yrmcds is installed. */
export function yrmcdsInstalled(): boolean {
  try {
    return Deno.statSync(SERVER).isFile;
  } catch {
    return false;
  }
}

/** Starts the real yrmcds; what is returned talks to its counter port. */
export async function startYrmcdsCounters(): Promise<SocketSide> {
  const folder = Deno.makeTempDirSync({ prefix: "leased-test-" });
  // It cannot be told to take free ports itself.
  const [port, replicationPort, counterPort] = freePorts(3);
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
  const address = { hostname: VIRTUAL_IP, port: counterPort! };
  const side = new SocketSide("yrmcds's counters", address, async () => {
    child.kill("SIGKILL");
    await child.status;
    Deno.removeSync(folder, { recursive: true });
  });
  await untilItListens(side, child.status);
  return side;
}

/** Ports that nobody has, for now. */
function freePorts(count: number): number[] {
  const listeners = Array.from(
    { length: count },
    () => Deno.listen({ hostname: VIRTUAL_IP, port: 0 }),
  );
  const ports = listeners.map((listener) => listener.addr.port);
  for (const listener of listeners) listener.close();
  return ports;
}
