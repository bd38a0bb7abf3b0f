/**
 * Client libraries beside each other. The libraries' packages are in a folder, ours among them: `deno task
 * client:pack`, then in the folder `npm install` of leased-client.tgz, memjs, memcached, memcache-client, memcache,
 * ioredis and bentocache.
 */
import { TextLineStream } from "@std/streams";
import { isInstalled } from "../support/servers/peers.ts";
import { path, TRANSPORTS } from "../support/servers/server_process.ts";
import { textOf } from "../support/sessions/side.ts";
import { Comparison, type Figures, say, typical, waits } from "./base/measure.ts";
import { readOptions, someOf } from "../support/options.ts";
import { type BenchServer, DEBIAN_MEMCACHED, Servers } from "./base/servers.ts";

const OWN = "@leased/client";
const LIBRARIES = [OWN, ..."memjs memcached memcache-client memcache ioredis".split(" ")];
const RUNTIMES = ["node", "deno"] as const;
const PROGRAM = "client_libraries.mjs";
const OUTAGES_PROGRAM = "client_outages.mjs";
const OUTAGES = [
  ..."database down,slow load,slow refresh,server down,server stopped,none".split(","),
];
/** memcached reads `__proto__`. */
const DENO_FLAGS = ["run", "-A", "--unsafe-proto", "--node-modules-dir=manual"];

/** Gets a second and CPU time of the client, in Node and in Deno. */
export async function drive(args: readonly string[]): Promise<void> {
  const options = readOptions(args, {
    packages: "",
    requests: 200_000,
    rounds: 3,
    inFlight: [1, 100],
    redis: "redis-server",
  });
  const { packages, redis } = options;
  if (!await hasProgram(packages)) return;
  await using servers = new Servers(1);
  const memcached = await servers.memcached(DEBIAN_MEMCACHED);
  const other = isInstalled([redis, "--version"]) ? await servers.redis(redis) : undefined;
  const libraries = LIBRARIES.filter((library) => other !== undefined || library !== "ioredis");
  for (const runtime of RUNTIMES) {
    for (const inFlight of options.inFlight) {
      const requests = inFlight === 1 ? options.requests / 10 : options.requests;
      const table = new Comparison(`${runtime}, ${inFlight} in flight`, {
        "gets/s": typical("rate"),
        "CPU µs per get": typical("cpuUs", 1),
      });
      const contestants = libraries.map((name) => {
        const { port } = name === "ioredis" ? other! : memcached;
        const words = [name, port, inFlight, requests].map(String);
        return { name, measure: () => driveOnce(runtime, packages, words) };
      });
      await table.add(contestants, options.rounds);
    }
  }
}

/** Copies a program into the folder of the packages. Returns whether there is one. */
async function hasProgram(packages: string, program = PROGRAM): Promise<boolean> {
  if (packages === "") say("--packages names the folder with the libraries' packages.");
  else await Deno.copyFile(path(`tests/bench/${program}`), `${packages}/${program}`);
  return packages !== "";
}

async function driveOnce(
  runtime: typeof RUNTIMES[number],
  cwd: string,
  words: readonly string[],
): Promise<Figures<"rate" | "cpuUs">> {
  const [program, flags] = runtime === "node" ? ["node", []] : [Deno.execPath(), DENO_FLAGS];
  const args = [...flags, PROGRAM, "drive", ...words];
  const command = new Deno.Command(program, { args, cwd, env: { NO_COLOR: "1" } });
  const { success, stdout, stderr } = await command.output();
  if (!success) throw new Error(`${runtime} ${args.join(" ")}: ${textOf(stderr)}`);
  return JSON.parse(textOf(stdout).trim().split("\n").at(-1)!);
}

interface Report {
  readonly loads: number;
  readonly stale: number;
  /** How long each caller waited. */
  readonly ms: readonly number[];
}

