import type { Listen } from "../net/transport.ts";

/** memcached's own name for where it says which ports it got. */
export const PORT_FILE_VARIABLE = "MEMCACHED_PORT_FILENAME";

/** The file that `-P` names. */
export class PidFile {
  readonly #path: string;
  #written = false;

  /** @param path "" for none. */
  constructor(path: string) {
    this.#path = path;
  }

  /**
   * Writes the process id, so that nobody ever reads half of it.
   *
   * @returns What went wrong, or null.
   */
  write(pid: number): string | null {
    if (this.#path === "") return null;
    const problem = replaceFile(this.#path, ".tmp", `${pid}\n`);
    this.#written = problem === null;
    return problem;
  }

  /** Removes at the end what was written, if it can: another process's file stays. */
  remove(): void {
    if (!this.#written) return;
    this.#written = false;
    try {
      Deno.removeSync(this.#path);
    } catch {
      // It is gone, or not ours to remove.
    }
  }
}

/** The path that the environment names for the port file; "" for none, also when the environment may not be read. */
export function portFilePath(): string {
  const { state } = Deno.permissions.querySync({ name: "env", variable: PORT_FILE_VARIABLE });
  return state === "granted" ? Deno.env.get(PORT_FILE_VARIABLE) ?? "" : "";
}

/**
 * Writes `TCP INET: 11211` and the like, a line a socket.
 *
 * @returns What went wrong, or null.
 */
export function writePortFile(path: string, listens: readonly Listen[]): string | null {
  let text = "";
  for (const listen of listens) {
    if (listen.kind === "unix") continue;
    const family = listen.hostname.includes(":") ? "INET6" : "INET";
    text += `${listen.kind.toUpperCase()} ${family}: ${listen.port}\n`;
  }
  return replaceFile(path, ".lck", text);
}

function replaceFile(path: string, suffix: string, text: string): string | null {
  try {
    Deno.writeTextFileSync(path + suffix, text);
    Deno.renameSync(path + suffix, path);
    return null;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return `cannot write ${path}: ${reason}`;
  }
}
