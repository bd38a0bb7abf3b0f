import { assertEquals } from "@std/assert";
import { TextLineStream } from "@std/streams";
import { randomFrom } from "../support/random.ts";
import type { TestDatabase } from "../support/servers/databases.ts";
import { launchProxy } from "../support/servers/proxy_process.ts";
import { Relay } from "../support/servers/relay.ts";
import { path, ServerProcess, until } from "../support/servers/server_process.ts";
import { Client as LibraryClient, RequestError, textCodec } from "../../lib/client/mod.ts";
import { noteCommits, readCommits, versionsIn } from "./commits.ts";
import { type Disturbed, runDisturbed } from "./disturbed.ts";
import { type History, violationsOf } from "./history.ts";
import { PatientClient } from "./patient_client.ts";

const KEYS = 50;
const READERS = 8;
const WRITERS = 4;
const CACHES = 2;
/** What happens between; twice: twice as often. */
const KINDS = [
  ...["cache", "proxy", "takeover", "standby", "stopped", "list"] as const,
  ...["writer", "writer", "cut", "cut"] as const,
];
/** Requests that a stopped proxy receives. */
const STOPPED_READS = 5;
/** Between two disturbances so many reads are seen, and so many writes are acknowledged. */
const READS_BETWEEN = 100;
const WRITES_BETWEEN = 20;
/** Logged by a proxy that waits for another one. */
const WAITING = "waiting for its end";
/** The owner of a token that `token list` shows for none. */
const NO_OWNER = "-";
/** Owners of tokens of the client library, in writers that were killed. */
const LIBRARY_OWNER = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The result of a run. */
export interface Ran {
  readonly reads: number;
  readonly fromCaches: number;
  readonly byLibrary: number;
  /** Writes that the library has ended. */
  readonly failed: number;
  readonly writes: number;
  readonly commits: number;
  readonly tokensFreed: number;
  readonly disturbances: Readonly<Record<string, number>>;
}

/** A line of `token list`. */
interface ListedToken {
  readonly key: string;
  readonly id: string;
  readonly state: string;
  readonly owner: string;
}

/** A writer process, and the tag of its tokens. */
interface Writer {
  readonly owner: string;
  readonly process: Deno.ChildProcess;
  readonly output: Promise<void>;
}

/**
 * Readers and writers on a few keys, while caches, proxies and writers are killed, connections are cut, and caches
 * leave the list and come back.
 *
 * @param disturbances So many, chosen by the seed.
 * @throws When the history has a violation, or a token is stuck.
 */
export async function runChaos(
  database: TestDatabase,
  seed: number,
  disturbances: number,
): Promise<Ran> {
  return await runDisturbed(new Chaos(database, seed), disturbances);
}

class Chaos implements Disturbed<Ran> {
  readonly #database: TestDatabase;
  readonly #random: () => number;
  readonly #history: History = { acknowledged: [], observed: [], committed: [], failed: [] };
  readonly #disturbances: Record<string, number> = {};
  /** Between the proxy, direct readers, and a cache. */
  readonly #cacheRelays: Relay[] = [];
  readonly #caches: ServerProcess[] = [];
  /** Has the list of caches. */
  readonly #folder = Deno.makeTempDirSync();
  /** Between clients and the proxy. */
  readonly #proxyRelay = new Relay(0);
  #proxy!: ServerProcess;
  /** All that were started. */
  readonly #proxies: ServerProcess[] = [];
  readonly #writers: Writer[] = [];
  readonly #clients: PatientClient[] = [];
  readonly #killedOwners = new Set<string>();
  readonly #readers: Promise<void>[] = [];
  #isOver = false;
  #now = 0;
  #writersStarted = 0;
  #fromCaches = 0;
  #byLibrary = 0;

  constructor(database: TestDatabase, seed: number) {
    this.#database = database;
    this.#random = randomFrom(seed);
  }

