import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { sharedPostgres, testDatabases } from "../../support/servers/databases.ts";
import { HAS_POSTGRES, PostgresServer } from "../../support/servers/postgres.ts";
import { runInit, startOrigin } from "../../support/servers/origin_process.ts";
import { MAIN, path, runToEnd } from "../../support/servers/server_process.ts";
import { needs } from "../../support/needs/needs.ts";

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

Deno.test("a database at several hosts is refused, with and without their ports", async () => {
  for (const hosts of ["127.0.0.1,127.0.0.2:5432", "127.0.0.1:5432,127.0.0.2:5432"]) {
    const { code, stderr } = await runToEnd({
      permissions: ["--allow-all"],
      args: ["rows", "init", "--run", "--db", `postgres://user:secret@${hosts}/x`],
    });
    assertEquals(code, USAGE_ERROR, stderr);
    assertStringIncludes(stderr, "must be sqlite:<file> or postgres://<user>@<host>/<database>");
    assertEquals(stderr.includes("secret"), false, stderr);
  }
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
