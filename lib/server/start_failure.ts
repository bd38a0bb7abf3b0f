import { UserFileError } from "../auth/user_file.ts";
import { ExitCode, refuseUsage } from "../cli/exit.ts";
import type { ServerOptions } from "../cli/options.ts";
import type { TlsSettings } from "../../protocol/settings.ts";
import { type LogFields, logProcess } from "../process/log.ts";
import { DescriptorError } from "../net/descriptors.ts";
import {
  IoUringError,
  type Listen,
  ListenError,
  listenText,
  TlsError,
  type UnixListen,
} from "../net/transport.ts";

import { DatabaseThreadError } from "../rows/database_thread.ts";
import { StartError } from "../rows/origin/start_error.ts";
import { SnapshotError } from "../snapshot/snapshot_format.ts";
import { StateError } from "../journal/state_folder.ts";
import { folderOf } from "./files.ts";
import { ThreadError } from "./threads.ts";

const FIRST_UNPRIVILEGED_PORT = 1024;

/** Logs the reason of a failed start. @returns The exit status. @throws Any other error. */
export function logStartFailure(error: unknown, options: ServerOptions): ExitCode {
  if (error instanceof ListenError) {
    const { message, fields } = listenFailure(error, options);
    logProcess("fatal", "cannot_listen", message, fields);
    return ExitCode.OS_ERROR;
  }
  if (error instanceof ThreadError) {
    logProcess("fatal", "cannot_start", `cannot start a thread: ${error.message}`, {
      reason: error.message,
    });
    return ExitCode.OS_ERROR;
  }
  if (error instanceof TlsError) {
    const { message } = error;
    const remedy = tlsRemedy(message, options.tls);
    const text = `-Z (--enable-ssl): ${message}${remedy === "" ? "" : `; ${remedy}`}`;
    logProcess("fatal", "cannot_start", text, { reason: message, remedy });
    return ExitCode.USAGE;
  }
  if (error instanceof DescriptorError) {
    logProcess("fatal", "cannot_start", error.message, { needed: error.needed });
    return ExitCode.OS_ERROR;
  }
  if (error instanceof IoUringError) {
    const message = `cannot use io_uring: ${error.message}; --io-uring=auto serves without it`;
    logProcess("fatal", "cannot_start", message, { reason: error.message });
    return ExitCode.OS_ERROR;
  }
  if (
    error instanceof StateError || error instanceof UserFileError || error instanceof SnapshotError
  ) {
    logProcess("fatal", "cannot_start", error.message, { reason: error.message });
    return ExitCode.OS_ERROR;
  }
  if (error instanceof DatabaseThreadError || error instanceof StartError) {
    logProcess("fatal", "cannot_start", error.message, { reason: error.message });
    return error.isUsage ? ExitCode.USAGE : ExitCode.OS_ERROR;
  }
  if (error instanceof RangeError) return refuseUsage([error.message], options.logFormat);
  throw error;
}

/** Names the option to change, and the file that it needs, by the beginning of a TlsError. "": unknown. */
function tlsRemedy(message: string, tls: TlsSettings | null): string {
  if (tls === null) return "";
  const { chainCert, key, caCert } = tls;
  const certificate = `the certificate in ${chainCert} (--ssl-chain-cert)`;
  const chainRemedy = `${chainCert} (--ssl-chain-cert) must be a readable PEM file of certificates`;
  const keyRemedy = key === chainCert
    ? `name the file with the key of ${certificate} with --ssl-key (-o ssl_key)`
    : `${key} (--ssl-key) must be a key in PEM, without a pass phrase, and belong to ${certificate}`;
  const remedies = [
    ["Error loading the certificate chain", chainRemedy],
    ["Error loading the key", keyRemedy],
    [
      "Error validating the certificate",
      message.includes("No certificates found") ? chainRemedy : keyRemedy,
    ],
    [
      "Error loading the CA certificate",
      `${caCert} (--ssl-ca-cert) must be a PEM file of certificates`,
    ],
    [
      "Error setting the cipher(s) of --admin",
      "the admin port takes names of ciphers in --ssl-ciphers, no groups such as ECDHE+AESGCM; or " +
      "serve it without TLS: --admin notls:<port>",
    ],
    ["Error setting the provided cipher", "openssl ciphers -v lists what --ssl-ciphers takes"],
  ] as const;
  return remedies.find(([start]) => message.startsWith(start))?.[1] ?? "";
}

/** A failure to listen on an address, for the log. */
interface ListenFailure {
  readonly message: string;
  readonly fields: LogFields;
}

/** Describes a ListenError for the operator. */
export function listenFailure(error: ListenError, options: ServerOptions): ListenFailure {
  const { listen, code } = error;
  const address = listenText(listen);
  const reason = reasonOf(error, options);
  return {
    message: `cannot listen on ${address}: ${reason}`,
    fields: { address, code, reason },
  };
}

function reasonOf({ listen, code, message }: ListenError, options: ServerOptions): string {
  if (listen.kind === "unix") return unixReason(listen, code, message);
  const flag = flagOf(listen, options);
  switch (code) {
    case "EADDRINUSE": {
      const family = listen.kind === "udp" ? "-u" : "-t";
      return `another process uses this port (${code}); choose another with ${flag}, or find the ` +
        `process: ss ${family}lnp 'sport = :${listen.port}'`;
    }
    case "EADDRNOTAVAIL":
      return `this host has no such address (${code}); ip address lists its addresses`;
    case "EACCES":
      return listen.port < FIRST_UNPRIVILEGED_PORT
        ? `permission denied (${code}); ports below ${FIRST_UNPRIVILEGED_PORT} need root or ` +
          `CAP_NET_BIND_SERVICE, or choose another with ${flag}`
        : `permission denied (${code}); check the security policy of this host`;
    default:
      return causeIn(message, listenText(listen));
  }
}

/** The option that sets the port. */
function flagOf(listen: Listen, { admin }: ServerOptions): string {
  if (listen === admin) return "--admin";
  if (listen.protocol === "counters") return "--counter-port";
  return listen.kind === "udp" ? "-U" : "-p or -l";
}

function unixReason({ path }: UnixListen, code: string, message: string): string {
  const folder = folderOf(path);
  switch (code) {
    case "ENOENT":
      return `the folder ${folder} does not exist; create it, or choose another path with -s`;
    case "ENOTDIR":
      return `${folder} is not a folder; choose another path with -s`;
    case "EACCES":
      return `permission denied (${code}); the user of the server needs write permission for ` +
        `the folder ${folder}`;
    case "EADDRINUSE":
    case "EEXIST":
      return `another server listens on this path, or the file is no socket (${code}); stop that ` +
        `server, remove the file, or choose another path with -s`;
    default:
      return causeIn(message, path);
  }
}

/** The cause in a transport's message `cannot listen on ADDRESS: CAUSE`. */
function causeIn(message: string, address: string): string {
  const prefix = `cannot listen on ${address}: `;
  return message.startsWith(prefix) ? message.slice(prefix.length) : message;
}
