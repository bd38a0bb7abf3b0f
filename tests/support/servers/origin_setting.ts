import type { TestDatabase } from "./databases.ts";
import { startOrigin } from "./origin_process.ts";
import { type Client, ServerProcess, until } from "./server_process.ts";

/** The list of caches, as `caches` tells it. */
export interface TestList {
  readonly caches: number;
  readonly outside: number;
  readonly epoch: number;
  /** The lines of the caches that are listed. */
  readonly listed: string;
}

export async function listOf(client: Client): Promise<TestList> {
  await client.send("caches\r\n");
  const reply = await client.until(/END \d+\r\n/);
  return {
    caches: reply.match(/^CACHE /gm)?.length ?? 0,
    outside: reply.match(/^OUTSIDE /gm)?.length ?? 0,
    epoch: Number(/END (\d+)/.exec(reply)![1]),
    listed: reply.replace(/^(?:OUTSIDE|END) .*\r\n/gm, ""),
  };
}

/** Two caches and an origin before an empty database. */
export class Setting implements AsyncDisposable {
  readonly caches: ServerProcess[] = [];
  readonly clients: Client[] = [];
  readonly database: TestDatabase;
  origin!: ServerProcess;
  readonly #folder = Deno.makeTempDirSync();

  private constructor(database: TestDatabase) {
    this.database = database;
  }

  /** @param cacheArgs Options of the caches. */
  static async open(
    database: TestDatabase,
    args: readonly string[] = [],
    cacheArgs: readonly string[] = [],
  ): Promise<Setting> {
    const setting = new Setting(database);
    for (let count = 0; count < 2; count++) {
      setting.caches.push(await ServerProcess.start({ args: cacheArgs }));
    }
    setting.origin = await setting.startOrigin(args);
    return setting;
  }

  /** Two caches, and an origin whose list is a file with some of them, by number. */
  static async openListed(
    database: TestDatabase,
    listed: readonly number[],
    args: readonly string[] = [],
  ): Promise<Setting> {
    const setting = new Setting(database);
    for (let count = 0; count < 2; count++) setting.caches.push(await ServerProcess.start());
    setting.origin = await setting.startListed(listed, args);
    return setting;
  }

  /** Starts an origin whose list is a file with these caches. */
  startListed(listed: readonly number[], args: readonly string[] = []): Promise<ServerProcess> {
    return this.startOrigin(["--caches", this.writeList(listed), ...args]);
  }

  /** Writes the file of caches. @returns Its path. */
  writeList(listed: readonly number[]): string {
    const path = `${this.#folder}/caches.txt`;
    Deno.writeTextFileSync(path, listed.map((cache) => `${this.nameOf(cache)}\n`).join(""));
    return path;
  }

  /** Has the origin read this list, and waits until it has made it. @returns The list's epoch. */
  async reload(listed: readonly number[]): Promise<number> {
    const client = await this.connect();
    const before = (await listOf(client)).epoch;
    this.writeList(listed);
    this.origin.signal("SIGHUP");
    const expected = listed.map((cache) => `CACHE ${this.nameOf(cache)} listed 1\r\n`).join("");
    let made = 0;
    await until(async () => {
      const { epoch, listed } = await listOf(client);
      if (listed === expected && epoch > before) made = epoch;
      return made > 0;
    });
    return made;
  }

  /** `host:port` of a cache. */
  nameOf(cache: number): string {
    return `127.0.0.1:${this.caches[cache]!.port}`;
  }

  /** @param args Options; without `--cache` and `--caches`, all caches are listed. */
  startOrigin(args: readonly string[] = []): Promise<ServerProcess> {
    const areListed = args.includes("--cache") || args.includes("--caches");
    const ports = areListed ? [] : this.caches.map(({ port }) => port);
    return startOrigin(this.database, ports, args);
  }

  async connect(server = this.origin): Promise<Client> {
    const client = await server.connect();
    this.clients.push(client);
    return client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.clients) client[Symbol.dispose]();
    await this.origin[Symbol.asyncDispose]();
    for (const cache of this.caches) await cache[Symbol.asyncDispose]();
    await Deno.remove(this.#folder, { recursive: true });
  }
}
