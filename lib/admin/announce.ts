import { isPublic } from "../cli/listen.ts";
import { logProcess } from "../log.ts";
import { listenText, type TcpListen } from "../net/transport.ts";

/** Logs where the metrics are, and a warning if other hosts can read them. */
export function announceMetrics(listen: TcpListen): void {
  const address = listenText(listen);
  const url = `http://${address}/metrics`;
  logProcess("info", "metrics_listening", `metrics are at ${url}`, { address, url });
  if (!isPublic(listen)) return;
  logProcess(
    "warning",
    "public_address",
    `no authentication: any host that can reach ${address} can read the statistics; restrict ` +
      `access with a firewall, or use --metrics ${listen.port} to listen on 127.0.0.1 only`,
    { addresses: [address], reason: "no authentication" },
  );
}
