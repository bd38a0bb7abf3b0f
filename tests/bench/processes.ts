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
  stop(): Promise<void>;
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

/** CPU time of all threads of a process, in nanoseconds (Linux, `schedstat`). */
export function cpuNanoseconds(pid: number): number {
  let sum = 0;
  for (const task of Deno.readDirSync(`/proc/${pid}/task`)) {
    try {
      sum += Number(
        Deno.readTextFileSync(`/proc/${pid}/task/${task.name}/schedstat`).split(" ")[0],
      );
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error; // the thread has just ended
    }
  }
  return sum;
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

/** Keeps the calling thread on one core. */
export function pinThread(core: number): void {
  const libc = Deno.dlopen("libc.so.6", {
    sched_setaffinity: { parameters: ["i32", "usize", "buffer"], result: "i32" },
  });
  const mask = new BigUint64Array([1n << BigInt(core)]);
  if (libc.symbols.sched_setaffinity(0, 8n, mask) !== 0) {
    throw new Error(`Cannot run on core ${core}`);
  }
  libc.close();
}

async function start(
  name: string,
  port: number,
  program: string,
  args: readonly string[],
  cwd: string,
  cores: string,
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
  const stop = async (): Promise<void> => {
    child.kill("SIGTERM");
    await child.status;
  };
  return { name, port, pid: child.pid, stop, [Symbol.asyncDispose]: stop };
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
