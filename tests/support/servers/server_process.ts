import { assert, assertEquals, AssertionError } from "@std/assert";
import { TextLineStream } from "@std/streams";
import type { IoUringChoice } from "../../../lib/net/transport.ts";
import { bytesOf, textOf } from "../sessions/side.ts";
import { endAtTimeLimit, waitingFor } from "../waiting.ts";

const ROOT = new URL("../../../", import.meta.url);
export const MAIN = path("main.ts");
/** The server under a kernel that gives silent TCP peers up 60 times sooner. */
export const SHORT_KEEPALIVE = path("tests/support/servers/short_keepalive.ts");
const SOURCES = ["lib", "protocol", "store", ".bundle"].map(path).join(",");

/** Matches the line of a server that has started, and no other line. */
const LISTENING = /leased \S+ listens on /;

/** The transports of this system. */
export const TRANSPORTS: readonly ("portable" | "native")[] =
  Deno.build.os === "linux" && Deno.build.target.endsWith("-gnu")
    ? ["portable", "native"]
    : ["portable"];

/** A transport, and the way in which it reads and sends. */
export interface IoWay {
  readonly name: string;
  readonly io: "portable" | "native";
  readonly ioUring?: IoUringChoice;
}

/**
 * The transports, each in every way. The native one of TRANSPORTS uses io_uring where the kernel allows it. For tests
 * of what depends on how bytes are moved.
 */
export const IO_WAYS: readonly IoWay[] = TRANSPORTS.flatMap((io): IoWay[] => [
  { name: io, io },
  ...(io === "native" ? [{ name: "native without io_uring", io, ioUring: "off" } as const] : []),
]);

/** Absolute path of a file of the repository. */
export function path(name: string): string {
  return decodeURIComponent(new URL(name, ROOT).pathname);
}

/** Returns the module that starts servers: main.ts, or its bundle, which `deno task test` makes. */
export function program(): string {
  const bundle = path(".bundle/server/main.ts");
  return Deno.env.has("LEASED_TESTS_BUNDLE") && exists(bundle) ? bundle : MAIN;
}

function exists(file: string): boolean {
  try {
    return Deno.statSync(file).isFile;
  } catch {
    return false;
  }
}

const PROFILE_MS_MAX = 5_000;

/** While `deno task mutate` learns which lines a test runs, a server must end by itself, to write its own. */
function writesProfile(): boolean {
  return Deno.env.has("DENO_COVERAGE_DIR");
}

export interface ProcessOptions {
  readonly args?: readonly string[];
  readonly io?: "portable" | "native";
  readonly ioUring?: IoUringChoice;
  /** Instead of the least that the transport needs on 127.0.0.1. */
  readonly permissions?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** The most descriptors it may have. */
  readonly openFilesMax?: number;
  /** Instead of `program()`. */
  readonly main?: string;
  /** A command that runs the one behind it, with its arguments. */
  readonly under?: readonly string[];
}

/** The flags that a server on 127.0.0.1 needs at least. */
export function leastPermissions(io: "portable" | "native"): string[] {
  const own = io === "native" ? "--allow-ffi" : "--allow-net=127.0.0.1";
  return [`--allow-read=${SOURCES}`, own];
}

/** Exit status and output of a process. */
export interface Ended {
  readonly code: number;
  readonly signal: Deno.Signal | null;
  readonly stderr: string;
  readonly stdout: string;
}

/** Runs a server that is not expected to stay. */
export async function runToEnd(options: ProcessOptions): Promise<Ended> {
  const { code, signal, stdout, stderr } = await command(options, "piped").output();
  return { code, signal, stdout: textOf(stdout), stderr: textOf(stderr) };
}

function command(options: ProcessOptions, stdout: "piped" | "null"): Deno.Command {
  const io = options.io ?? "portable";
  const args = [
    "run",
    "--no-prompt",
    ...options.permissions ?? leastPermissions(io),
    options.main ?? program(),
    ...options.args ?? [],
  ];
  const settings = {
    env: { NO_COLOR: "1", ...options.env },
    stdin: "null",
    stdout,
    stderr: "piped",
  } as const;
  if (options.openFilesMax === undefined) {
    const [program, ...all] = [...options.under ?? [], Deno.execPath(), ...args];
    return new Deno.Command(program!, { ...settings, args: all });
  }
  const line = `ulimit -n ${options.openFilesMax} && exec "$0" "$@"`;
  return new Deno.Command("sh", { ...settings, args: ["-c", line, Deno.execPath(), ...args] });
}

/** Memory of a process in KiB (Linux). */
export function residentKib(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(Deno.readTextFileSync(`/proc/${pid}/status`))![1]);
}

