import { ServerProcess } from "./server_process.ts";
import { SocketSide } from "../sessions/socket_side.ts";

/** Starts our server with one transport in a process of its own, to be played to like any other. */
export async function startLeased(
  io: "portable" | "native",
  options: readonly string[] = [],
): Promise<SocketSide> {
  const server = await ServerProcess.start({ io, args: options });
  const address = { hostname: "127.0.0.1", port: server.port };
  return new SocketSide(`leased (${io})`, address, async () => {
    await server.stop();
  });
}
