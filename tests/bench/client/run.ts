/**
 * Client libraries beside each other: gets a second and CPU time of the client, in Node and in Deno. The libraries'
 * packages are in a folder, ours among them: `deno task client:pack`, then in the folder `npm install` of
 * leased-client.tgz, memjs, memcached, memcache-client, memcache and ioredis.
 */
import { path } from "../../support/servers/server_process.ts";
import { textOf } from "../../support/sessions/side.ts";
import { isInstalled } from "../../support/servers/peers.ts";
import { readOptions } from "../options.ts";
import { type BenchServer, DEBIAN_MEMCACHED, say, start, startMemcached } from "../processes.ts";
import { median } from "../rows.ts";
import { Table } from "../table.ts";

const LIBRARIES = "@leased/client memjs memcached memcache-client memcache ioredis".split(" ");
const OWN = LIBRARIES[0]!;
const REDIS = "redis-server";

interface Result {
  readonly rate: number;
  readonly cpuUs: number;
}

export async function main(args: readonly string[]): Promise<void> {
  const options = readOptions(args, {
    packages: "",
    port: 21_700,
    requests: 200_000,
    rounds: 3,
    inFlight: [1, 100],
    redis: REDIS,
  });
  const { packages, port, redis } = options;
  if (packages === "") return say("--packages names the folder with the libraries' packages.");
  await Deno.copyFile(path("tests/bench/client/drive.mjs"), `${packages}/drive.mjs`);
  const hasRedis = isInstalled([redis, "--version"]);
  await using memcached = await startMemcached(DEBIAN_MEMCACHED, port, 1);
  await using _ = hasRedis ? await startRedis(redis, port + 1) : undefined;
  const libraries = LIBRARIES.filter((library) => hasRedis || library !== "ioredis");
  const table = new Table("library", "runtime", "in flight", "gets/s", "CPU µs per get");
  for (const runtime of ["node", "deno"] as const) {
    for (const inFlight of options.inFlight) {
      for (const library of libraries) {
        const own: Result[] = [];
        for (let round = 0; round < options.rounds; round++) {
          const server = library === "ioredis" ? port + 1 : memcached.port;
          const requests = inFlight === 1 ? options.requests / 10 : options.requests;
          own.push(await drive(runtime, packages, [library, server, inFlight, requests]));
        }
        const rate = median(own.map(({ rate }) => rate));
        const cpuUs = median(own.map(({ cpuUs }) => cpuUs));
        const name = library === OWN ? "**@leased/client**" : library;
        table.row(name, runtime, `${inFlight}`, rate.toFixed(0), cpuUs.toFixed(1));
      }
    }
  }
}

/** @param redis The path of redis-server. */
export function startRedis(redis: string, port: number): Promise<BenchServer> {
  const args = ["--port", `${port}`, "--bind", "127.0.0.1", "--save", ""];
  return start("redis-server", port, redis, args);
}

async function drive(
  runtime: "node" | "deno",
  cwd: string,
  args: readonly (string | number)[],
): Promise<Result> {
  const program = runtime === "node" ? "node" : Deno.execPath();
  // memcached reads `__proto__`.
  const flags = runtime === "node"
    ? []
    : ["run", "-A", "--unsafe-proto", "--node-modules-dir=manual"];
  const words = [...flags, "drive.mjs", ...args.map(String)];
  const command = new Deno.Command(program, { args: words, cwd, env: { NO_COLOR: "1" } });
  const { success, stdout, stderr } = await command.output();
  if (!success) throw new Error(`${runtime} ${words.join(" ")}: ${textOf(stderr)}`);
  return JSON.parse(textOf(stdout).trim().split("\n").at(-1)!);
}