/** Waits until `holds`. @throws Error when that takes longer than an event, or this one, may. */
export async function until(
  holds: () => boolean | Promise<boolean>,
  lookEveryMs = 20,
  limitMs?: number,
): Promise<void> {
  let isOver = false;
  const wait = async (): Promise<void> => {
    while (!isOver && !await holds()) {
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
    }
  };
  try {
    await waitingFor(() => `${holds}`, wait(), limitMs);
  } finally {
    isOver = true;
  }
}

/** A server as users start it: another process, driven over its sockets. */
export class ServerProcess implements AsyncDisposable {
  readonly pid: number;
  /** Lines of its messages so far. */
  readonly lines: string[] = [];
  readonly #child: Deno.ChildProcess;
  readonly #reading: Promise<void>;
  /** Called at every line and at the end. */
  #news: () => void = () => {};
  #silent = false;
  readonly #registration: Disposable;

  private constructor(child: Deno.ChildProcess) {
    this.#child = child;
    this.pid = child.pid;
    this.#registration = endAtTimeLimit(() => this.#kill());
    this.#reading = this.#read();
  }

  /**
   * Starts one on a free port of 127.0.0.1, with two threads that do not warm up, and waits until it says that it
   * listens.
   */
  static async start(options: ProcessOptions = {}): Promise<ServerProcess> {
    const { args = [], io = "portable", ioUring = "auto" } = options;
    const listens = args.some((argument) => /^-[ps]/.test(argument));
    const how = ["--io", io, "-o", `io_uring=${ioUring}`, "-t", "2", "--no-warm-up"];
    const all = [...how, ...(listens ? [] : ["-p", "-1"]), ...args];
    return await ServerProcess.spawn(command({ ...options, args: all }, "null"));
  }

