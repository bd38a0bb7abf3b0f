/** Starts the servers to compare and reads their CPU time. */
import process from "node:process";

const ROOT = decodeURIComponent(new URL("../../", import.meta.url).pathname);
const MAIN = "main.ts";
const MEMORY_MIB = 1024;
export const DEBIAN_MEMCACHED = "/usr/bin/memcached";
const START_MS_MAX = 20_000;

/** Cores of the servers and of the generator: they share none. */
const SERVER_CORE = "0";
const GENERATOR_CORE = "1";

export interface BenchServer extends AsyncDisposable {
  readonly name: string;
  readonly port: number;
  readonly pid: number;
  /** @param signal By default SIGTERM. */
  stop(signal?: Deno.Signal): Promise<void>;
}

export async function startMemcached(
  path: string,
  port: number,
  threads: number,
  options: readonly string[] = [],
  cores: string = SERVER_CORE,
): Promise<BenchServer> {
  const { stdout } = await new Deno.Command(path, { args: ["-V"] }).output();
  const name = new TextDecoder().decode(stdout).trim();
  // deno-fmt-ignore
  const args = ["-u", "root", "-l", "127.0.0.1", "-p", `${port}`, "-U", "0", "-m", `${MEMORY_MIB}`, "-t", `${threads}`, "-c", "2048", ...options];
  return await start(name, port, path, args, ".", cores);
}

export async function startLeased(
  port: number,
  threads: number,
  io: string,
  options: readonly string[] = [],
  permissions: readonly string[] = [],
  cores: string = SERVER_CORE,
  checkout: string = ROOT,
): Promise<BenchServer> {
  // deno-fmt-ignore
  const args = ["-l", "127.0.0.1", "-p", `${port}`, "-m", `${MEMORY_MIB}`, "-t", `${threads}`, "-c", "2048", "--io", io, ...options];
  const { variables, flags } = startTask(checkout);
  const words = [...variables, Deno.execPath(), "run", ...flags, ...permissions, MAIN, ...args];
  const place = checkout === ROOT ? "" : ` of ${checkout}`;
  const name = ["leased --io", io, ...options].join(" ") + place;
  return await start(name, port, "env", words, checkout, cores);
}

/** The flags of the engine that `deno task start` sets. */
export function serverEngineFlags(): string[] {
  const { flags } = startTask(ROOT);
  const option = "--v8-flags=";
  const given = flags.find((flag) => flag.startsWith(option)) ?? option;
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

/** CPU time of all threads of a process, in nanoseconds. */
export function cpuNanoseconds(pid: number): number {
  return threadTimes(pid).values().reduce((sum, ns) => sum + ns, 0);
}

/** CPU time of each thread of a process in nanoseconds, by the path of its schedstat file. */
export function threadTimes(pid: number): Map<string, number> {
  const times = new Map<string, number>();
  for (const { name } of Deno.readDirSync(`/proc/${pid}/task`)) {
    const path = `/proc/${pid}/task/${name}/schedstat`;
    try {
      times.set(path, Number(Deno.readTextFileSync(path).split(" ")[0]));
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error; // the thread has just ended
    }
  }
  return times;
}

/** The thread that ran most between two looks, by its path. */
export function busiestThread(before: Map<string, number>, after: Map<string, number>): string {
  const grown = ([path, ns]: [string, number]): number => ns - (before.get(path) ?? 0);
  return [...after].reduce((most, one) => grown(one) > grown(most) ? one : most)[0];
}

/**
 * How long a thread has run, without what the host has taken away. Right while the thread sleeps, a
 * little behind while it runs.
 */
export class ThreadTime {
  readonly #file: Deno.FsFile;
  readonly #text = new Uint8Array(64);

  constructor(path: string) {
    this.#file = Deno.openSync(path);
  }

  nanoseconds(): number {
    this.#file.seekSync(0, Deno.SeekMode.Start);
    this.#file.readSync(this.#text);
    let sum = 0;
    for (let at = 0; this.#text[at]! >= 48; at++) sum = sum * 10 + this.#text[at]! - 48;
    return sum;
  }

  [Symbol.dispose](): void {
    this.#file.close();
  }
}

/** Resident memory of a process in bytes, without the kernel's socket buffers (Linux). */
export function residentBytes(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(Deno.readTextFileSync(`/proc/${pid}/status`))![1]) * 1024;
}

export interface Cores {
  /** As taskset(1) takes them. */
  readonly list: string;
  readonly count: number;
}

/**
 * Returns cores for a server with so many threads and for its clients. They share none if half of the cores is enough
 * for the server.
 */
export function coresFor(threads: number): { server: string; clients: Cores; text: string } {
  const cores = navigator.hardwareConcurrency;
  if (threads * 2 > cores) {
    const all = { list: `0-${cores - 1}`, count: cores };
    return { server: all.list, clients: all, text: "all cores, with the clients" };
  }
  const clients = { list: `${threads}-${cores - 1}`, count: cores - threads };
  const server = `0-${threads - 1}`;
  return { server, clients, text: `cores ${server}, clients on ${clients.list}` };
}

/**
 * Keeps this process on the generator's cores, where there is more than one.
 *
 * @param cores As taskset(1) takes them: `1-3`.
 */
export async function pinGenerator(cores = GENERATOR_CORE): Promise<void> {
  if (navigator.hardwareConcurrency < 2) return;
  const args = ["-acp", cores, `${process.pid}`];
  await new Deno.Command("taskset", { args, stdout: "null" }).output();
}

/** Starts a program, and waits until it listens. @param cores As taskset(1) takes them. */
export async function start(
  name: string,
  port: number,
  program: string,
  args: readonly string[],
  cwd = ".",
  cores: string = SERVER_CORE,
): Promise<BenchServer> {
  const pinned = navigator.hardwareConcurrency >= 2;
  const words = pinned ? ["taskset", "-c", cores, program, ...args] : [program, ...args];
  const child = new Deno.Command(words[0]!, {
    args: words.slice(1),
    stdout: "null",
    stderr: "inherit",
    cwd,
  }).spawn();
  (await connectWhenOpen(port)).close();
  const stop = async (signal: Deno.Signal = "SIGTERM"): Promise<void> => {
    child.kill(signal);
    await child.status;
  };
  return { name, port, pid: child.pid, stop, [Symbol.asyncDispose]: () => stop() };
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

/** A line on stdout. */
export function say(line: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(line + "\n"));
}
