import { assertMatch } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { testDatabases } from "../../../support/servers/databases.ts";
import { runInit, startNode, startOrigin } from "../../../support/servers/origin_process.ts";
import { until } from "../../../support/servers/server_process.ts";

testDatabases(
  "with --lag-quarantine, no row is cached while changes are not applied",
  async (database) => {
    await runInit(database, ["--follow", "--run"]);
    const args = ["--follow", "--lag-max", "2000", "--lag-quarantine"];
    await using origin = await startOrigin(database, args);
    await using node = await startNode([origin]);
    using client = await origin.connect();
    using atNode = await node.connect();
    await client.ask("set k 0 0 3\r\none\r\nget k\r\n", "STORED\r\nVALUE k 0 3\r\none\r\nEND\r\n");
    await client.ask("follow wait now 30000\r\n", "OK\r\n");
    await atNode.ask("get k\r\n", "VALUE k 0 3\r\none\r\nEND\r\n");
    using file = new DatabaseSync(database.url.slice("sqlite:".length));
    file.exec("PRAGMA busy_timeout = 5000");
    const trigger = "leased_change_updated_kv";
    const { sql } = file.prepare("SELECT sql FROM sqlite_schema WHERE name = ?").get(trigger)!;
    file.exec(`DROP TRIGGER ${trigger}; UPDATE kv SET value = CAST('two' AS BLOB)`);
    await origin.line("no row is cached");
    for (const each of [client, atNode]) {
      await until(async () => {
        await each.send("get k\r\n");
        return (await each.until("END\r\n")).includes("two");
      });
    }
    file.exec(sql as string);
    await origin.line("rows are cached");
    await client.send("stats rows\r\n");
    assertMatch(await client.until("END\r\n"), /STAT follow_lag_ms \d{1,4}\r\n/);
  },
  ["SQLite"],
);
