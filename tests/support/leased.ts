import { TextLineStream } from "@std/streams";
import { type Address, SocketSide } from "./socket_side.ts";

const ROOT = new URL("../../", import.meta.url);
const STARTS_WITHIN_MS = 60_000;

/** How a server is reached: the two transports, and both kinds of sockets. */
export const WAYS = ["portable", "native"] as const;
export type Way = typeof WAYS[number];

/** Whether the native transport can work on this machine. */
export function isSupported(way: Way): boolean {
  return way === "portable" || Deno.build.os === "linux";
}

export interface LeasedServer extends SocketSide {
  readonly port: number;
  readonly pid: number;
}

/** The words between `deno run` and `main.ts` of the task that users start: tests need no other permission. */
function startFlags(): string[] {
  const config = JSON.parse(Deno.readTextFileSync(new URL("deno.json", ROOT)));
  const [, flags] = /^deno run (.*) main\.ts$/.exec(config.tasks.start.command) ?? [];
  if (flags === undefined) throw new Error("the task start runs main.ts no longer");
  return flags.split(" ");
}

/** Starts the server in a process of its own, on any free port or on a Unix socket. */
export async function startLeased(
  way: Way,
  options: readonly string[] = [],
  unixPath?: string,
): Promise<LeasedServer> {
  const where = unixPath === undefined ? ["-p", "-1"] : ["-s", unixPath];
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", ...startFlags(), "main.ts", "--io", way, "-t", "2", ...where, ...options],
    cwd: ROOT,
    env: { NO_COLOR: "1" },
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const log = new Log(child.stderr);
  const listening = await log.find(/listens on (\S+?)[;,]/);
  if (listening === undefined) {
    await child.status;
    throw new Error(`Cannot start the server:\n${log.text}`);
  }
  const port = Number(/:(\d+)$/.exec(listening)?.[1] ?? 0);
  const address: Address = unixPath === undefined
    ? { hostname: "127.0.0.1", port }
    : { transport: "unix", path: unixPath };
  const side = new SocketSide(`leased (${way})`, address, async () => {
    child.kill("SIGTERM");
    const { code } = await child.status;
    await log.ended;
    if (code !== 0) throw new Error(`the server ended with status ${code}:\n${log.text}`);
  });
  return Object.assign(side, { port, pid: child.pid });
}

/** What a process writes, read from the start so that it never waits for a reader. */
class Log {
  text = "";
  readonly ended: Promise<void>;
  #look: () => void = () => {};

  constructor(stream: ReadableStream<Uint8Array<ArrayBuffer>>) {
    this.ended = this.#read(stream);
  }

  /** Waits for the pattern's first group; undefined when the process ends without it, or is too slow. */
  async find(pattern: RegExp): Promise<string | undefined> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const tooLate = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), STARTS_WITHIN_MS);
    });
    const found = new Promise<string>((resolve) => {
      this.#look = () => {
        const match = pattern.exec(this.text);
        if (match) resolve(match[1]!);
      };
    });
    this.#look();
    const first = await Promise.race([found, this.ended.then(() => undefined), tooLate]);
    clearTimeout(timer);
    return first;
  }

  async #read(stream: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<void> {
    const lines = stream.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream());
    for await (const line of lines) {
      this.text += line + "\n";
      this.#look();
    }
  }
}
