// `deno task patroni [KIND…] [--failovers N] [--haproxy] [--verbose]`: an origin with a stand-by, two nodes, views,
// log, meters and canaries before PostgreSQL under Patroni, whose leader is killed, stopped, cut off, switched over, or
// loses its etcd, N times each. Prints a line for each, with the time without writes beside Patroni's own. Needs the
// packages patroni, etcd-server and postgresql, with --haproxy also haproxy, and to be run as root.
import { Canary } from "../chaos/canary.ts";
import { METERED, pause, WRONG_VALUE } from "../chaos/disturbed.ts";
import { freePorts } from "../support/free_ports.ts";
import { readLine } from "../support/options.ts";
import { launchOrigin, runInit, startNode } from "../support/servers/origin_process.ts";
import { PROGRAMS } from "../support/servers/postgres.ts";
import { type ServerProcess, until } from "../support/servers/server_process.ts";
import { type Member, PatroniCluster } from "./cluster.ts";
import { Haproxy } from "./haproxy.ts";
import { Items, TABLE, VIEWS } from "./items.ts";
import { Prober, Promotions } from "./prober.ts";

const CANARIES = Array.from({ length: 20 }, (_, index) => `canary:${index}`).join(",");
/** How long etcd is away: longer than the leader's key lives. */
const AWAY_MS = 30_000;
/** How long a failover may take. */
const FAILOVER_MS_MAX = 180_000;
/** Between two failovers. */
const REST_MS = 3000;
/** Between two starts of an origin. */
const RESTART_MS = 100;

type Kind = "killed" | "database killed" | "switchover" | "stopped" | "cut off" | "etcd gone";

/** Takes the leader away. @returns How it comes back. */
type Failure = (cluster: PatroniCluster, leader: Member) => Promise<() => Promise<void>>;

const NOTHING = (): Promise<void> => Promise.resolve();
const FAILURES: Readonly<Record<Kind, Failure>> = {
  killed: async (_, leader) => {
    await leader.kill();
    return () => Promise.resolve(leader.start());
  },
  "database killed": async (_, leader) => {
    await leader.killDatabase();
    return NOTHING;
  },
  switchover: async (_, leader) => {
    await leader.switchOver();
    return NOTHING;
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
    return NOTHING;
  },
};

/** Two origins, each started again whenever it ends, as a supervisor does. */
class Origins {
  readonly ports = freePorts(2);
  readonly servers: ServerProcess[] = [];
  #isOver = false;
  readonly #ended: Promise<unknown>;

  constructor(place: { readonly url: string; readonly folder: string }, args: readonly string[]) {
    this.#ended = Promise.all(this.ports.map(async (port) => {
      const all = [...args, "--standby", "-p", `${port}`, "-l", "127.0.0.1"];
      while (!this.#isOver) {
        const origin = launchOrigin(place, all);
        this.servers.push(origin);
        await origin.ended(Infinity);
        await pause(RESTART_MS);
      }
    }));
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    for (const server of this.servers) await server[Symbol.asyncDispose]();
    await this.#ended;
  }
}

function report(result: Record<string, unknown>): void {
  // deno-lint-ignore no-console -- the result
  console.log(JSON.stringify(result));
}

const { options, words } = readLine(
  ...[Deno.args, { failovers: 10, haproxy: false, verbose: false }, "kind"] as const,
);
const kinds = (Object.keys(FAILURES) as Kind[]).filter((kind) =>
  words.length === 0 || words.includes(kind)
);

if (PROGRAMS === null) throw new Error("PostgreSQL is not installed");
await using cluster = await PatroniCluster.start(PROGRAMS);
using haproxy = options.haproxy ? await Haproxy.start(cluster) : null;
await cluster.execute((await cluster.leader())!, TABLE);
const folder = await Deno.makeTempDir();
const views = `${folder}/views.jsonc`;
await Deno.writeTextFile(views, JSON.stringify(VIEWS));
const url = haproxy === null ? cluster.url : cluster.urlOf(`127.0.0.1:${haproxy.port}`);
const init = await runInit({ url: cluster.url, folder }, ["--follow", "--views", views, "--run"]);
if (init.code !== 0) throw new Error(init.stderr);
const args = ["--follow", "--views", views, "--rows", "canary:,probe", ...METERED];
const origins = new Origins({ url, folder }, args);
const prefixes = ["--rows", "canary:,probe,item:"];
const nodes: ServerProcess[] = [];
for (let count = 0; count < 2; count++) {
  nodes.push(await startNode(origins.ports.map((port) => ({ port })), [...prefixes, ...METERED]));
}
const ports = nodes.map(({ port }) => port);
const canary = new Canary(ports[0]!, ports.map((port) => `127.0.0.1:${port}`).join(","), CANARIES);
const prober = new Prober(ports[0]!);
const items = new Items(cluster, ports);
const promotions = new Promotions(cluster);

/** Lines that were shown. */
const shown = new Map<ServerProcess, number>();

function showNews(): void {
  for (const server of [...origins.servers, ...nodes]) {
    for (const line of server.lines.slice(shown.get(server) ?? 0)) report({ [server.pid]: line });
    shown.set(server, server.lines.length);
  }
}

async function failOver(kind: Kind): Promise<void> {
  await cluster.untilWhole();
  await until(() => performance.now() - prober.lastMs < 500);
  await pause(REST_MS);
  const leader = (await cluster.leader())!;
  prober.reset();
  const rewound = await leader.logged("running pg_rewind");
  const startedOrigins = origins.servers.length;
  const failedMs = performance.now();
  const bringBack = await FAILURES[kind](cluster, leader);
  await until(() => promotions.since(failedMs) !== undefined, ...[50, FAILOVER_MS_MAX] as const);
  const promotion = promotions.since(failedMs)!;
  // Longer than any time without writes that belongs to it.
  await until(
    () => prober.lastMs > promotion.ms + 1000,
    ...[50, FAILOVER_MS_MAX] as const,
  );
  const { ms, endMs } = prober.longest;
  const checkedMs = performance.now();
  const first = await items.check();
  const checkMs = Math.round(performance.now() - checkedMs);
  await bringBack();
  await pause(1000);
  await cluster.untilWhole();
  const second = await items.check();
  report({
    ...{ kind, leader: leader.name, next: promotion.member.name },
    promotedMs: Math.round(promotion.ms - failedMs),
    withoutWritesMs: Math.round(ms),
    afterPromotionMs: Math.round(endMs - promotion.ms),
    checkMs,
    rewound: await leader.logged("running pg_rewind") - rewound,
    restarts: origins.servers.length - startedOrigins,
    refusal: prober.refusal,
    lost: [...first.lost, ...second.lost],
    old: [...first.old, ...second.old],
    wrong: [...origins.servers, ...nodes].flatMap(({ lines }) =>
      lines.filter((line) => WRONG_VALUE.test(line))
    ),
    canary: canary.lines,
  });
  if (options.verbose) showNews();
}

try {
  for (const kind of kinds) {
    for (let count = 0; count < options.failovers; count++) await failOver(kind);
  }
} finally {
  if (options.verbose) showNews();
  await prober.stop();
  await items.stop();
  await promotions.stop();
  report({ canary: await canary.stop(), writes: items.writes, reads: items.reads });
  for (const node of nodes) await node[Symbol.asyncDispose]();
  await origins.stop();
  await Deno.remove(folder, { recursive: true });
}
