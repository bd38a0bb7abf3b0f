// `--temporary-slot`: nothing of the log is kept for an origin that is away, and nothing old is served after it.
import { assertEquals } from "@std/assert";
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
import { withSession } from "../../../support/postgres_backend.ts";
import { type Client, type ServerProcess, until } from "../../../support/servers/server_process.ts";

const FOLLOW = ["--follow"];
const TEMPORARY = [...FOLLOW, "--temporary-slot"];
const WAIT = "follow wait now 60000\r\n";
const GAP = "is temporary, and has no changes from before it; all cached rows are deleted";
const SLOTS =
  "SELECT coalesce(string_agg(regexp_replace(slot_name, '\\d+', 'N') || CASE WHEN temporary THEN ' temporary' ELSE '' END, ',' ORDER BY slot_name), '') " +
  "FROM pg_replication_slots WHERE database = current_database()";

/** A database that is prepared, and what other programs do there. */
interface Parts {
  readonly database: TestDatabase;
  readonly write: (sql: string) => Promise<string>;
  /** Returns the slots of the database, with N for its number. */
  readonly slots: () => Promise<string>;
}

function testSlots(name: string, test: (parts: Parts) => Promise<void>): void {
  testDatabases(name, async (database) => {
    const server = await sharedPostgres();
    const write = (sql: string): Promise<string> => server.execute(sql, database.url);
    const { code, stderr } = await runInit(database, ["--follow", "--run"]);
    assertEquals(code, 0, stderr);
    await test({
      database,
      write,
      slots: async () => (await write(SLOTS)).replaceAll(/_\d+ temporary/g, " temporary"),
    });
  }, ["PostgreSQL"]);
}

async function reads(clients: readonly Client[], value: string): Promise<void> {
  for (const client of clients) {
    await client.ask("get k\r\n", `VALUE k 0 3\r\n${value}\r\nEND\r\n`);
  }
}

function gapsOf(origin: ServerProcess): number {
  return origin.lines.filter((line) => line.includes("all cached rows are deleted")).length;
}

const TEMPORARY_SLOT = "leased_N temporary";

testSlots("a killed origin leaves no slot, and the next one serves nothing old", async ({
  database,
  write,
  slots,
}) => {
  {
    await using origin = await startOrigin(database, TEMPORARY);
    using client = await origin.connect();
    await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
    await client.ask(WAIT, "OK\r\n");
    await reads([client], "one");
    await write("UPDATE kv SET value = 'two'");
    await client.ask(WAIT, "OK\r\n");
    await reads([client], "two");
    assertEquals(await slots(), TEMPORARY_SLOT);
    assertEquals(await client.stat("follow_unbounded", "rows"), "0");
    assertEquals(origin.lines.filter((line) => line.includes("max_slot_wal_keep_size")), []);
    origin.signal("SIGKILL");
    await origin.ended();
  }
  await until(async () => await slots() === "");
  await write("UPDATE kv SET value = 'six'");
  await using origin = await startOrigin(database, TEMPORARY);
  using client = await origin.connect();
  await origin.line(GAP);
  await reads([client], "six");
});

testSlots("a start empties the rows of a snapshot", async ({ database, write, slots }) => {
  const folder = await Deno.makeTempDir();
  const args = [...TEMPORARY, "--snapshot", `${folder}/snapshot`];
  const place = { ...database, folder };
  {
    await using origin = await startOrigin(place, args);
    using client = await origin.connect();
    await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
    await client.ask(WAIT, "OK\r\n");
    await reads([client], "one");
    await origin.stop();
  }
  assertEquals(await slots(), "");
  await write("UPDATE kv SET value = 'two'");
  {
    await using origin = await startOrigin(place, args);
    using client = await origin.connect();
    await reads([client], "two");
  }
  await Deno.remove(folder, { recursive: true });
});

testSlots("a connection that ends empties everything, and the log goes on", async ({
  database,
  write,
  slots,
}) => {
  await using origin = await startOrigin(database, TEMPORARY);
  await using node = await startNode([origin]);
  using client = await origin.connect();
  using atNode = await node.connect();
  await client.ask("set k 0 0 3\r\nv00\r\n", "STORED\r\n");
  for (let round = 1; round <= 3; round++) {
    await client.ask(WAIT, "OK\r\n");
    await reads([client, atNode], `v${round - 1}0`);
    assertEquals(await slots(), TEMPORARY_SLOT);
    await write(
      "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = current_database()",
    );
    // While no log is read, at its start, and behind it.
    await write(`UPDATE kv SET value = 'v${round}1'`);
    await until(() => gapsOf(origin) === round + 1);
    await write(`UPDATE kv SET value = 'v${round}0'`);
    await client.ask(WAIT, "OK\r\n");
    await reads([client, atNode], `v${round}0`);
    assertEquals(await client.stat("follow_gaps", "rows"), `${round + 1}`);
  }
  assertEquals(await slots(), TEMPORARY_SLOT);
});

