// PostgreSQL under Patroni with etcd, on ports of 127.0.0.1. Each member reaches etcd through a relay of its own, so
// that it can be cut off.
import { freePort } from "../support/free_ports.ts";
import { Relay } from "../support/servers/relay.ts";
import { until } from "../support/servers/server_process.ts";
import { textOf } from "../support/sessions/side.ts";

const USER = "postgres";
const PASSWORD = "secret";
const DATABASE = "app";
/** In seconds, each the shortest that Patroni takes: the leader's key ends after the first. */
const TIMES = { ttl: 20, "loop_wait": 1, "retry_timeout": 3 };
/** The role and the state of a member that can be waited for, as Patroni's API has it. */
export type Role = "primary" | "replica";

/** Runs a program as the user of PostgreSQL. */
function asUser(program: string, args: readonly string[]): Deno.Command {
  return new Deno.Command("runuser", {
    args: ["-u", USER, "--", program, ...args],
    cwd: "/",
    stdin: "null",
    stdout: "null",
    stderr: "null",
  });
}

async function run(program: string, args: readonly string[]): Promise<string> {
  const { stdout } = await new Deno.Command(program, { args: [...args], cwd: "/" }).output();
  return textOf(stdout);
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
  readonly #apiPort = freePort();
  readonly #folder: string;
  readonly #config: string;
  /** To etcd. */
  readonly relay: Relay;

  constructor(name: string, folder: string, etcdPort: number) {
    this.name = name;
    this.#folder = `${folder}/${name}`;
    this.#config = `${folder}/${name}.yml`;
    this.relay = new Relay(etcdPort);
  }

  /** Writes Patroni's settings: JSON is YAML. */
  async configure(programs: string): Promise<void> {
    const login = { username: USER, password: PASSWORD };
    const settings = {
      ...{ scope: "leased", name: this.name },
      restapi: {
        listen: `127.0.0.1:${this.#apiPort}`,
        connect_address: `127.0.0.1:${this.#apiPort}`,
      },
      etcd3: { host: `127.0.0.1:${this.relay.port}`, use_proxies: true },
      bootstrap: {
        dcs: {
          ...TIMES,
          synchronous_mode: true,
          // Patroni drops slots that it does not know.
          ignore_slots: [{ type: "logical", plugin: "pgoutput" }],
          postgresql: {
            use_pg_rewind: true,
            parameters: { wal_level: "logical", wal_log_hints: "on", max_connections: 100 },
          },
        },
        initdb: [{ encoding: "UTF8" }, "data-checksums"],
      },
      postgresql: {
        listen: `127.0.0.1:${this.port}`,
        connect_address: `127.0.0.1:${this.port}`,
        ...{ data_dir: this.#folder, bin_dir: programs },
        authentication: { superuser: login, replication: login, rewind: login },
        pg_hba: ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"],
        parameters: { unix_socket_directories: "" },
      },
    };
    await Deno.writeTextFile(this.#config, JSON.stringify(settings));
  }

  start(): void {
    asUser("patroni", [this.#config]).spawn().unref();
  }

  /** Whether Patroni's API says that this member has the role, and runs. */
  async is(role: Role): Promise<boolean> {
    try {
      const response = await fetch(`http://127.0.0.1:${this.#apiPort}/${role}`, {
        signal: AbortSignal.timeout(1000),
      });
      await response.body?.cancel();
      return response.status === 200;
    } catch {
      return false;
    }
  }

  /** Asks Patroni to make another member the leader. */
  async switchOver(): Promise<void> {
    const response = await fetch(`http://127.0.0.1:${this.#apiPort}/switchover`, {
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
    await this.#signal("KILL", [...await this.#patroniPids(), ...await this.#databasePids()]);
  }

  async stop(): Promise<void> {
    await this.#signal("STOP", [...await this.#patroniPids(), ...await this.#databasePids()]);
  }

  async goOn(): Promise<void> {
    await this.#signal("CONT", [...await this.#databasePids(), ...await this.#patroniPids()]);
  }

  async #patroniPids(): Promise<string[]> {
    return (await run("pgrep", ["-f", this.#config])).split("\n").filter((pid) => pid !== "");
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
    return [pid, ...(await run("pgrep", ["-P", pid])).split("\n").filter((each) => each !== "")];
  }

  async #signal(signal: string, pids: readonly string[]): Promise<void> {
    if (pids.length > 0) await run("kill", [`-${signal}`, ...pids]);
  }
}

/** Three members, and their etcd. */
export class PatroniCluster implements AsyncDisposable {
  readonly etcd: Etcd;
  readonly members: readonly Member[];
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
    this.etcd = new Etcd(folder);
    this.members = ["one", "two", "three"].map((name) => new Member(name, folder, this.etcd.port));
  }

  /** @param programs The folder of PostgreSQL's programs. */
  static async start(programs: string): Promise<PatroniCluster> {
    const folder = await Deno.makeTempDir();
    await run("chown", [USER, folder]);
    const cluster = new PatroniCluster(folder);
    cluster.etcd.start();
    for (const member of cluster.members) await member.configure(programs);
    const [first] = cluster.members;
    first!.start();
    await until(() => first!.is("primary"));
    for (const member of cluster.members.slice(1)) member.start();
    await cluster.untilWhole();
    await cluster.execute(first!, `CREATE DATABASE ${DATABASE}`, "postgres");
    return cluster;
  }

  /** Waits until there is a leader, and all others follow it. */
  async untilWhole(): Promise<void> {
    await until(async () => {
      const primaries = await Promise.all(this.members.map((member) => member.is("primary")));
      const replicas = await Promise.all(this.members.map((member) => member.is("replica")));
      return primaries.filter(Boolean).length === 1 &&
        replicas.filter(Boolean).length === this.members.length - 1;
    }, 200);
  }

  /** Returns the leader; undefined: there is none now. */
  async leader(): Promise<Member | undefined> {
    for (const member of this.members) if (await member.is("primary")) return member;
    return undefined;
  }

  /** The address in libpq's form, with all members. */
  get url(): string {
    const hosts = this.members.map(({ port }) => `127.0.0.1:${port}`).join(",");
    return `postgres://${USER}:${PASSWORD}@${hosts}/${DATABASE}?target_session_attrs=read-write`;
  }

  /** Executes SQL at a member. */
  async execute({ port }: Member, sql: string, database = DATABASE): Promise<string> {
    const url = `postgres://${USER}:${PASSWORD}@127.0.0.1:${port}/${database}`;
    return (await run("psql", ["-X", "-q", "-A", "-t", "-c", sql, url])).trimEnd();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const member of this.members) {
      await member.goOn();
      await member.kill();
      member.relay[Symbol.dispose]();
    }
    await this.etcd.kill();
    await Deno.remove(this.#folder, { recursive: true });
  }
}
