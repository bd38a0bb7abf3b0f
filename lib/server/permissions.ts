import type { ServerOptions } from "../cli/options.ts";
import type { Listen } from "../net/transport.ts";
import { serves, type TransportName } from "../net/transports.ts";
import { PORT_FILE_VARIABLE } from "./files.ts";

/** Something the server may not do. */
interface Need {
  readonly descriptor: Deno.PermissionDescriptor;
  /** To stand after "it needs to": "listen on 127.0.0.1:11211". */
  readonly purpose: string;
  /** Without it the server starts all the same. */
  readonly optional?: boolean;
}

const ROOT = new URL("../../", import.meta.url);
/** Where the sources of the threads lie: the runtime reads them as files. */
const SOURCE_FOLDERS = ["lib", "protocol", "store"] as const;

/** What is missing, if anything: sentences for people, and the line that would do. */
export interface MissingPermissions {
  readonly purposes: readonly string[];
  readonly command: string;
}

/**
 * Looks whether everything that these options need is permitted. Asks nobody: what a terminal would
 * be asked for counts as missing.
 *
 * @param transport The one that was chosen.
 * @param argv What the server was started with, to be repeated in the line.
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
  return {
    purposes: [...new Set(missing.map((need) => need.purpose))],
    command: ["deno run", ...permissionFlags(needs), filePath("main.ts"), ...argv.map(quoted)]
      .join(" "),
  };
}

function neededPermissions(options: ServerOptions, transport: TransportName): Need[] {
  const needs: Need[] = SOURCE_FOLDERS.map((folder) => ({
    descriptor: { name: "read", path: filePath(folder) },
    purpose: `read ${filePath("")} (the sources of its threads)`,
  }));
  if (transport === "native") {
    needs.push({ descriptor: { name: "ffi" }, purpose: "call the C library (--io native)" });
  }
  for (const listen of options.listens) {
    // The native transport asks the operating system itself.
    if (transport === "portable" || !serves(transport, listen)) needs.push(...listenNeeds(listen));
  }
  for (const listen of options.counters?.listens ?? []) needs.push(...listenNeeds(listen));
  if (options.pidFile !== "") {
    for (const name of ["read", "write"] as const) {
      for (const path of [options.pidFile, `${options.pidFile}.tmp`]) {
        needs.push({ descriptor: { name, path }, purpose: `write ${path}`, optional: true });
      }
    }
  }
  needs.push({
    descriptor: { name: "env", variable: PORT_FILE_VARIABLE },
    purpose: `read ${PORT_FILE_VARIABLE}`,
    optional: true,
  });
  return needs;
}

function listenNeeds(listen: Listen): Need[] {
  if (listen.kind !== "unix") {
    const { hostname, port } = listen;
    const name = hostname.includes(":") ? `[${hostname}]` : hostname;
    const host = port === 0 ? name : `${name}:${port}`;
    return [{ descriptor: { name: "net", host }, purpose: `listen on ${host}` }];
  }
  const { path } = listen;
  const purpose = `make the socket ${path}`;
  return [
    { descriptor: { name: "read", path }, purpose },
    { descriptor: { name: "write", path }, purpose },
    // A relative path would have to be made absolute first, which needs yet another permission.
    path.startsWith("/")
      ? { descriptor: { name: "net", host: `unix:${path}` }, purpose }
      : { descriptor: { name: "net" }, purpose },
  ];
}

/** `--allow-net=…`, `--allow-read=…`, one flag a kind. */
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

/** What a permission is limited to; "" for all of its kind. */
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

/** As a shell takes it. */
function quoted(word: string): string {
  return /^[\w@%+=:,./[\]-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
