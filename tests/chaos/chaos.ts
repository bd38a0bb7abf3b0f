import { assertEquals } from "@std/assert";
import { TextLineStream } from "@std/streams";
import type { TestDatabase } from "../support/servers/databases.ts";
import { launchOrigin } from "../support/servers/origin_process.ts";
import type { Relay } from "../support/servers/relay.ts";
import { path, ServerProcess, until } from "../support/servers/server_process.ts";
import { Client as LibraryClient, RequestError, textCodec } from "../../lib/client/mod.ts";
import { noteCommits } from "./commits.ts";
import { DisturbedRows, kill, METERED, pause, type RowsRan } from "./disturbed.ts";
import type { PatientClient } from "./patient_client.ts";
import type { Write } from "./recording.ts";

const KEYS = 50;
const READERS = 8;
const WRITERS = 4;
const CACHES = 2;
/** The first keys are also in caches of clients: every writer of them deletes there. */
const CACHED_KEYS = 25;
const KINDS = [
  ...["cache", "origin", "takeover", "standby", "stopped"] as const,
  ...["writer", "writer", "cut", "cut"] as const,
];
type Kind = typeof KINDS[number];
/** Logged by an origin that waits for another one. */
const WAITING = "waiting for its end";
/** Has a writer begin its next write. */
const TURN = Uint8Array.of(0x0a);
/** The owner of a token that `token list` shows for none. */
const NO_OWNER = "-";
/** Owners of tokens of the client library, in writers that were killed. */
const LIBRARY_OWNER = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The result of a run. */
export interface Ran extends RowsRan {
  readonly fromCaches: number;
  readonly byLibrary: number;
  readonly tokensFreed: number;
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
 * Readers and writers on a few keys, while caches, origins and writers are killed, and connections are cut.
 *
 * @param disturbances So many, chosen by the seed.
 * @throws When the history has a violation, or a token is stuck.
 */
export async function runChaos(
  database: TestDatabase,
  seed: number,
  disturbances: number,
): Promise<Ran> {
  return await new Chaos(database, seed).run(disturbances);
}

class Chaos extends DisturbedRows<Kind, Ran> {
  protected override readonly kinds = KINDS;
  protected override readonly keyCount = KEYS;
  protected override readonly writesBetween = 20;
  /** Between clients and a cache. */
  readonly #cacheRelays: Relay[] = [];
  readonly #caches: ServerProcess[] = [];
  /** Between clients and the origin. */
  readonly #originRelay = this.relay();
  #origin!: ServerProcess;
  readonly #writers: Writer[] = [];
  readonly #killedOwners = new Set<string>();
  #writersStarted = 0;
  #fromCaches = 0;
  #byLibrary = 0;

