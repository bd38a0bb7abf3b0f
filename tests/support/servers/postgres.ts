// PostgreSQL for tests: a cluster of its own in a temporary folder, on a free port of 127.0.0.1, run by the user
// postgres when the tests run as root, which PostgreSQL refuses.
import { freePort } from "../free_ports.ts";
import { textOf } from "../sessions/side.ts";

const INSTALLED_IN = "/usr/lib/postgresql";
/** The superuser of the cluster; nobody is asked for a password. */
const USER = "postgres";
const IS_ROOT = Deno.build.os === "linux" && Deno.uid() === 0;

/** Another process may take the port first, so often. */
const STARTS_MAX = 5;

/** The folder of initdb and pg_ctl; null: PostgreSQL is not installed. */
export const PROGRAMS = programFolder();
export const HAS_POSTGRES = PROGRAMS !== null && (!IS_ROOT || hasRunuser());

function hasRunuser(): boolean {
  try {
    return new Deno.Command("runuser", { args: ["--version"], stdout: "null" }).outputSync()
      .success;
  } catch {
    return false;
  }
}

function programFolder(): string | null {
  try {
    const versions = [...Deno.readDirSync(INSTALLED_IN)].map(({ name }) => Number(name));
    const folder = `${INSTALLED_IN}/${Math.max(...versions)}/bin`;
    return Deno.statSync(`${folder}/initdb`).isFile ? folder : null;
  } catch {
    return null;
  }
}

/** How a cluster is made. */
export interface ClusterSettings {
  readonly folder?: string;
  readonly durable?: boolean;
  /** `wal_level`. */
  readonly level?: "replica" | "logical";
}

/** A cluster. Its processes are no children of this one: `stop` ends them, and so does the end of this process. */
export class PostgresServer {
  port = freePort();
  readonly #folder: string;
  #databases = 0;

  readonly #settings: ClusterSettings;

  private constructor(folder: string, settings: ClusterSettings) {
    this.#folder = folder;
    this.#settings = settings;
  }

  /**
   * Makes a cluster and starts it.
   *
   * @param settings.folder The folder that its own one is made in.
   * @param settings.durable Whether commits are synced to the disk.
   */
  static async start(settings: ClusterSettings = {}): Promise<PostgresServer> {
    const { folder: dir } = settings;
    const folder = await Deno.makeTempDir(dir === undefined ? {} : { dir });
    if (IS_ROOT) await output("chown", [USER, folder]);
    const server = new PostgresServer(folder, settings);
    await runProgram("initdb", ["-D", server.#data, "-U", USER, "-A", "trust", "-N", "-E", "UTF8"]);
    await server.#start();
    return server;
  }

  async #start(): Promise<void> {
    for (let starts = 1;; starts++) {
      try {
        await this.#control("start");
        return await this.#stopWithThisProcess();
      } catch (error) {
        if (starts === STARTS_MAX) throw error;
        this.port = freePort();
      }
    }
  }

  /** Stops the cluster when this process has ended and not stopped it, as when it is killed. */
  async #stopWithThisProcess(): Promise<void> {
    const stop = [`${PROGRAMS}/pg_ctl`, "stop", "-s", "-m", "immediate", "-D", this.#data];
    const words = IS_ROOT ? ["runuser", "-u", USER, "--", ...stop] : stop;
    const script = `folder=$1; shift
      ( while kill -0 ${Deno.pid} && [ -d "$folder" ]; do sleep 1; done
        [ -d "$folder" ] && "$@" && rm -rf "$folder" ) >/dev/null 2>&1 </dev/null &`;
    await output("setsid", ["sh", "-c", script, "sh", this.#folder, ...words]);
  }

  /** Makes an empty database. @returns Its URL. */
  async createDatabase(): Promise<string> {
    const name = `rows${++this.#databases}`;
    await this.execute(`CREATE DATABASE ${name}`, this.urlOf("postgres"));
    return this.urlOf(name);
  }

  urlOf(database: string, user = USER): string {
    return `postgres://${user}@127.0.0.1:${this.port}/${database}`;
  }

  /** Executes statements. @returns Values, a row a line. */
  async execute(sql: string, url: string): Promise<string> {
    const args = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, url];
    return (await this.run("psql", args)).trimEnd();
  }

  /** Runs one of PostgreSQL's programs. @returns Its output. */
  async run(program: string, args: readonly string[]): Promise<string> {
    return await output(`${PROGRAMS}/${program}`, args);
  }

  /** Makes a standby of this cluster, which follows it until `promote`. */
  async startStandby(): Promise<PostgresServer> {
    const folder = await Deno.makeTempDir();
    if (IS_ROOT) await output("chown", [USER, folder]);
    const standby = new PostgresServer(folder, this.#settings);
    const from = ["-h", "127.0.0.1", "-p", `${this.port}`, "-U", USER];
    await runProgram("pg_basebackup", [...from, "-D", standby.#data, "-R", "-c", "fast"]);
    await standby.#start();
    return standby;
  }

  /** Makes a standby the primary. */
  async promote(): Promise<void> {
    await runProgram("pg_ctl", ["promote", "-w", "-s", "-D", this.#data]);
  }

  /** Ends all sessions as a crash does, recovers, and goes on. */
  async restart(): Promise<void> {
    await this.#control("restart", ["-m", "immediate"]);
  }

  async stop(): Promise<void> {
    await this.#control("stop", ["-m", "immediate"]);
    await Deno.remove(this.#folder, { recursive: true });
  }

  /** Returns the lines that the server has logged. */
  async logged(): Promise<string[]> {
    return (await Deno.readTextFile(this.#log)).split("\n");
  }

  get #log(): string {
    return `${this.#folder}/log`;
  }

  get #data(): string {
    return `${this.#folder}/data`;
  }

  async #control(
    command: "start" | "stop" | "restart",
    args: readonly string[] = [],
  ): Promise<void> {
    // A killed process loses nothing without fsync, a computer would.
    const { durable = false, level = "logical" } = this.#settings;
    const fsync = durable ? "on" : "off";
    const options =
      `-p ${this.port} -k ${this.#folder} -c listen_addresses=127.0.0.1 -c wal_level=${level} -c max_replication_slots=100 -c max_wal_senders=100 -c fsync=${fsync}`;
    await runProgram("pg_ctl", [
      command,
      "-w",
      "-s",
      "-D",
      this.#data,
      "-l",
      this.#log,
      "-o",
      options,
      ...args,
    ]);
  }
}

/** Runs one of PostgreSQL's programs as the user who has the cluster. */
async function runProgram(name: string, args: readonly string[]): Promise<void> {
  const program = `${PROGRAMS}/${name}`;
  if (IS_ROOT) await output("runuser", ["-u", USER, "--", program, ...args]);
  else await output(program, args);
}

async function output(program: string, args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command(program, {
    args: [...args],
    stdin: "null",
    cwd: "/",
  }).output();
  if (code !== 0) {
    throw new Error(`${program} ${args.join(" ")}: ${textOf(stderr)}${textOf(stdout)}`);
  }
  return new TextDecoder().decode(stdout);
}
