import manifest from "../../deno.json" with { type: "json" };
import type { ServerOptions } from "../cli/options.ts";
import type { Listen } from "../net/transport.ts";
import type { TransportName } from "../net/transports.ts";
import {
  fileNeeds,
  type Need,
  permissionHost,
  refusedForPermissions,
  sourcePath,
} from "../process/permissions.ts";
import type { NodeOptions } from "../rows/nodes/options.ts";
import type { RowsOptions } from "../rows/options.ts";
import { needsDriver, rowNeeds } from "../rows/permissions.ts";
import { folderOf, PORT_FILE_VARIABLE } from "./files.ts";

/** The folders of the sources that the threads load. */
const SOURCE_FOLDERS = ["lib", "protocol", "store"] as const;

/** `deno run` with the environment and the V8 flags of `deno task start`. */
const DENO_RUN = /^.*?\bdeno run(?: --v8-flags=\S+)?/.exec(manifest.tasks.start.command)![0];
/** Names the driver of PostgreSQL. */
const DRIVER_LOCK = `--lock=${sourcePath("lib/databases/postgres/deno.lock")}`;
const UNIX_SOCKET_ALTERNATIVE =
  "or use --io native with --allow-ffi: it needs no file permission for a Unix socket";

const PORTABLE_COST = "with --allow-ffi too, a request takes a third to two thirds less CPU time " +
  "(native transport, Linux with glibc)";

/**
 * Refuses a server whose permissions do not do, see `refusedForPermissions`.
 *
 * @param argv The command line, to be repeated in the command.
 * @returns False when nothing is missing.
 */
export function refusedServer(
  options: ServerOptions,
  rows: RowsOptions | NodeOptions | null,
  transport: TransportName,
  argv: readonly string[],
): boolean {
  const needs = [...neededPermissions(options, transport), ...rows === null ? [] : rowNeeds(rows)];
  const command = {
    run: rows !== null && needsDriver(rows)
      ? DENO_RUN.replace(" run", ` run ${DRIVER_LOCK}`)
      : DENO_RUN,
    argv,
    cost: options.io === "auto" && transport === "portable" ? PORTABLE_COST : "",
  };
  return refusedForPermissions(needs, command, options.logFormat);
}

function neededPermissions(options: ServerOptions, transport: TransportName): Need[] {
  const { authFile, counterListens, stateDir, listens, admin, pidfile, snapshotPath } = options;
  const needs = fileNeeds(
    ["read"],
    SOURCE_FOLDERS.map(sourcePath),
    `read ${sourcePath("")} (sources of its threads)`,
  );
  // The native transport calls the operating system directly: Deno checks this permission only.
  if (transport === "native") {
    needs.push({
      descriptor: { name: "ffi" },
      purpose: "call the C library (--io native)",
      alternative: "or use --io portable",
    });
  } else {
    const all = [...listens, ...counterListens];
    needs.push(...all.flatMap(listenNeeds));
  }
  if (admin !== null) needs.push(...listenNeeds(admin));
  needs.push(...certificateNeeds(options, transport));
  if (stateDir !== "") {
    const purpose = `keep update tokens in ${stateDir} (--state-dir)`;
    const alternative = "or leave --state-dir out";
    needs.push(...fileNeeds(["read", "write"], [stateDir], purpose, alternative));
  }
  if (snapshotPath !== "") {
    const purpose = `keep items in ${snapshotPath} (--snapshot)`;
    const alternative = "or leave --snapshot out";
    const folder = folderOf(snapshotPath);
    needs.push(...fileNeeds(["read", "write"], [folder], purpose, alternative));
  }
  if (authFile !== "") {
    needs.push(...fileNeeds(["read"], [authFile], `read the user file ${authFile} (-Y)`));
  }
  if (pidfile !== "") {
    const paths = [pidfile, `${pidfile}.tmp`];
    const purpose = `write the pid file ${pidfile} (-P)`;
    const alternative = "or leave -P out (deno task start has no write permission)";
    needs.push(...fileNeeds(["read", "write"], paths, purpose, alternative));
  }
  needs.push({
    descriptor: { name: "env", variable: PORT_FILE_VARIABLE },
    purpose: `read ${PORT_FILE_VARIABLE}`,
    optional: true,
  });
  return needs;
}

/** The runtime reads certificates for its own TLS; OpenSSL reads them without a permission. */
function certificateNeeds(
  { admin, tls }: ServerOptions,
  transport: TransportName,
): Need[] {
  if (tls === null || (transport === "native" && admin?.tls === undefined)) return [];
  const alternative = admin?.tls === undefined
    ? "or use --io native with --allow-ffi: OpenSSL reads the files"
    : "or serve the admin port without TLS: --admin notls:<port>";
  const paths = new Set([tls.chainCert, tls.key, ...tls.caCert === null ? [] : [tls.caCert]]);
  return [...paths].flatMap((path) =>
    fileNeeds(["read"], [path], `read the certificate ${path} (-Z)`, alternative)
  );
}

function listenNeeds(listen: Listen): Need[] {
  if (listen.kind !== "unix") {
    const { hostname, port } = listen;
    const host = permissionHost(hostname, port);
    return [{ descriptor: { name: "net", host }, purpose: `listen on ${host}` }];
  }
  const { path } = listen;
  const descriptors: Deno.PermissionDescriptor[] = [
    { name: "read", path },
    { name: "write", path },
    // A relative path takes the whole permission: an absolute path would need another permission.
    path.startsWith("/") ? { name: "net", host: `unix:${path}` } : { name: "net" },
  ];
  const purpose = `create the Unix socket ${path} (-s)`;
  return descriptors.map((descriptor) => ({
    descriptor,
    purpose,
    alternative: UNIX_SOCKET_ALTERNATIVE,
  }));
}
