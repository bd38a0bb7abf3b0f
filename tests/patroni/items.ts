import { pause } from "../chaos/disturbed.ts";
import { PatientClient } from "../chaos/patient_client.ts";
import { type PatroniCluster, query } from "./cluster.ts";

const COUNT = 20;
const WRITE_EVERY_MS = 200;
const READ_EVERY_MS = 200;
const IDS = Array.from({ length: COUNT }, (_, index) => index + 1);
/** A read of all items. */
const READ = `get ${IDS.map((id) => `item:${id}`).join(" ")}\r\n`;
const WAIT = "follow wait now 30000\r\n";

/** The table of the items. */
export const TABLE = "CREATE TABLE item (id int PRIMARY KEY, count int NOT NULL); " +
  `INSERT INTO item SELECT id, 0 FROM generate_series(1, ${COUNT}) AS id`;
/** The view that the origin caches. */
export const VIEWS = {
  "item:{id}": {
    query: "SELECT id, count FROM item WHERE id = {id}",
    changes: { item: "item:{id}" },
  },
};

/** Rows of a table that a program changes by SQL, and nodes cache as a view. */
export class Items {
  /** The last count of each item whose change was acknowledged. */
  readonly #acknowledged = new Map<string, number>();
  readonly #cluster: PatroniCluster;
  readonly #nodes: readonly PatientClient[];
  #isPaused = false;
  #isOver = false;
  #writing = Promise.resolve();
  readonly #loops: Promise<void>[];
  /** Acknowledged changes. */
  writes = 0;
  /** Reads of all items at a node. */
  reads = 0;

  constructor(cluster: PatroniCluster, ports: readonly number[]) {
    this.#cluster = cluster;
    this.#nodes = ports.map((port) => new PatientClient(port));
    this.#loops = [this.#write(), ...ports.map((port) => this.#read(port))];
  }

  async #write(): Promise<void> {
    for (let id = 0; !this.#isOver; id = (id + 1) % COUNT) {
      if (!this.#isPaused) await (this.#writing = this.#change(IDS[id]!));
      await pause(WRITE_EVERY_MS);
    }
  }

  async #change(id: number): Promise<void> {
    const sql = `UPDATE item SET count = count + 1 WHERE id = ${id} RETURNING count`;
    const count = await query(this.#cluster.url, sql);
    if (count === null) return;
    this.writes++;
    this.#acknowledged.set(`${id}`, Number(count));
  }

  /** Has a node cache the items, and its meter compare them. */
  async #read(port: number): Promise<void> {
    using client = new PatientClient(port);
    while (!this.#isOver) {
      if (await client.try(READ, "END\r\n") !== null) this.reads++;
      await pause(READ_EVERY_MS);
    }
  }

  /**
   * Waits until the nodes have all that is committed, and compares.
   *
   * @returns What is wrong: acknowledged changes that the table lacks, and old values at nodes.
   */
  async check(): Promise<{ lost: string[]; old: string[] }> {
    this.#isPaused = true;
    await this.#writing;
    const old: string[] = [];
    const lost: string[] = [];
    for (const node of this.#nodes) {
      await node.insist(WAIT, (reply) => reply === "OK\r\n");
      const reply = await this.#readAll(node);
      // No one writes, so the table is as it was at the read.
      const table = await this.#cluster.execute((await this.#cluster.leader())!, SELECT);
      for (const line of table.split("\n")) {
        const [id, count] = line.split("|");
        const value = `{"id":${id},"count":${count}}`;
        if (!reply.includes(value)) old.push(`node ${node.port} lacks ${value}: ${reply}`);
        const acknowledged = this.#acknowledged.get(id!) ?? 0;
        if (Number(count) < acknowledged) lost.push(`${value}, acknowledged ${acknowledged}`);
      }
    }
    this.#isPaused = false;
    return { lost, old };
  }

  async #readAll(node: PatientClient): Promise<string> {
    for (;;) {
      const reply = await node.try(READ, "END\r\n");
      if (reply !== null && !reply.includes("ERROR")) return reply;
      await pause();
    }
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#loops);
    for (const node of this.#nodes) node[Symbol.dispose]();
  }
}

const SELECT = "SELECT id, count FROM item ORDER BY id";