  protected override async start(): Promise<void> {
    for (let count = 0; count < CACHES; count++) {
      const cache = this.started(await ServerProcess.start());
      this.#caches.push(cache);
      this.#cacheRelays.push(this.relay(cache.port));
    }
    await this.#replaceOrigin();
    await noteCommits(this.database);
    for (let count = 0; count < WRITERS; count++) this.#writers.push(this.#startWriter());
    for (let count = 0; count < READERS; count++) {
      const ways = [this.#readByOrigin, this.#readByCache, this.#readByLibrary];
      this.loop(ways[count % ways.length]!.call(this));
    }
  }

  protected override async disturb(kind: Kind): Promise<void> {
    switch (kind) {
      case "cache":
        return await this.#restartCache(this.choose(CACHES));
      case "origin":
        await kill(this.#origin);
        return await this.#replaceOrigin();
      case "takeover": {
        // Another one takes over while clients still talk to the old one.
        const old = this.#origin;
        await this.#replaceOrigin();
        return await kill(old);
      }
      case "standby": {
        const old = this.#origin;
        const next = this.#launchOrigin("--standby");
        await next.line(WAITING);
        await this.progress();
        await kill(old);
        return await this.#useOrigin(next);
      }
      case "stopped":
        return await this.#stopOrigin();
      case "writer":
        return await this.#restartWriter(this.choose(WRITERS));
      case "cut": {
        const relays = [this.#originRelay, ...this.#cacheRelays];
        return relays[this.choose(relays.length)]!.cutAll();
      }
    }
  }

  protected override async endWriters(): Promise<void> {
    for (const writer of this.#writers) await this.#killWriter(writer);
  }

  /** Frees the writers' tokens, and reads all keys once more. */
  protected override async finish(): Promise<Ran> {
    const tokensFreed = await this.#freeTokens();
    const relays = this.#cacheRelays.map(({ port }) => port);
    for (let key = 0; key < KEYS; key++) {
      await this.#getAtOrigin(this.client(this.#originRelay.port), `k${key}`, "a last read");
      if (key >= CACHED_KEYS) continue;
      for (const port of relays) await this.#getAtCache(this.client(port), null, `k${key}`);
    }
    const [fromCaches, byLibrary] = [this.#fromCaches, this.#byLibrary];
    return { ...await this.verdict("caches"), fromCaches, byLibrary, tokensFreed };
  }

  #launchOrigin(rule: "--standby" | "--take-over"): ServerProcess {
    return this.started(launchOrigin(this.database, [...METERED, rule]));
  }

  async #replaceOrigin(): Promise<void> {
    await this.#useOrigin(this.#launchOrigin("--take-over"));
  }

  /** Has clients use this origin as soon as it serves. */
  async #useOrigin(origin: ServerProcess): Promise<void> {
    await origin.line("listens on");
    this.#origin = origin;
    this.#originRelay.moveTo(origin.port);
  }

  /** Stops an origin, has another one take over, and lets the first go on with requests that it received meanwhile. */
  async #stopOrigin(): Promise<void> {
    const old = this.#origin;
    // The lock beside an SQLite file lasts while its holder is stopped. The right of an origin before PostgreSQL ends
    // with its time, perhaps before the next origin has started.
    const isTimed = this.database.folder === "";
    let next!: ServerProcess;
    await this.stopServer(old, "a reader of a stopped origin", async () => {
      next = this.#launchOrigin("--take-over");
      if (!isTimed) return await next.line(WAITING);
      await this.#useOrigin(next);
      await this.progress();
    });
    if (!isTimed) await this.#useOrigin(next);
    await kill(old);
  }

  async #restartCache(index: number): Promise<void> {
    await kill(this.#caches[index]!);
    this.#caches[index] = this.started(await ServerProcess.start());
    this.#cacheRelays[index]!.moveTo(this.#caches[index].port);
  }

  #startWriter(): Writer {
    const owner = `writer${this.#writersStarted++}`;
    const process = new Deno.Command(Deno.execPath(), {
      args: [
        ...["run", "--no-prompt", "--allow-net=127.0.0.1", `--lock=${path("tests/deno.lock")}`],
        path("tests/chaos/writer.ts"),
        ...[`${this.#originRelay.port}`, owner, `${this.choose(2 ** 32)}`, `${KEYS}`],
        ...[`${CACHED_KEYS}`, ...this.#cacheRelays.map(({ port }) => `${port}`)],
      ],
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    return { owner, process, output: this.#noteWrites(process, owner) };
  }

  /** Lets a writer begin one write after the other, so that none begins before its moment, and notes their ends. */
  async #noteWrites(process: Deno.ChildProcess, owner: string): Promise<void> {
    const lines = process.stdout
      .pipeThrough(new TextDecoderStream())
      .pipeThrough(new TextLineStream());
    const turns = process.stdin.getWriter();
    // A writer that was killed takes no turn; its output ends.
    const takeTurn = (): Promise<void> => turns.write(TURN).catch(() => {});
    let start = this.now++;
    let write: Write | null = null;
    await takeTurn();
    for await (const line of lines) {
      const [what, ...words] = line.split(" ");
      if (what === "begins") {
        const [command, key, value] = words;
        write = this.recording.begin(owner, command!, key!, value!, start);
        continue;
      }
      this.#noteEnd(write!, words[0]!);
      start = this.now++;
      await takeTurn();
    }
    await turns.close().catch(() => {});
  }

  #noteEnd(write: Write, outcome: string): void {
    if (outcome === "unknown") return;
    if (outcome === "failed") return this.recording.fail(write, this.now++);
    const version = outcome === "done" ? null : Number(outcome);
    this.recording.acknowledge(write, version, this.now++);
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

  async #readByOrigin(): Promise<void> {
    const client = this.client(this.#originRelay.port);
    while (!this.isOver) await this.#getAtOrigin(client, this.anyKey(), "a reader at the origin");
  }

  /** Reads rows by the client library. */
  async #readByLibrary(): Promise<void> {
    await using client = new LibraryClient<string>(`127.0.0.1:${this.#originRelay.port}`, {
      codec: textCodec,
    });
    while (!this.isOver) {
      const keys = [this.anyKey(), this.anyKey()];
      const began = this.now++;
      try {
        const found = await client.getMany(keys);
        const ended = this.now++;
        for (const key of new Set(keys)) {
          const by = "a reader by the library";
          const value = found.get(key) ?? null;
          const read = { by, command: "get", key, value, version: null, began, ended } as const;
          this.recording.read(read);
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
    const origin = this.client(this.#originRelay.port);
    const caches = this.#cacheRelays.map(({ port }) => this.client(port));
    while (!this.isOver) {
      const key = `k${this.choose(CACHED_KEYS)}`;
      await this.#getAtCache(caches[this.choose(CACHES)]!, origin, key);
    }
  }

  async #getAtOrigin(client: PatientClient, key: string, by: string): Promise<void> {
    if (!await this.get(client, key, by)) await pause();
  }

  async #getAtCache(
    cache: PatientClient,
    origin: PatientClient | null,
    key: string,
  ): Promise<void> {
    const began = this.now++;
    if (origin === null) {
      const reply = await cache.try(`get ${key}\r\n`, "END\r\n");
      const by = "a last read of a cache";
      if (reply?.startsWith("VALUE")) this.observe({ by, command: "get", key, began }, reply);
      return;
    }
    const found = await cache.try(`lease-get ${key}\r\n`, "END\r\n");
    if (found === null) return await pause();
    if (found.startsWith("VALUE")) {
      this.#fromCaches++;
      return this.observe({ by: "a reader of a cache", command: "get", key, began }, found);
    }
    const reply = await origin.try(`uget ${key}\r\n`, "END\r\n");
    if (reply === null || reply.startsWith("SERVER_ERROR")) return await pause();
    this.observe({ by: "a reader of the database", command: "uget", key, began }, reply);
    const lease = /^LVALUE \S+ (\d+)/.exec(found)?.[1];
    const row = /^VALUE \S+ \d+ \d+ \d+ C\r\n(.*)\r\n/.exec(reply)?.[1];
    if (lease === undefined || row === undefined) return;
    await cache.try(`lease-set ${key} ${lease} 0 0 ${row.length}\r\n${row}\r\n`);
  }

  /** @returns How many tokens were left. All are of killed writers, and can be revoked. */
  async #freeTokens(): Promise<number> {
    const client = this.client(this.#originRelay.port);
    let tokens: readonly ListedToken[] = [];
    // Those without an owner are of writes that the origin does itself: they end without their clients, as writes do.
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
