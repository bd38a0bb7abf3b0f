import { assert, assertEquals } from "@std/assert";
import { TextLineStream } from "@std/streams";
import { Cache, textCodec } from "../../lib/client/mod.ts";
import { noteCommits, readCommits } from "../chaos/commits.ts";
import { kill, pause } from "../chaos/disturbed.ts";
import type { Committed } from "../chaos/history.ts";
import { PatientClient } from "../chaos/patient_client.ts";
import { TableWriter } from "../chaos/table_writer.ts";
import { freePort } from "../support/free_ports.ts";
import { randomFrom } from "../support/random.ts";
import { type Certificate, Certificates, tlsArguments } from "../support/servers/certificates.ts";
import type { TestDatabase } from "../support/servers/databases.ts";
import { launchOrigin, NODE_PERMISSIONS, runInit } from "../support/servers/origin_process.ts";
import { Relay } from "../support/servers/relay.ts";
import { Client, path, ServerProcess, until } from "../support/servers/server_process.ts";
import { UdpClient } from "../support/servers/udp_client.ts";
import { type Gauges, gaugesOf, type Metered, meteredOf } from "./gauges.ts";
import { LOAD_KEYS, loadValue, type Measured } from "./load_values.ts";
import { type Judged, Segment } from "./segment.ts";

const NODES = 2;
const CACHES = 2;
const KEYS = 40;
const ITEMS = 20;
const THREADS = ["-t", "4"];
const METER = ["--verify", "50"];
const LOAD_PER_SECOND = 1500;
/** Each client waits so long between two requests whose values are judged. */
const PACE_MS = 15;
const STOPPED_MS = [100, 1200] as const;
const UDP_REPLY_MS = 500;
const KINDS = [
  ...["node killed", "node stopped", "node cut", "cache killed"] as const,
  ...["client cut", "stand-by killed"] as const,
];
/** Of servers that live all the time. */
const STEADY = ["origin", "node", "cache"] as const;
type Steady = typeof STEADY[number];

const VIEWS = {
  "item:{id}": {
    query: "SELECT id, count FROM item WHERE id = {id}",
    changes: { item: "item:{id}" },
  },
};

/** What a soak prints after each segment. */
export interface Line {
  readonly judged: Judged;
  readonly load: Measured;
  readonly gauges: Readonly<Record<Steady, Gauges>>;
  /** Of the origin and of the node that lives all the time. */
  readonly metered: readonly Metered[];
  readonly disturbances: number;
}

/** What a run of a soak takes. */
export interface SoakSettings {
  readonly seed: number;
  /** Length of a segment, after which its values are judged. */
  readonly segmentMs: number;
  readonly segments: number;
  /** Between two disturbances. */
  readonly disturbMs: number;
  report(line: Line): void;
}

/** A cache, its folder, and the ports that it has again after it was killed. */
interface CacheServer {
  server: ServerProcess;
  readonly folder: string;
  readonly tlsPort: number;
  readonly plainPort: number;
}

/**
 * Keeps an origin with a stand-by, two nodes and two caches under load, of which one node, one cache and the stand-by
 * are killed time and again. Rows are written and read at origin and nodes, over UDP too; applications keep values with
 * update tokens in the caches, over TLS; another program changes a table whose rows are read as views. Origins and
 * nodes compare what they answer with the database.
 *
 * @throws When a segment has a violation, or a value of the load is wrong.
 */
export class Soak implements AsyncDisposable {
  readonly #database: TestDatabase;
  readonly #settings: SoakSettings;
  readonly #random: () => number;
  readonly #certificates = new Certificates();
  readonly #certificate: Certificate;
  readonly #folder = Deno.makeTempDirSync();
  readonly #servers: ServerProcess[] = [];
  readonly #relays: Relay[] = [];
  readonly #clients: Disposable[] = [];
  readonly #loops: Promise<void>[] = [];
  readonly #applications: Cache<string>[] = [];
  readonly #measured: Measured[] = [];
  /** What applications have committed: their database is here. */
  readonly #committed: Committed[] = [];
  readonly #versions = new Map<string, number>();
  #load: Deno.ChildProcess | null = null;
  #origin!: ServerProcess;
  #standby!: ServerProcess;
  readonly #nodes: ServerProcess[] = [];
  readonly #caches: CacheServer[] = [];
  /** Between the node that is killed and its origin, and between clients and it. */
  readonly #toOrigin = this.#relay();
  readonly #toNode = this.#relay();
  #segment = new Segment(0, []);
  #disturbances = 0;
  #values = 0;
  #now = 0;
  #isOver = false;

