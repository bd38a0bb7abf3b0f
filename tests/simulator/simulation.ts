import { DatabaseSync } from "node:sqlite";
import { sqliteSchema } from "../../lib/databases/base/schema.ts";
import { DEFAULT_TABLE } from "../../lib/databases/base/table.ts";
import { followSchema } from "../../lib/databases/sqlite/triggers.ts";
import { Views } from "../../lib/databases/views/view.ts";
import { readViewsFile } from "../../lib/databases/views/views_file.ts";
import { reasonOf } from "../../lib/process/reason.ts";
import { SnapshotError } from "../../lib/snapshot/snapshot_format.ts";
import { judge, violationText } from "../judge/judge.ts";
import { Application, ApplicationProcess } from "./application.ts";
import { StockClient } from "./client.ts";
import { withVirtualGlobals } from "./globals.ts";
import {
  ARTICLE,
  DATABASE_HOST,
  DATABASE_PORT,
  DatabaseFiles,
  ModelDatabase,
  VIEWS,
} from "./database.ts";
import { History } from "./history.ts";
import { type ItemHistory, itemViolations } from "./items_check.ts";
import { type End, Network } from "./network.ts";
import type { ApplicationPlan, Fault, HostPlan, Plan, Table } from "./plan.ts";
import { type Committed, DIRECT_KEY, rowViolations } from "./rows_check.ts";
import { Machine } from "./machine.ts";
import { Server } from "./server.ts";
import { Process, World } from "./world.ts";

/** Pause between the first starts of two hosts. */
const START_MS = 20;
/** Pause before a process that has ended by itself is started again. */
const RESTART_MS = 200;
/** Time in which applications find a cache that was started again. */
const BACK_MS = 300;
/** Virtual time within which everything is served after the last fault, in milliseconds. */
const RECOVERY_MS = 120_000;

/** The id of the first request at the end. */
const FIRST_PROBE = 1_000_000;

/** A host, and the process on it. */
interface Host {
  readonly name: string;
  /** Starts its program, in a new process. */
  readonly run: (process: Process) => void;
  readonly rate: number;
  readonly bootMs: number;
  process: Process | null;
  server: Server | null;
  starts: number;
  readonly machine: Machine;
  /** Whether its next process does not wait for the end of another origin. */
  takesOver: boolean;
  /** Of the wall clock of its next process. */
  wallShiftMs: number;
}

/** The result of a run. */
export interface Ran {
  readonly violations: readonly string[];
  readonly history: History;
  /** Requests that were answered with a result. */
  readonly answered: number;
  /** Names of faults, replies and events that have happened. */
  readonly met: ReadonlySet<string>;
  /** Of all that happened. */
  readonly hash: number;
  readonly events: number;
  readonly virtualMs: number;
  readonly transcript: readonly string[];
}

/** Of files in memory, where there is one: each commit of SQLite would wait for a real disk. */
const MEMORY_FOLDER = "/dev/shm";

