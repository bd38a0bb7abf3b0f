import manifest from "../../deno.json" with { type: "json" };
import { ExitCode } from "../cli/exit.ts";
import type { ServerOptions } from "../cli/options.ts";
import { type LogFormat, writeRefusal, writeStderr } from "../log.ts";
import type { Listen } from "../net/transport.ts";
import type { TransportName } from "../net/transports.ts";
import { folderOf, PORT_FILE_VARIABLE } from "./files.ts";

/** A permission and its purpose. */
interface Need {
  readonly descriptor: Deno.PermissionDescriptor;
  /** To follow "not permitted to": "listen on 127.0.0.1:11211". */
  readonly purpose: string;
  /** The server starts without it. */
  readonly optional?: boolean;
  /** An option that avoids the need; "": none. */
  readonly alternative?: string;
}

const ROOT = new URL("../../", import.meta.url);
/** The folders of the sources that the threads load. */
const SOURCE_FOLDERS = ["lib", "protocol", "store"] as const;

/** `deno run` with the environment and the V8 flags of `deno task start`. */
const DENO_RUN = /^.*?\bdeno run(?: --v8-flags=\S+)?/.exec(manifest.tasks.start.command)![0];
const UNIX_SOCKET_ALTERNATIVE =
  "or use --io native with --allow-ffi: it needs no file permission for a Unix socket";

const PORTABLE_COST = "with --allow-ffi too, a request takes a third to two thirds less CPU time " +
  "(native transport, Linux with glibc)";

/** A purpose that `deno run` does not permit. */
interface MissingPermission {
  /** "listen on 127.0.0.1:11211". */
  readonly purpose: string;
  /** The flags of `deno run` that permit it. */
  readonly flags: readonly string[];
  /** An option that avoids the need; "": none. */
  readonly alternative: string;
}

/** The missing permissions, and a command that grants them. */
interface MissingPermissions {
  readonly missing: readonly MissingPermission[];
  readonly command: string;
  /** The feature that the command does without; "": none. */
  readonly cost: string;
}

/**
 * Checks the permissions that the options need. Never prompts: a permission in the state "prompt" is missing.
 *
 * @param argv The command line, to be repeated in the command.
 * @returns Null when nothing is missing.
 */
export function missingPermissions(
  options: ServerOptions,
  transport: TransportName,
  argv: readonly string[],
): MissingPermissions | null {
  const needs = neededPermissions(options, transport);
  const missing = needs.filter(({ descriptor, optional }) =>
    !optional && Deno.permissions.querySync(descriptor).state !== "granted"
  );
  if (missing.length === 0) return null;
  const words = [DENO_RUN, ...permissionFlags(needs), filePath("main.ts"), ...argv.map(quoted)];
  return {
    missing: [...Map.groupBy(missing, (need) => need.purpose)].map(([purpose, group]) => ({
      purpose,
      flags: permissionFlags(group),
      alternative: group[0]!.alternative ?? "",
    })),
    command: words.join(" "),
    cost: options.io === "auto" && transport === "portable" ? PORTABLE_COST : "",
  };
}

/** Writes the missing permissions to stderr, and a command that grants them. */
export function refusePermissions(
  { missing, command, cost }: MissingPermissions,
  format: LogFormat,
): ExitCode {
  for (const { purpose, flags, alternative } of missing) {
    const remedy = [`add ${flags.join(" ")}`, alternative].filter((text) => text !== "").join(", ");
    writeRefusal(format, "permission_missing", `not permitted to ${purpose}: ${remedy}`, {
      purpose,
      flags,
      command,
    });
  }
  if (format === "text") {
    writeRefusal(format, "permission_missing", "this command grants what is needed, and no more:");
    writeStderr(`  ${command}`);
    if (cost !== "") writeRefusal(format, "permission_missing", cost);
  }
  return ExitCode.NO_PERMISSION;
}

function neededPermissions(options: ServerOptions, transport: TransportName): Need[] {
  const { counters, journal, listens, admin, pidFile, snapshot } = options;
  const { authFile } = options.settings;
  const needs = fileNeeds(
    ["read"],
    SOURCE_FOLDERS.map(filePath),
    `read ${filePath("")} (sources of its threads)`,
  );
  // The native transport calls the operating system directly: Deno checks this permission only.
  if (transport === "native") {
    needs.push({
      descriptor: { name: "ffi" },
      purpose: "call the C library (--io native)",
      alternative: "or use --io portable",
    });
  } else {
    const all = [...listens, ...counters?.listens ?? []];
    needs.push(...all.flatMap(listenNeeds));
  }
  if (admin !== null) needs.push(...listenNeeds(admin));
  needs.push(...certificateNeeds(options, transport));
  if (journal !== null) {
    const purpose = `keep update tokens in ${journal.folder} (--state-dir)`;
    const alternative = "or leave --state-dir out";
    needs.push(...fileNeeds(["read", "write"], [journal.folder], purpose, alternative));
  }
  if (snapshot !== null) {
    const purpose = `keep items in ${snapshot.path} (--snapshot)`;
    const alternative = "or leave --snapshot out";
    const folder = folderOf(snapshot.path);
    needs.push(...fileNeeds(["read", "write"], [folder], purpose, alternative));
  }
  if (authFile !== null) {
    needs.push(...fileNeeds(["read"], [authFile], `read the user file ${authFile} (-Y)`));
  }
  if (pidFile !== "") {
    const paths = [pidFile, `${pidFile}.tmp`];
    const purpose = `write the pid file ${pidFile} (-P)`;
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
  { admin, transport: { tls } }: ServerOptions,
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

function fileNeeds(
  kinds: readonly ("read" | "write")[],
  paths: readonly string[],
  purpose: string,
  alternative = "",
): Need[] {
  return kinds.flatMap((name) =>
    paths.map((path) => ({ descriptor: { name, path }, purpose, alternative }))
  );
}

function listenNeeds(listen: Listen): Need[] {
  if (listen.kind !== "unix") {
    const { hostname, port } = listen;
    const name = hostname.includes(":") ? `[${hostname}]` : hostname;
    const host = port === 0 ? name : `${name}:${port}`;
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

/** Returns one flag per kind: `--allow-net=…`, `--allow-read=…`. */
function permissionFlags(needs: readonly Need[]): string[] {
  const scopes = new Map<string, Set<string>>();
  for (const { descriptor, optional } of needs) {
    if (optional && descriptor.name === "env") continue;
    const scope = scopeOf(descriptor);
    const known = scopes.get(descriptor.name) ?? new Set();
    scopes.set(descriptor.name, known.add(scope));
  }
  return [...scopes].map(([name, known]) =>
    known.has("") ? `--allow-${name}` : `--allow-${name}=${quoted([...known].join(","))}`
  );
}

/** Returns the scope of a permission; "" if it covers all of its kind. */
function scopeOf(descriptor: Deno.PermissionDescriptor): string {
  if (descriptor.name === "net") return descriptor.host ?? "";
  if (descriptor.name === "read" || descriptor.name === "write") {
    return String(descriptor.path ?? "");
  }
  return "";
}

function filePath(name: string): string {
  return decodeURIComponent(new URL(name, ROOT).pathname);
}

/** Quotes a word for a shell, if it needs quotes. */
function quoted(word: string): string {
  return /^[\w@%+=:,./[\]-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
