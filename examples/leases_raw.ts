/**
 * Leases over a plain socket, in front of SQLite: deno run --allow-net=127.0.0.1 examples/leases_raw.ts [PORT [PREFIX]]
 *
 * The server is started with `-z 3333`.
 */
import { connect, type Socket } from "node:net";
import { DatabaseSync } from "node:sqlite";
import process from "node:process";

const [port = "11211", prefix = ""] = process.argv.slice(2);
const KEY = `${prefix}article:1`;
const LEASE_FLAG = 0x3333; // the server's -z
const TTL = 60;

/** The answer to getss: a value, or the right to fill it. */
interface Found {
  readonly casId: string;
  readonly value?: string;
  /** Of a lease: 0 if it is ours, else the seconds for which another client holds it. */
  readonly remain?: number;
}

/** One connection, one request at a time. */
class LeaseClient {
  readonly #socket: Socket = connect(Number(port), "127.0.0.1");
  #received = "";
  #news: () => void = () => {};

  constructor() {
    this.#socket.on("data", (bytes) => {
      this.#received += bytes.toString();
      this.#news();
    });
  }

  async getss(key: string, seconds: number): Promise<Found> {
    const reply = await this.#ask(`getss ${seconds} ${key}`, "END\r\n");
    const [, flags, casId, data] = /^VALUE \S+ (\d+) \d+ (\d+)\r\n([^]*)\r\nEND/.exec(reply)!;
    return Number(flags) === LEASE_FLAG
      ? { casId: casId!, remain: Number(data) }
      : { casId: casId!, value: data! };
  }

  /** Whether it was stored. */
  async cas(key: string, value: string, casId: string): Promise<boolean> {
    const bytes = new TextEncoder().encode(value).length;
    const line = `cas ${key} 0 ${TTL} ${bytes} ${casId}\r\n${value}`;
    return await this.#ask(line, "\r\n") === "STORED\r\n";
  }

  /** Removes the key, and all rights to fill it. */
  async deletess(key: string, seconds: number): Promise<void> {
    await this.#ask(`deletess ${seconds} ${key}`, "\r\n");
  }

  async delete(key: string): Promise<void> {
    await this.#ask(`delete ${key}`, "\r\n");
  }

  close(): void {
    this.#socket.end();
  }

  async #ask(request: string, end: string): Promise<string> {
    this.#socket.write(`${request}\r\n`);
    while (!this.#received.endsWith(end)) {
      await new Promise<void>((resolve) => this.#news = resolve);
    }
    const reply = this.#received;
    this.#received = "";
    return reply;
  }
}

/** A table, and the cache in front of it. */
class Articles {
  readonly #database = new DatabaseSync(":memory:");
  loads = 0;

  constructor() {
    this.#database.exec("CREATE TABLE article (id INTEGER PRIMARY KEY, title TEXT)");
    this.#database.exec("INSERT INTO article VALUES (1, 'first title')");
  }

  load(): string {
    this.loads++;
    const row = this.#database.prepare("SELECT title FROM article WHERE id = 1").get();
    return String(row!["title"]);
  }

  async read(cache: LeaseClient): Promise<string> {
    for (let tries = 0; tries < 100; tries++) {
      const { value, remain, casId } = await cache.getss(KEY, 10);
      if (value !== undefined) return value;
      if (remain === 0) { // the lease first, the database after it
        const title = this.load();
        await cache.cas(KEY, title, casId); // refused if the row has changed since
        return title;
      }
      await new Promise((resolve) => setTimeout(resolve, 50)); // another client holds the lease
    }
    return this.load(); // without filling: the lease is not ours
  }

  async write(cache: LeaseClient, title: string): Promise<void> {
    this.#database.prepare("UPDATE article SET title = ? WHERE id = 1").run(title);
    await cache.deletess(KEY, 1); // after the commit, always
  }
}

function expect(what: string, actual: unknown, expected: unknown): void {
  const [is, shouldBe] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (is !== shouldBe) throw new Error(`${what}: ${is} instead of ${shouldBe}`);
  process.stdout.write(`${what}: ${is}\n`);
}

const articles = new Articles();
const clients = Array.from({ length: 20 }, () => new LeaseClient());
const [cache, slow] = [clients[0]!, clients[1]!];
await cache.delete(KEY);
const first = await articles.read(cache);
expect("the first reader asks the database", [first, articles.loads], ["first title", 1]);
const second = await articles.read(slow);
expect("the second finds it in the cache", [second, articles.loads], ["first title", 1]);

await cache.delete(KEY);
const { casId } = await slow.getss(KEY, 10);
const stale = articles.load();
await articles.write(cache, "second title");
const stored = await slow.cas(KEY, stale, casId);
expect("what a slow reader read before the update is not stored", stored, false);
expect("the next reader sees the update", await articles.read(cache), "second title");

await cache.delete(KEY);
articles.loads = 0;
const titles = new Set(await Promise.all(clients.map((client) => articles.read(client))));
const found = [[...titles], articles.loads];
expect("twenty readers at once, one load", found, [["second title"], 1]);
for (const client of clients) client.close();
