import { assertEquals } from "@std/assert";
import { sharedPostgres, type TestDatabase } from "../support/servers/databases.ts";
import { launchOrigin, runInit } from "../support/servers/origin_process.ts";
import type { Relay } from "../support/servers/relay.ts";
import { type ServerProcess, until } from "../support/servers/server_process.ts";
import { Disturbed, kill, METERED, pause } from "./disturbed.ts";
import { PatientClient } from "./patient_client.ts";
import { TableWriter } from "./table_writer.ts";

const ITEMS = 20;
const PLACES = 4;
const NODES = 2;
const READERS_EACH = 2;
const WRITERS = 3;
const MEMBER_MS = 500;
const SHORT_MS = 100;
const KINDS = [
  ...["node killed", "node stopped", "node cut", "client cut"] as const,
  ...["origin killed", "views read again", "database killed", "slot dropped"] as const,
];
type Kind = typeof KINDS[number];
/** Kinds at the end that only PostgreSQL has. */
const POSTGRES_KINDS = 2;

const VIEWS = {
  "item:{id}": {
    query: "SELECT id, place, count FROM item WHERE id = {id}",
    changes: { item: "item:{id}" },
  },
  "place:{place}": {
    query: "SELECT id, count FROM item WHERE place = {place} ORDER BY id",
    value: "array",
    changes: { item: "place:{place}" },
  },
  "total": { query: "SELECT sum(count) FROM item", value: "raw", changes: { item: "total" } },
};

/** A count of an item that was written, and that the origin has said is applied, at a moment. */
export interface Applied {
  readonly id: number;
  readonly count: number;
  readonly at: number;
}

/** A count that a reader was given. */
export interface Seen {
  readonly id: number;
  /** Null: the item was absent. */
  readonly count: number | null;
  /** When the reader asked. */
  readonly began: number;
}

/** Returns the reads that were older than a change that had been applied before they began: counts only grow. */
export function oldReads(applied: readonly Applied[], seen: readonly Seen[]): Seen[] {
  return seen.filter(({ id, count, began }) =>
    applied.some((each) => each.id === id && each.at < began && each.count > (count ?? -1))
  );
}

/** The result of a run. */
export interface ViewsRan {
  readonly reads: number;
  readonly writes: number;
  readonly applied: number;
  readonly disturbances: Readonly<Record<string, number>>;
}

/**
 * Programs write to a table without knowing of caches, beside clients that read its views at two nodes and at their
 * origin, while nodes, origins and PostgreSQL are killed.
 *
 * @throws When a value is old after its change was applied, or at rest differs from its query.
 */
export async function runViewsChaos(
  database: TestDatabase,
  seed: number,
  disturbances: number,
): Promise<ViewsRan> {
  return await new ViewsChaos(database, seed).run(disturbances);
}

interface Node {
  server: ServerProcess;
  readonly origin: Relay;
  readonly clients: Relay;
}

/** See `runViewsChaos`. */
export class ViewsChaos extends Disturbed<Kind, ViewsRan> {
  readonly #isPostgres = this.database.folder === "";
  protected override readonly kinds = KINDS.slice(
    0,
    this.#isPostgres ? undefined : -POSTGRES_KINDS,
  );
  protected override readonly writesBetween = 5;
  readonly #folder = Deno.makeTempDirSync();
  readonly #applied: Applied[] = [];
  readonly #seen: Seen[] = [];
  readonly #nodes: Node[] = [];
  readonly #originRelay = this.relay();
  #origin!: ServerProcess;
  #reads = 0;
  #writes = 0;

