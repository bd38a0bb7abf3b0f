import { DatabaseSync } from "node:sqlite";
import {
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import {
  sharedPostgres,
  type TestDatabase,
  testDatabases,
} from "../../support/servers/databases.ts";
import { HAS_POSTGRES, PostgresServer } from "../../support/servers/postgres.ts";
import { runInit, startOrigin } from "../../support/servers/origin_process.ts";
import { MAIN, path, runToEnd } from "../../support/servers/server_process.ts";
import { needs } from "../../support/needs/needs.ts";
import { openWriter } from "../databases/views/shop.ts";

const USAGE_ERROR = 64;
const OS_ERROR = 71;
const NAMES = ["--table", "articles", "--key-column", "slug", "--value-column", "body"];

testDatabases("init --run makes the tables once, and keeps their rows", async (database) => {
  const printed = await runInit(database, NAMES);
  assertEquals(printed.code, 0, printed.stderr);
  assertStringIncludes(printed.stdout, 'CREATE TABLE IF NOT EXISTS "articles"');
  for (let time = 0; time < 2; time++) {
    const { code, stderr } = await runInit(database, [...NAMES, "--run"]);
    assertEquals(code, 0, stderr);
    assertMatch(stderr, /the tables are in /);
    await using origin = await startOrigin(database, NAMES);
    using client = await origin.connect();
    await client.ask(
      "uget k\r\n",
      time === 0 ? "NONE k 0 C\r\nEND\r\n" : "VALUE k 0 3 1 C\r\none\r\nEND\r\n",
    );
    await client.send("token get k\r\n");
    const id = (await client.until("\r\n")).split(" ")[1]!.trim();
    if (time === 0) await client.ask(`uput k 0 3 ${id}\r\none\r\n`, "STORED 1\r\n");
  }
});

testDatabases(
  "init --follow offers a right that the origin's user may do without",
  async (database) => {
    for (
      const [args, isOffered] of [[["--follow"], database.folder === ""], [[], false]] as const
    ) {
      const { code, stdout, stderr } = await runInit(database, args);
      assertEquals(code, 0, stderr);
      assertEquals(/^-- GRANT pg_read_all_stats TO /m.test(stdout), isOffered);
    }
  },
);

Deno.test("PostgreSQL: init --run by a user who may not create tables says so", {
  ...needs("PostgreSQL", HAS_POSTGRES),
}, async () => {
  const server = await sharedPostgres();
  const owned = await server.createDatabase();
  await server.execute(
    "REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE ROLE guest LOGIN",
    owned,
  );
  const url = owned.replace("postgres@", "guest@");
  const denied = await runInit({ url, folder: "" }, ["--run"]);
  assertEquals(denied.code, OS_ERROR);
  assertMatch(
    denied.stderr,
    /cannot make the tables in postgres:\/\/guest@\S+; run init as a user who may create tables: permission denied for schema public/,
  );
  assertEquals((await runInit({ url: owned, folder: "" }, ["--run"])).code, 0);
  assertEquals((await runInit({ url, folder: "" }, ["--run"])).code, 0, "nothing is missing");
});

Deno.test(
  "PostgreSQL: init --follow names a wal_level that is not logical, as a start does",
  needs("PostgreSQL", HAS_POSTGRES),
  async () => {
    const server = await PostgresServer.start({ level: "replica" });
    try {
      const database = { url: await server.createDatabase(), folder: "" };
      const lack =
        "wal_level is replica: --follow needs wal_level = logical, and a restart of PostgreSQL";
      const { code, stderr } = await runInit(database, ["--follow", "--run"]);
      assertEquals(code, 0, stderr);
      assertStringIncludes(stderr, lack);
      assertStringIncludes(stderr, "the tables are in ");
      await assertRejects(() => startOrigin(database, ["--follow"]), Error, lack);
    } finally {
      await server.stop();
    }
  },
);

Deno.test("a lock file without the driver of PostgreSQL is named as such, with the one that has it", async () => {
  const { code, stderr } = await runToEnd({
    // A bundle has the driver in it.
    main: MAIN,
    permissions: ["--allow-all"],
    args: ["rows", "init", "--run", "--db", "postgres://127.0.0.1:1/x"],
  });
  assertEquals(code, OS_ERROR, stderr);
  const lockFile = path("lib/databases/postgres/deno.lock");
  assertStringIncludes(
    stderr,
    "cannot load the driver of PostgreSQL: the lock file of this process does not name it; " +
      `start with \`deno task rows\` or \`deno task views\`, or with deno run --lock=${lockFile}\n`,
  );
});

Deno.test("an address of PostgreSQL that makes no sense is refused, without its password", async () => {
  const form = "must be sqlite:<file> or postgres://<user>@<host>/<database>";
  const attributes = 'target_session_attrs must be read-write or primary, not "standby"';
  for (
    const [rest, error] of [
      ["one:5432,two:x/app", form],
      ["one,,two/app", form],
      ["one,two/app?target_session_attrs=standby", attributes],
      ["one/app?target_session_attrs=standby", attributes],
    ]
  ) {
    const { code, stderr } = await runToEnd({
      permissions: ["--allow-all"],
      args: ["rows", "init", "--run", "--db", `postgres://user:secret@${rest}`],
    });
    assertEquals(code, USAGE_ERROR, stderr);
    assertStringIncludes(stderr, error!);
    assertEquals(stderr.includes("secret"), false, stderr);
  }
});

Deno.test("SQLite: init --follow names what it refuses in a file, with --run and without", async () => {
  const folder = await Deno.makeTempDir();
  const file = { url: `sqlite:${folder}/shop.db`, folder };
  const views = `${folder}/views.jsonc`;
  const view = {
    query: "SELECT name FROM product WHERE id = {x}",
    changes: { product: "v:{nme}" },
  };
  await Deno.writeTextFile(views, JSON.stringify({ "v:{x}": view }));
  {
    using database = new DatabaseSync(`${folder}/shop.db`);
    database.exec("CREATE TABLE product (id INTEGER PRIMARY KEY, name TEXT)");
  }
  for (const [run, code] of [[[], USAGE_ERROR], [["--run"], OS_ERROR]] as const) {
    const refused = await runInit(file, ["--follow", "--views", views, ...run]);
    assertEquals([refused.code, refused.stdout], [code, ""]);
    assertMatch(
      refused.stderr,
      /cannot (?:write the SQL for|make the tables in) \S+shop.db: \S+views.jsonc:1: view v:{x}: table product has no column nme\n/,
    );
  }
  using database = new DatabaseSync(`${folder}/shop.db`);
  database.exec("INSERT INTO product VALUES (1, 'x')");
  await Deno.remove(folder, { recursive: true });
});

Deno.test("SQLite: init --run in a folder that does not exist says so", async () => {
  const folder = await Deno.makeTempDir();
  const { code, stderr } = await runInit({ url: `sqlite:${folder}/none/rows.db`, folder }, [
    "--run",
  ]);
  assertEquals(code, OS_ERROR);
  assertMatch(stderr, /cannot make the tables in \S+rows.db: unable to open database file/);
  await Deno.remove(folder, { recursive: true });
});

/** Returns the names of what `init --follow` has made, and of slots. */
async function madeIn({ url }: TestDatabase): Promise<string> {
  if (url.startsWith("sqlite:")) {
    using file = new DatabaseSync(url.slice("sqlite:".length));
    return file.prepare(
      "SELECT name FROM sqlite_schema WHERE name LIKE 'leased_changes%' OR " +
        "name LIKE 'leased_change_%' OR name LIKE 'leased_follow%'",
    ).all().map(({ name }) => name).join();
  }
  return await (await sharedPostgres()).execute(
    "SELECT string_agg(name, ',') FROM (SELECT pubname FROM pg_publication UNION ALL SELECT evtname FROM pg_event_trigger " +
      "UNION ALL SELECT proname FROM pg_proc WHERE proname LIKE 'leased%' UNION ALL SELECT relname FROM pg_class " +
      "WHERE relname = 'leased_follow' UNION ALL SELECT slot_name FROM pg_replication_slots WHERE database = current_database()) AS each (name)",
    url,
  );
}

Deno.test(
  "PostgreSQL: init --follow by a user who is no superuser makes no event trigger, and init --end leaves one",
  {
    ...needs("PostgreSQL", HAS_POSTGRES),
  },
  async () => {
    const server = await sharedPostgres();
    const owned = await server.createDatabase();
    const owner = `owner${Date.now()}`;
    const name = owned.slice(owned.lastIndexOf("/") + 1);
    await server.execute(
      `CREATE ROLE ${owner} LOGIN REPLICATION; ALTER DATABASE ${name} OWNER TO ${owner}; ALTER SCHEMA public OWNER TO ${owner}`,
      owned,
    );
    const url = owned.replace("postgres@", `${owner}@`);
    const place = { url, folder: "" };
    const lack = "only a superuser can make the event trigger leased_ddl";
    const init = async (at: string, ...args: string[]): Promise<string> => {
      const { code, stderr } = await runInit({ url: at, folder: "" }, [...args, "--run"]);
      assertEquals(code, 0, stderr);
      return stderr;
    };
    const made = (): Promise<string> => madeIn({ ...place, url: owned } as TestDatabase);
    const state =
      "SELECT string_agg(xmin::text, ' ') FROM (SELECT xmin FROM pg_event_trigger UNION ALL " +
      "SELECT xmin FROM pg_publication UNION ALL SELECT xmin FROM pg_class WHERE relname ~ '^(leased|kv)' UNION ALL " +
      "SELECT xmin FROM pg_proc WHERE proname ~ '^leased') AS each";
    assertStringIncludes(await init(url, "--follow"), lack);
    assertEquals(await made(), "leased,leased_follow");
    // A superuser adds it, and once more changes nothing.
    assertEquals((await init(owned, "--follow")).includes("leased_ddl"), false);
    const before = await server.execute(state, owned);
    assertEquals((await init(url, "--follow")).includes("leased_ddl"), false);
    await init(owned, "--follow");
    assertEquals(await server.execute(state, owned), before);

    const { stdout } = await runInit(place, ["--follow"]);
    await server.execute(stdout, url);
    assertEquals(await server.execute(state, owned), before);
    const left = await init(url, "--end");
    assertStringIncludes(
      left,
      "the event trigger leased_ddl is left: let a superuser execute DROP EVENT TRIGGER leased_ddl; DROP FUNCTION leased_ddl()",
    );
    assertEquals(await made(), "leased_ddl,leased_ddl");
    await server.execute("CREATE TABLE other ()", url);
    assertEquals((await init(owned, "--end")).includes("leased_ddl"), false);
    assertEquals(await made(), "");
  },
);

testDatabases(
  "init --end takes away all that --follow needs, but not beneath an origin, and init makes it again",
  async (database) => {
    await using writer = await openWriter(database);
    await writer.write("CREATE TABLE product (id integer PRIMARY KEY, name text)");
    const path = `${await Deno.makeTempDir()}/views.jsonc`;
    const query = "SELECT name FROM product WHERE id = {id}";
    await Deno.writeTextFile(
      path,
      JSON.stringify({ "p:{id}": { query, changes: { product: "p:{id}" } } }),
    );
    const place = {
      ...database,
      folder: [database.folder, path.slice(0, -"/views.jsonc".length)].filter(Boolean).join(),
    };
    const follow = ["--follow", "--views", path];
    for (let round = 0; round < 2; round++) {
      const made = await runInit(place, [...follow, "--run"]);
      assertEquals(made.code, 0, made.stderr);
      {
        await using origin = await startOrigin(place, follow);
        assertNotEquals(await madeIn(database), "");
        const refused = await runInit(place, ["--end", "--run"]);
        assertEquals(refused.code, OS_ERROR);
        assertStringIncludes(refused.stderr, "an origin uses the database: stop it first");
        await origin.stop();
      }
      if (round === 0) {
        const ended = await runInit(place, ["--end", "--run"]);
        assertEquals(ended.code, 0, ended.stderr);
        assertStringIncludes(ended.stderr, "nothing follows the changes of");
      } else {
        // What it prints does the same.
        await writer.write((await runInit(place, ["--end"])).stdout);
      }
      assertEquals(await madeIn(database), "");
      await writer.write(
        "INSERT INTO product VALUES (1, 'a'); UPDATE product SET name = 'b'; DELETE FROM product",
      );
    }
    const both = await runInit(place, ["--end", "--follow"]);
    assertEquals(both.code, USAGE_ERROR);
    assertStringIncludes(both.stderr, "leased: --end: excludes --follow\n");
    await Deno.remove(path);
  },
);
