/**
 * Drives the server, over each transport, with clients that others wrote: `deno task clients`. They come from Debian's packages
 * python3-pymemcache and libmemcached-tools; one that is missing is named and skipped.
 */
import { ServerProcess, TRANSPORTS } from "../support/server_process.ts";

interface ClientRun {
  readonly name: string;
  readonly command: string;
  args(port: number): string[];
  /** Judges what it printed and its status; null when all is well, else what is not. */
  judge(output: string, status: number): string | null;
}

/** memccapable's cases that memcached 1.6.45 fails too: they want errors that it does not give. */
const MEMCCAPABLE_KNOWN = ["ascii delete", "ascii delete noreply"];

const script = (name: string): string => new URL(name, import.meta.url).pathname;
const byStatus = (output: string, status: number): string | null => status === 0 ? null : output;

const RUNS: readonly ClientRun[] = [
  {
    name: "pymemcache",
    command: "/usr/bin/python3",
    args: (port) => [script("text_clients.py"), "127.0.0.1", String(port)],
    judge: byStatus,
  },
  {
    name: "memccapable, ASCII",
    // Names go to its stdout and verdicts to its stderr.
    command: "sh",
    args: (port) => ["-c", `exec memccapable -h 127.0.0.1 -p ${port} -a 2>&1`],
    judge: judgeMemccapable,
  },
  {
    name: "memcping",
    command: "memcping",
    args: (port) => [`--servers=127.0.0.1:${port}`],
    judge: byStatus,
  },
  {
    name: "memcstat",
    command: "memcstat",
    args: (port) => [`--servers=127.0.0.1:${port}`],
    judge: (output) => output.includes("curr_items: ") ? null : output,
  },
];

function judgeMemccapable(output: string): string | null {
  const surprises = output.split("\n").filter((line) =>
    line.includes("[FAIL]") && !MEMCCAPABLE_KNOWN.some((name) => line.startsWith(`${name} `))
  );
  if (output.includes("memccapable: not found")) throw new Deno.errors.NotFound("memccapable");
  if (!output.includes("[pass]")) return output;
  return surprises.length === 0 ? null : surprises.join("\n");
}

async function run(client: ClientRun, port: number): Promise<string | null> {
  const process = await new Deno.Command(client.command, {
    args: client.args(port),
    stdin: "null",
  }).output();
  const output = new TextDecoder().decode(process.stdout) +
    new TextDecoder().decode(process.stderr);
  return client.judge(output, process.code);
}

let surprises = 0;
for (const io of TRANSPORTS) {
  await using server = await ServerProcess.start({ io });
  for (const client of RUNS) {
    let result: string;
    try {
      const complaint = await run(client, server.port);
      if (complaint !== null) surprises++;
      result = complaint === null ? "ok" : `FAILED\n${complaint}`;
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
      result = "skipped, not installed";
    }
    // deno-lint-ignore no-console
    console.log(`${client.name}, ${io}: ${result}`);
  }
}
if (surprises > 0) Deno.exit(1);
