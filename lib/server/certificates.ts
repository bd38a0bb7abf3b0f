import { type BoundTransport, TlsError, type Transport } from "../net/transport.ts";
import { logProcess } from "../log.ts";

/** Loads the certificates anew. @returns "" when done, or why it failed: those of before stay. */
export function reasonNotRefreshed(transport: BoundTransport | Transport): string {
  try {
    transport.refreshCertificates();
    return "";
  } catch (error) {
    if (!(error instanceof TlsError)) throw error;
    return error.message;
  }
}

/** SIGHUP: loads the certificates anew, and logs how that went. */
export function refreshCertificates(transport: BoundTransport): void {
  const reason = reasonNotRefreshed(transport);
  if (reason === "") {
    logProcess("info", "certificates_refreshed", "certificates loaded for new connections");
    return;
  }
  logProcess(
    "warning",
    "certificates_not_refreshed",
    `certificates not loaded, those of before stay: ${reason}`,
    { reason },
  );
}
