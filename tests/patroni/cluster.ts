// PostgreSQL under Patroni with etcd, on ports of 127.0.0.1. Each member reaches etcd through a relay of its own, so
// that it can be cut off.
import * as yaml from "npm:js-yaml@5.5.0";
import { freePort } from "../support/free_ports.ts";
import { Relay } from "../support/servers/relay.ts";
import { path, until } from "../support/servers/server_process.ts";
import { textOf } from "../support/sessions/side.ts";

const USER = "postgres";
const PASSWORD = "secret";
const DATABASE = "app";
/** In seconds, the shortest that Patroni takes: a leader that is gone has its key for the first. */
const TIMES = { ttl: 20, "loop_wait": 1, "retry_timeout": 3 };
/** How long the API of a member may be silent. */
const API_TIMEOUT_MS = 500;
/** How long a member may take until it follows the leader. */
const WHOLE_MS_MAX = 180_000;

export type Role = "primary" | "replica";

async function run(program: string, args: readonly string[]): Promise<string> {
  const { stdout } = await new Deno.Command(program, { args: [...args], cwd: "/" }).output();
  return textOf(stdout);
}

/** Returns the lines of a program's output. */
async function linesOf(program: string, args: readonly string[]): Promise<string[]> {
  return (await run(program, args)).split("\n").filter((line) => line !== "");
}

/** One member of etcd. */
class Etcd {
  readonly port = freePort();
  readonly #peerPort = freePort();
  readonly #folder: string;
  #process: Deno.ChildProcess | null = null;

  constructor(folder: string) {
    this.#folder = folder;
  }

  start(): void {
    const [client, peer] = [this.port, this.#peerPort].map((port) => `http://127.0.0.1:${port}`);
    this.#process = new Deno.Command("etcd", {
      args: [
        ...["--name", "etcd", "--data-dir", `${this.#folder}/etcd`],
        ...["--listen-client-urls", client!, "--advertise-client-urls", client!],
        ...["--listen-peer-urls", peer!, "--initial-advertise-peer-urls", peer!],
        ...["--initial-cluster", `etcd=${peer}`],
      ],
      ...{ stdin: "null", stdout: "null", stderr: "null" },
    }).spawn();
  }

  async kill(): Promise<void> {
    this.#process?.kill("SIGKILL");
    await this.#process?.status;
    this.#process = null;
  }
}

/** A member of the cluster: Patroni, and the PostgreSQL that it runs. */
export class Member {
  readonly name: string;
  readonly port = freePort();
  readonly apiPort = freePort();
  readonly #folder: string;
  readonly #config: string;
  readonly #log: string;
  #patroni: Deno.ChildProcess | null = null;
  /** To etcd. */
  readonly relay: Relay;

  constructor(name: string, folder: string, etcdPort: number) {
    this.name = name;
    this.#folder = `${folder}/${name}`;
    this.#config = `${folder}/${name}.yml`;
    this.#log = `${folder}/${name}.log`;
    this.relay = new Relay(etcdPort);
  }