  protected override get done(): [number, number] {
    return [this.#reads, this.#applied.length];
  }

  protected override async start(): Promise<void> {
    await using writer = new TableWriter(this.database);
    await writer.query(
      "CREATE TABLE item (id integer PRIMARY KEY, place integer NOT NULL, count integer NOT NULL)",
    );
    if (this.#isPostgres) await writer.query("ALTER TABLE item REPLICA IDENTITY FULL");
    for (let id = 0; id < ITEMS; id++) {
      await writer.query(`INSERT INTO item VALUES (${id}, ${id % PLACES}, 0)`);
    }
    await this.#writeViews(1000);
    const { code, stderr } = await runInit(this.#place, [
      ...["--follow", "--views", `${this.#folder}/views.jsonc`, "--run"],
    ]);
    assertEquals(code, 0, stderr);
    for (let count = 0; count < NODES; count++) {
      const [origin, clients] = [this.relay(), this.relay()];
      this.#nodes.push({ origin, clients, server: await this.startNode([origin], clients) });
    }
    await this.#replaceOrigin();
    for (const relay of this.#relays) {
      for (let count = 0; count < READERS_EACH; count++) this.loop(this.#read(relay));
    }
    for (let count = 0; count < WRITERS; count++) this.loop(this.#write());
  }

  protected override async disturb(kind: Kind): Promise<void> {
    const node = this.#nodes[this.choose(NODES)]!;
    switch (kind) {
      case "node killed":
        await kill(node.server);
        node.server = await this.startNode([node.origin], node.clients);
        return;
      case "node stopped":
        node.server.signal("SIGSTOP");
        await pause(this.choose(2) === 0 ? SHORT_MS : 2 * MEMBER_MS);
        return node.server.signal("SIGCONT");
      case "node cut":
        return node.origin.cutAll();
      case "client cut":
        return node.clients.cutAll();
      case "origin killed":
        await kill(this.#origin);
        return await this.#replaceOrigin();
      case "views read again":
        // Other queries: the keys of every view are emptied.
        await this.#writeViews(1 + this.choose(1000));
        return this.#origin.signal("SIGHUP");
      case "database killed":
        return await (await sharedPostgres()).restart();
      case "slot dropped":
        return await this.#dropSlot();
    }
  }

  async #writeViews(edition: number): Promise<void> {
    const views = Object.entries(VIEWS).map((
      [key, view],
    ) => [key, { ...view, query: `${view.query} /* ${edition} */` }]);
    await Deno.writeTextFile(
      `${this.#folder}/views.jsonc`,
      JSON.stringify(Object.fromEntries(views)),
    );
  }

  /**
   * Ends the log under the origin, and changes every item before it has another slot: only the gap tells of these
   * changes. They are old values as soon as the origin says that they are applied.
   */
  async #dropSlot(): Promise<void> {
    const slot = "FROM pg_replication_slots WHERE database = current_database()";
    await using writer = new TableWriter(this.database);
    let lost: readonly Readonly<Record<string, unknown>>[] = [];
    await until(async () => {
      try {
        await writer.query(`SELECT pg_terminate_backend(active_pid) ${slot} AND active`);
        lost = await writer.query(
          `WITH dropped AS (SELECT pg_drop_replication_slot(slot_name) ${slot}) UPDATE item ` +
            "SET count = count + 1 + 0 * (SELECT count(*) FROM dropped) RETURNING id, count",
        );
        return true;
      } catch {
        return false;
      }
    });
    await until(() => this.#isApplied());
    const at = this.now++;
    for (const { id, count } of lost) {
      this.#applied.push({ id: Number(id), count: Number(count), at });
    }
    await Promise.all(this.#relays.map(async (relay) => {
      const client = this.client(relay.port);
      for (let id = 0; id < ITEMS; id++) await this.#readItem(client, id);
    }));
  }

  /** Waits until the log is applied, and compares every view everywhere with its query. */
  protected override async finish(): Promise<ViewsRan> {
    await until(() => this.#isApplied());
    const old = oldReads(this.#applied, this.#seen);
    assertEquals(old, [], `${old.length} old values`);
    await using writer = new TableWriter(this.database);
    for (const relay of this.#relays) {
      const client = this.client(relay.port);
      for (const [key, query] of queries()) {
        const row = (await writer.query(query))[0]!;
        let value: string | null = null;
        await until(async () => (value = await valueOf(client, key)) !== null);
        assertEquals(value, String(Object.values(row)[0]), `${key} at rest`);
      }
    }
    return {
      reads: this.#reads,
      writes: this.#writes,
      applied: this.#applied.length,
      disturbances: this.disturbances,
    };
  }

  protected override async stop(): Promise<void> {
    await super.stop();
    await Deno.remove(this.#folder, { recursive: true });
  }

  get #place(): Pick<TestDatabase, "url" | "folder"> {
    const folders = [this.database.folder, this.#folder].filter((each) => each !== "");
    return { url: this.database.url, folder: folders.join() };
  }

  get #relays(): readonly Relay[] {
    return [this.#originRelay, ...this.#nodes.map(({ clients }) => clients)];
  }

  async #replaceOrigin(): Promise<void> {
    const origin = launchOrigin(this.#place, [
      ...["--follow", "--views", `${this.#folder}/views.jsonc`, "--rows", "*"],
      ...["--member-time", `${MEMBER_MS}`, "--take-over", ...METERED],
    ]);
    this.#origin = this.started(origin);
    await origin.line("listens on");
    for (const relay of [this.#originRelay, ...this.#nodes.map((node) => node.origin)]) {
      relay.moveTo(origin.port);
    }
  }

  async #read(relay: Relay): Promise<void> {
    const client = this.client(relay.port);
    while (!this.isOver) {
      const id = this.choose(ITEMS);
      const others = [`item:${id}`, `place:${this.choose(PLACES)}`, "total"];
      const key = others[this.choose(others.length)]!;
      const isRead = key.startsWith("item:")
        ? await this.#readItem(client, id)
        : await valueOf(client, key) !== null;
      if (isRead) this.#reads++;
      else await pause();
    }
  }

  /** Reads an item, and keeps its count for `oldReads`. @returns Whether somebody has answered. */
  async #readItem(client: PatientClient, id: number): Promise<boolean> {
    const began = this.now++;
    const value = await valueOf(client, `item:${id}`);
    if (value === null) return false;
    const count = value === "" ? null : JSON.parse(value).count as number;
    this.#seen.push({ id, count, began });
    return true;
  }

  /** Counts an item up, moves it to another place, and asks at times when that is applied. */
  async #write(): Promise<void> {
    await using writer = new TableWriter(this.database);
    while (!this.isOver) {
      await this.rest();
      const id = this.choose(ITEMS);
      const place = this.choose(PLACES);
      try {
        const [row] = await writer.query(
          `UPDATE item SET count = count + 1, place = ${place} WHERE id = ${id} RETURNING count`,
        );
        this.#writes++;
        if (this.choose(4) > 0 || !await this.#isApplied()) continue;
        this.#applied.push({ id, count: Number(row!["count"]), at: this.now++ });
      } catch {
        await pause();
      }
    }
  }

  async #isApplied(): Promise<boolean> {
    using client = new PatientClient(this.#originRelay.port);
    return await client.try("follow wait now 2000\r\n") === "OK\r\n";
  }
}

/** All keys, and the statements whose only column is the value. */
function* queries(): Generator<[key: string, query: string]> {
  for (let id = 0; id < ITEMS; id++) {
    const value = `'{"id":' || id || ',"place":' || place || ',"count":' || count || '}'`;
    yield [`item:${id}`, `SELECT ${value} AS value FROM item WHERE id = ${id}`];
  }
  for (let place = 0; place < PLACES; place++) {
    const element = `'{"id":' || id || ',"count":' || count || '}'`;
    const rows = `SELECT ${element} AS one FROM item WHERE place = ${place} ORDER BY id`;
    yield [
      `place:${place}`,
      `SELECT '[' || coalesce((SELECT string_agg(one, ',') FROM (${rows}) AS rows), '') || ']' AS value`,
    ];
  }
  yield ["total", "SELECT sum(count) AS value FROM item"];
}

/** @returns The value; "": there is none; null: nobody has answered. */
async function valueOf(client: PatientClient, key: string): Promise<string | null> {
  const reply = await client.try(`get ${key}\r\n`, "END\r\n");
  if (reply === null || /^(?:SERVER_|CLIENT_)?ERROR/.test(reply)) return null;
  return /^VALUE .*\r\n(.*)\r\n/.exec(reply)?.[1] ?? "";
}
