import { type LogFormat, writeRefusal, writeStderr } from "./log.ts";

/** A permission of `deno run`, and its purpose. */
export interface Need {
  readonly descriptor: Deno.PermissionDescriptor;
  /** To follow "not permitted to": "listen on 127.0.0.1:11211". */
  readonly purpose: string;
  /** The server starts without it. */
  readonly optional?: boolean;
  /** An option that avoids the need; "": none. */
  readonly alternative?: string;
}

/** A command line that needs permissions. */
export interface RunCommand {
  /** `deno run`, with flags that are no permissions. */
  readonly run: string;
  /** The words behind main.ts. */
  readonly argv: readonly string[];
  /** A sentence on the price of starting without a permission; "": it has none. */
  readonly cost: string;
}

const ROOT = new URL("../../", import.meta.url);

/** A purpose that `deno run` does not permit. */
interface MissingPermission {
  readonly purpose: string;
  /** The flags of `deno run` that permit it. */
  readonly flags: readonly string[];
  /** An option that avoids the need; "": none. */
  readonly alternative: string;
}

/**
 * Writes the missing permissions to stderr, and a command that grants them. Never prompts: a permission in the state
 * "prompt" is missing.
 *
 * @returns False when nothing is missing.
 */
export function refusedForPermissions(
  needs: readonly Need[],
  command: RunCommand,
  format: LogFormat,
): boolean {
  const missing = missingPermissions(needs);
  if (missing.length === 0) return false;
  const words = [command.run, ...permissionFlags(needs), sourcePath("main.ts")];
  const line = [...words, ...command.argv.map(quoted)].join(" ");
  for (const { purpose, flags, alternative } of missing) {
    const remedy = [`add ${flags.join(" ")}`, alternative].filter((text) => text !== "").join(", ");
    writeRefusal(format, "permission_missing", `not permitted to ${purpose}: ${remedy}`, {
      purpose,
      flags,
      command: line,
    });
  }
  if (format === "text") {
    writeRefusal(format, "permission_missing", "this command grants what is needed, and no more:");
    writeStderr(`  ${line}`);
    if (command.cost !== "") writeRefusal(format, "permission_missing", command.cost);
  }
  return true;
}

function missingPermissions(needs: readonly Need[]): MissingPermission[] {
  const missing = needs.filter(({ descriptor, optional }) =>
    !optional && Deno.permissions.querySync(descriptor).state !== "granted"
  );
  return [...Map.groupBy(missing, (need) => need.purpose)].map(([purpose, group]) => ({
    purpose,
    flags: permissionFlags(group),
    alternative: group[0]!.alternative ?? "",
  }));
}

/** Returns what files, or folders, need. */
export function fileNeeds(
  kinds: readonly ("read" | "write")[],
  paths: readonly string[],
  purpose: string,
  alternative = "",
): Need[] {
  return kinds.flatMap((name) =>
    paths.map((path) => ({ descriptor: { name, path }, purpose, alternative }))
  );
}

/** Returns the host of a network permission. @param port 0: any. */
export function permissionHost(hostname: string, port: number): string {
  const name = hostname.includes(":") ? `[${hostname}]` : hostname;
  return port === 0 ? name : `${name}:${port}`;
}

/** Returns the path of a file of the sources. */
export function sourcePath(name: string): string {
  return decodeURIComponent(new URL(name, ROOT).pathname);
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
  return descriptor.name === "env" ? descriptor.variable ?? "" : "";
}

/** Quotes a word for a shell, if it needs quotes. */
function quoted(word: string): string {
  return /^[\w@%+=:,./[\]-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
