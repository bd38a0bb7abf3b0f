import { assert, assertEquals, assertMatch } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { Session } from "../../../lib/databases/postgres/session.ts";
import { testDatabases } from "../../support/servers/databases.ts";
import { launchOrigin, startOrigin } from "../../support/servers/origin_process.ts";
import { Relay } from "../../support/servers/relay.ts";
import { type ServerProcess, until } from "../../support/servers/server_process.ts";

/** Longer than a test. */
const LOCKED_MS_MAX = 600_000;

async function isStopped({ pid }: ServerProcess): Promise<boolean> {
  const stat = await Deno.readTextFile(`/proc/${pid}/stat`);
  return /^\d+ \(.*\) T/.test(stat);
}

testDatabases("a second origin refuses to start, and the first goes on", async (database) => {
  await using first = await startOrigin(database);
  using client = await first.connect();
  await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
  const second = launchOrigin(database, ["--member-time", "300"]);
  const { code, stderr } = await second.ended();
  assertEquals(code, 71, stderr);
  assertMatch(
    stderr,
    /cannot use the database .*: another origin serves its rows: end it, or start this one with --standby or --take-over/,
  );
  await client.ask("gets k\r\n", "VALUE k 0 3 1\r\none\r\nEND\r\n");
  await client.ask("set k 0 0 3\r\ntwo\r\n", "STORED\r\n");
});

for (const signal of ["SIGTERM", "SIGKILL"] as const) {
  testDatabases(`a stand-by takes over after the ${signal} of the origin`, async (database) => {
    await using first = await startOrigin(database);
    using client = await first.connect();
    await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
    await using second = launchOrigin(database, ["--standby"]);
    await second.line("waiting for its end");
    await client.ask("set k 0 0 3\r\ntwo\r\n", "STORED\r\n");
    first.signal(signal);
    await first.ended();
    await second.line("listens on");
    using later = await second.connect();
    await later.ask("gets k\r\n", "VALUE k 0 3 2\r\ntwo\r\nEND\r\n");
    await later.ask("set k 0 0 3\r\nsix\r\n", "STORED\r\n");
  });
}

testDatabases(
  "a forced takeover lasts beside a stand-by, which takes over after its end",
  async (database) => {
    await using first = await startOrigin(database);
    using client = await first.connect();
    await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
    await using standby = launchOrigin(database, ["--standby"]);
    await standby.line("waiting for its end");
    await using second = launchOrigin(database, ["--take-over"]);
    await second.line("listens on");
    assertEquals((await first.ended()).code, 69);
    using later = await second.connect();
    await later.ask("set k 0 0 3\r\ntwo\r\n", "STORED\r\n");
    assert(!standby.lines.some((line) => line.includes("listens on")), standby.lines.join("\n"));
    second.signal("SIGTERM");
    assertEquals((await second.ended()).code, 0);
    await standby.line("listens on");
    using last = await standby.connect();
    await last.ask("gets k\r\n", "VALUE k 0 3 2\r\ntwo\r\nEND\r\n");
  },
);

testDatabases(
  "a stand-by outlives its connection to the database",
  async (database) => {
    const url = new URL(database.url);
    using relay = new Relay(Number(url.port));
    url.port = `${relay.port}`;
    await using first = await startOrigin(database);
    await using second = launchOrigin({ ...database, url: url.href }, ["--standby"]);
    await second.line("waiting for its end");
    relay.passage = () => "cut";
    relay.cutAll();
    await second.line(/cannot take over the rows of postgres:.*, trying again: /);
    first.signal("SIGKILL");
    await first.ended();
    relay.passage = () => "pass";
    await second.line("listens on");
  },
  ["PostgreSQL"],
);

testDatabases("a stand-by ends at SIGTERM", async (database) => {
  await using _first = await startOrigin(database);
  await using second = launchOrigin(database, ["--standby"]);
  await second.line("waiting for its end");
  second.signal("SIGTERM");
  const { code, stderr } = await second.ended();
  assertEquals(code, 0, stderr);
});

testDatabases(
  "an origin that was stopped answers nothing old after another one has taken over",
  async (database) => {
    await using first = await startOrigin(database, ["--member-time", "400"]);
    using client = await first.connect();
    await client.ask("set k 0 0 3\r\none\r\nget k\r\n", "STORED\r\nVALUE k 0 3\r\none\r\nEND\r\n");
    await client.ask("get k\r\n", "VALUE k 0 3\r\none\r\nEND\r\n");
    first.signal("SIGSTOP");
    await until(() => isStopped(first));
    await using second = launchOrigin(database, ["--take-over"]);
    await second.line("waiting for its end");
    await second.line("listens on");
    using later = await second.connect();
    await later.ask("set k 0 0 3\r\ntwo\r\n", "STORED\r\n");
    await client.send("get k\r\n");
    first.signal("SIGCONT");
    assertMatch(await client.rest(), /^(SERVER_ERROR [^\n]*\r\n)?$/);
    assertEquals((await first.ended()).code, 69);
  },
  ["PostgreSQL"],
);

