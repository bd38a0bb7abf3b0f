import { TextLineStream } from "@std/streams";
import { MAIN } from "../support/servers/server_process.ts";

/** Between two writes of the canary's row. */
const INTERVAL_MS = 20;
/** How long a server may be silent. */
const TIMEOUT_MS = 2000;

/** A canary as operators start it: a process that writes a row at an origin, and reads it in caches. */
export class Canary {
  /** The line of the first wrong read. */
  readonly found: Promise<string>;
  /** Those of all wrong reads. */
  readonly lines: string[] = [];
  readonly #ended: Promise<void>;
  #counts = "";
  readonly #child: Deno.ChildProcess;

  /** @param caches Their addresses, separated by commas, and so the keys. */
  constructor(originPort: number, caches: string, keys = "canary") {
    this.#child = new Deno.Command(Deno.execPath(), {
      args: [
        ...["run", "--no-prompt", "--allow-net=127.0.0.1", MAIN, "audit"],
        ...["--origin", `127.0.0.1:${originPort}`, "--cache", caches, "--canary", keys],
        ...["--interval", `${INTERVAL_MS}`, "--timeout", `${TIMEOUT_MS}`],
      ],
      env: { NO_COLOR: "1" },
      stdin: "null",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    const { promise, resolve } = Promise.withResolvers<string>();
    this.found = promise;
    this.#ended = this.#read(resolve);
  }

  async #read(find: (line: string) => void): Promise<void> {
    const lines = this.#child.stdout
      .pipeThrough(new TextDecoderStream())
      .pipeThrough(new TextLineStream());
    for await (const line of lines) {
      if (!/^(?:stale|lost) /.test(line)) {
        this.#counts = line;
        continue;
      }
      this.lines.push(line);
      find(line);
    }
  }

  /** Ends it. @returns Its counts. */
  async stop(): Promise<string> {
    this.#child.kill("SIGTERM");
    await this.#child.status;
    await this.#ended;
    return this.#counts;
  }
}
