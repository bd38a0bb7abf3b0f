/**
 * Client libraries under a herd: processes of callers want one row of a slow database at once, after each update of
 * it. How often is it loaded, and how long do callers wait? The folder with the packages has ours of
 * `deno task client:pack`, bentocache, ioredis and memjs.
 */
import { TextLineStream } from "@std/streams";
import { path, TRANSPORTS } from "../../support/servers/server_process.ts";
import { readOptions } from "../options.ts";
import { DEBIAN_MEMCACHED, say, startLeased, startMemcached } from "../processes.ts";
import { quantile, Table } from "../table.ts";
import { startRedis } from "./run.ts";

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

  constructor(cwd: string, library: string, port: number, callers: number) {
    const args = ["herd.mjs", library, `${port}`, `${callers}`];
    const stdio = { stdin: "piped", stdout: "piped", stderr: "inherit" } as const;
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

export async function main(args: readonly string[]): Promise<void> {
  const defaults = { packages: "", port: 21_710, processes: 4, callers: 500, rounds: 40 };
  const options = readOptions(args, { ...defaults, redis: "redis-server" });
  const { packages, port, processes, callers, rounds, redis } = options;
  if (packages === "") return say("--packages names the folder with the libraries' packages.");
  await Deno.copyFile(path("tests/bench/client/herd.mjs"), `${packages}/herd.mjs`);
  const waits = ["median, ms", "p99, ms", "longest, ms"];
  const table = new Table("library", "loads per update", "stale reads", ...waits);
  await using leased = await startLeased(port, 1, TRANSPORTS.at(-1)!);
  await using memcached = await startMemcached(DEBIAN_MEMCACHED, port + 1, 1);
  await using stock = await startRedis(redis, port + 2);
  const own = "@leased/client";
  for (
    const [library, server] of [
      [own, leased],
      [own, memcached],
      ["bentocache", stock],
      ["memjs", memcached],
    ] as const
  ) {
    await using stack = new AsyncDisposableStack();
    const herd = Array.from(
      { length: processes },
      () => stack.use(new Callers(packages, library, server.port, callers / processes)),
    );
    const reports: Report[] = [];
    for (let round = 0; round <= rounds; round++) {
      await herd[round % processes]!.ask("update", round);
      const reads = await Promise.all(herd.map((each) => each.ask("read", round)));
      // The first round connects.
      if (round > 0) reports.push(...reads);
    }
    const sum = (name: "loads" | "stale"): number =>
      reports.reduce((total, report) => total + report[name], 0);
    const ms = reports.flatMap((report) => report.ms).sort((a, b) => a - b);
    table.row(
      `${library}, ${server.name.split(" --")[0]}`,
      (sum("loads") / rounds).toFixed(1),
      `${sum("stale")}`,
      ...[0.5, 0.99, 1].map((share) => quantile(ms, share).toFixed(0)),
    );
  }
}