  constructor(database: TestDatabase, settings: SoakSettings) {
    this.#database = database;
    this.#settings = settings;
    this.#random = randomFrom(settings.seed);
    this.#certificate = this.#certificates.make("server");
  }

  async run(): Promise<void> {
    await this.#start();
    const { segments, segmentMs, disturbMs } = this.#settings;
    for (let count = 0; count < segments; count++) {
      const endMs = performance.now() + segmentMs;
      while (performance.now() < endMs) {
        await pause(Math.min(disturbMs, endMs - performance.now()));
        if (performance.now() < endMs) await this.#disturb();
      }
      await this.#endSegment();
    }
  }

  async #endSegment(): Promise<void> {
    const segment = this.#segment;
    this.#segment = new Segment(segment.index + 1, segment.applied);
    await until(() => segment.underWay === 0);
    const committed = await readCommits(this.#database);
    const judged = await segment.judge([...committed, ...this.#committed]);
    const load = summary(this.#measured.splice(0));
    assertEquals(load.wrong, 0, "values of the load are wrong");
    const gauges = {
      origin: await gaugesOf(this.#origin, this.#origin.port),
      node: await gaugesOf(this.#nodes[0]!, this.#nodes[0]!.port),
      cache: await gaugesOf(this.#caches[0]!.server, this.#caches[0]!.plainPort),
    };
    const metered: Metered[] = [];
    for (const { port } of [this.#origin, this.#nodes[0]!]) metered.push(await meteredOf(port));
    const wrong = metered.map((each) => each.wrong);
    assertEquals(wrong, [0, 0], "the meters of the origin and of a node have found wrong values");
    this.#settings.report({ judged, load, gauges, metered, disturbances: this.#disturbances });
  }

  // --- servers -------------------------------------------------------------------------------------

  get #place(): Pick<TestDatabase, "url" | "folder"> {
    const folders = [this.#database.folder, this.#folder].filter((each) => each !== "");
    return { url: this.#database.url, folder: folders.join() };
  }

  async #start(): Promise<void> {
    await using writer = new TableWriter(this.#database);
    await writer.query("CREATE TABLE item (id integer PRIMARY KEY, count integer NOT NULL)");
    for (let id = 0; id < ITEMS; id++) await writer.query(`INSERT INTO item VALUES (${id}, 0)`);
    await Deno.writeTextFile(`${this.#folder}/views.jsonc`, JSON.stringify(VIEWS));
    const { code, stderr } = await runInit(this.#place, [
      ...["--follow", "--views", `${this.#folder}/views.jsonc`, "--run"],
    ]);
    assertEquals(code, 0, stderr);
    this.#origin = this.#launchOrigin("--take-over");
    await this.#origin.line("listens on");
    this.#standby = this.#launchOrigin("--standby");
    this.#toOrigin.moveTo(this.#origin.port);
    for (let count = 0; count < NODES; count++) this.#nodes.push(await this.#startNode(count));
    this.#toNode.moveTo(this.#nodes[1]!.port);
    for (let count = 0; count < CACHES; count++) {
      const folder = `${this.#folder}/cache${count}`;
      await Deno.mkdir(folder);
      const place = { folder, tlsPort: freePort(), plainPort: freePort() };
      this.#caches.push({ ...place, server: await this.#startCache(place) });
    }
    await this.#writeRows();
    await noteCommits(this.#database);
    this.#startClients();
    this.#startLoad();
  }

  #launchOrigin(rule: "--standby" | "--take-over"): ServerProcess {
    return this.#started(launchOrigin(this.#place, [
      ...["--follow", "--views", `${this.#folder}/views.jsonc`, "--rows", "r,n"],
      ...[...THREADS, ...METER, "-m", "16", "--member-time", "500", rule],
    ]));
  }

  async #startNode(index: number): Promise<ServerProcess> {
    const port = index === 0 ? this.#origin.port : this.#toOrigin.port;
    return this.#started(
      await ServerProcess.start({
        io: "native",
        permissions: NODE_PERMISSIONS,
        args: [
          ...["--origin", `127.0.0.1:${port}`, "--node-name", `node${index}`],
          ...[...THREADS, ...METER, "-m", "16", "-U", "-1", "--rows", "item:,n,r"],
        ],
      }),
    );
  }

  async #startCache(
    { folder, tlsPort, plainPort }: Omit<CacheServer, "server">,
  ): Promise<ServerProcess> {
    const { certPath, keyPath } = this.#certificate;
    const reads = [path(""), folder, certPath, keyPath];
    return this.#started(
      await ServerProcess.start({
        io: "native",
        permissions: ["--allow-ffi", `--allow-read=${reads}`, `--allow-write=${folder}`],
        args: [
          ...["-p", `${tlsPort}`, "-l", `127.0.0.1,notls:127.0.0.1:${plainPort}`],
          ...[...THREADS, "-m", "16", "--state-dir", folder, ...tlsArguments(this.#certificate)],
        ],
      }),
    );
  }

  #started(server: ServerProcess): ServerProcess {
    this.#servers.push(server);
    return server;
  }

  #relay(): Relay {
    const relay = new Relay(1);
    this.#relays.push(relay);
    return relay;
  }

  async #disturb(): Promise<void> {
    this.#disturbances++;
    const kind = KINDS[this.#choose(KINDS.length)]!;
    switch (kind) {
      case "node killed":
        await kill(this.#nodes[1]!);
        this.#nodes[1] = await this.#startNode(1);
        return this.#toNode.moveTo(this.#nodes[1].port);
      case "node stopped":
        this.#nodes[1]!.signal("SIGSTOP");
        await pause(STOPPED_MS[this.#choose(STOPPED_MS.length)]);
        return this.#nodes[1]!.signal("SIGCONT");
      case "node cut":
        return this.#toOrigin.cutAll();
      case "cache killed": {
        const cache = this.#caches[1]!;
        await kill(cache.server);
        cache.server = await this.#startCache(cache);
        return;
      }
      case "client cut":
        return this.#toNode.cutAll();
      case "stand-by killed":
        await kill(this.#standby);
        this.#standby = this.#launchOrigin("--standby");
        return;
    }
  }

  #choose(count: number): number {
    return Math.floor(this.#random() * count);
  }

  // --- clients -------------------------------------------------------------------------------------

  #startClients(): void {
    const places = [
      ["the origin", this.#origin.port],
      ["a node", this.#nodes[0]!.port],
      ["a node that is killed", this.#toNode.port],
    ] as const;
    for (const [name, port] of places) {
      for (let count = 0; count < 2; count++) {
        this.#loop(this.#client(port), (client) => this.#readRow(client, `a reader at ${name}`));
      }
      this.#loop(this.#client(port), (client) => this.#writeRow(client, `a writer at ${name}`));
      this.#loop(this.#client(port), (client) => this.#readView(client));
    }
    this.#loops.push(this.#readByUdp(udpPort(this.#nodes[0]!)));
    this.#loop(new TableWriter(this.#database), (writer) => this.#changeItem(writer));
    for (let count = 0; count < 2; count++) {
      const servers = this.#caches.map(({ tlsPort }) => `127.0.0.1:${tlsPort}`);
      const tls = { ca: this.#certificate.cert };
      const cache = new Cache<string>(servers, { codec: textCodec, tls });
      this.#applications.push(cache);
      for (let fiber = 0; fiber < 3; fiber++) {
        this.#loop(cache, () => this.#useCache(cache, `application ${count}`, fiber === 0));
      }
    }
  }

  #client(port: number): PatientClient {
    const client = new PatientClient(port);
    this.#clients.push(client);
    return client;
  }

  /** Has a client make one request after the other. */
  #loop<Own>(client: Own, request: (client: Own) => Promise<void>): void {
    this.#loops.push((async () => {
      while (!this.#isOver) {
        await request(client);
        await pause(PACE_MS);
      }
    })());
  }

  async #readRow(client: PatientClient, by: string): Promise<void> {
    const segment = this.#segment;
    await segment.during(async () => {
      const key = segment.key("r", this.#choose(KEYS));
      const began = this.#now++;
      const reply = await client.try(`gets ${key}\r\n`, "END\r\n");
      if (reply !== null && !reply.startsWith("SERVER_ERROR")) {
        this.#noteRow(segment, by, key, began, reply);
      }
    });
  }

  #noteRow(segment: Segment, by: string, key: string, began: number, reply: string): void {
    const [, id, value] = /^VALUE \S+ \d+ \d+ (\d+)\r\n(.*)\r\n/.exec(reply) ?? [];
    const version = id === undefined ? null : Number(id);
    const ended = this.#now++;
    segment.read({ by, command: "gets", key, value: value ?? null, version, began, ended });
  }

  async #writeRow(client: PatientClient, by: string): Promise<void> {
    const segment = this.#segment;
    await segment.during(async () => {
      const [key, value] = [segment.key("r", this.#choose(KEYS)), `v${this.#values++}`];
      const write = segment.begin(by, "ms", key, value, this.#now++);
      const reply = await client.try(`ms ${key} ${value.length} c\r\n${value}\r\n`);
      const version = /^HD c(\d+)/.exec(reply ?? "")?.[1];
      if (version !== undefined) {
        segment.recording.acknowledge(write, Number(version), this.#now++);
      } else if (reply !== null && !reply.includes("outcome unknown")) {
        segment.recording.fail(write, this.#now++);
      }
    });
  }

  /** Datagrams may be lost: a request without a reply is left. */
  async #readByUdp(port: number): Promise<void> {
    let requests = 0;
    while (!this.#isOver) {
      const segment = this.#segment;
      await segment.during(async () => {
        const client = new UdpClient(port);
        const key = segment.key("r", this.#choose(KEYS));
        const began = this.#now++;
        await client.send(++requests & 0xffff, `gets ${key}\r\n`);
        const timer = setTimeout(() => client[Symbol.dispose](), UDP_REPLY_MS);
        const reply = await client.receive().then(([, text]) => text, () => null);
        clearTimeout(timer);
        if (reply !== null) client[Symbol.dispose]();
        if (reply === null || /ERROR/.test(reply)) return;
        this.#noteRow(segment, "a reader over UDP", key, began, reply);
      });
      await pause(PACE_MS);
    }
  }

  async #readView(client: PatientClient): Promise<void> {
    const segment = this.#segment;
    await segment.during(async () => {
      const id = this.#choose(ITEMS);
      const began = this.#now++;
      const reply = await client.try(`get item:${id}\r\n`, "END\r\n");
      if (reply === null || /^(?:SERVER_|CLIENT_)?ERROR/.test(reply)) return;
      const value = /^VALUE .*\r\n(.*)\r\n/.exec(reply)?.[1];
      const count = value === undefined ? null : JSON.parse(value).count as number;
      segment.seen.push({ id, count, began });
    });
  }

  /** Counts an item up, and asks at times when that is applied. */
  async #changeItem(writer: TableWriter): Promise<void> {
    const segment = this.#segment;
    await segment.during(async () => {
      const id = this.#choose(ITEMS);
      const [row] = await writer.query(
        `UPDATE item SET count = count + 1 WHERE id = ${id} RETURNING count`,
      );
      if (this.#choose(4) > 0) return;
      using client = new PatientClient(this.#origin.port);
      if (await client.try("follow wait now 2000\r\n") !== "OK\r\n") return;
      segment.applied.push({ id, count: Number(row!["count"]), at: this.#now++ });
    });
  }

  /** Gets a value of the application, or changes it. */
  async #useCache(cache: Cache<string>, by: string, writes: boolean): Promise<void> {
    const segment = this.#segment;
    const key = segment.key("a", this.#choose(KEYS));
    await segment.during(async () => {
      if (writes) return await this.#put(segment, cache, by, key);
      const began = this.#now++;
      try {
        const load = async (): Promise<string> => {
          const version = this.#versions.get(key) ?? 0;
          await pause(this.#choose(5));
          return `${key}=${version}`;
        };
        const value = await cache.getOrLoad(key, load, { ttlSec: 60 });
        const version = Number(value!.split("=")[1]);
        const read = { version, value: version === 0 ? null : value!, ended: this.#now++ };
        segment.read({ by, command: "get", key, began, ...read });
      } catch {
        // The cache that is killed.
      }
    });
  }

  async #put(segment: Segment, cache: Cache<string>, by: string, key: string): Promise<void> {
    let write: ReturnType<Segment["begin"]> | null = null;
    try {
      const started = this.#now++;
      let version = 0;
      await cache.put(key, async () => {
        await pause(this.#choose(5));
        version = (this.#versions.get(key) ?? 0) + 1;
        const value = `${key}=${version}`;
        write = segment.begin(by, "put", key, value, started);
        this.#versions.set(key, version);
        this.#committed.push({ key, value, version });
        await pause(this.#choose(5));
      }, { form: "tokens" });
      segment.recording.acknowledge(write!, version, this.#now++);
    } catch {
      // Nothing was committed, or the keys are not invalidated yet: the end of the write is open.
    }
  }

  // --- load ----------------------------------------------------------------------------------------

  /** Writes the rows that the load reads. */
  async #writeRows(): Promise<void> {
    using client = new Client(
      await Deno.connect({ hostname: "127.0.0.1", port: this.#origin.port }),
    );
    const AT_ONCE = 200;
    for (let first = 0; first < LOAD_KEYS; first += AT_ONCE) {
      const keys = Array.from({ length: AT_ONCE }, (_, at) => `n${first + at}`);
      const sets = keys.map((key) => {
        const value = loadValue(key);
        return `set ${key} 0 0 ${value.length}\r\n${value}\r\n`;
      });
      await Promise.all([
        client.send(sets.join("")),
        client.expect("STORED\r\n".repeat(AT_ONCE)),
      ]);
    }
  }

  #startLoad(): void {
    const places = [
      `${this.#origin.port}:rows`,
      `${this.#origin.port}:items`,
      ...[0, 1].map(() => `${this.#nodes[0]!.port}:rows`),
      `${this.#toNode.port}:rows`,
      `${this.#caches[0]!.plainPort}:items`,
    ];
    const load = new Deno.Command(Deno.execPath(), {
      args: [
        ...["run", "--no-prompt", "--no-check", "--allow-all"],
        ...[`--lock=${path("tests/deno.lock")}`, path("tests/soak/load.ts")],
        ...[`${LOAD_PER_SECOND}`, ...places],
      ],
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    this.#load = load;
    this.#loops.push((async () => {
      const lines = load.stdout
        .pipeThrough(new TextDecoderStream())
        .pipeThrough(new TextLineStream());
      for await (const line of lines) this.#measured.push(JSON.parse(line));
    })());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true;
    this.#load?.kill("SIGKILL");
    await this.#load?.status;
    for (const client of this.#clients) client[Symbol.dispose]();
    await Promise.allSettled(this.#loops);
    for (const cache of this.#applications) await cache[Symbol.asyncDispose]();
    for (const server of this.#servers) await server[Symbol.asyncDispose]();
    for (const relay of this.#relays) relay[Symbol.dispose]();
    this.#certificates[Symbol.dispose]();
    await Deno.remove(this.#folder, { recursive: true });
  }
}

function udpPort(server: ServerProcess): number {
  const found = /udp 127\.0\.0\.1:(\d+)/.exec(server.lines.join("\n"));
  assert(found !== null, `no UDP in ${server.lines.join("\n")}`);
  return Number(found[1]);
}

function summary(seconds: readonly Measured[]): Measured {
  const sum = (of: (second: Measured) => number): number =>
    seconds.reduce((all, second) => all + of(second), 0);
  const middle = (of: (second: Measured) => number): number =>
    seconds.map(of).sort((one, other) => one - other)[Math.floor(seconds.length / 2)] ?? 0;
  return {
    requests: sum(({ requests }) => requests),
    hits: sum(({ hits }) => hits),
    errors: sum(({ errors }) => errors),
    wrong: sum(({ wrong }) => wrong),
    p50Ms: middle(({ p50Ms }) => p50Ms),
    p99Ms: middle(({ p99Ms }) => p99Ms),
  };
}
