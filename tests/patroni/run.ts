// `deno task patroni [KIND…] [--failovers N]`: an origin with a stand-by, two nodes, views, log, meters and canaries
// before PostgreSQL under Patroni, whose leader is killed, stopped, cut off, switched over, or loses its etcd, N times
// each. Prints a line for each, with the time without writes beside Patroni's own. Needs the packages patroni,
// etcd-server and postgresql, and to be run as root.
import { Canary } from "../chaos/canary.ts";
import { METERED, pause, WRONG_VALUE } from "../chaos/disturbed.ts";
import { PatientClient } from "../chaos/patient_client.ts";
import { freePorts } from "../support/free_ports.ts";
import { readLine } from "../support/options.ts";
import { launchOrigin, runInit, startNode } from "../support/servers/origin_process.ts";
import { PROGRAMS } from "../support/servers/postgres.ts";
import { type ServerProcess, until } from "../support/servers/server_process.ts";
import { type Member, PatroniCluster } from "./cluster.ts";

const CANARIES = Array.from({ length: 20 }, (_, index) => `canary:${index}`).join(",");
const VIEWS = {
  "item:{id}": {
    query: "SELECT id, count FROM item WHERE id = {id}",
    changes: { item: "item:{id}" },
  },
};
/** Between two tries to write, and between two looks at Patroni. */
const LOOK_MS = 50;
/** Longer than the time of the leader's key. */
const AWAY_MS = 30_000;

type Kind = "killed" | "database killed" | "switchover" | "stopped" | "cut off" | "etcd gone";

/** Takes the leader away. @returns How it comes back. */
type Failure = (cluster: PatroniCluster, leader: Member) => Promise<() => Promise<void>>;

const FAILURES: Readonly<Record<Kind, Failure>> = {
  killed: async (_, leader) => {
    await leader.kill();
    return () => Promise.resolve(leader.start());
  },
  "database killed": async (_, leader) => {
    await leader.killDatabase();
    return () => Promise.resolve();
  },
  switchover: async (_, leader) => {
    await leader.switchOver();
    return () => Promise.resolve();
  },
  stopped: async (_, leader) => {
    await leader.stop();
    return () => leader.goOn();
  },
  "cut off": (_, leader) => {
    leader.relay.passage = () => "cut";
    leader.relay.cutAll();
    return Promise.resolve(() => {
      leader.relay.passage = () => "pass";
      return Promise.resolve();
    });
  },
  "etcd gone": async ({ etcd }) => {
    await etcd.kill();
    await pause(AWAY_MS);
    etcd.start();
    return () => Promise.resolve();
  },
};

/** Writes a row at a server, time and again. */
class Prober {
  /** When the last write was acknowledged. */
  lastMs = performance.now();
  /** The longest time without one. */
  longestMs = 0;
  #isOver = false;
  readonly #ended: Promise<void>;

  constructor(port: number) {
    this.#ended = this.#probe(port);
  }

  async #probe(port: number): Promise<void> {
    using client = new PatientClient(port);
    while (!this.#isOver) {
      if (await client.try("set probe 0 0 1\r\n1\r\n") === "STORED\r\n") {
        const nowMs = performance.now();
        this.longestMs = Math.max(this.longestMs, nowMs - this.lastMs);
        this.lastMs = nowMs;
      }
      await pause(LOOK_MS);
    }
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#ended;
  }
}

/** Waits until a member is the leader that was none when this began, or is again. @returns How long that took. */
async function untilPromoted(
  cluster: PatroniCluster,
  isOther: boolean,
  old: Member,
): Promise<number> {
  const beganMs = performance.now();
  await until(async () => {
    const leader = await cluster.leader();
    return leader !== undefined && (!isOther || leader !== old);
  }, LOOK_MS);
  return performance.now() - beganMs;
}

const { options: { failovers }, words } = readLine(Deno.args, { failovers: 10 }, "kind");
const kinds = (Object.keys(FAILURES) as Kind[]).filter((kind) =>
  words.length === 0 || words.includes(kind)
);

if (PROGRAMS === null) throw new Error("PostgreSQL is not installed");
await using cluster = await PatroniCluster.start(PROGRAMS);
await cluster.execute(
  (await cluster.leader())!,
  "CREATE TABLE item (id int PRIMARY KEY, count int NOT NULL); INSERT INTO item SELECT id, 0 FROM generate_series(1, 20) AS id",
);
const folder = await Deno.makeTempDir();
const views = `${folder}/views.jsonc`;
await Deno.writeTextFile(views, JSON.stringify(VIEWS));
const place = { url: cluster.url, folder };
const init = await runInit(place, ["--follow", "--views", views, "--run"]);
if (init.code !== 0) throw new Error(init.stderr);
const args = ["--follow", "--views", views, "--rows", "canary:,probe", ...METERED];
const servers: ServerProcess[] = [];
let isOver = false;

/** Starts an origin as a supervisor does: again, as a stand-by, whenever it has ended. */
async function supervise(port: number): Promise<void> {
  while (!isOver) {
    const origin = launchOrigin(place, [...args, "--standby", "-p", `${port}`, "-l", "127.0.0.1"]);
    servers.push(origin);
    await origin.ended();
    await pause(LOOK_MS);
  }
}

const origins = freePorts(2).map((port) => ({ port }));
const supervised = origins.map(({ port }) => supervise(port));
const nodes: ServerProcess[] = [];
for (let count = 0; count < 2; count++) {
  nodes.push(await startNode(origins, ["--rows", "canary:,probe", ...METERED]));
}
servers.push(...nodes);
// A node leads to the active origin.
const caches = nodes.map(({ port }) => `127.0.0.1:${port}`).join(",");
const canary = new Canary(nodes[0]!.port, caches, CANARIES);
const prober = new Prober(nodes[0]!.port);
for (const kind of kinds) {
  for (let count = 0; count < failovers; count++) {
    await cluster.untilWhole();
    await until(() => performance.now() - prober.lastMs < 10 * LOOK_MS);
    await pause(1000);
    const leader = (await cluster.leader())!;
    prober.longestMs = 0;
    const [promotedMs, bringBack] = await Promise.all([
      (async () => {
        if (kind === "database killed" || kind === "etcd gone") {
          await until(async () => await cluster.leader() === undefined, LOOK_MS);
        }
        return await untilPromoted(
          cluster,
          !["database killed", "etcd gone"].includes(kind),
          leader,
        );
      })(),
      FAILURES[kind](cluster, leader),
    ]);
    const failedMs = performance.now();
    await until(() => prober.lastMs > failedMs);
    const afterMs = Math.round(performance.now() - failedMs);
    await bringBack();
    report({
      ...{
        kind,
        promotedMs: Math.round(promotedMs),
        withoutWritesMs: Math.round(prober.longestMs),
      },
      afterMs,
      wrong: servers.flatMap(({ lines }) => lines.filter((line) => WRONG_VALUE.test(line))),
      canary: canary.lines,
    });
  }
}
await prober.stop();
report({ canary: await canary.stop() });
isOver = true;
for (const server of servers) await server[Symbol.asyncDispose]();
await Promise.all(supervised);
await Deno.remove(folder, { recursive: true });

function report(result: Record<string, unknown>): void {
  // deno-lint-ignore no-console -- the result
  console.log(JSON.stringify(result));
}
