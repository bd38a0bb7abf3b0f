import type { Listen } from "../net/transport.ts";
import { entryAt, kindOf } from "../process/file_kinds.ts";
import { reasonOf } from "../process/reason.ts";

/** memcached's environment variable with the path of the port file. */
export const PORT_FILE_VARIABLE = "MEMCACHED_PORT_FILENAME";

/** Contents of these files and of memcached's, also of those whose writing was interrupted. */
const PID_FILE = /^\d*\s*$/;
const PORT_FILE = /^(?:(?:TCP|UDP) INET6?: \d+\n)*(?:[TU][A-Z 6:\d]*)?$/;
/** Longest content that is compared with these forms, in bytes. */
const FILE_BYTES_MAX = 64 * 1024;

/** A file that could not be written. */
export interface FileProblem {
  readonly message: string;
  readonly path: string;
  readonly reason: string;
}

/** Returns the folder that holds a file: `/run` for `/run/leased.pid`, `.` for `leased.pid`. */
export function folderOf(path: string): string {
  const end = path.lastIndexOf("/");
  return end < 0 ? "." : path.slice(0, Math.max(1, end));
}

/** The file of `-P`. */
export class PidFile {
  readonly #path: string;
  #written = false;

  /** @param path "": no file. */
  constructor(path: string) {
    this.#path = path;
  }

  /**
   * Writes the process id, atomically.
   *
   * @returns Null when written, or when there is no file to write.
   */
  write(pid: number): FileProblem | null {
    if (this.#path === "") return null;
    const problem = replaceFile("pid file", this.#path, ".tmp", `${pid}\n`, PID_FILE);
    this.#written = problem === null;
    return problem;
  }

  /** Removes the file, if this process wrote it. */
  remove(): void {
    if (!this.#written) return;
    this.#written = false;
    try {
      Deno.removeSync(this.#path);
    } catch {
      // Another process removed it, or the folder's permissions changed.
    }
  }
}

/** Returns the path of the port file; "" if the variable is not set or may not be read. */
export function portFilePath(): string {
  return readVariable(PORT_FILE_VARIABLE);
}

/** Returns a variable of the environment; "" if it is not set or may not be read. */
export function readVariable(variable: string): string {
  const { state } = Deno.permissions.querySync({ name: "env", variable });
  return state === "granted" ? Deno.env.get(variable) ?? "" : "";
}

/**
 * Writes the port file: lines like `TCP INET: 11211`, one per socket.
 *
 * @returns Null when written.
 */
export function writePortFile(path: string, listens: readonly Listen[]): FileProblem | null {
  let text = "";
  for (const listen of listens) {
    if (listen.kind === "unix") continue;
    const family = listen.hostname.includes(":") ? "INET6" : "INET";
    text += `${listen.kind.toUpperCase()} ${family}: ${listen.port}\n`;
  }
  return replaceFile("port file", path, ".lck", text, PORT_FILE);
}

/**
 * Writes a file and renames it. Replaces no file of another program.
 *
 * @param form Contents of files of this kind.
 */
function replaceFile(
  what: string,
  path: string,
  suffix: string,
  text: string,
  form: RegExp,
): FileProblem | null {
  try {
    requireForm(path, form);
    const writing = path + suffix;
    if (requireForm(writing, form)) Deno.removeSync(writing);
    Deno.writeTextFileSync(writing, text, { createNew: true });
    Deno.renameSync(writing, path);
    return null;
  } catch (error) {
    const reason = pathReason(error, path);
    return { message: `cannot write the ${what} ${path}: ${reason}`, path, reason };
  }
}

/** Returns whether a path has a file of this form; false: it is free. @throws Error that names anything else. */
function requireForm(path: string, form: RegExp): boolean {
  const info = entryAt(path);
  if (info === null) return false;
  if (!info.isFile) throw new Error(`${path} is ${kindOf(info)}; choose another path`);
  if (info.size > FILE_BYTES_MAX || !form.test(Deno.readTextFileSync(path))) {
    throw new Error(`${path} is a file of another program; choose another path`);
  }
  return true;
}

function pathReason(error: unknown, path: string): string {
  const folder = folderOf(path);
  if (error instanceof Deno.errors.NotFound) {
    return `the folder ${folder} does not exist; create it, or choose another path`;
  }
  if (error instanceof Deno.errors.PermissionDenied) {
    return `permission denied; the user of the server needs write permission for ${folder}`;
  }
  if (error instanceof Deno.errors.NotCapable) {
    return `deno run does not permit it; add --allow-read=${folder} --allow-write=${folder}`;
  }
  return reasonOf(error);
}