  /** Writes Patroni's settings: those of contrib/patroni.yml, and where this member is. JSON is YAML. */
  async configure(programs: string): Promise<void> {
    const login = { username: USER, password: PASSWORD };
    const dcs = yaml.load(await Deno.readTextFile(path("contrib/patroni.yml"))) as object;
    const [postgres, api] = [this.port, this.apiPort].map((port) => `127.0.0.1:${port}`);
    const settings = {
      ...{ scope: "leased", name: this.name },
      restapi: { listen: api, "connect_address": api },
      etcd3: { host: `127.0.0.1:${this.relay.port}`, "use_proxies": true },
      bootstrap: { dcs: { ...dcs, ...TIMES }, initdb: [{ encoding: "UTF8" }, "data-checksums"] },
      postgresql: {
        ...{ listen: postgres, "connect_address": postgres },
        ...{ "data_dir": this.#folder, "bin_dir": programs, pgpass: `${this.#folder}.pgpass` },
        authentication: { superuser: login, replication: login, rewind: login },
        "pg_hba": ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"],
        parameters: { "unix_socket_directories": "" },
      },
    };
    await Deno.writeTextFile(this.#config, JSON.stringify(settings));
  }

  /** Starts Patroni, as the user of PostgreSQL, which refuses root. */
  start(): void {
    const user = ["setpriv", `--reuid=${USER}`, `--regid=${USER}`, "--init-groups"];
    this.#patroni = new Deno.Command("sh", {
      args: ["-c", `log=$1; shift; exec "$@" >>$log 2>&1`, "sh", this.#log, ...user, "patroni"]
        .concat(this.#config),
      ...{ cwd: "/", stdin: "null", stdout: "null", stderr: "null" },
    }).spawn();
  }

  /**
   * Whether Patroni says that this member has the role, and runs. Its answer to `/primary` says less: that of a leader
   * whose PostgreSQL starts again is 200.
   */
  async is(role: Role): Promise<boolean> {
    try {
      const response = await fetch(`http://127.0.0.1:${this.apiPort}/patroni`, {
        signal: AbortSignal.timeout(API_TIMEOUT_MS),
      });
      const said = await response.json();
      return said.state === "running" && said.role === (role === "primary" ? "master" : role);
    } catch {
      return false;
    }
  }

  /** Asks Patroni to make another member the leader. Returns when that has happened. */
  async switchOver(): Promise<void> {
    const response = await fetch(`http://127.0.0.1:${this.apiPort}/switchover`, {
      method: "POST",
      body: JSON.stringify({ leader: this.name }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`Patroni refuses a switchover: ${text}`);
  }

  /** Kills PostgreSQL. */
  async killDatabase(): Promise<void> {
    await this.#signal("KILL", await this.#databasePids());
  }

  /** Kills Patroni and PostgreSQL. */
  async kill(): Promise<void> {
    const pids = await this.#databasePids();
    await this.#signal("KILL", [...this.#patroniPids, ...pids]);
    await this.#patroni?.status;
    this.#patroni = null;
  }

  async stop(): Promise<void> {
    await this.#signal("STOP", [...this.#patroniPids, ...await this.#databasePids()]);
  }

  /** PostgreSQL goes on before Patroni can make it a replica. */
  async goOn(): Promise<void> {
    await this.#signal("CONT", [...await this.#databasePids(), ...this.#patroniPids]);
  }

  /** Returns how often the log of Patroni and PostgreSQL has this text. */
  async logged(text: string): Promise<number> {
    return (await Deno.readTextFile(this.#log)).split(text).length - 1;
  }

  get #patroniPids(): string[] {
    return this.#patroni === null ? [] : [`${this.#patroni.pid}`];
  }

  /** The postmaster, and its processes. */
  async #databasePids(): Promise<string[]> {
    let text: string;
    try {
      text = await Deno.readTextFile(`${this.#folder}/postmaster.pid`);
    } catch {
      return [];
    }
    const pid = text.split("\n")[0]!;
    // The number may be another program's by now.
    const [name] = await linesOf("ps", ["-o", "comm=", "-p", pid]);
    return name === "postgres" ? [pid, ...await linesOf("pgrep", ["-P", pid])] : [];
  }

  async #signal(signal: string, pids: readonly string[]): Promise<void> {
    if (pids.length > 0) await run("kill", [`-${signal}`, ...pids]);
  }
}

/** Three members, and their etcd. */
export class PatroniCluster implements AsyncDisposable {
  readonly etcd: Etcd;
  readonly members: readonly Member[];
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
    this.etcd = new Etcd(folder);
    this.members = ["one", "two", "three"].map((name) => new Member(name, folder, this.etcd.port));
  }

  /** @param programs The folder of PostgreSQL's programs. */
  static async start(programs: string): Promise<PatroniCluster> {
    const folder = await Deno.makeTempDir();
    await run("chown", [USER, folder]);
    const cluster = new PatroniCluster(folder);
    try {
      cluster.etcd.start();
      for (const member of cluster.members) await member.configure(programs);
      const [first] = cluster.members;
      first!.start();
      await until(() => first!.is("primary"));
      for (const member of cluster.members.slice(1)) member.start();
      await cluster.untilWhole();
      await cluster.execute(first!, `CREATE DATABASE ${DATABASE}`, "postgres");
    } catch (error) {
      await cluster[Symbol.asyncDispose]();
      throw error;
    }
    return cluster;
  }

  /** Waits until there is a leader, and all others follow it. */
  async untilWhole(): Promise<void> {
    const countOf = async (role: Role): Promise<number> =>
      (await Promise.all(this.members.map((member) => member.is(role)))).filter(Boolean).length;
    await until(
      async () =>
        await countOf("primary") === 1 && await countOf("replica") === this.members.length - 1,
      ...[200, WHOLE_MS_MAX] as const,
    );
  }

  /** Returns the leader; undefined: there is none now. */
  async leader(): Promise<Member | undefined> {
    const are = await Promise.all(this.members.map((member) => member.is("primary")));
    return this.members[are.indexOf(true)];
  }

  /** The address in libpq's form, with all members. */
  get url(): string {
    const hosts = this.members.map(({ port }) => `127.0.0.1:${port}`).join(",");
    return `${this.urlOf(hosts)}?target_session_attrs=read-write`;
  }

  urlOf(hosts: string, database = DATABASE): string {
    return `postgres://${USER}:${PASSWORD}@${hosts}/${database}`;
  }

  /** Executes SQL at a member. @returns Values, a row a line. */
  async execute({ port }: Member, sql: string, database = DATABASE): Promise<string> {
    const values = await query(this.urlOf(`127.0.0.1:${port}`, database), sql);
    if (values === null) throw new Error(`PostgreSQL has not executed: ${sql}`);
    return values;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const member of this.members) {
      await member.kill();
      member.relay[Symbol.dispose]();
    }
    await this.etcd.kill();
    await Deno.remove(this.folder, { recursive: true });
  }
}

/** Executes SQL, as a program of the application does. @returns Null: there was no answer, or an error. */
export async function query(url: string, sql: string): Promise<string | null> {
  const { success, stdout } = await new Deno.Command("timeout", {
    args: ["5", "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, url],
    env: { PGCONNECT_TIMEOUT: "2" },
    ...{ stdin: "null", stderr: "null", cwd: "/" },
  }).output();
  return success ? textOf(stdout).trimEnd() : null;
}