/** A process of callers. */
class Callers implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #input: WritableStreamDefaultWriter<Uint8Array>;
  readonly #lines: ReadableStreamDefaultReader<string>;

  constructor(cwd: string, ...words: string[]) {
    const stdio = { stdin: "piped", stdout: "piped", stderr: "inherit" } as const;
    const args = [PROGRAM, "herd", ...words];
    this.#child = new Deno.Command("node", { args, cwd, ...stdio }).spawn();
    this.#input = this.#child.stdin.getWriter();
    this.#lines = this.#child.stdout.pipeThrough(new TextDecoderStream())
      .pipeThrough(new TextLineStream()).getReader();
  }

  async ask(command: "update" | "read", version: number): Promise<Report> {
    await this.#input.write(new TextEncoder().encode(`${command} ${version}\n`));
    return JSON.parse((await this.#lines.read()).value!);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#input.close();
    await this.#lines.cancel();
    await this.#child.status;
  }
}

/**
 * Processes of callers want one row of a slow database at once, after each update of it. Counts loads, and measures the
 * waits of callers.
 */
export async function herd(args: readonly string[]): Promise<void> {
  const defaults = { packages: "", processes: 4, callers: 500, rounds: 40, redis: "redis-server" };
  const { packages, processes, callers, rounds, redis } = readOptions(args, defaults);
  if (!await hasProgram(packages)) return;
  await using servers = new Servers(1);
  const leased = await servers.leased(TRANSPORTS.at(-1)!);
  const memcached = await servers.memcached(DEBIAN_MEMCACHED);
  const other = await servers.redis(redis);
  const table = new Comparison("library", {
    "loads per update": typical("loads", 1),
    "stale reads": typical("stale"),
    "median, ms": typical("p50"),
    "p99, ms": typical("p99"),
    "longest, ms": typical("longest"),
  });
  const runs = { [OWN]: [leased, memcached], bentocache: [other], memjs: [memcached] };
  for (const [library, over] of Object.entries(runs)) {
    for (const { name, port } of over) {
      await using stack = new AsyncDisposableStack();
      const words = [library, `${port}`, `${callers / processes}`];
      const all = Array.from(
        { length: processes },
        () => stack.use(new Callers(packages, ...words)),
      );
      const measure = async () => {
        const reports: Report[] = [];
        for (let round = 0; round <= rounds; round++) {
          await all[round % processes]!.ask("update", round);
          const reads = await Promise.all(all.map((each) => each.ask("read", round)));
          // The first round connects.
          if (round > 0) reports.push(...reads);
        }
        const sum = (of: (report: Report) => number): number =>
          reports.reduce((total, report) => total + of(report), 0);
        const loads = sum((report) => report.loads) / rounds;
        const stale = sum((report) => report.stale);
        return { loads, stale, ...waits(reports.flatMap(({ ms }) => ms)) };
      };
      await table.add([{ name: `${library}, ${name.split(" --")[0]}`, measure }], 1);
    }
  }
}

/**
 * Two clients read one hot key by 40 callers while the database or the server is away or slow, each library before a
 * server of its own.
 */
export async function outages(args: readonly string[]): Promise<void> {
  const { packages, seconds, rounds, redis, only } = readOptions(args, {
    packages: "",
    seconds: 6,
    rounds: 3,
    redis: "redis-server",
    only: someOf(OUTAGES),
  });
  if (!await hasProgram(packages, OUTAGES_PROGRAM)) return;
  for (const outage of only) {
    const table = new Comparison(outage, {
      "median, ms": typical("p50", 1),
      "p99, ms": typical("p99"),
      "longest, ms": typical("longest"),
      "reads": typical("reads"),
      "errors": typical("errors"),
      "unanswered": typical("unanswered"),
      "stale reads": typical("stale"),
      "loads": typical("loads"),
    });
    type Figure = "p50" | "p99" | "longest" | "reads" | "errors" | "unanswered" | "stale" | "loads";
    const contestant = (library: string, start: (servers: Servers) => Promise<BenchServer>) => ({
      name: library,
      measure: async (): Promise<Figures<Figure>> => {
        await using servers = new Servers(1);
        const { port, pid } = await start(servers);
        const words = [library.split(",")[0]!, `${port}`, `${pid}`, outage, `${seconds}`];
        const stdio = { args: [OUTAGES_PROGRAM, ...words], cwd: packages };
        const { success, stdout, stderr } = await new Deno.Command("node", stdio).output();
        if (!success) throw new Error(`${library}, ${outage}: ${textOf(stderr)}`);
        return JSON.parse(textOf(stdout).trim().split("\n").at(-1)!);
      },
    });
    await table.add([
      contestant(`${OWN}, leased`, (servers) => servers.leased(TRANSPORTS.at(-1)!)),
      contestant(`${OWN}, memcached`, (servers) => servers.memcached(DEBIAN_MEMCACHED)),
      contestant("bentocache, Redis", (servers) => servers.redis(redis)),
      contestant("cache-manager, Redis", (servers) => servers.redis(redis)),
    ], rounds);
  }
}
