import { type Certificate, tlsArguments } from "./certificates.ts";
import { type IoWay, leastPermissions, ServerProcess } from "./server_process.ts";
import { SocketSide } from "../sessions/socket_side.ts";

/**
 * Starts our server with one transport in a process of its own, to be played to like any other.
 *
 * @param certificate For TLS; undefined: plain.
 */
export async function startLeased(
  io: IoWay["io"],
  options: readonly string[] = [],
  certificate?: Certificate,
  ioUring: NonNullable<IoWay["ioUring"]> = "auto",
): Promise<SocketSide> {
  const tls = certificate === undefined ? [] : tlsArguments(certificate);
  const reading = certificate === undefined || io === "native"
    ? []
    : [`--allow-read=${certificate.certPath},${certificate.keyPath}`];
  const server = await ServerProcess.start({
    io,
    ioUring,
    args: [...options, ...tls],
    permissions: [...leastPermissions(io), ...reading],
  });
  const plain = { hostname: "127.0.0.1", port: server.port };
  const address = certificate === undefined ? plain : { ...plain, caCerts: [certificate.cert] };
  return new SocketSide(`leased (${io})`, address, async () => {
    await server.stop();
  });
}
