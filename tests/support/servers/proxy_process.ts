import type { TestDatabase } from "./databases.ts";
import { MAIN, path, ServerProcess } from "./server_process.ts";

const SOURCES = ["lib", "protocol", "store"].map(path).join(",");
/** The lock file that names the driver of PostgreSQL; deno.lock does not. */
const LOCK_FILE = path("lib/proxy/postgres/deno.lock");

/** Starts a proxy on a free port of 127.0.0.1, unless its options say otherwise. */
export async function startProxy(
  { url, folder }: Pick<TestDatabase, "url" | "folder">,
  caches: readonly number[],
  args: readonly string[] = [],
): Promise<ServerProcess> {
  const folders = folder === "" ? "" : `,${folder}`;
  return await ServerProcess.spawn(
    new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        `--lock=${LOCK_FILE}`,
        "--no-prompt",
        "--allow-net=127.0.0.1",
        "--allow-env=PG*,USERNAME,USER,LOGNAME",
        `--allow-read=${SOURCES}${folders}`,
        ...(folder === "" ? [] : [`--allow-write=${folder}`]),
        MAIN,
        "proxy",
        ...(args.includes("-p") ? [] : ["-p", "-1"]),
        ...["--db", url],
        ...caches.flatMap((port) => ["--cache", `127.0.0.1:${port}`]),
        ...args,
      ],
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }),
  );
}
