// `leased views check`, and the files of docs/follow.md.
import { assertEquals, assertStringIncludes } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import {
  sharedPostgres,
  type TestDatabase,
  testDatabases,
} from "../../../support/servers/databases.ts";
import {
  launchOrigin,
  runInit,
  startNode,
  startOrigin,
} from "../../../support/servers/origin_process.ts";
import { path, until } from "../../../support/servers/server_process.ts";

const VIEWS = path("examples/views.jsonc");
const SHOP = Deno.readTextFileSync(path("examples/shop.sql"));
const POSTGRES_ONLY = /^ALTER TABLE .*$/gm;

async function execute({ url }: TestDatabase, sql: string): Promise<void> {
  if (!url.startsWith("sqlite:")) return void await (await sharedPostgres()).execute(sql, url);
  const file = new DatabaseSync(url.slice("sqlite:".length), { timeout: 10_000 });
  const named = sql.replace("CREATE INDEX ON", "CREATE INDEX by_category ON");
  file.exec(named.replaceAll(POSTGRES_ONLY, ""));
  file.close();
}

interface Checked {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function check(args: readonly string[]): Promise<Checked> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", `--lock=${path("lib/databases/postgres/deno.lock")}`, "--no-prompt", "-A"],
      ...[path("main.ts"), "views", ...args],
    ],
    env: { NO_COLOR: "1" },
  }).output();
  const decoder = new TextDecoder();
  return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}

testDatabases(
  "the example's shop: init, check, and a change by another program",
  async (database) => {
    await execute(database, SHOP);
    const db = ["--db", database.url];
    const change = ["--change", 'product {"id": 1, "category_id": 2}'];
    const before = await check(["check", VIEWS, ...db, ...change]);
    assertEquals(before.code, 1);
    assertStringIncludes(
      before.stderr,
      "start `leased rows init --follow --views <file> --run --db <database>`",
    );
    assertEquals(before.stderr.match(/ init --follow /g)!.length, 1, before.stderr);
    const folder = [database.folder, path("examples")].filter((each) => each !== "").join();
    const place = { url: database.url, folder };
    const init = await runInit(place, ["--follow", "--views", VIEWS, "--run"]);
    assertEquals(init.code, 0, init.stderr);
    const { code, stdout, stderr } = await check(["check", VIEWS, ...db, ...change]);
    assertEquals([code, stderr], [0, ""]);
    assertStringIncludes(stdout, "product: deletes product:1 category:2:after:* products\n");
    assertStringIncludes(stdout, "products\n  parameters: none\n  reads: ");

    await using origin = await startOrigin(place, ["--follow", "--views", VIEWS]);
    using client = await origin.connect();
    const read = async (key: string): Promise<string> => {
      await client.send(`get ${key}\r\n`);
      return (await client.until("END\r\n")).split("\r\n")[1] ?? "";
    };
    const atlas = '{"id":1,"name":"Atlas","category":"Books","cents":2500}';
    assertEquals(await read("product:1"), atlas);
    assertEquals(await read("category:1:after:1"), '[{"id":3,"name":"Diary"}]');
    assertEquals(await read("category:2:after:0"), '[{"id":2,"name":"Chess"}]');
    assertEquals(await read("products"), "3");
    await execute(database, "UPDATE price SET cents = 2000 WHERE product_id = 1");
    await until(async () => await read("product:1") === atlas.replace("2500", "2000"));
    await execute(database, "UPDATE product SET category_id = 2 WHERE id = 3");
    await until(async () => await read("category:1:after:1") === "[]");
    const games = '[{"id":2,"name":"Chess"},{"id":3,"name":"Diary"}]';
    await until(async () => await read("category:2:after:0") === games);
  },
);

testDatabases("the keys of views are rows, others only with --rows", async (database) => {
  await execute(database, SHOP);
  const folder = [database.folder, path("examples")].filter((each) => each !== "").join();
  const place = { url: database.url, folder };
  const options = ["--follow", "--views", VIEWS];
  const init = await runInit(place, [...options, "--run"]);
  assertEquals(init.code, 0, init.stderr);
  const rows = async (rowsOptions: readonly string[], prefixes: string): Promise<string> => {
    await using origin = await startOrigin(place, [...options, ...rowsOptions, "--take-over"]);
    await using node = await startNode([origin], ["--rows", prefixes]);
    using client = await origin.connect();
    using atNode = await node.connect();
    for (const each of [client, atNode]) {
      await each.ask("get products\r\n", "VALUE products 0 1\r\n3\r\nEND\r\n");
    }
    await client.ask("set kv:a 0 0 1\r\n1\r\n", "STORED\r\n");
    return await client.stat("database_write_count", "rows");
  };
  assertEquals(await rows([], "products,product:,category:"), "0");
  assertEquals(await rows(["--rows", "kv:,cat"], "kv:,product:,products,cat"), "1");
  assertEquals(await rows(["--rows", "*"], "*"), "1");
});

Deno.test("leased views check: mistakes of the command line, the file and the database", async () => {
  const folder = await Deno.makeTempDir();
  const views = `${folder}/views.jsonc`;
  await Deno.writeTextFile(views, '{\n  "a:{id}": { "query": "SELECT 1" }\n}');
  const db = ["--db", `sqlite:${folder}/rows.db`];
  const cases: readonly (readonly [args: readonly string[], code: number, message: string])[] = [
    [[views], 64, "the commands are check and suggest"],
    [["check"], 64, "name one file of views"],
    [["check", views, "--change", "price 7"], 64, "a table and a row in JSON"],
    [["check", `${folder}/none`], 64, "none: "],
    [["check", views, ...db], 1, `${views}:2: view a:{id}: changes must name each table`],
    [["check", VIEWS, ...db], 69, "unable to open database file"],
  ];
  for (const [args, code, message] of cases) {
    const checked = await check(args);
    assertEquals(checked.code, code, checked.stderr);
    assertStringIncludes(checked.stderr, message);
  }
  const init = await runInit({ url: db[1]!, folder }, ["--follow", "--views", views]);
  assertEquals(init.code, 64);
  const mistake = `--views: ${views}:2: view a:{id}: changes must name`;
  assertStringIncludes(init.stderr, mistake);
  await using origin = launchOrigin({ url: db[1]!, folder }, ["--follow", "--views", views]);
  const ended = await origin.ended();
  assertEquals(ended.code, 64, ended.stderr);
  assertStringIncludes(ended.stderr, `fatal: cannot use ${mistake}`);
  await Deno.remove(folder, { recursive: true });
});
