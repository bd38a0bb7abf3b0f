import type { TestDatabase } from "./databases.ts";
import { textOf } from "../sessions/side.ts";
import { type Ended, path, program, ServerProcess } from "./server_process.ts";

const SOURCES = ["lib", "protocol", "store", ".bundle"].map(path).join(",");
/** The lock file that names the driver of PostgreSQL; deno.lock does not. */
const LOCK_FILE = path("lib/databases/postgres/deno.lock");

export const NODE_PERMISSIONS = ["--allow-net=127.0.0.1", "--allow-ffi", "--allow-read"];

type Place = Pick<TestDatabase, "url" | "folder">;

/** Starts an origin on a free port of 127.0.0.1, unless its options say otherwise. */
export async function startOrigin(
  database: Place,
  args: readonly string[] = [],
): Promise<ServerProcess> {
  return await ServerProcess.spawn(originCommand(database, args));
}

/** As `startOrigin`, without a wait for the origin to listen. */
export function launchOrigin(
  database: Place,
  args: readonly string[] = [],
): ServerProcess {
  return ServerProcess.launch(originCommand(database, args));
}

function originCommand(
  database: Place,
  args: readonly string[],
): Deno.Command {
  const all = [
    ...(args.includes("-p") ? [] : ["-p", "-1"]),
    ...(args.includes("-t") ? [] : ["-t", "2"]),
    "--no-warm-up",
    ...args,
  ];
  return command(database, [], all, "null");
}

/** Starts a node of these origins. @param folder One that it may write; "": none. */
export async function startNode(
  origins: readonly { readonly port: number }[],
  args: readonly string[] = [],
  folder = "",
): Promise<ServerProcess> {
  const list = origins.map(({ port }) => `127.0.0.1:${port}`).join(",");
  return await ServerProcess.start({
    io: "native",
    permissions: [...NODE_PERMISSIONS, ...folder === "" ? [] : [`--allow-write=${folder}`]],
    args: ["--origin", list, ...args],
  });
}

/** Runs `leased rows init`. */
export async function runInit(database: Place, args: readonly string[]): Promise<Ended> {
  const { code, signal, stdout, stderr } = await command(database, ["init"], args, "piped")
    .output();
  return { code, signal, stdout: textOf(stdout), stderr: textOf(stderr) };
}

function command(
  { url, folder }: Place,
  subcommand: readonly string[],
  args: readonly string[],
  stdout: "piped" | "null",
): Deno.Command {
  const folders = folder === "" ? "" : `,${folder}`;
  return new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      `--lock=${LOCK_FILE}`,
      "--no-prompt",
      "--allow-net=127.0.0.1",
      "--allow-env=MEMCACHED_PORT_FILENAME,DENO_TOKIO_EVENT_INTERVAL,PG*,USERNAME,USER,LOGNAME",
      "--allow-ffi",
      `--allow-read=${SOURCES}${folders}`,
      ...(folder === "" ? [] : [`--allow-write=${folder}`]),
      ...[program(), "rows", ...subcommand, "--db", url, ...args],
    ],
    stdin: "null",
    stdout,
    stderr: "piped",
  });
}