  async start(): Promise<void> {
    for (let count = 0; count < CACHES; count++) {
      const cache = await ServerProcess.start();
      this.#caches.push(cache);
      this.#cacheRelays.push(new Relay(cache.port));
    }
    this.#writeList(this.#cacheRelays);
    await this.#replaceProxy();
    await noteCommits(this.#database);
    for (let count = 0; count < WRITERS; count++) this.#writers.push(this.#startWriter());
    for (let count = 0; count < READERS; count++) {
      const ways = [this.#readByProxy, this.#readByCache, this.#readByLibrary];
      this.#readers.push(ways[count % ways.length]!.call(this));
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
    this.#disturbances[kind] = (this.#disturbances[kind] ?? 0) + 1;
    switch (kind) {
      case "cache":
        return await this.#restartCache(this.#choose(CACHES));
      case "proxy":
        await kill(this.#proxy);
        return await this.#replaceProxy();
      case "takeover": {
        // Another one takes over while clients still talk to the old one.
        const old = this.#proxy;
        await this.#replaceProxy();
        return await kill(old);
      }
      case "standby": {
        const old = this.#proxy;
        const next = this.#launchProxy("--standby");
        await next.line(WAITING);
        await this.progress();
        await kill(old);
        return await this.#useProxy(next);
      }
      case "stopped":
        return await this.#stopProxy();
      case "list": {
        const leaving = this.#choose(CACHES + 1);
        this.#writeList(this.#cacheRelays.filter((_, cache) => cache !== leaving));
        return this.#proxy.signal("SIGHUP");
      }
      case "writer":
        return await this.#restartWriter(this.#choose(WRITERS));
      case "cut": {
        const relays = [this.#proxyRelay, ...this.#cacheRelays];
        return relays[this.#choose(relays.length)]!.cutAll();
      }
    }
  }

  /** Ends all writers, frees their tokens, reads all keys once more, and checks the history. */
  async finish(): Promise<Ran> {
    for (const writer of this.#writers) await this.#killWriter(writer);
    this.#isOver = true;
    await Promise.all(this.#readers);
    const tokensFreed = await this.#freeTokens();
    const relays = this.#cacheRelays.map(({ port }) => port);
    for (let key = 0; key < KEYS; key++) {
      await this.#getAtProxy(this.#client(this.#proxyRelay.port), `k${key}`, "a last read");
      for (const port of relays) await this.#getAtCache(this.#client(port), null, `k${key}`);
    }
    this.#history.committed.push(...await readCommits(this.#database));
    const violations = violationsOf(this.#history);
    assertEquals(violations, [], `${violations.length} violations`);
    return {
      reads: this.#history.observed.length,
      fromCaches: this.#fromCaches,
      byLibrary: this.#byLibrary,
      failed: this.#history.failed.length,
      writes: this.#history.acknowledged.length,
      commits: versionsIn(this.#history.committed),
      tokensFreed,
      disturbances: this.#disturbances,
    };
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    for (const writer of this.#writers) await this.#killWriter(writer);
    for (const client of this.#clients) client[Symbol.dispose]();
    await Promise.allSettled(this.#readers);
    for (const proxy of this.#proxies) await proxy[Symbol.asyncDispose]();
    for (const cache of this.#caches) await cache[Symbol.asyncDispose]();
    for (const relay of [this.#proxyRelay, ...this.#cacheRelays]) relay[Symbol.dispose]();
    await Deno.remove(this.#folder, { recursive: true });
  }

  get #listPath(): string {
    return `${this.#folder}/caches.txt`;
  }

  #writeList(caches: readonly Relay[]): void {
    const lines = caches.map(({ port }) => `127.0.0.1:${port}\n`);
    Deno.writeTextFileSync(this.#listPath, lines.join(""));
  }

  #choose(count: number): number {
    return Math.floor(this.#random() * count);
  }

  #client(port: number): PatientClient {
    const client = new PatientClient(port);
    this.#clients.push(client);
    return client;
  }

  #launchProxy(rule: "--standby" | "--take-over"): ServerProcess {
    const proxy = launchProxy(this.#database, [], ["--caches", this.#listPath, rule]);
    this.#proxies.push(proxy);
    return proxy;
  }

  async #replaceProxy(): Promise<void> {
    await this.#useProxy(this.#launchProxy("--take-over"));
  }

  /** Has clients use this proxy as soon as it serves. */
  async #useProxy(proxy: ServerProcess): Promise<void> {
    await proxy.line("listens on");
    this.#proxy = proxy;
    this.#proxyRelay.target = proxy.port;
    this.#proxyRelay.cutAll();
  }

  /** Stops a proxy, has another one take over, and lets the first go on with requests that it received meanwhile. */
  async #stopProxy(): Promise<void> {
    const old = this.#proxy;
    const clients = Array.from({ length: STOPPED_READS }, () => this.#client(old.port));
    const keys = clients.map(() => this.#anyKey());
    const read = (): Promise<unknown> =>
      Promise.all(
        clients.map((client, at) =>
          this.#getAtProxy(client, keys[at]!, "a reader of a stopped proxy")
        ),
      );
    await read();
    old.signal("SIGSTOP");
    const next = this.#launchProxy("--take-over");
    // The lock beside an SQLite file lasts while its holder is stopped. The right of an origin before PostgreSQL ends
    // with its time, perhaps before the next origin has started.
    const isTimed = this.#database.folder === "";
    if (isTimed) {
      await this.#useProxy(next);
      await this.progress();
    } else {
      await next.line(WAITING);
    }
    const reads = read();
    old.signal("SIGCONT");
    await reads;
    if (!isTimed) await this.#useProxy(next);
    await kill(old);
  }

  async #restartCache(index: number): Promise<void> {
    await kill(this.#caches[index]!);
    this.#caches[index] = await ServerProcess.start();
    this.#cacheRelays[index]!.target = this.#caches[index].port;
    this.#cacheRelays[index]!.cutAll();
  }

  #startWriter(): Writer {
    const owner = `writer${this.#writersStarted++}`;
    const process = new Deno.Command(Deno.execPath(), {
      args: [
        ...["run", "--no-prompt", "--allow-net=127.0.0.1", `--lock=${path("tests/deno.lock")}`],
        path("tests/chaos/writer.ts"),
        ...[`${this.#proxyRelay.port}`, owner, `${this.#choose(2 ** 32)}`, `${KEYS}`],
      ],
      stdin: "null",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    return { owner, process, output: this.#noteWrites(process) };
  }

  async #noteWrites(process: Deno.ChildProcess): Promise<void> {
    const lines = process.stdout
      .pipeThrough(new TextDecoderStream())
      .pipeThrough(new TextLineStream());
    for await (const line of lines) {
      const [key, value, version] = line.split(" ");
      // A killed writer may leave half a line.
      if (version === undefined || version === "") continue;
      if (version === "failed") {
        this.#history.failed.push({ key: key!, value: value! });
        continue;
      }
      const write = { key: key!, value: value!, version: Number(version), at: this.#now++ };
      this.#history.acknowledged.push(write);
    }
  }

  async #killWriter({ owner, process, output }: Writer): Promise<void> {
    this.#killedOwners.add(owner);
    try {
      process.kill("SIGKILL");
    } catch {
      // It was killed before.
    }
    await process.status;
    await output;
  }

  async #restartWriter(index: number): Promise<void> {
    await this.#killWriter(this.#writers[index]!);
    this.#writers[index] = this.#startWriter();
  }

  async #readByProxy(): Promise<void> {
    const client = this.#client(this.#proxyRelay.port);
    while (!this.#isOver) await this.#getAtProxy(client, this.#anyKey(), "a reader at the proxy");
  }

  /** Reads rows by the client library. */
  async #readByLibrary(): Promise<void> {
    await using client = new LibraryClient<string>(`127.0.0.1:${this.#proxyRelay.port}`, {
      codec: textCodec,
    });
    while (!this.#isOver) {
      const keys = [this.#anyKey(), this.#anyKey()];
      const began = this.#now++;
      try {
        const found = await client.getMany(keys);
        const ended = this.#now++;
        for (const key of new Set(keys)) {
          const by = "a reader by the library";
          this.#history.observed.push({ key, value: found.get(key) ?? null, began, ended, by });
        }
        this.#byLibrary++;
      } catch (error) {
        if (!(error instanceof RequestError)) throw error;
        await pause();
      }
    }
  }

  /** Reads caches themselves, takes leases, and fills. */
  async #readByCache(): Promise<void> {
    const proxy = this.#client(this.#proxyRelay.port);
    const caches = this.#cacheRelays.map(({ port }) => this.#client(port));
    while (!this.#isOver) {
      await this.#getAtCache(caches[this.#choose(CACHES)]!, proxy, this.#anyKey());
    }
  }

  #anyKey(): string {
    return `k${this.#choose(KEYS)}`;
  }

  async #getAtProxy(client: PatientClient, key: string, by: string): Promise<void> {
    const began = this.#now++;
    const reply = await client.try(`get ${key}\r\n`, "END\r\n");
    if (reply === null || reply.startsWith("SERVER_ERROR")) return await pause();
    this.#observe(key, reply, began, by);
  }

  async #getAtCache(cache: PatientClient, proxy: PatientClient | null, key: string): Promise<void> {
    const began = this.#now++;
    if (proxy === null) {
      const reply = await cache.try(`get ${key}\r\n`, "END\r\n");
      if (reply?.startsWith("VALUE")) this.#observe(key, reply, began, "a last read of a cache");
      return;
    }
    const found = await cache.try(`lease-get ${key}\r\n`, "END\r\n");
    if (found === null) return await pause();
    if (found.startsWith("VALUE")) {
      this.#fromCaches++;
      return this.#observe(key, found, began, "a reader of a cache");
    }
    const reply = await proxy.try(`uget @127.0.0.1:${cache.port} ${key}\r\n`, "END\r\n");
    if (reply === null || reply.startsWith("SERVER_ERROR")) return await pause();
    this.#observe(key, reply, began, "a reader of the database");
    const lease = /^LVALUE \S+ (\d+)/.exec(found)?.[1];
    const row = /^VALUE \S+ \d+ \d+ \d+ C\r\n(.*)\r\n/.exec(reply)?.[1];
    if (lease === undefined || row === undefined) return;
    await cache.try(`lease-set ${key} ${lease} 0 0 ${row.length}\r\n${row}\r\n`);
  }

  #observe(key: string, reply: string, began: number, by: string): void {
    const value = /^VALUE .*\r\n(.*)\r\n/.exec(reply)?.[1] ?? null;
    this.#history.observed.push({ key, value, began, ended: this.#now++, by });
  }

  /** @returns How many tokens were left. All are of killed writers, and can be revoked. */
  async #freeTokens(): Promise<number> {
    const client = this.#client(this.#proxyRelay.port);
    let tokens: readonly ListedToken[] = [];
    // Those without an owner are of writes that the proxy does itself: they end without their clients, as writes do.
    await until(async () => {
      tokens = await this.#tokens(client);
      return tokens.every(({ owner, state }) => owner !== NO_OWNER && state === "idle");
    });
    for (const { key, id, owner } of tokens) {
      if (!this.#killedOwners.has(owner) && !LIBRARY_OWNER.test(owner)) {
        throw new Error(`token ${id} of ${owner} on ${key} is stuck`);
      }
      const reply = await client.insist(`token revoke ${key} ${id}\r\n`);
      assertEquals(reply, "OK 1\r\n");
    }
    assertEquals(await this.#tokens(client), []);
    return tokens.length;
  }

  async #tokens(client: PatientClient): Promise<ListedToken[]> {
    let reply: string | null = null;
    while (reply === null) reply = await client.try("token list\r\n", "END\r\n");
    const lines = reply.matchAll(/^TOKEN (\S+) (\d+) (\S+) ?(.*)\r$/gm);
    return [...lines].map(([, key, id, state, owner]) => ({
      key: key!,
      id: id!,
      state: state!,
      owner: owner!,
    }));
  }
}

async function kill(server: ServerProcess): Promise<void> {
  try {
    server.signal("SIGKILL");
  } catch {
    // A proxy ends when it learns that another one has taken over.
  }
  await server.ended();
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 10));
}
