import { assertEquals } from "@std/assert";
import { randomFrom } from "../support/random.ts";
import type { TestDatabase } from "../support/servers/databases.ts";
import { launchProxy, startNode } from "../support/servers/proxy_process.ts";
import { Relay } from "../support/servers/relay.ts";
import { type ServerProcess, until } from "../support/servers/server_process.ts";
import { noteCommits, readCommits, versionsIn } from "./commits.ts";
import { type Disturbed, runDisturbed } from "./disturbed.ts";
import { type History, violationsOf } from "./history.ts";
import { PatientClient } from "./patient_client.ts";

const KEYS = 30;
const NODES = 2;
const READERS_EACH = 3;
const WRITERS_EACH = 1;
const MEMBER_MS = 500;
/** A stop within the membership, and how slow a slow connection is: within it, and beyond it. */
const SHORT_MS = 100;
const SLOW_MS = [20, 700] as const;
/** A port that refuses connections. */
const NO_PORT = 1;
/** Requests that a stopped node receives. */
const STOPPED_READS = 5;
/** Between two disturbances so many reads are seen, and so many writes are acknowledged. */
const READS_BETWEEN = 100;
const WRITES_BETWEEN = 10;
const ORIGIN_WAITS = "waiting for its end";
const KINDS = [
  ...["node killed", "node stopped shortly", "node stopped", "node stopped"] as const,
  ...["node cut", "node cut off", "node slow", "client cut"] as const,
  ...["origin killed", "origin stopped", "stand-by"] as const,
];

/** The result of a run. */
export interface NodesRan {
  readonly reads: number;
  readonly hits: number;
  readonly writes: number;
  readonly failed: number;
  readonly commits: number;
  /** The longest time without an acknowledged write, after each kind of disturbance. */
  readonly longestMs: Readonly<Record<string, number>>;
  readonly disturbances: Readonly<Record<string, number>>;
}

/** A node, the relays to its origins, and the one to it. */
interface Node {
  server: ServerProcess;
  /** To the two places of origins, in the order in which the node tries them. */
  readonly origins: readonly Relay[];
  readonly clients: Relay;
}

/**
 * Stock clients read and write rows at two nodes and at their origin, while nodes and origins are killed and stopped,
 * and their connections are cut and slow.
 *
 * @param disturbances So many, chosen by the seed.
 * @throws When the history has a violation.
 */
export async function runNodesChaos(
  database: TestDatabase,
  seed: number,
  disturbances: number,
): Promise<NodesRan> {
  return await runDisturbed(new NodesChaos(database, seed), disturbances);
}

class NodesChaos implements Disturbed<NodesRan> {
  readonly #database: TestDatabase;
  readonly #random: () => number;
  readonly #history: History = { acknowledged: [], observed: [], committed: [], failed: [] };
  readonly #disturbances: Record<string, number> = {};
  readonly #longestMs: Record<string, number> = {};
  /** Of the last disturbance, and since when no write was acknowledged. */
  #kind = "start";
  #lastWriteMs = performance.now();
  readonly #nodes: Node[] = [];
  /** Between stock clients and the active origin. */
  readonly #originRelay = new Relay(NO_PORT);
  /** The active one, and its place of two. */
  #origin!: ServerProcess;
  #place = 1;
  /** All that were started. */
  readonly #servers: ServerProcess[] = [];
  readonly #clients: PatientClient[] = [];
  readonly #loops: Promise<void>[] = [];
  #isOver = false;
  #now = 0;
  #values = 0;
  #hits = 0;

  constructor(database: TestDatabase, seed: number) {
    this.#database = database;
    this.#random = randomFrom(seed);
  }

