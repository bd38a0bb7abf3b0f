// Kills servers that hand out update tokens, at random moments under load, and compares what their journal brings back
// with what their clients were promised.
import { assert, assertEquals } from "@std/assert";
import { randomFrom } from "../support/random.ts";
import { type Client, type IoWay, ServerProcess } from "../support/servers/server_process.ts";

const WRITERS = 6;
const KEYS = 40;
/** Most tokens that clients take before a server is killed. */
const GETS_MAX = 400;
/** One stop in this many is a clean one, after which the store is checked. */
const STOPS_EVERY = 8;
/** Tokens of the journal that are kept over a restart; the others are released. */
const KEPT_SHARE = 0.7;

export interface KillOptions {
  readonly way: IoWay;
  /** `--state-dir` */
  readonly folder: string;
  readonly kills: number;
  readonly seed: number;
  /** Called after each kill. */
  readonly progress?: () => void;
}

export interface KillReport {
  readonly kills: number;
  /** Servers that ended as asked, with their store checked. */
  readonly stops: number;
  /** Tokens that were promised. */
  readonly promised: number;
  /** Tokens of the journal that were not promised: the server was killed before its reply. */
  readonly unpromised: number;
  /** Tokens that came back although their release had been answered: it was not on the disk yet. */
  readonly returned: number;
}

/** The clients' knowledge of one server and its predecessors. */
class Books {
  readonly #random: () => number;
  /** Keys of promised tokens whose release was not sent, by id. */
  readonly out = new Map<number, string>();
  readonly #released = new Set<number>();
  /** Tokens whose release was answered. */
  readonly #gone = new Set<number>();
  /** Whether the server before ended as asked. */
  wasStopped = false;
  /** Ids of the server that runs. */
  #ids = new Set<number>();
  /** The highest id of all servers before it. */
  #highest = 0;
  promised = 0;
  unpromised = 0;
  returned = 0;
  /** Tokens that are still asked for before the server is killed. */
  getsLeft = 0;
  /** Whether connections may break: the server is being killed. */
  isOver = false;

  constructor(seed: number) {
    this.#random = randomFrom(seed);
  }

  below(bound: number): number {
    return Math.floor(this.#random() * bound);
  }

  begin(): void {
    for (const id of this.#ids) this.#highest = Math.max(this.#highest, id);
    this.#ids = new Set();
    this.getsLeft = this.below(GETS_MAX);
    this.isOver = false;
  }

  /** Notes a new id, of a token, a lease or an item. */
  gotId(id: number): void {
    assert(id > this.#highest, `id ${id} comes after ${this.#highest} of an earlier server`);
    assert(!this.#ids.has(id), `id ${id} came twice`);
    this.#ids.add(id);
  }

  promise(id: number, key: string): void {
    this.gotId(id);
    this.out.set(id, key);
    this.promised++;
  }

  /** Notes a release. Call it before the release is sent. */
  release(id: number): void {
    this.out.delete(id);
    this.#released.add(id);
  }

  /** Notes the reply to a release. */
  released(id: number): void {
    this.#gone.add(id);
  }

  /** Compares with `token list` after a restart, and releases some of the tokens. */
  async compare(client: Client): Promise<void> {
    await client.send("token list\r\n");
    const list = await client.until("END\r\n");
    const listed = new Map(
      [...list.matchAll(/^TOKEN (\S+) (\d+) /gm)].map(([, key, id]) => [Number(id), key!]),
    );
    for (const [id, key] of this.out) {
      assertEquals(listed.get(id), key, `token ${id} was promised and is missing`);
    }
    for (const [id, key] of listed) {
      assert(!this.wasStopped || !this.#gone.has(id), `token ${id} was released before the stop`);
      if (this.#released.has(id)) this.returned++;
      else if (!this.out.has(id)) this.unpromised++;
      await client.ask(`set ${key} 0 0 1\r\n1\r\n`, "NOT_STORED\r\n");
      if (this.out.has(id) && this.#random() < KEPT_SHARE) continue;
      this.release(id);
      await client.ask(`token release ${key} ${id}\r\n`, "OK\r\n");
      this.released(id);
    }
  }
}

/** Kills one server after the other over the same state directory. */
export async function killServers(options: KillOptions): Promise<KillReport> {
  const books = new Books(options.seed);
  let kills = 0;
  let stops = 0;
  while (kills < options.kills) {
    books.begin();
    await using server = await ServerProcess.start({
      ...options.way,
      args: ["-m", "8", "-vvv", "--state-dir", options.folder],
      permissions: ["--allow-all"],
    });
    using client = await server.connect();
    await books.compare(client);
    const isStop = books.below(STOPS_EVERY) === 0;
    await work(server, books, () => server.signal(isStop ? "SIGTERM" : "SIGKILL"));
    const { code, stderr } = await server.ended();
    books.wasStopped = isStop;
    if (isStop) {
      stops++;
      assertEquals(code, 0, stderr);
      assert(server.lines.some((line) => line.includes("store check passed")), stderr);
    } else {
      kills++;
      options.progress?.();
    }
  }
  const { promised, unpromised, returned } = books;
  return { kills, stops, promised, unpromised, returned };
}

/** Loads a server until it is ended in the middle of it. */
async function work(server: ServerProcess, books: Books, end: () => void): Promise<void> {
  const clients = await Promise.all(Array.from({ length: WRITERS + 1 }, () => server.connect()));
  const loads = clients.map(async (client, index) => {
    try {
      if (index < WRITERS) await write(client, `w${index}`, books, end);
      else await readAndStore(client, books);
    } catch (error) {
      if (!books.isOver) throw error;
    } finally {
      client[Symbol.dispose]();
    }
  });
  await Promise.all(loads);
}

/** Takes and releases tokens, and ends the server when it is time. */
async function write(client: Client, name: string, books: Books, end: () => void): Promise<void> {
  for (;;) {
    if (books.getsLeft-- <= 0 && !books.isOver) {
      books.isOver = true;
      end();
    }
    const key = `key${books.below(KEYS)}`;
    const owner = books.below(2) === 0 ? "" : ` ${name}:${crypto.randomUUID()}`;
    await client.send(`token get ${key}${owner}\r\n`);
    const reply = await client.until("\r\n");
    const id = Number(/^TOKEN (\d+)\r\n$/.exec(reply)?.[1]);
    assert(id > 0, reply);
    books.promise(id, key);
    if (books.below(4) === 0) continue;
    books.release(id);
    if (books.below(4) === 0) {
      await client.send(`token release ${key} ${id} noreply\r\n`);
      continue;
    }
    await client.ask(`token release ${key} ${id}\r\n`, "OK\r\n");
    books.released(id);
  }
}

/** Stores, reads and leases other keys, whose ids come from the same generator. */
async function readAndStore(client: Client, books: Books): Promise<void> {
  for (;;) {
    const key = `other${books.below(KEYS)}`;
    await client.ask(`set ${key} 0 0 1\r\n1\r\n`, "STORED\r\n");
    await client.send(`gets ${key}\r\n`);
    const value = await client.until("END\r\n");
    books.gotId(Number(/^VALUE \S+ 0 1 (\d+)/.exec(value)![1]));
    await client.ask(`delete ${key}\r\n`, "DELETED\r\n");
  }
}
