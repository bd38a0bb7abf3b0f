import { type Certificate, tlsArguments } from "./certificates.ts";
import { type IoWay, leastPermissions, ServerProcess } from "./server_process.ts";
import { SocketSide } from "../sessions/socket_side.ts";
import { UdpSide } from "../sessions/udp_side.ts";

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

/** Starts our server on a Unix socket. @param path Of the socket. */
export async function startOnUnixSocket(
  io: IoWay["io"],
  path: string,
  options: readonly string[] = [],
): Promise<SocketSide> {
  const permissions = ["--allow-all"];
  const server = await ServerProcess.start({ io, args: ["-s", path, ...options], permissions });
  return new SocketSide(`leased (${io}, Unix)`, { transport: "unix", path }, async () => {
    await server.stop();
  });
}

/** Starts our server on a UDP port; `stats` are asked for over TCP. */
export async function startOverUdp(
  io: IoWay["io"],
  options: readonly string[] = [],
): Promise<UdpSide> {
  const permissions = leastPermissions(io);
  const server = await ServerProcess.start({ io, args: ["-U", "-1", ...options], permissions });
  const other = new SocketSide(
    `leased (${io})`,
    { hostname: "127.0.0.1", port: server.port },
    async () => {
      await server.stop();
    },
  );
  return new UdpSide(server, other);
}