  async start(): Promise<void> {
    for (let count = 0; count < NODES; count++) {
      const origins = [new Relay(NO_PORT), new Relay(NO_PORT)];
      const clients = new Relay(NO_PORT);
      this.#nodes.push({ origins, clients, server: await this.#startNode(origins, clients) });
    }
    await this.#replaceOrigin();
    await noteCommits(this.#database);
    for (const relay of [this.#originRelay, ...this.#nodes.map(({ clients }) => clients)]) {
      for (let count = 0; count < READERS_EACH; count++) this.#loops.push(this.#read(relay));
      for (let count = 0; count < WRITERS_EACH; count++) this.#loops.push(this.#write(relay));
    }
  }

  /** Waits until readers and writers have got on. */
  async progress(): Promise<void> {
    const { observed, acknowledged } = this.#history;
    const [reads, writes] = [observed.length + READS_BETWEEN, acknowledged.length + WRITES_BETWEEN];
    await until(() => observed.length >= reads && acknowledged.length >= writes);
  }

  async disturb(): Promise<void> {
    const kind = KINDS[this.#choose(KINDS.length)]!;
    const node = this.#nodes[this.#choose(NODES)]!;
    this.#disturbances[kind] = (this.#disturbances[kind] ?? 0) + 1;
    this.#kind = kind;
    switch (kind) {
      case "node killed":
        await kill(node.server);
        node.server = await this.#startNode(node.origins, node.clients);
        return;
      case "node stopped shortly":
        node.server.signal("SIGSTOP");
        await pause(SHORT_MS);
        return node.server.signal("SIGCONT");
      case "node stopped":
        return await this.#stopNode(node);
      case "node cut":
        for (const relay of node.origins) relay.cutAll();
        return;
      case "node cut off":
        for (const relay of node.origins) relay.passage = () => "cut";
        await this.progress();
        for (const relay of node.origins) relay.passage = () => "pass";
        return;
      case "node slow":
        for (const relay of node.origins) relay.delayMs = SLOW_MS[this.#choose(SLOW_MS.length)]!;
        await this.progress();
        for (const relay of node.origins) relay.delayMs = 0;
        return;
      case "client cut":
        return node.clients.cutAll();
      case "origin killed":
        await kill(this.#origin);
        return await this.#replaceOrigin();
      case "origin stopped":
        return await this.#stopOrigin();
      case "stand-by": {
        const old = this.#origin;
        const next = this.#launchOrigin("--standby");
        await next.line(ORIGIN_WAITS);
        await this.progress();
        await kill(old);
        return await this.#useOrigin(next);
      }
    }
  }

  /** Ends all writers, reads all keys once more everywhere, and checks the history. */
  async finish(): Promise<NodesRan> {
    this.#isOver = true;
    await Promise.all(this.#loops);
    for (const relay of [this.#originRelay, ...this.#nodes.map(({ clients }) => clients)]) {
      const client = this.#client(relay.port);
      for (let key = 0; key < KEYS; key++) {
        await until(() => this.#get(client, `k${key}`, "a last read"));
      }
    }
    this.#history.committed.push(...await readCommits(this.#database));
    const violations = violationsOf(this.#history);
    assertEquals(violations, [], `${violations.length} violations`);
    const { observed, acknowledged, failed, committed } = this.#history;
    return {
      reads: observed.length,
      hits: this.#hits,
      writes: acknowledged.length,
      failed: failed.length,
      commits: versionsIn(committed),
      longestMs: this.#longestMs,
      disturbances: this.#disturbances,
    };
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    for (const client of this.#clients) client[Symbol.dispose]();
    await Promise.allSettled(this.#loops);
    for (const server of this.#servers) await server[Symbol.asyncDispose]();
    this.#originRelay[Symbol.dispose]();
    for (const { origins, clients } of this.#nodes) {
      for (const relay of [...origins, clients]) relay[Symbol.dispose]();
    }
    // Until no piece is delayed any more.
    await pause(Math.max(...SLOW_MS) + SHORT_MS);
  }

  #choose(count: number): number {
    return Math.floor(this.#random() * count);
  }

  #client(port: number): PatientClient {
    const client = new PatientClient(port);
    this.#clients.push(client);
    return client;
  }

  async #startNode(origins: readonly Relay[], clients: Relay): Promise<ServerProcess> {
    const node = await startNode(origins, ["--node-name", `node${clients.port}`]);
    this.#servers.push(node);
    clients.target = node.port;
    clients.cutAll();
    return node;
  }

  /** Stops a node until writes have gone on without it, and has it answer what it received meanwhile. */
  async #stopNode({ server }: Node): Promise<void> {
    const clients = Array.from({ length: STOPPED_READS }, () => this.#client(server.port));
    const keys = clients.map(() => this.#anyKey());
    const read = (): Promise<unknown> =>
      Promise.all(clients.map((client, at) => this.#get(client, keys[at]!, "a stopped node")));
    await read();
    server.signal("SIGSTOP");
    await this.progress();
    const reads = read();
    server.signal("SIGCONT");
    await reads;
    for (const client of clients) client[Symbol.dispose]();
  }

  #launchOrigin(rule: "--standby" | "--take-over"): ServerProcess {
    const time = ["--member-time", `${MEMBER_MS}`];
    const origin = launchProxy(this.#database, [], [...time, rule]);
    this.#servers.push(origin);
    return origin;
  }

  /** Starts an origin that takes over. */
  async #replaceOrigin(): Promise<void> {
    await this.#useOrigin(this.#launchOrigin("--take-over"));
  }

  /** Puts an origin into the other place as soon as it serves. */
  async #useOrigin(origin: ServerProcess): Promise<void> {
    await origin.line("listens on");
    this.#origin = origin;
    this.#place = 1 - this.#place;
    for (const { origins } of this.#nodes) origins[this.#place]!.target = origin.port;
    this.#originRelay.target = origin.port;
    this.#originRelay.cutAll();
  }

  /** Stops the origin for longer than its memberships, and has it go on; before PostgreSQL another one takes over. */
  async #stopOrigin(): Promise<void> {
    const old = this.#origin;
    old.signal("SIGSTOP");
    // The lock beside an SQLite file lasts while its holder is stopped.
    const isTimed = this.#database.folder === "";
    if (isTimed) {
      await this.#replaceOrigin();
      await this.progress();
    } else await pause(3 * MEMBER_MS);
    old.signal("SIGCONT");
    if (isTimed) await kill(old);
  }

  async #read(relay: Relay): Promise<void> {
    const client = this.#client(relay.port);
    const by = `a reader at ${relay === this.#originRelay ? "the origin" : "a node"}`;
    while (!this.#isOver) {
      if (!await this.#get(client, this.#anyKey(), by)) await pause(10);
    }
  }

  async #write(relay: Relay): Promise<void> {
    const client = this.#client(relay.port);
    while (!this.#isOver) {
      const [key, value] = [this.#anyKey(), `v${this.#values++}`];
      const reply = await client.try(`ms ${key} ${value.length} c\r\n${value}\r\n`);
      const version = /^HD c(\d+)/.exec(reply ?? "")?.[1];
      if (version !== undefined) {
        this.#noteProgress();
        this.#history.acknowledged.push({ key, value, version: Number(version), at: this.#now++ });
      } else {
        // Any other error says that nothing was written.
        const isKnown = reply !== null && !reply.includes("outcome unknown");
        if (isKnown) this.#history.failed.push({ key, value });
        await pause(10);
      }
    }
  }

  #noteProgress(): void {
    const nowMs = performance.now();
    const gapMs = Math.round(nowMs - this.#lastWriteMs);
    this.#lastWriteMs = nowMs;
    this.#longestMs[this.#kind] = Math.max(gapMs, this.#longestMs[this.#kind] ?? 0);
  }

  #anyKey(): string {
    return `k${this.#choose(KEYS)}`;
  }

  /** @returns Whether the row was read. */
  async #get(client: PatientClient, key: string, by: string): Promise<boolean> {
    const began = this.#now++;
    const reply = await client.try(`get ${key}\r\n`, "END\r\n");
    if (reply === null || reply.startsWith("SERVER_ERROR")) return false;
    const value = /^VALUE .*\r\n(.*)\r\n/.exec(reply)?.[1] ?? null;
    if (value !== null) this.#hits++;
    this.#history.observed.push({ key, value, began, ended: this.#now++, by });
    return true;
  }
}

async function kill(server: ServerProcess): Promise<void> {
  try {
    server.signal("SIGKILL");
  } catch {
    // An origin ends when it learns that another one has taken over.
  }
  await server.ended();
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
