/** Starts the servers to compare, on cores that they do not share with their clients if there are enough. */
import process from "node:process";
import { freePort } from "../../support/free_ports.ts";
import { TRANSPORTS } from "../../support/servers/server_process.ts";
import { oneOf } from "../../support/options.ts";

/** This checkout. */
export const ROOT = decodeURIComponent(new URL("../../../", import.meta.url).pathname);
const MEMORY_MIB = 1024;
const START_MS_MAX = 20_000;
const CORES = navigator.hardwareConcurrency;
export const ALL_CORES = `0-${CORES - 1}`;
export const DEBIAN_MEMCACHED = "/usr/bin/memcached";
/** An option: the transport of our servers. */
export const IO = oneOf(...TRANSPORTS);

export interface BenchServer extends AsyncDisposable {
  readonly name: string;
  readonly port: number;
  readonly pid: number;
  /** @param signal By default SIGTERM. */
  stop(signal?: Deno.Signal): Promise<void>;
}

/** How our server is started. */
interface Start {
  readonly permissions?: readonly string[];
  /** Another checkout of this repository. */
  readonly checkout?: string;
}

/** Starts servers on free ports, and stops them at the end. */
export class Servers implements AsyncDisposable {
  readonly #stack = new AsyncDisposableStack();
  readonly #cores: string;
  readonly #clientCores: string;
  /** Cores for clients. */
  readonly clientCount: number;

  /** @param cores As taskset(1) takes them. By default as many as threads if that leaves half of them, or else all. */
  constructor(readonly threads: number, cores?: string) {
    const isApart = cores === undefined && threads * 2 <= CORES;
    this.#cores = isApart ? `0-${threads - 1}` : cores ?? ALL_CORES;
    this.#clientCores = isApart ? `${threads}-${CORES - 1}` : ALL_CORES;
    this.clientCount = isApart ? CORES - threads : CORES;
  }

  /** Starts ours. @param start By default as `deno task start` does. */
  async leased(
    io: string,
    options: readonly string[] = [],
    start: Start = {},
    port: number = freePort(),
  ): Promise<BenchServer> {
    const { permissions = [], checkout = ROOT } = start;
    const { variables, flags } = startTask(checkout);
    const words = [...variables, Deno.execPath(), "run", ...flags, ...permissions, "main.ts"];
    const place = checkout === ROOT ? "" : ` of ${checkout}`;
    const name = ["leased --io", io, ...options].join(" ") + place;
    const all = [...words, "-p", `${port}`, ...this.#common(), "--io", io, ...options];
    return await this.#start(name, port, "env", all, checkout);
  }

  async memcached(
    path: string,
    options: readonly string[] = [],
    port: number = freePort(),
  ): Promise<BenchServer> {
    const { stdout } = await new Deno.Command(path, { args: ["-V"] }).output();
    const name = new TextDecoder().decode(stdout).trim();
    const all = ["-u", "root", "-p", `${port}`, "-U", "0", ...this.#common(), ...options];
    return await this.#start(name, port, path, all);
  }

  /** @param program The path of redis-server. */
  redis(program: string): Promise<BenchServer> {
    const port = freePort();
    const all = ["--port", `${port}`, "--bind", "127.0.0.1", "--save", ""];
    return this.#start("redis-server", port, program, all);
  }

  /** Makes a folder that goes away with the servers. */
  async folder(dir: string): Promise<string> {
    const place = await Deno.makeTempDir({ dir: Deno.realPathSync(dir), prefix: "leased-bench-" });
    // PostgreSQL has a user of its own.
    await Deno.chmod(place, 0o755);
    this.#stack.defer(() => Deno.remove(place, { recursive: true }));
    return place;
  }

  /** Keeps this process, which has the clients, on their cores. */
  async pinClients(): Promise<void> {
    if (CORES < 2) return;
    const args = ["-acp", this.#clientCores, `${process.pid}`];
    await new Deno.Command("taskset", { args, stdout: "null" }).output();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }

  #common(): string[] {
    return ["-l", "127.0.0.1", "-m", `${MEMORY_MIB}`, "-t", `${this.threads}`, "-c", "2048"];
  }

  async #start(
    name: string,
    port: number,
    program: string,
    args: readonly string[],
    cwd = ".",
  ): Promise<BenchServer> {
    const pinned = CORES < 2 ? [] : ["taskset", "-c", this.#cores];
    const [first, ...words] = [...pinned, program, ...args];
    const child = new Deno.Command(first!, { args: words, stdout: "null", cwd }).spawn();
    const stop = async (signal: Deno.Signal = "SIGTERM"): Promise<void> => {
      try {
        child.kill(signal);
      } catch {
        // It has ended.
      }
      await child.status;
    };
    this.#stack.defer(() => stop());
    (await connectWhenOpen(port)).close();
    return { name, port, pid: child.pid, stop, [Symbol.asyncDispose]: () => stop() };
  }
}

/** The flags of the engine that `deno task start` sets. */
export function serverEngineFlags(): string[] {
  const option = "--v8-flags=";
  const given = startTask(ROOT).flags.find((flag) => flag.startsWith(option)) ?? option;
  return given.slice(option.length).split(",").filter((flag) => flag !== "");
}

/** Variables and flags of a checkout's `deno task start`, so that the bench measures the users' command. */
function startTask(checkout: string): { variables: string[]; flags: string[] } {
  const config = JSON.parse(Deno.readTextFileSync(`${checkout}/deno.json`));
  const { command } = config.tasks.start;
  const [, variables, flags] = /^((?:\w+=\w+ )*)deno run (.*) main\.ts$/.exec(command) ?? [];
  if (variables === undefined || flags === undefined) {
    throw new Error("Cannot start the server: the task start is unknown");
  }
  return { variables: variables.split(" ").filter((word) => word !== ""), flags: flags.split(" ") };
}

/** Connects as soon as a server listens. */
export async function connectWhenOpen(port: number, pauseMs = 50): Promise<Deno.Conn> {
  const endMs = performance.now() + START_MS_MAX;
  for (;;) {
    try {
      return await Deno.connect({ hostname: "127.0.0.1", port });
    } catch (error) {
      if (performance.now() > endMs) throw error;
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}
