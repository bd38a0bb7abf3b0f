import { MAIN, path, ServerProcess } from "./server_process.ts";

const SOURCES = ["lib", "protocol", "store"].map(path).join(",");

/** Starts a proxy on a free port of 127.0.0.1, before an SQLite file. */
export async function startProxy(
  databasePath: string,
  caches: readonly number[],
  args: readonly string[] = [],
): Promise<ServerProcess> {
  const folder = databasePath.slice(0, databasePath.lastIndexOf("/"));
  return await ServerProcess.spawn(
    new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "--no-prompt",
        "--allow-net=127.0.0.1",
        `--allow-read=${SOURCES},${folder}`,
        `--allow-write=${folder}`,
        MAIN,
        "proxy",
        ...["-p", "-1", "--db", `sqlite:${databasePath}`],
        ...caches.flatMap((port) => ["--cache", `127.0.0.1:${port}`]),
        ...args,
      ],
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }),
  );
}