  /** Runs a command that starts a server, and waits until it says that it listens. Its stderr must be piped. */
  static async spawn(command: Deno.Command): Promise<ServerProcess> {
    const server = ServerProcess.launch(command);
    try {
      await server.line(LISTENING);
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
    return server;
  }

  /** Runs a command that starts a server, without a wait. Its stderr must be piped. */
  static launch(command: Deno.Command): ServerProcess {
    return new ServerProcess(command.spawn());
  }

  /** The TCP port it says it listens on. */
  get port(): number {
    const line = this.lines.find((candidate) => LISTENING.test(candidate));
    return Number(/listens on .*?:(\d+)/.exec(line!)![1]);
  }

  /** The port of the counter protocol, if it has one. */
  get counterPort(): number {
    return Number(/ for counters on .*?:(\d+)/.exec(this.lines[0]!)![1]);
  }

  /** The first line that contains or matches `text`, now or later. Fails when the process ends without it. */
  async line(text: string | RegExp): Promise<string> {
    for (;;) {
      const found = this.lines.find((line) =>
        typeof text === "string" ? line.includes(text) : text.test(line)
      );
      if (found !== undefined) return found;
      if (this.#silent) throw new Error(`ended without "${text}":\n${this.lines.join("\n")}`);
      const news = new Promise<void>((resolve) => this.#news = resolve);
      await waitingFor(
        () => `a line of the server with "${text}" after ${JSON.stringify(this.lines)}`,
        news,
      );
    }
  }

  async connect(port = this.port): Promise<Client> {
    return new Client(await Deno.connect({ hostname: "127.0.0.1", port }));
  }

  signal(signal: Deno.Signal): void {
    this.#child.kill(signal);
  }

  /** Resolves when the process is gone. @param limitMs As that of `waitingFor`. */
  async ended(limitMs?: number): Promise<Ended> {
    const { code, signal } = await waitingFor("the server's end", this.#child.status, limitMs);
    await this.#reading;
    this.#registration[Symbol.dispose]();
    return { code, signal, stderr: this.lines.join("\n"), stdout: "" };
  }

  /** Stops it as a service manager does, and checks its exit status. */
  async stop(): Promise<Ended> {
    this.signal("SIGTERM");
    const ended = await this.ended();
    assertEquals(ended.code, 0, ended.stderr);
    return ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (writesProfile() && !this.#silent) {
      this.signal("SIGTERM");
      const timer = setTimeout(() => this.#kill(), PROFILE_MS_MAX);
      await this.#child.status;
      clearTimeout(timer);
    }
    this.#kill();
    await this.ended();
  }

  #kill(): void {
    if (this.#silent) return;
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // It ended by itself.
    }
  }

  async #read(): Promise<void> {
    const lines = this.#child.stderr
      .pipeThrough(new TextDecoderStream())
      .pipeThrough(new TextLineStream());
    for await (const line of lines) {
      this.lines.push(line);
      this.#news();
    }
    this.#silent = true;
    this.#news();
  }
}

/** Returns the end of the first `mark` in the text, or -1. */
function endOf(mark: string | RegExp, text: string): number {
  if (typeof mark === "string") {
    const at = text.indexOf(mark);
    return at < 0 ? -1 : at + mark.length;
  }
  const found = mark.exec(text);
  return found === null ? -1 : found.index + found[0].length;
}

/** A raw session over a socket. */
export class Client implements Disposable {
  readonly socket: Deno.Conn;
  readonly #buffer = new Uint8Array(64 * 1024);
  #received = "";

  constructor(socket: Deno.Conn) {
    this.socket = socket;
  }

  static async connectUnix(path: string): Promise<Client> {
    return new Client(await Deno.connect({ transport: "unix", path }));
  }

  async send(text: string): Promise<void> {
    for (let bytes = bytesOf(text); bytes.length > 0;) {
      bytes = bytes.subarray(await this.socket.write(bytes));
    }
  }

  /** Waits for exactly `text`. */
  async expect(text: string): Promise<void> {
    while (this.#received.length < text.length && await this.#more());
    const received = this.#received.slice(0, text.length);
    this.#received = this.#received.slice(text.length);
    if (received === text) return;
    let at = 0;
    while (received[at] === text[at]) at++;
    // Messages with whole values would hide the difference.
    const around = (all: string): string =>
      JSON.stringify(all.slice(Math.max(0, at - 40), at + 40));
    throw new AssertionError(
      `from byte ${at} of ${text.length} on: ${around(received)} instead of ${around(text)}; ` +
        `${received.length} bytes came`,
    );
  }

  /** Sends a request and waits for exactly this reply. */
  async ask(request: string, reply: string): Promise<void> {
    await this.send(request);
    await this.expect(reply);
  }

  /** Gets a missing key, to check that the connection is served. */
  async ping(): Promise<void> {
    await this.ask("get nothing\r\n", "END\r\n");
  }

  /** Receives up to and including `mark`. */
  async until(mark: string | RegExp): Promise<string> {
    for (;;) {
      const end = endOf(mark, this.#received);
      if (end >= 0) {
        const text = this.#received.slice(0, end);
        this.#received = this.#received.slice(end);
        return text;
      }
      assert(await this.#more(), `closed before ${mark}: ${this.#received}`);
    }
  }

  /** The next `length` bytes. */
  async take(length: number): Promise<string> {
    while (this.#received.length < length) {
      assert(await this.#more(), `closed before ${length} bytes: ${this.#received}`);
    }
    const text = this.#received.slice(0, length);
    this.#received = this.#received.slice(length);
    return text;
  }

  /** Everything up to the end of the connection; a reset counts as an end. */
  async rest(): Promise<string> {
    while (await this.#more());
    const text = this.#received;
    this.#received = "";
    return text;
  }

  /** All lines of `stats`, or of one of its tables. */
  async stats(table = ""): Promise<string> {
    await this.send(table === "" ? "stats\r\n" : `stats ${table}\r\n`);
    return await this.until("END\r\n");
  }

  /** One value of `stats`, or of one of its tables. */
  async stat(name: string, table = ""): Promise<string> {
    const reply = await this.stats(table);
    const line = reply.split("\r\n").find((candidate) => candidate.startsWith(`STAT ${name} `));
    assert(line !== undefined, `no ${name} in ${reply}`);
    return line.slice(`STAT ${name} `.length);
  }

  [Symbol.dispose](): void {
    try {
      this.socket.close();
    } catch {
      // It was closed before.
    }
  }

  async #more(): Promise<boolean> {
    try {
      const length = await waitingFor(
        () => `bytes from the server after ${JSON.stringify(this.#received.slice(-100))}`,
        this.socket.read(this.#buffer),
      );
      if (length === null) return false;
      this.#received += textOf(this.#buffer.subarray(0, length));
      return true;
    } catch (error) {
      if (error instanceof Deno.errors.ConnectionReset) return false;
      throw error;
    }
  }
}

/** Starts a server over the transport that is tested. */
export type Start = (options?: ProcessOptions) => Promise<ServerProcess>;

/** Registers a test for each transport, in every way. */
export function testIoWays(
  name: string,
  run: (start: Start, io: "portable" | "native") => Promise<void>,
): void {
  for (const { name: way, io, ioUring = "auto" } of IO_WAYS) {
    Deno.test(
      `${way}: ${name}`,
      () => run((options = {}) => ServerProcess.start({ io, ioUring, ...options }), io),
    );
  }
}

/** Registers a test for each transport. */
export function testTransports(
  name: string,
  run: (start: Start, io: "portable" | "native") => Promise<void>,
): void {
  for (const io of TRANSPORTS) {
    Deno.test(
      `${io}: ${name}`,
      () => run((options = {}) => ServerProcess.start({ io, ...options }), io),
    );
  }
}
