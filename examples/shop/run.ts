// Two processes of the shop over one database: deno task shop [plain|coherent|rows|check] [pages] [database]
// plain, coherent: over an SQLite file, with one cache. rows: each with a node, and an origin before the database, which
// is a new SQLite file, or the URL of a PostgreSQL whose table `kv` may be filled.
// `check` edits and reads pages in all ways, and counts pages that were stale: their price was lower than
// one that an edit had been told before the page was asked for. Each edit of a product raises its price.
import { TextLineStream } from "@std/streams";

const ROOT = new URL("../../", import.meta.url).pathname;
const HOST = "127.0.0.1";
const PRODUCTS = 100;
const PAGE_PRODUCTS = 50;
const READERS = 16;
const EDITORS = 2;
/** Visitors try again after an error: a node that waits for its origin shows no row. */
const RETRY_MS = 100;
/** Check ends after so many pages in the coherent way, and as many and a stale one in the plain way. */
const PAGES = Number(Deno.args[1] ?? 5_000);

const WAYS = ["plain", "coherent", "rows"] as const;
type Way = typeof WAYS[number];

/** A shop of two processes, with a cache of its own, or with an origin and two nodes. */
class Shop implements AsyncDisposable {
  readonly ports: number[] = [];
  readonly #children: Deno.ChildProcess[] = [];
  readonly #folder = Deno.makeTempDirSync({ prefix: "leased-shop-" });

  static async open(way: Way): Promise<Shop> {
    const shop = new Shop();
    try {
      const url = Deno.args[2] ?? `sqlite:${shop.#folder}/rows.db`;
      const server = await shop.#serve(...way === "rows" ? ["--db", url] : []);
      for (let process = 0; process < 2; process++) {
        const port = freePort();
        const places = way === "rows"
          ? [await shop.#serve("--origin", server)]
          : [`${shop.#folder}/shop.db`, server];
        await shop.#start("stdout", "examples/shop/shop.ts", [`${port}`, way, ...places], /(.+)/);
        shop.ports.push(port);
      }
      return shop;
    } catch (error) {
      await shop[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Starts a server. @returns Its address. */
  async #serve(...args: string[]): Promise<string> {
    const all = ["-l", HOST, "-p", "-1", ...args];
    return await this.#start("stderr", "main.ts", all, /listens on (\S+?)[;,]/);
  }

  /** Starts a program. @returns The first group of `sign`, which a line on this stream has. */
  async #start(
    stream: "stdout" | "stderr",
    program: string,
    args: readonly string[],
    sign: RegExp,
  ): Promise<string> {
    const child = new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "--no-prompt",
        "--no-lock",
        `--config=${ROOT}deno.json`,
        "-A",
        ROOT + program,
        ...args,
      ],
      stdin: "null",
      stdout: "null",
      stderr: "inherit",
      [stream]: "piped",
    }).spawn();
    this.#children.push(child);
    const lines = child[stream].pipeThrough(new TextDecoderStream())
      .pipeThrough(new TextLineStream()).getReader();
    for (;;) {
      const { value } = await lines.read();
      if (value === undefined) throw new Error(`${program} did not start`);
      const [, found] = sign.exec(value) ?? [];
      if (found === undefined) continue;
      void drain(lines);
      return found;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) {
      child.kill("SIGTERM");
      await child.status;
    }
    Deno.removeSync(this.#folder, { recursive: true });
  }
}

async function drain(lines: ReadableStreamDefaultReader<string>): Promise<void> {
  while (!(await lines.read()).done) { /* Nobody wants the others. */ }
}

function freePort(): number {
  using listener = Deno.listen({ hostname: HOST, port: 0 });
  return listener.addr.port;
}

/** What visitors of a shop saw. */
interface Seen {
  pages: number;
  stale: number;
}

/** Edits and reads pages until there are enough. */
async function visit(shop: Shop, isEnough: (seen: Seen) => boolean): Promise<Seen> {
  const seen: Seen = { pages: 0, stale: 0 };
  /** The highest price of each product that an edit was told. */
  const told = new Array<number>(PRODUCTS).fill(0);
  let price = 1000;
  const url = (path: string): string =>
    `http://${HOST}:${shop.ports[Math.floor(Math.random() * shop.ports.length)]}${path}`;
  const anyProduct = (): number => Math.floor(Math.random() ** 3 * PRODUCTS);
  const edit = async (editor: number): Promise<void> => {
    while (!isEnough(seen)) {
      // An editor has products of its own: the last edit is the highest price.
      const id = Math.floor(anyProduct() / EDITORS) * EDITORS + editor;
      const next = price++;
      const reply = await fetch(url(`/product/${id}`), { method: "POST", body: `price=${next}` });
      await reply.body?.cancel();
      if (reply.ok) told[id] = next;
      else await pause();
    }
  };
  const read = async (): Promise<void> => {
    while (!isEnough(seen)) {
      const id = anyProduct();
      const least = told[id]!;
      const path = Math.random() < 0.5
        ? `/product/${id}`
        : `/?page=${Math.floor(id / PAGE_PRODUCTS)}`;
      const reply = await fetch(url(path));
      const page = await reply.text();
      if (!reply.ok) {
        await pause();
        continue;
      }
      const shown = Number(new RegExp(`id="price${id}">(\\d+)<`).exec(page)?.[1]);
      if (Number.isNaN(shown)) throw new Error(`${path} shows no price: ${page}`);
      seen.pages++;
      if (shown < least) seen.stale++;
    }
  };
  await Promise.all([
    ...Array.from({ length: EDITORS }, (_, editor) => edit(editor)),
    ...Array.from({ length: READERS }, () => read()),
  ]);
  return seen;
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, RETRY_MS));
}

async function check(way: Way): Promise<void> {
  await using shop = await Shop.open(way);
  const { pages, stale } = await visit(
    shop,
    (seen) => seen.pages >= PAGES && (way !== "plain" || seen.stale > 0),
  );
  say(`${way} caching: ${pages} pages, ${stale} stale`);
}

function say(text: string): void {
  // deno-lint-ignore no-console -- its output is its result
  console.log(text);
}

const [command = "coherent"] = Deno.args;
if (command === "check") {
  for (const way of WAYS) await check(way);
} else if (WAYS.includes(command as Way)) {
  await using shop = await Shop.open(command as Way);
  say(`${command} caching: ${shop.ports.map((port) => `http://${HOST}:${port}/`).join(" and ")}`);
  await new Promise<void>((resolve) => Deno.addSignalListener("SIGINT", resolve));
} else {
  throw new Error(`${command}: must be plain, coherent, rows or check`);
}
