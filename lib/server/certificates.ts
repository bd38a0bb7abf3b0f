import { type BoundTransport, TlsError } from "../net/transport.ts";
import type { Transport } from "../net/worker_transport.ts";
import { logProcess } from "../log.ts";

/** Loads the certificates again. @returns "" when done, or why it failed: the previous ones stay in use. */
export function reasonNotRefreshed(transport: BoundTransport | Transport): string {
  try {
    transport.refreshCertificates();
    return "";
  } catch (error) {
    if (!(error instanceof TlsError)) throw error;
    return error.message;
  }
}

/** Loads the certificates again at SIGHUP, and logs the result. */
export function refreshCertificates(transport: BoundTransport): void {
  const reason = reasonNotRefreshed(transport);
  if (reason === "") {
    logProcess("info", "certificates_refreshed", "certificates loaded for new connections");
    return;
  }
  logProcess(
    "warning",
    "certificates_not_refreshed",
    `certificates not loaded, the previous ones stay in use: ${reason}`,
    { reason },
  );
}
