// Random statements and migrations before both databases, read through an origin and its nodes the whole time: at rest,
// each value is what its query says.
import { assertEquals } from "@std/assert";
import { Session } from "../../../../lib/databases/postgres/session.ts";
import { statementOf } from "../../../../lib/databases/postgres/view_inspection.ts";
import { ViewQueries } from "../../../../lib/databases/sqlite/view_query.ts";
import { textOf } from "../../../../lib/databases/views/parameter_type.ts";
import { withParameters } from "../../../../lib/databases/views/view.ts";
import { parseViews } from "../../../../lib/databases/views/views_file.ts";
import { latin1Text } from "../../../../store/base/bytes.ts";
import { randomFrom } from "../../../support/random.ts";
import { roundsOf } from "../../../support/rounds.ts";
import { drawSeed, withSeed } from "../../../support/seed.ts";
import { type TestDatabase, testDatabases } from "../../../support/servers/databases.ts";
import { runInit, startNode, startOrigin } from "../../../support/servers/origin_process.ts";
import type { Client } from "../../../support/servers/server_process.ts";
import { Driver, KEYS, RANDOM_SHOP_VIEWS, tablesOf } from "./random_shop.ts";
import { openWriter } from "./shop.ts";

const ROUNDS = 8;
const TRANSACTIONS = 25;
/** Settings of a transaction before PostgreSQL. */
const COMMITS = ["on", "local", "off", "off"];
const NODES = 2;
/** After a change of the schema: within a minute on a busy machine. */
const TRIES = 400;
const PAUSE_MS = 100;
const LETTERS = KEYS.map((key) => latin1Text(new TextEncoder().encode(key)));
const NONE = "";
const FAILED = "failed";

type Truth = AsyncDisposable & { valueOf(key: string): Promise<string> };

/** What the queries of the views say now. */
async function truthOf({ url }: TestDatabase): Promise<Truth> {
  const views = parseViews(RANDOM_SHOP_VIEWS, "views.jsonc", [""]);
  const isSqlite = url.startsWith("sqlite:");
  if (!isSqlite) {
    const session = await Session.open({ url, timeoutMs: 30_000 });
    return {
      async valueOf(key): Promise<string> {
        const { view, values } = views.find(key)!;
        try {
          const [row] = await session.query(statementOf(view), values.map((each) => textOf(each)));
          const data = row?.["data"] as Uint8Array | null | undefined;
          return data === null || data === undefined ? NONE : latin1Text(data);
        } catch {
          return FAILED;
        }
      },
      [Symbol.asyncDispose]: () => session.close(),
    };
  }
  const queries = new ViewQueries(url.slice("sqlite:".length));
  let generation = 0;
  return {
    valueOf(key): Promise<string> {
      const { view, values } = views.find(key)!;
      const sql = `SELECT * FROM (${withParameters(view, (index) => `?${index + 1}`)}\n)`;
      const parameters = values.map((each) => /^\d+$/.test(each) ? BigInt(each) : textOf(each));
      const { result } = view;
      // Each statement anew: columns may have other names.
      const query = { sql, parameters, result, bytesMax: Infinity, generation: ++generation };
      const { text, problem } = queries.execute(query);
      const bytes = new TextEncoder().encode(text ?? NONE);
      return Promise.resolve(problem === undefined ? latin1Text(bytes) : FAILED);
    },
    [Symbol.asyncDispose]: () => Promise.resolve(queries[Symbol.dispose]()),
  };
}

/** @returns The values of all keys, `failed` for those that are answered with an error. */
async function readAll(client: Client): Promise<string[]> {
  const values: string[] = [];
  for (const key of LETTERS) {
    await client.send(`get ${key}\r\n`);
    const reply = await client.until(/END\r\n$|ERROR.*\r\n$/);
    values.push(
      reply.startsWith("VALUE") ? reply.split("\r\n")[1]! : reply.startsWith("END") ? NONE : FAILED,
    );
  }
  return values;
}

async function play(database: TestDatabase, seed: number): Promise<void> {
  const kind = database.folder === "" ? "PostgreSQL" : "SQLite";
  const random = randomFrom(seed);
  const driver = new Driver(random, kind);
  const folder = await Deno.makeTempDir();
  const path = `${folder}/views.jsonc`;
  await Deno.writeTextFile(path, RANDOM_SHOP_VIEWS);
  await using writer = await openWriter(database);
  await writer.write(tablesOf(kind));
  const place = {
    url: database.url,
    folder: database.folder === "" ? folder : `${database.folder},${folder}`,
  };
  const options = ["--follow", "--views", path];
  const init = await runInit(place, [...options, "--run"]);
  assertEquals(init.code, 0, init.stderr);
  await using stack = new AsyncDisposableStack();
  const origin = stack.use(await startOrigin(place, [...options, "--rows", "*"]));
  const clients = [stack.use(await origin.connect())];
  for (let count = 0; count < NODES; count++) {
    clients.push(stack.use(await stack.use(await startNode([origin])).connect()));
  }
  const asker = stack.use(await origin.connect());
  const truth = stack.use(await truthOf(database));

  const change = async (sql: string): Promise<void> => {
    // A commit that does not wait for the disk is visible before the log has it.
    const commit = COMMITS[Math.floor(random() * COMMITS.length)]!;
    const begin = `BEGIN; SET LOCAL synchronous_commit = ${commit}`;
    try {
      await writer.write(kind === "SQLite" ? sql : `${begin}; ${sql}; COMMIT`);
    } catch {
      // The database refuses it: nothing has changed.
    }
  };
  /** Values that are not those of the queries. */
  const findWrong = async (): Promise<string[]> => {
    const right = await Promise.all(LETTERS.map((key) => truth.valueOf(key)));
    const read = await Promise.all(clients.map(readAll));
    return read.flatMap((values, index) =>
      KEYS.flatMap((key, at) =>
        values[at] === right[at] ? [] : [`${key} at ${index}: ${values[at]}, not ${right[at]}`]
      )
    );
  };
  const assertSoonRight = async (): Promise<void> => {
    let wrong = await findWrong();
    for (let tries = 0; wrong.length > 0 && tries < TRIES; tries++) {
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      wrong = await findWrong();
    }
    assertEquals(wrong, []);
  };

  for (let round = 0; round < roundsOf(ROUNDS); round++) {
    let isOver = false;
    const readers = clients.map(async (client) => {
      while (!isOver) await readAll(client);
    });
    const migrates = random() < 0.5;
    const at = Math.floor(random() * TRANSACTIONS);
    try {
      for (let count = 0; count < TRANSACTIONS; count++) {
        await change(driver.transaction());
        if (migrates && count === at) await writer.write(driver.migration());
      }
    } finally {
      isOver = true;
      await Promise.all(readers);
    }
    await asker.ask("follow wait now 60000\r\n", "OK\r\n");
    // A change of the schema is noticed within a second.
    if (migrates) await assertSoonRight();
    else assertEquals(await findWrong(), []);
  }
  const restoration = driver.restoration();
  if (restoration !== null) await writer.write(restoration);
  await assertSoonRight();
  await Deno.remove(folder, { recursive: true });
}

testDatabases(
  "random statements and migrations: at rest every value is what its query says",
  (database) => withSeed(drawSeed(), (seed) => play(database, seed)),
);