testDatabases(
  "an origin that is stopped keeps its lock: another one takes over when it has ended",
  async (database) => {
    await using first = await startOrigin(database);
    using client = await first.connect();
    await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
    first.signal("SIGSTOP");
    await until(() => isStopped(first));
    await using second = launchOrigin(database, ["--take-over"]);
    await second.line("waiting for its end");
    first.signal("SIGCONT");
    assertEquals((await first.ended()).code, 69);
    await second.line("listens on");
    using later = await second.connect();
    await later.ask("gets k\r\n", "VALUE k 0 3 1\r\none\r\nEND\r\n");
  },
  ["SQLite"],
);

testDatabases(
  "an origin that cannot reach its database serves rows for its time, other items for ever",
  async (database) => {
    const url = new URL(database.url);
    using relay = new Relay(Number(url.port));
    url.port = `${relay.port}`;
    const args = ["--rows", "r", "--member-time", "400", "--db-timeout", "500"];
    await using first = await startOrigin({ ...database, url: url.href }, args);
    using client = await first.connect();
    await client.ask("set other 0 0 1\r\nx\r\n", "STORED\r\n");
    await client.ask("set r 0 0 3\r\none\r\nget r\r\n", "STORED\r\nVALUE r 0 3\r\none\r\nEND\r\n");
    relay.passage = () => "cut";
    relay.cutAll();
    await until(async () => {
      await client.send("get r\r\n");
      const reply = await client.until(/(END|SERVER_ERROR [^\n]*)\r\n/);
      return /^SERVER_ERROR rows are not available: no confirmation from postgres:/.test(reply);
    });
    await client.ask("get other\r\n", "VALUE other 0 1\r\nx\r\nEND\r\n");
    relay.passage = () => "pass";
    await until(async () => {
      await client.send("get r\r\n");
      return !(await client.until(/(END|SERVER_ERROR [^\n]*)\r\n/)).startsWith("SERVER_ERROR");
    });
    await client.ask("get r\r\n", "VALUE r 0 3\r\none\r\nEND\r\n");

    relay.passage = () => "cut";
    relay.cutAll();
    await using second = await startOrigin(database, ["--rows", "r", "--take-over"]);
    using later = await second.connect();
    await later.ask("set r 0 0 3\r\ntwo\r\n", "STORED\r\n");
    await client.send("get r\r\n");
    assertMatch(await client.until(/(END|SERVER_ERROR [^\n]*)\r\n/), /^SERVER_ERROR/);
    relay.passage = () => "pass";
    assertEquals((await first.ended()).code, 69);
  },
  ["PostgreSQL"],
);

testDatabases(
  "hits go on while another process has locked the file for longer than the member time",
  async (database) => {
    const args = ["--member-time", "100", "--db-timeout", "300"];
    await using origin = await startOrigin(database, args);
    using client = await origin.connect();
    await client.ask("set k 0 0 3\r\none\r\nget k\r\n", "STORED\r\nVALUE k 0 3\r\none\r\nEND\r\n");
    using file = new DatabaseSync(database.url.slice("sqlite:".length));
    file.exec("BEGIN EXCLUSIVE");
    for (let write = 0; write < 2; write++) {
      await client.send("set k 0 0 3\r\ntwo\r\n");
      assertMatch(
        await client.until("\r\n"),
        /^SERVER_ERROR .*another process has locked the file/,
      );
      await client.ask("get k\r\n", "VALUE k 0 3\r\none\r\nEND\r\n");
    }
    await using standBy = launchOrigin(database, ["--standby"]);
    await standBy.line("waiting for its end");
    file.exec("ROLLBACK");
    await client.ask("set k 0 0 3\r\ntwo\r\n", "STORED\r\n");
  },
  ["SQLite"],
);

testDatabases(
  "hits go on while the table of the rows is locked for longer than the member time",
  async (database) => {
    const args = ["--member-time", "500", "--db-timeout", "700"];
    await using origin = await startOrigin(database, args);
    using client = await origin.connect();
    await client.ask("set k 0 0 3\r\none\r\nget k\r\n", "STORED\r\nVALUE k 0 3\r\none\r\nEND\r\n");
    const session = await Session.open({ url: database.url, timeoutMs: LOCKED_MS_MAX });
    await session.query("BEGIN");
    await session.query("LOCK TABLE kv IN ACCESS EXCLUSIVE MODE");
    for (let write = 0; write < 2; write++) {
      await client.send("set other 0 0 1\r\nx\r\n");
      assertMatch(await client.until("\r\n"), /^SERVER_ERROR /);
      // A busy machine may delay a confirmation; without the next one there would be no hit for ever.
      await until(async () => {
        await client.send("get k\r\n");
        return (await client.until(/(END|SERVER_ERROR [^\n]*)\r\n/)).startsWith(
          "VALUE k 0 3\r\none",
        );
      });
    }
    await session.query("ROLLBACK");
    await session.close();
  },
  ["PostgreSQL"],
);
