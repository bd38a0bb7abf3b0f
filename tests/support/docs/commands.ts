import { assert, assertEquals } from "@std/assert";
import manifest from "../../../deno.json" with { type: "json" };
import { freePorts } from "../free_ports.ts";
import { path, ServerProcess } from "../servers/server_process.ts";
import { needNow } from "../needs/needs.ts";
import { hasProgram } from "../servers/peers.ts";
import type { Block } from "./markdown.ts";

/** A command of a document, and the lines that the document says it prints. */
export interface ShellCommand {
  readonly text: string;
  /** Number of its line in the document. */
  readonly line: number;
  /** Undefined: the document says nothing about it. */
  readonly output: readonly string[] | undefined;
}

/**
 * Returns the commands of a block. In `sh` each line is a command. In other blocks `$ ` starts a command, and the lines
 * below it are its output. A backslash at a line's end joins it with the next line.
 */
export function commandsOf({ language, lines, line }: Block): ShellCommand[] {
  const commands: (ShellCommand & { output: string[] | undefined })[] = [];
  for (let index = 0; index < lines.length; index++) {
    let text = lines[index]!;
    const at = line + index;
    if (language !== "sh" && !text.startsWith("$ ")) {
      commands.at(-1)?.output?.push(text);
      continue;
    }
    while (text.endsWith("\\")) text = text.slice(0, -1) + lines[++index]!.trim();
    text = text.replace(/^\$ /, "").replace(/ {2,}# .*$/, "").trim();
    if (text === "" || text.startsWith("#")) continue;
    commands.push({ text, line: at, output: language === "sh" ? undefined : [] });
  }
  return commands;
}

/** Whether a command starts a server that keeps running. */
export function startsServer(command: string): boolean {
  return /\btask (?:start|tokens|rows)\b|\bmain\.ts\b/.test(command) &&
    !/ -V\b| --help\b| rows (?:init|--db)\b|; test \$\?|\bdeno install\b|\bmain\.ts (?:passwd|man|completion)\b/
      .test(
        command,
      );
}

/** Ports that the documents name. The runner replaces them by free ports, so that tests can run in parallel. */
const PORTS = ["11211", "11215", "9150", "11311"];
/** `deno task tokens`, with the runner's folder in the place of its own. */
const TOKENS_TASK = manifest.tasks.tokens.command.replaceAll(
  /(?<=[ ,=])state(?=[ ]|$)/g,
  "/tmp/leased",
);
/** `deno task rows`, with the runner's file in the place of its own. */
const ROWS_TASK = `${
  manifest.tasks.rows.command.replaceAll(/(--allow-(?:read|write))=\./g, "$1")
} -p 11311 --db sqlite:/tmp/leased.db`;
/** Folder that the documents put files into. The runner replaces it by a temporary one. */
const FOLDER = "/tmp/leased";
const COMMAND_SEC_MAX = 60;

/** Runs the commands of one document in their order. The last server that a command started keeps running. */
export class DocumentShell implements AsyncDisposable {
  readonly #folder: string;
  readonly #ports: readonly string[];
  #server: ServerProcess | undefined;

  constructor() {
    this.#folder = Deno.makeTempDirSync({ prefix: "leased-docs-" });
    this.#ports = freePorts(PORTS.length).map(String);
    Deno.mkdirSync(`${this.#folder}/bin`);
    Deno.mkdirSync(`${this.#folder}/files`);
    Deno.symlinkSync(Deno.execPath(), `${this.#folder}/bin/deno`);
    this.#script("npx", NPX);
    if (!installed("nc")) this.#script("nc", NC);
    if (!installed("curl")) this.#script("curl", CURL);
  }

  /** The port of the running server. */
  get port(): number {
    return Number(this.#ports[0]);
  }

  /** Runs a command as the document has it, and compares what it prints. */
  async run({ text, output }: ShellCommand): Promise<void> {
    if (startsServer(text)) return await this.startServer(text, output);
    const { code, stdout } = await this.#command(
      `timeout ${COMMAND_SEC_MAX} bash -c "$0" 2>&1`,
      text,
    )
      .output();
    const printed = new TextDecoder().decode(stdout);
    assertEquals(code, 0, printed);
    if (output !== undefined) this.#compare(printed, output);
  }

  /** Starts the server of a command, on a port of this document, after ending the one before. */
  async startServer(text: string, output: readonly string[] = []): Promise<void> {
    await this.stopServer();
    const listens = / (?:-p|-s|-l)\b|\btask rows\b/.test(text);
    const command = this.#command('exec bash -c "$0"', listens ? text : `${text} -p 11211`, "null");
    this.#server = await ServerProcess.spawn(command);
    const said = this.#server.lines.filter((line) => !line.startsWith("Task "));
    this.#compare(said.join("\n"), output);
  }

  /** Ends the server, if there is one, and checks that it ends with 0. */
  async stopServer(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    // Its own id: what the shell started may be the task's runner.
    Deno.kill(Number(/ pid (\d+)/.exec(await server.line(" pid "))![1]), "SIGTERM");
    const { code, stderr } = await server.ended();
    assertEquals(code, 0, stderr);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopServer();
    Deno.removeSync(this.#folder, { recursive: true });
  }

  /** @param expected Without a line: anything. */
  #compare(printed: string, expected: readonly string[]): void {
    if (expected.join("") === "") return;
    PORTS.forEach((port, index) =>
      printed = printed.replaceAll(`:${this.#ports[index]}`, `:${port}`)
    );
    assertOutput(printed, expected);
  }

  #command(script: string, text: string, stdout: "piped" | "null" = "piped"): Deno.Command {
    text = text.replace("deno task tokens", TOKENS_TASK);
    text = text.replace(/(?:npx -y deno@\S+|deno) task rows$/, ROWS_TASK);
    PORTS.forEach((port, index) => text = text.replaceAll(port, this.#ports[index]!));
    needNow("bash", hasProgram("bash"));
    return new Deno.Command("bash", {
      args: [
        "-c",
        script,
        text.replaceAll(FOLDER, `${this.#folder}/files/leased`),
      ],
      cwd: path(""),
      env: {
        NO_COLOR: "1",
        DENO_NO_UPDATE_CHECK: "1",
        PATH: `${this.#folder}/bin:${Deno.env.get("PATH")}`,
      },
      stdin: "null",
      stdout,
      stderr: "piped",
    });
  }

  #script(name: string, text: string): void {
    Deno.writeTextFileSync(`${this.#folder}/bin/${name}`, text, { mode: 0o755 });
  }
}

/** Runs the deno of this test instead of fetching one. Refuses any other version. */
const NPX = `#!/bin/sh
[ "$1 $2 $3 $4" = "-y -p deno@${Deno.version.deno} -c" ] && exec sh -c "$5"
[ "$1 $2" = "-y deno@${Deno.version.deno}" ] || { echo "npx $*: not deno@${Deno.version.deno}"; exit 1; }
shift 2
exec deno "$@"
`;

/** Replaces netcat where it is not installed. Does what the documents use of it. */
const NC = `#!/bin/bash
exec 3<>"/dev/tcp/$1/$2" && cat >&3 && cat <&3
`;

/** Replaces `curl -s <url>` where curl is not installed. */
const CURL = `#!/bin/sh
exec deno eval 'await (await fetch(Deno.args[1])).body.pipeTo(Deno.stdout.writable)' "$@"
`;

function installed(program: string): boolean {
  return new Deno.Command("sh", { args: ["-c", `command -v ${program}`], stdout: "null" })
    .outputSync().success;
}

/** Compares output with a document's. `…` matches any text in a line, and as a line of its own any lines. */
function assertOutput(printed: string, expected: readonly string[]): void {
  const lines = expected.join("\n").trim().split("\n").map((line) =>
    line === "…" ? "[^]*" : `${line.split("…").map(RegExp.escape).join(".*")}\\r?\\n`
  );
  assert(
    new RegExp(`^${lines.join("")}`).test(printed.endsWith("\n") ? printed : `${printed}\n`),
    `it printed\n${printed}\ninstead of\n${expected.join("\n")}`,
  );
}