/** Runs a plan to its end. Call it outside of promises: it must not be inside a microtask. */
export function simulate(plan: Plan, keepsTranscript = false): Ran {
  const place = { prefix: "leased-simulator-" };
  let folder: string;
  try {
    folder = Deno.makeTempDirSync({ ...place, dir: MEMORY_FOLDER });
  } catch {
    folder = Deno.makeTempDirSync(place);
  }
  try {
    return new Simulation(plan, folder, keepsTranscript).run();
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

class Simulation {
  readonly #plan: Plan;
  readonly #world: World;
  readonly #network: Network;
  readonly #history = new History();
  readonly #hosts = new Map<string, Host>();
  readonly #clients: StockClient[] = [];
  readonly #database: string;
  readonly #viewsFile: string;
  /** Columns that migrations have added. */
  #columns = 0;
  readonly #files: DatabaseFiles;
  /** The model of PostgreSQL, as it was started last. */
  #model: ModelDatabase | null = null;
  /** Keeps the files of the database while no process has them open, and locks it. */
  readonly #other: DatabaseSync;
  readonly #applications: Application[] = [];
  /** The database of applications. */
  readonly #rows = new Map<string, number>();
  readonly #items: ItemHistory = {
    commits: [],
    finished: [],
    loads: [],
    locks: [],
    guarded: [],
  };
  /** Mends what is wrong now. */
  readonly #mends = new Set<() => void>();
  #isHealed = false;
  /** Kills that wait for a commit. */
  readonly #killsAmidst: { readonly downMs: number; readonly act: () => void }[] = [];

  constructor(plan: Plan, folder: string, keepsTranscript: boolean) {
    this.#plan = plan;
    const world = this.#world = new World(plan.seed, keepsTranscript);
    this.#files = new DatabaseFiles((count) => world.choose(count));
    const { latencyMs, splitShare, lossShare } = plan;
    this.#network = new Network(this.#world, { latencyMs, splitShare, lossShare });
    this.#database = `${folder}/rows.db`;
    this.#other = new DatabaseSync(this.#database, { timeout: 0 });
    this.#viewsFile = `${folder}/views.jsonc`;
    if (this.#hasViews) Deno.writeTextFileSync(this.#viewsFile, VIEWS);
    this.#other.exec(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; BEGIN; " +
        `${sqliteSchema(DEFAULT_TABLE)}${ARTICLE}` +
        "CREATE TABLE noted (key BLOB, value BLOB, version INTEGER);" +
        `${notesOf("kv")}${notesOf("article")} COMMIT`,
    );
    this.#init();
  }

  get #hasViews(): boolean {
    return this.#plan.articles.length > 0;
  }

  /** What `init --follow --run` does. */
  #init(): void {
    if (!this.#plan.follows) return;
    const views = this.#hasViews ? readViewsFile(this.#viewsFile, [""]) : Views.NONE;
    this.#other.exec(followSchema(this.#other, DEFAULT_TABLE, views));
  }

  run(): Ran {
    const world = this.#world;
    let violations: readonly string[];
    try {
      violations = withVirtualGlobals(world, this.#network, () => this.#runAll());
    } finally {
      for (const { process } of this.#hosts.values()) if (process?.isAlive) world.kill(process);
      this.#other.close();
    }
    return {
      violations,
      history: this.#history,
      answered: [...this.#clients, ...this.#applications]
        .reduce((sum, { answered }) => sum + answered, 0),
      met: world.met,
      hash: world.hash,
      events: world.events,
      virtualMs: world.nowMs,
      transcript: world.transcript ?? [],
    };
  }

  #runAll(): readonly string[] {
    const { hosts, clients, applications, faults, healMs } = this.#plan;
    const world = this.#world;
    if (this.#plan.database === "model" && hosts.some(({ role }) => role === "origin")) {
      const { commitMs } = this.#plan;
      this.#addHost({ name: DATABASE_HOST, rate: 1, bootMs: 0 }, (process) => {
        this.#model = new ModelDatabase(world, this.#network, process, this.#files, commitMs);
      });
    }
    for (const plan of hosts) this.#addHost(plan, (process) => this.#serve(plan, process));
    for (const plan of applications) this.#addApplication(plan);
    for (const plan of clients) this.#addClient(new Process(world, plan.name, 1, 0), plan);
    for (const fault of faults) world.at(fault.atMs, world.nobody, () => this.#fail(fault));
    world.at(healMs, world.nobody, () => this.#heal());
    const isOver = world.run(
      () =>
        this.#isHealed && this.#clients.every(({ isDone }) => isDone) &&
        this.#applications.every(({ isDone }) => isDone),
      healMs + RECOVERY_MS,
    );
    const violations = [...world.faults, ...world.wrong];
    if (!isOver && violations.length === 0) {
      const waiting = [...this.#clients, ...this.#applications].filter(({ isDone }) => !isDone);
      violations.push(...waiting.map(({ waitsFor }) => `not served again: ${waitsFor}`));
    }
    const { operations } = this.#history;
    violations.push(...rowViolations(operations, this.#committed()));
    const atomic = operations.filter(({ key }) => !DIRECT_KEY.test(key));
    violations.push(...judge(atomic).violations.map((each) => `judge: ${violationText(each)}`));
    violations.push(...itemViolations(this.#items));
    // A store whose mutex is held cannot be walked.
    if (world.faults.length === 0) violations.push(...this.#checkServers());
    return violations;
  }

  #addHost(
    { name, rate, bootMs }: Pick<HostPlan, "name" | "rate" | "bootMs">,
    run: Host["run"],
  ): void {
    const machine = new Machine(this.#world, name);
    this.#hosts.set(name, {
      name,
      rate,
      bootMs,
      run,
      process: null,
      server: null,
      starts: 0,
      takesOver: false,
      wallShiftMs: 0,
      machine,
    });
    // The first origin serves, as plans expect.
    const atMs = START_MS * (this.#hosts.size - 1);
    this.#world.at(atMs, this.#world.nobody, () => this.#start(name));
  }

  /** An application begins a commit under an update token. */
  #noteCommit(commitMs: number): void {
    const at = this.#killsAmidst.findIndex(({ downMs }) => downMs + BACK_MS < commitMs);
    if (at < 0 || this.#isHealed) return;
    const [kill] = this.#killsAmidst.splice(at, 1);
    this.#world.after(0, this.#world.nobody, kill!.act);
  }

  #addApplication(plan: ApplicationPlan): void {
    const noteCommit = (commitMs: number): void => this.#noteCommit(commitMs);
    const application = new Application(plan, this.#rows, this.#items, noteCommit);
    this.#applications.push(application);
    this.#addHost({ name: plan.name, rate: 1, bootMs: 0 }, (process) => {
      new ApplicationProcess(this.#world, this.#history, process, application);
    });
  }

  #addClient(process: Process, plan: Plan["clients"][number], isStubborn = false): void {
    const client = new StockClient(
      this.#world,
      this.#network,
      this.#history,
      process,
      plan,
      isStubborn,
      {
        articles: this.#plan.articles,
        writeDirectly: (key, value, done) => {
          if (this.#plan.database === "model") this.#writeToModel(key, value, done);
          else done(this.#writeDirectly(key, value) ? "now" : null);
        },
      },
    );
    this.#clients.push(client);
    client.start();
  }

  /** Writes a row as another program does. @returns False: the database is locked. */
  #writeDirectly(key: string, value: string): boolean {
    if (this.#other.isTransaction) return false;
    const update = "DO UPDATE SET value = excluded.value, version = version + 1";
    if (key.startsWith("a")) {
      this.#other.prepare(
        `INSERT INTO article (id, value, version) VALUES (?, ?, 1) ON CONFLICT (id) ${update}`,
      ).run(Number(key.slice(1)), value);
    } else {
      this.#other.prepare(
        "INSERT INTO kv (key, value) VALUES (CAST(? AS BLOB), CAST(? AS BLOB)) " +
          `ON CONFLICT (key) ${update}`,
      ).run(key, value);
    }
    return true;
  }

  #writeToModel(key: string, value: string, done: (position: string | null) => void): void {
    if (this.#model === null) return done(null);
    this.#model.writeDirectly(key, value, (position) => {
      done(position === null ? null : `${position}`);
    });
  }

  #committed(): Committed[] {
    if (this.#plan.database === "model") return this.#files.noted;
    const rows = this.#other.prepare(
      "SELECT CAST(key AS TEXT) AS key, CAST(value AS TEXT) AS value, version FROM noted ORDER BY rowid",
    ).all();
    return rows as unknown as Committed[];
  }

  #checkServers(): string[] {
    const violations: string[] = [];
    for (const { name, server } of this.#hosts.values()) {
      try {
        server?.check();
      } catch (error) {
        violations.push(`the store of ${name}: ${reasonOf(error)}`);
      }
    }
    return violations;
  }

  // --- processes -----------------------------------------------------------------------------------

  #start(name: string): void {
    const host = this.#hosts.get(name)!;
    if (host.process !== null) return;
    const process = new Process(this.#world, `${name}#${++host.starts}`, host.rate, host.bootMs);
    process.wallShiftMs = host.wallShiftMs;
    host.wallShiftMs = 0;
    host.process = process;
    this.#world.note(process.name, "starts");
    this.#world.after(0, process, () => host.run(process));
  }

  #serve({ name, role, options }: HostPlan, process: Process): void {
    const host = this.#hosts.get(name)!;
    const url = this.#plan.database === "model"
      ? `postgres://${DATABASE_HOST}:${DATABASE_PORT}/app`
      : `sqlite:${this.#database}`;
    const rule = host.takesOver ? "--take-over" : "--standby";
    host.takesOver = false;
    const views = this.#hasViews ? ["--views", this.#viewsFile, "--rows", "*"] : [];
    const all = role === "origin" ? ["--db", url, rule, ...views, ...options] : options;
    const ended = (): void => this.#restart(host, process);
    const start = async (): Promise<void> => {
      host.server = new Server(this.#world, this.#network, process, all, host.machine, ended);
      await host.server.start();
    };
    start().catch((error) => {
      // A server does not start on a disk that fails.
      if (!(error instanceof SnapshotError)) throw error;
      this.#world.note(process.name, `does not start: ${error.message}`);
      this.#world.after(0, this.#world.nobody, ended);
    });
  }

  /** Starts a process again that has ended by itself. */
  #restart(host: Host, process: Process): void {
    if (host.process !== process) return;
    this.#kill(host, false);
    this.#world.after(RESTART_MS, this.#world.nobody, () => this.#start(host.name));
  }

  #kill(host: Host, isSilent: boolean): void {
    const { process } = host;
    if (process === null) return;
    this.#world.note(process.name, isSilent ? "is killed with its host" : "is killed");
    this.#world.kill(process);
    this.#network.endProcess(process, isSilent);
    // Bytes that were written and not synced are lost only with the host.
    if (isSilent) host.machine.crash();
    if (host.name === DATABASE_HOST) this.#model = null;
    host.process = null;
    host.server = null;
  }

  // --- faults --------------------------------------------------------------------------------------

  /** Has something be mended after a time, or when everything is. */
  #mendAfter(ms: number, mend: () => void): void {
    const once = (): void => {
      if (this.#mends.delete(once)) mend();
    };
    this.#mends.add(once);
    this.#world.after(ms, this.#world.nobody, once);
  }

  #fail(fault: Fault): void {
    if (this.#isHealed) return;
    const world = this.#world;
    world.met.add(`fault ${fault.kind}`);
    switch (fault.kind) {
      case "kill": {
        const { host, isSilent, isAmidst, downMs } = fault;
        const act = (): void => {
          this.#kill(this.#hosts.get(host)!, isSilent);
          this.#mendAfter(downMs, () => this.#start(host));
        };
        return isAmidst ? void this.#killsAmidst.push({ downMs, act }) : act();
      }
      case "restart": {
        const host = this.#hosts.get(fault.host)!;
        if (host.server === null || !host.server.isServing || host.process!.isStopped) return;
        world.note(host.process!.name, "is shut down");
        const { server, process } = host;
        const end = (): void => {
          if (host.process !== process) return;
          this.#kill(host, false);
          // Without a snapshot, fencing numbers begin with the wall clock.
          if (fault.isRotten) host.machine.rot();
          else if (host.machine.hasSnapshot) host.wallShiftMs = fault.wallByMs;
          this.#mendAfter(fault.downMs, () => this.#start(host.name));
        };
        world.after(0, process!, () => {
          void server.shutDown().then(() => world.after(0, world.nobody, end));
        });
        return;
      }
      case "takeOver": {
        const host = this.#hosts.get(fault.host)!;
        this.#kill(host, false);
        host.takesOver = true;
        return this.#start(fault.host);
      }
      case "disk": {
        const { machine } = this.#hosts.get(fault.host)!;
        machine.setFailing(true);
        return this.#mendAfter(fault.forMs, () => machine.setFailing(false));
      }
      case "stop": {
        const { process } = this.#hosts.get(fault.host)!;
        if (process === null || process.isStopped) return;
        world.note(process.name, "is stopped");
        world.stop(process);
        return this.#mendAfter(fault.forMs, () => {
          if (!process.isAlive) return;
          world.note(process.name, "goes on");
          world.resume(process);
        });
      }
      case "cut": {
        const { from, to, isBothWays, forMs } = fault;
        const way = `${from} to ${to}${isBothWays ? " and back" : ""}`;
        world.note("network", `cuts ${way}`);
        const mends = [this.#network.cut({ from, to })];
        if (isBothWays) mends.push(this.#network.cut({ from: to, to: from }));
        return this.#mendAfter(forMs, () => {
          world.note("network", `joins ${way}`);
          for (const mend of mends) mend();
        });
      }
      case "reset":
      case "silence": {
        const { kind, number, isAmidst } = fault;
        const disturb = (end: End): void => {
          if (this.#isHealed) return;
          world.note("network", `${kind}: ${end.host} and ${end.other.host}`);
          this.#network[kind](end);
        };
        if (isAmidst) {
          return this.#network.onPacket(fault.host, (from) => this.#hosts.has(from), disturb);
        }
        const end = this.#network.endAt(fault.host, number);
        return end === undefined ? undefined : disturb(end);
      }
      case "slow": {
        const { way, byMs } = fault;
        const where = way === null ? "" : ` from ${way.from} to ${way.to}`;
        world.note("network", `is slower by ${byMs.toFixed(3)} ms${where}`);
        return this.#mendAfter(fault.forMs, this.#network.slow(byMs, way));
      }
      case "wall": {
        const { process } = this.#hosts.get(fault.host)!;
        if (process === null) return;
        world.note(process.name, `has its wall clock set by ${fault.byMs.toFixed(0)} ms`);
        process.wallShiftMs += fault.byMs;
        return;
      }
      case "lock":
        return this.#lock(fault.forMs);
      case "column": {
        if (this.#plan.database === "model") return this.#alterModel(fault.table);
        if (this.#other.isTransaction) return;
        const column = `more${this.#columns++}`;
        world.note("database", `gets a column ${column} of ${fault.table}`);
        return this.#other.exec(`ALTER TABLE ${fault.table} ADD COLUMN ${column} TEXT`);
      }
      case "rebuild":
        if (this.#plan.database === "model") return this.#rebuildModel(fault.forMs);
        return this.#rebuild(fault.table, fault.forMs);
      case "slot":
        world.note("database", fault.isDropped ? "has its slot dropped" : "gives the log up");
        this.#model?.endReaders();
        return this.#files.wal.loseSlots(fault.isDropped);
      case "failover": {
        const { hasSlots } = fault;
        this.#kill(this.#hosts.get(DATABASE_HOST)!, fault.isSilent);
        world.note("database", `is replaced by a stand-by ${hasSlots ? "with" : "without"} slots`);
        this.#files.wal.failOver(hasSlots);
        return this.#mendAfter(fault.downMs, () => this.#start(DATABASE_HOST));
      }
      case "late": {
        const { wal } = this.#files;
        world.note("database", "does not send its log");
        wal.delays++;
        return this.#mendAfter(fault.forMs, () => {
          world.note("database", "sends its log");
          wal.delays--;
          this.#model?.wakeReaders();
        });
      }
    }
  }

  #alterModel(table: Table): void {
    this.#world.note("database", `has ${table} altered`);
    this.#files.wal.alter(table === "kv");
    this.#model?.wakeReaders();
  }

  #rebuildModel(forMs: number): void {
    const { wal } = this.#files;
    this.#world.note("database", "has kv rebuilt");
    wal.rebuild();
    this.#model?.wakeReaders();
    this.#mendAfter(forMs, () => {
      this.#world.note("database", "is prepared by init");
      wal.publish();
      this.#model?.wakeReaders();
    });
  }

  /** Puts a copy of a table into its place, as migrations do that change a type; `init` runs after a time. */
  #rebuild(table: Table, forMs: number): void {
    if (this.#other.isTransaction) return;
    this.#world.note("database", `has ${table} rebuilt`);
    const { sql } = this.#other.prepare("SELECT sql FROM sqlite_schema WHERE name = ?").get(table)!;
    this.#other.exec(
      `BEGIN; ${(sql as string).replace(/(?<=^CREATE TABLE )"?\w+"?/, "copied")};` +
        `INSERT INTO copied SELECT * FROM ${table}; DROP TABLE ${table};` +
        `ALTER TABLE copied RENAME TO ${table}; ${notesOf(table)} COMMIT`,
    );
    const init = (): void => {
      if (this.#other.isTransaction) return this.#mendAfter(1, init);
      this.#world.note("database", "is prepared by init");
      this.#init();
    };
    this.#mendAfter(forMs, init);
  }

  #lock(forMs: number): void {
    if (this.#other.isTransaction) return;
    this.#world.note("database", "is locked by another program");
    this.#other.exec("BEGIN IMMEDIATE");
    this.#mendAfter(forMs, () => {
      this.#world.note("database", "is free");
      this.#other.exec("ROLLBACK");
    });
  }

  /** Mends everything, and has every server asked for every key until it answers. */
  #heal(): void {
    this.#world.note("network", "everything is mended");
    this.#isHealed = true;
    for (const client of [...this.#clients, ...this.#applications]) client.finish();
    for (const mend of [...this.#mends]) mend();
    this.#network.heal();
    for (const name of this.#hosts.keys()) this.#start(name);
    const { hosts, keys } = this.#plan;
    const origins = hosts.filter(({ role }) => role === "origin");
    const nodes = hosts.filter(({ role }) => role === "node").map((node) => [node]);
    // A stand-by serves nothing: one of the origins does.
    const groups = origins.length === 0 ? [] : [origins, ...nodes];
    const { articles, follows } = this.#plan;
    const written = follows ? keys.filter((key) => DIRECT_KEY.test(key)) : [];
    const probes = [
      ...written.map((key) => ({ kind: "direct" as const, keys: [key] })),
      ...keys.map((key) => ({ kind: "gets" as const, keys: [key] })),
      ...articles.map((key) => ({ kind: "view" as const, keys: [key] })),
    ];
    for (const [number, group] of groups.entries()) {
      const requests = probes.map((probe, at) => (
        { id: FIRST_PROBE + number * probes.length + at, pauseMs: 100, ...probe }
      ));
      const name = `probe${number}`;
      const plan = {
        name,
        hosts: group.map((host) => host.name),
        patienceMs: 2000,
        depth: 1,
        requests,
      };
      this.#addClient(new Process(this.#world, name, 1, 0), plan, true);
    }
  }
}

/** Triggers that note every version of a table's rows. */
function notesOf(table: Table): string {
  const key = table === "kv" ? "NEW.key" : "'a' || NEW.id";
  const note = `BEGIN INSERT INTO noted VALUES (${key}, NEW.value, NEW.version); END;`;
  return ["INSERT", "UPDATE"].map((event) =>
    `CREATE TRIGGER note_${table}_${event} AFTER ${event} ON ${table} ${note}`
  ).join("");
}
