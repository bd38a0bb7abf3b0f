import { assertEquals } from "@std/assert";
import { randomFrom } from "../support/random.ts";
import type { TestDatabase } from "../support/servers/databases.ts";
import { startNode } from "../support/servers/origin_process.ts";
import { Relay } from "../support/servers/relay.ts";
import { type ServerProcess, until } from "../support/servers/server_process.ts";
import { readCommits, versionsIn } from "./commits.ts";
import { PatientClient } from "./patient_client.ts";
import { assertPlantedAreFound } from "./planted.ts";
import { type Read, Recording } from "./recording.ts";

/** A port that refuses connections. */
const NO_PORT = 1;
/** Between two disturbances so many reads are seen. */
const READS_BETWEEN = 100;
/** Requests that a stopped server receives. */
const STOPPED_READS = 5;
/** While a wrong value is sought, a disturbance follows another after this time: a meter looks once a second. */
const CALM_MS = 4000;
const LOOK_MS = 200;
/** Between two writes of a writer then. */
const WRITE_REST_MS = 100;
/** How long it may take then until everything has ended. */
const END_MS = 10_000;
/** Keys in which faults are planted after a run. */
const PLANTED_KEYS = 5;

/** Every value that origins and nodes may compare is compared. */
export const METERED = ["--verify", "1"];
/** Logged by a meter. */
export const WRONG_VALUE = /a cached value is (?:older|newer) than the database has it/;

/** Clients and servers that are disturbed at random, so often as the caller says. */
export abstract class Disturbed<Kind extends string, Ran> {
  /** What happens between; twice: twice as often. */
  protected abstract readonly kinds: readonly Kind[];
  /** Reads that were seen, and writes that have ended. */
  protected abstract readonly done: readonly [reads: number, writes: number];
  /** Writes between two disturbances. */
  protected abstract readonly writesBetween: number;
  /** How often each kind has happened, and the last one. */
  protected readonly disturbances: Record<string, number> = {};
  protected kind: Kind | "start" = "start";
  protected isOver = false;
  #isSeeking = false;
  /** Counts moments: all that the test sees, in its order. */
  protected now = 0;
  readonly #random: () => number;
  readonly #clients: PatientClient[] = [];
  readonly #servers: ServerProcess[] = [];
  readonly #relays: Relay[] = [];
  readonly #loops: Promise<void>[] = [];

  constructor(protected readonly database: TestDatabase, protected readonly seed: number) {
    this.#random = randomFrom(seed);
  }

  /** Starts servers and clients. */
  protected abstract start(): Promise<void>;
  protected abstract disturb(kind: Kind): Promise<void> | void;
  /** Looks at everything once more, after the clients have ended. @throws When something was wrong. */
  protected abstract finish(): Promise<Ran>;