testSlots("DDL while no log was read is followed", async ({ database, write }) => {
  await using origin = await startOrigin(database, TEMPORARY);
  using client = await origin.connect();
  await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
  await client.ask(WAIT, "OK\r\n");
  await reads([client], "one");
  await write("ALTER TABLE kv ALTER COLUMN value TYPE bytea USING 'two'::bytea");
  await client.ask(WAIT, "OK\r\n");
  await reads([client], "two");
  assertEquals(gapsOf(origin), 2);
});

for (const signal of ["SIGTERM", "SIGKILL", "SIGSTOP"] as const) {
  testSlots(`another origin takes over after ${signal}, with a slot of its own`, async ({
    database,
    write,
    slots,
  }) => {
    await using first = await startOrigin(database, [...TEMPORARY, "--member-time", "400"]);
    using client = await first.connect();
    await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
    await client.ask(WAIT, "OK\r\n");
    await reads([client], "one");
    const rule = signal === "SIGSTOP" ? "--take-over" : "--standby";
    await using second = launchOrigin(database, [...TEMPORARY, rule]);
    if (signal !== "SIGSTOP") {
      await second.line("waiting for its end");
      assertEquals(await slots(), TEMPORARY_SLOT);
    }
    first.signal(signal);
    if (signal !== "SIGSTOP") await first.ended();
    await write("UPDATE kv SET value = 'two'");
    await second.line("listens on");
    using later = await second.connect();
    await reads([later], "two");
    await write("UPDATE kv SET value = 'six'");
    await later.ask(WAIT, "OK\r\n");
    await reads([later], "six");
    await until(async () => await slots() === TEMPORARY_SLOT);
  });
}

testSlots(
  "the permanent slot of an origin before is dropped, and made again without the option",
  async ({
    database,
    write,
    slots,
  }) => {
    const check = async (args: readonly string[], value: string): Promise<ServerProcess> => {
      await write(`UPDATE kv SET value = '${value}'`);
      const origin = await startOrigin(database, args);
      using client = await origin.connect();
      await client.ask(WAIT, "OK\r\n");
      await reads([client], value);
      assertEquals(gapsOf(origin), 1);
      return origin;
    };
    await write("INSERT INTO kv (key, value) VALUES ('k', 'old')");
    {
      await using permanent = await check(FOLLOW, "one");
      await permanent.stop();
    }
    assertEquals(await slots(), "leased_N");
    {
      await using temporary = await check(TEMPORARY, "two");
      assertEquals(await slots(), TEMPORARY_SLOT);
      await temporary.stop();
    }
    assertEquals(await slots(), "");
    await using permanent = await check(FOLLOW, "six");
    assertEquals(await slots(), "leased_N");
    // One that is in use, and one that is not ours.
    permanent.signal("SIGSTOP");
    await write("SELECT pg_create_logical_replication_slot('leased_mine', 'pgoutput')");
    await using _temporary = await check([...TEMPORARY, "--take-over"], "ten");
    await until(async () => await slots() === `${TEMPORARY_SLOT},leased_mine`);
    permanent.signal("SIGCONT");
    await permanent.ended();
    await write("SELECT pg_drop_replication_slot('leased_mine')");
  },
);

testSlots(
  "the slot waits for a transaction that was open before, and needs the rights of --follow",
  async ({
    database,
    write,
    slots,
  }) => {
    await write(
      "CREATE ROLE brief LOGIN REPLICATION; GRANT SELECT, INSERT, UPDATE ON kv, leased_proxy TO brief; " +
        "GRANT SELECT, INSERT, DELETE ON leased_applied TO brief; " +
        "GRANT SELECT, INSERT, UPDATE, DELETE ON leased_follow TO brief",
    );
    const place = { ...database, url: database.url.replace("postgres@", "brief@") };
    await withSession(database.url, async (writer) => {
      await writer.query("BEGIN; INSERT INTO kv (key, value) VALUES ('k', 'one')");
      await using origin = launchOrigin(place, [...TEMPORARY, "--db-timeout", "500"]);
      await origin.line(
        new RegExp(`from the end of a transaction on: .* process ${writer.process.pid}, `),
      );
      await writer.query("COMMIT");
      await origin.line(/leased \S+ listens on /);
      using client = await origin.connect();
      await reads([client], "one");
      await client.ask(WAIT, "OK\r\n");
      assertEquals(await slots(), TEMPORARY_SLOT);
      // The time of a statement does not end the log.
      await new Promise((resolve) => setTimeout(resolve, 1500));
      await write("UPDATE kv SET value = 'two'");
      await client.ask(WAIT, "OK\r\n");
      await reads([client], "two");
      assertEquals(gapsOf(origin), 1);
    });
    await until(async () => await slots() === "");
  },
);
