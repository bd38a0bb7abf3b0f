import { Canary } from "./canary.ts";
import { noteCommits } from "./commits.ts";
import { DisturbedRows, kill, METERED, pause, type RowsRan } from "./disturbed.ts";
import type { TestDatabase } from "../support/servers/databases.ts";
import { launchOrigin } from "../support/servers/origin_process.ts";
import type { Relay } from "../support/servers/relay.ts";
import { type ServerProcess, until } from "../support/servers/server_process.ts";

const KEYS = 30;
const NODES = 2;
const READERS_EACH = 3;
const WRITERS_EACH = 1;
const MEMBER_MS = 500;
/** A stop within the membership, and how slow a slow connection is: within it, and beyond it. */
const SHORT_MS = 100;
const SLOW_MS = [20, 700] as const;
const ORIGIN_WAITS = "waiting for its end";
const KINDS = [
  ...["node killed", "node stopped shortly", "node stopped", "node stopped"] as const,
  ...["node cut", "node cut off", "node slow", "client cut"] as const,
  ...["origin killed", "origin stopped", "stand-by"] as const,
];
type Kind = typeof KINDS[number];

/** The result of a run. */
export interface NodesRan extends RowsRan {
  /** The longest time without an acknowledged write, after each kind of disturbance. */
  readonly longestMs: Readonly<Record<string, number>>;
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
  return await new NodesChaos(database, seed).run(disturbances);
}

/** See `runNodesChaos`. */
export class NodesChaos extends DisturbedRows<Kind, NodesRan> {
  protected override readonly kinds = KINDS;
  protected override readonly keyCount = KEYS;
  protected override readonly writesBetween = 10;
  readonly #longestMs: Record<string, number> = {};
  /** Since when no write was acknowledged. */
  #lastWriteMs = performance.now();
  readonly #nodes: Node[] = [];
  /** Between stock clients and the active origin. */
  readonly #originRelay = this.relay();
  /** The active one, and its place of two. */
  #origin!: ServerProcess;
  #place = 1;
  #values = 0;

  /** As `seek`, with a canary at the origin and the nodes. */
  override async seek(limitMs: number): Promise<string | null> {
    const seeking = super.seek(limitMs);
    await until(() => this.#origin !== undefined);
    const caches = this.#places.map(({ port }) => `127.0.0.1:${port}`).join(",");
    const canary = new Canary(this.#originRelay.port, caches);
    try {
      return await Promise.race([seeking, canary.found]);
    } finally {
      await canary.stop();
    }
  }

  protected override async start(): Promise<void> {
    for (let count = 0; count < NODES; count++) {
      const [origins, clients] = [[this.relay(), this.relay()], this.relay()];
      this.#nodes.push({ origins, clients, server: await this.startNode(origins, clients) });
    }
    await this.#replaceOrigin();
    await noteCommits(this.database);
    for (const relay of this.#places) {
      for (let count = 0; count < READERS_EACH; count++) this.loop(this.#read(relay));
      for (let count = 0; count < WRITERS_EACH; count++) this.loop(this.#write(relay));
    }
  }

  protected override async disturb(kind: Kind): Promise<void> {
    const node = this.#nodes[this.choose(NODES)]!;
    switch (kind) {
      case "node killed":
        await kill(node.server);
        node.server = await this.startNode(node.origins, node.clients);
        return;
      case "node stopped shortly":
        node.server.signal("SIGSTOP");
        await pause(SHORT_MS);
        return node.server.signal("SIGCONT");
      case "node stopped":
        return await this.stopServer(node.server, "a stopped node", () => this.progress());
      case "node cut":
        for (const relay of node.origins) relay.cutAll();
        return;
      case "node cut off":
        for (const relay of node.origins) relay.passage = () => "cut";
        await this.progress();
        for (const relay of node.origins) relay.passage = () => "pass";
        return;
      case "node slow":
        for (const relay of node.origins) relay.delayMs = SLOW_MS[this.choose(SLOW_MS.length)]!;
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

  protected override async finish(): Promise<NodesRan> {
    for (const relay of this.#places) {
      const client = this.client(relay.port);
      for (let key = 0; key < KEYS; key++) {
        await until(() => this.get(client, `k${key}`, "a last read"));
      }
    }
    return { ...await this.verdict("nodes"), longestMs: this.#longestMs };
  }

  protected override async stop(): Promise<void> {
    await super.stop();
    // Until no piece is delayed any more.
    await pause(Math.max(...SLOW_MS) + SHORT_MS);
  }

  /** Where clients read and write. */
  get #places(): readonly Relay[] {
    return [this.#originRelay, ...this.#nodes.map(({ clients }) => clients)];
  }

  #launchOrigin(rule: "--standby" | "--take-over"): ServerProcess {
    const time = ["--member-time", `${MEMBER_MS}`];
    return this.started(launchOrigin(this.database, [...time, ...METERED, rule]));
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
    this.#originRelay.moveTo(origin.port);
  }

  /** Stops the origin for longer than its memberships, and has it go on; before PostgreSQL another one takes over. */
  async #stopOrigin(): Promise<void> {
    const old = this.#origin;
    old.signal("SIGSTOP");
    // The lock beside an SQLite file lasts while its holder is stopped.
    const isTimed = this.database.folder === "";
    if (isTimed) {
      await this.#replaceOrigin();
      await this.progress();
    } else await pause(3 * MEMBER_MS);
    old.signal("SIGCONT");
    if (isTimed) await kill(old);
  }

  async #read(relay: Relay): Promise<void> {
    const client = this.client(relay.port);
    const by = `a reader at ${relay === this.#originRelay ? "the origin" : "a node"}`;
    while (!this.isOver) {
      if (!await this.get(client, this.anyKey(), by)) await pause();
    }
  }

  async #write(relay: Relay): Promise<void> {
    const client = this.client(relay.port);
    const by = `a writer at ${relay === this.#originRelay ? "the origin" : "a node"}`;
    while (!this.isOver) {
      await this.rest();
      const [key, value] = [this.anyKey(), `v${this.#values++}`];
      const write = this.recording.begin(by, "ms", key, value, this.now++);
      const reply = await client.try(`ms ${key} ${value.length} c\r\n${value}\r\n`);
      const version = /^HD c(\d+)/.exec(reply ?? "")?.[1];
      if (version !== undefined) {
        this.#noteProgress();
        this.recording.acknowledge(write, Number(version), this.now++);
      } else {
        // Any other error says that nothing was written.
        const isKnown = reply !== null && !reply.includes("outcome unknown");
        if (isKnown) this.recording.fail(write, this.now++);
        await pause();
      }
    }
  }

  #noteProgress(): void {
    const nowMs = performance.now();
    const gapMs = Math.round(nowMs - this.#lastWriteMs);
    this.#lastWriteMs = nowMs;
    this.#longestMs[this.kind] = Math.max(gapMs, this.#longestMs[this.kind] ?? 0);
  }
}