  /** Lets clients get on, and disturbs them, so many times. @returns and @throws as `finish`. */
  async run(disturbances: number): Promise<Ran> {
    try {
      await this.start();
      for (let count = 0; count < disturbances; count++) {
        await this.progress();
        this.kind = this.kinds[this.choose(this.kinds.length)]!;
        this.disturbances[this.kind] = (this.disturbances[this.kind] ?? 0) + 1;
        await this.disturb(this.kind);
      }
      await this.progress();
      await this.endWriters();
      this.isOver = true;
      await Promise.all(this.#loops);
      assertEquals(this.wrongValues, [], "values that meters found wrong");
      return await this.finish();
    } finally {
      await this.stop();
    }
  }

  /** Ends writers that are processes of their own. */
  protected async endWriters(): Promise<void> {}

  /** Ends everything. */
  protected async stop(): Promise<void> {
    await this.endWriters();
    this.isOver = true;
    for (const client of this.#clients) client[Symbol.dispose]();
    await Promise.allSettled(this.#loops);
    for (const server of this.#servers) await server[Symbol.asyncDispose]();
    for (const relay of this.#relays) relay[Symbol.dispose]();
  }

  /** Waits until readers and writers have got on. */
  protected async progress(): Promise<void> {
    const [reads, writes] = this.done;
    await until(() =>
      this.done[0] >= reads + READS_BETWEEN && this.done[1] >= writes + this.writesBetween
    );
  }

  protected choose(count: number): number {
    return Math.floor(this.#random() * count);
  }

  protected client(port: number): PatientClient {
    const client = new PatientClient(port);
    this.#clients.push(client);
    return client;
  }

  protected relay(target = NO_PORT): Relay {
    const relay = new Relay(target);
    this.#relays.push(relay);
    return relay;
  }

  /** Notes a server, which ends with the test. */
  protected started(server: ServerProcess): ServerProcess {
    this.#servers.push(server);
    return server;
  }

  /** Notes a client that goes on until `isOver`. */
  protected loop(client: Promise<void>): void {
    this.#loops.push(client);
  }

  /**
   * Lets the clients get on, and disturbs them, until a meter or a canary finds a wrong value.
   *
   * @param limitMs From the moment on when all servers serve.
   * @returns The line of the first finding; null: there was none within the time.
   */
  async seek(limitMs: number): Promise<string | null> {
    this.#isSeeking = true;
    const ended = Promise.withResolvers<null>();
    await this.start();
    const timer = setTimeout(() => ended.resolve(null), limitMs);
    const seeking = (async () => {
      for (;;) {
        await pause(CALM_MS);
        await this.disturb(this.kinds[this.choose(this.kinds.length)]!);
      }
    })().catch(() => ended.promise);
    const looking = (async () => {
      for (;;) {
        const [line] = this.wrongValues;
        if (line !== undefined) return line;
        await pause(LOOK_MS);
      }
    })();
    try {
      return await Promise.race([looking, seeking, ended.promise]);
    } finally {
      clearTimeout(timer);
      await Promise.race([this.stop(), pause(END_MS)]);
    }
  }

  /** To be awaited between two writes: while a wrong value is sought, keys must not change all the time. */
  protected async rest(): Promise<void> {
    if (this.#isSeeking) await pause(WRITE_REST_MS);
  }

  /** The messages of meters about wrong values. */
  protected get wrongValues(): readonly string[] {
    return this.#servers.flatMap(({ lines }) => lines.filter((line) => WRONG_VALUE.test(line)));
  }

  /** @param clients Leads to the node from now on. */
  protected async startNode(origins: readonly Relay[], clients: Relay): Promise<ServerProcess> {
    const args = ["--node-name", `node${clients.port}`, ...METERED];
    const node = this.started(await startNode(origins, args));
    clients.moveTo(node.port);
    return node;
  }
}

/** What a run over rows has done. */
export interface RowsRan {
  readonly reads: number;
  readonly hits: number;
  readonly writes: number;
  /** Writes that have ended without a commit. */
  readonly failed: number;
  /** Writes that have ended in a way that leaves their outcome open. */
  readonly unknown: number;
  readonly commits: number;
  /** Faults that were planted into the history afterwards, and found by both checkers. */
  readonly planted: number;
  readonly disturbances: Readonly<Record<string, number>>;
}

/** Rows whose reads, writes and commits are recorded, and checked at the end, in two ways. */
export abstract class DisturbedRows<Kind extends string, Ran extends RowsRan>
  extends Disturbed<Kind, Ran> {
  protected abstract readonly keyCount: number;
  protected readonly recording = new Recording();
  #hits = 0;

  protected override get done(): [number, number] {
    const { observed, acknowledged } = this.recording.history;
    return [observed.length, acknowledged.length];
  }

  protected anyKey(): string {
    return `k${this.choose(this.keyCount)}`;
  }

  /** @returns Whether the row was read. */
  protected async get(client: PatientClient, key: string, by: string): Promise<boolean> {
    const command = this.choose(2) === 0 ? "get" : "gets";
    const began = this.now++;
    const reply = await client.try(`${command} ${key}\r\n`, "END\r\n");
    if (reply === null || reply.startsWith("SERVER_ERROR")) return false;
    this.observe({ by, command, key, began }, reply);
    return true;
  }

  /** Records a read, by its reply. The replies to `gets` and `uget` have the row's version. */
  protected observe(read: Pick<Read, "by" | "command" | "key" | "began">, reply: string): void {
    const [, ofValue, value] = /^VALUE \S+ \d+ \d+(?: (\d+).*)?\r\n(.*)\r\n/.exec(reply) ?? [];
    if (value !== undefined) this.#hits++;
    const said = ofValue ?? /^NONE \S+ (\d+)/.exec(reply)?.[1];
    const version = said === undefined ? null : Number(said);
    this.recording.read({ ...read, value: value ?? null, version, ended: this.now++ });
  }

  /**
   * Stops a server that serves rows, has it receive requests, lets it go on, and waits for their replies.
   *
   * @param meanwhile Happens while the server is stopped.
   */
  protected async stopServer(
    server: ServerProcess,
    by: string,
    meanwhile: () => Promise<unknown>,
  ): Promise<void> {
    const clients = Array.from({ length: STOPPED_READS }, () => this.client(server.port));
    const keys = clients.map(() => this.anyKey());
    const read = (): Promise<unknown> =>
      Promise.all(clients.map((client, at) => this.get(client, keys[at]!, by)));
    await read();
    server.signal("SIGSTOP");
    await meanwhile();
    const reads = read();
    server.signal("SIGCONT");
    await reads;
    for (const client of clients) client[Symbol.dispose]();
  }

  /**
   * Checks the history in both ways, and then the checkers, by planted faults.
   *
   * @param name Of the file of the history, if one is kept.
   * @throws When there is a violation, or a planted one is not found.
   */
  protected async verdict(name: string): Promise<RowsRan> {
    this.recording.commit(await readCommits(this.database));
    const { observed, acknowledged, failed, committed } = this.recording.history;
    await this.recording.keep(`${name}-${this.database.url.split(":")[0]}-${this.seed}`);
    this.recording.assertIsRight();
    const planted = assertPlantedAreFound(this.recording, PLANTED_KEYS);
    return {
      reads: observed.length,
      hits: this.#hits,
      writes: acknowledged.length,
      failed: failed.length,
      unknown: this.recording.operations.filter(({ outcome }) => outcome === "unknown").length,
      commits: versionsIn(committed),
      planted,
      disturbances: this.disturbances,
    };
  }
}

export async function kill(server: ServerProcess): Promise<void> {
  try {
    server.signal("SIGKILL");
  } catch {
    // It has ended by itself: an origin does when it learns that another one has taken over.
  }
  await server.ended();
}

export function pause(ms = 10): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
