// The primary dies, its standby becomes the primary, and the origin that follows the log goes on there.
import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { openPostgres } from "../../../../lib/databases/postgres/backend.ts";
import { DEFAULT_TABLE } from "../../../../lib/databases/base/table.ts";
import { parseViews } from "../../../../lib/databases/views/views_file.ts";
import { freePort } from "../../../support/free_ports.ts";
import { HAS_POSTGRES, PostgresServer } from "../../../support/servers/postgres.ts";
import { startNode } from "../../../support/servers/origin_process.ts";
import { Relay } from "../../../support/servers/relay.ts";
import { type Client, type ServerProcess, until } from "../../../support/servers/server_process.ts";
import { read, Shop, untilReads } from "../../databases/views/shop.ts";
import { needs } from "../../../support/needs/needs.ts";

const EACH = ["product:1", "name:Chess", "name:Diary", "row"];
const BEFORE = ['{"id":1,"name":"Lost","category":"Books"}', "2", "3", "lost"];
const AFTER = ['{"id":1,"name":"Atlas","category":"Books"}', "", "3", "old"];
/** After this time, a primary that has vanished is noticed. */
const NOTICED = ["--db-timeout", "5000"];
const WAIT = "follow wait now 60000\r\n";

/** The parts that a failover moves. */
interface Parts {
  readonly primary: PostgresServer;
  readonly standby: PostgresServer;
  readonly relay: Relay;
  readonly origin: ServerProcess;
  /** Makes the standby the primary, and changes a row there. */
  readonly promote: () => Promise<void>;
  /** The names of the database, and of its slot. */
  readonly name: string;
  readonly slot: string;
  /** Starts another origin in the place of this one, which must have ended. @param port Of PostgreSQL. */
  readonly startAgain: (port: number) => Promise<ServerProcess>;
}

async function readEach(client: Client): Promise<string[]> {
  const values: string[] = [];
  for (const key of EACH) values.push(await read(client, key));
  return values;
}

async function untilReadsEach(client: Client, values: readonly string[]): Promise<void> {
  await until(async () => JSON.stringify(await readEach(client)) === JSON.stringify(values));
}

/** Waits until the standby has all that is committed, and receives nothing more. */
async function leaveBehind(primary: PostgresServer, standby: PostgresServer): Promise<void> {
  const position = await primary.execute("SELECT pg_current_wal_lsn()", primary.urlOf("postgres"));
  const ask = (sql: string): Promise<string> => standby.execute(sql, standby.urlOf("postgres"));
  await until(async () => await ask(`SELECT pg_last_wal_replay_lsn() >= '${position}'`) === "t");
  await ask("ALTER SYSTEM SET primary_conninfo = ''");
  await ask("SELECT pg_reload_conf()");
  await until(async () => await ask("SELECT count(*) FROM pg_stat_wal_receiver") === "0");
}

async function untilHealth(origin: ServerProcess, status: number): Promise<void> {
  const [admin] = /http:\/\/[^/]+/.exec(await origin.line("metrics are at http://"))!;
  await until(async () => {
    const response = await fetch(`${admin}/health`);
    await response.body?.cancel();
    return response.status === status;
  });
}

interface Failover {
  /** Ends the primary. @returns The origin that serves then. */
  readonly fail: (parts: Parts) => Promise<ServerProcess>;
  /** The origin's messages about the slot, or the server. */
  readonly gap: string;
  /** Whether the origin's address names both, the standby first. */
  readonly namesBoth?: boolean;
}

async function checkFailover({ fail, gap, namesBoth = false }: Failover): Promise<void> {
  const primary = await PostgresServer.start();
  const standby = await primary.startStandby();
  try {
    const url = await primary.createDatabase();
    const name = url.slice(url.lastIndexOf("/") + 1);
    using relay = new Relay(primary.port);
    const ports = [`:${standby.port},127.0.0.1:${primary.port}`, `:${relay.port}`];
    const database = {
      url: url.replace(`:${primary.port}`, ports[namesBoth ? 0 : 1]!),
      folder: "",
      open: () => Promise.reject(new Error("not needed")),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
    await using shop = await Shop.open(database);
    const args = ["--metrics", "0", "-p", `${freePort()}`, "-l", "127.0.0.1", ...NOTICED];
    await using first = await shop.start(args);
    await using node = await startNode([first]);
    using atFirst = await first.connect();
    using atNode = await node.connect();
    await atFirst.ask("set row 0 0 3\r\nold\r\n", "STORED\r\n");
    await atFirst.ask(WAIT, "OK\r\n");
    await leaveBehind(primary, standby);

    // Of these the standby hears nothing.
    await atFirst.ask("set row 0 0 4\r\nlost\r\n", "STORED\r\n");
    await primary.execute("UPDATE product SET name = 'Lost' WHERE id = 1", url);
    await atFirst.ask(WAIT, "OK\r\n");
    for (const client of [atFirst, atNode]) assertEquals(await readEach(client), BEFORE);
    await untilHealth(first, 200);

    const slot = await primary.execute("SELECT slot_name FROM pg_replication_slots", url);
    const change = "UPDATE product SET name = 'Chess 2' WHERE id = 2";
    await using origin = await fail({
      ...{ primary, standby, relay, origin: first, name, slot },
      promote: async () => {
        await standby.promote();
        await standby.execute(change, standby.urlOf(name));
      },
      startAgain: (port) => {
        database.url = url.replace(`:${primary.port}`, `:${port}`);
        return shop.start(args);
      },
    });
    using atOrigin = await origin.connect();
    for (const client of [atOrigin, atNode]) await untilReadsEach(client, AFTER);
    await origin.line(`changes of rows may be missing: the ${gap}`);
    await origin.line("changes of rows are applied");
    await untilHealth(origin, 200);
    // The first start was a gap, too.
    assertEquals(await atOrigin.stat("follow_gaps", "rows"), origin === first ? "2" : "1");

    // The log of the new primary is followed.
    await standby.execute("UPDATE product SET name = 'Map' WHERE id = 1", standby.urlOf(name));
    await atOrigin.ask(WAIT, "OK\r\n");
    await untilReads([atOrigin, atNode], "product:1", '{"id":1,"name":"Map","category":"Books"}');
    await atOrigin.ask("set row 0 0 3\r\nnew\r\n", "STORED\r\n");
    assertEquals(await read(atNode, "row"), "new");
    await origin.stop();
  } finally {
    await standby.stop();
  }
}

const FAILOVERS: Readonly<Record<string, Failover>> = {
  "another takes its address": {
    fail: async ({ primary, standby, relay, origin, promote }) => {
      await primary.stop();
      await untilHealth(origin, 503);
      await promote();
      relay.moveTo(standby.port);
      return origin;
    },
    gap: "replication slot",
  },
  "it vanishes, its connections stay, and another takes its address": {
    fail: async ({ primary, standby, relay, origin, promote }) => {
      await promote();
      relay.vanishTo(standby.port);
      await primary.stop();
      return origin;
    },
    gap: "replication slot",
  },
  "an origin starts at another, which has a slot of that name": {
    fail: async ({ primary, standby, origin, promote, name, slot, startAgain }) => {
      await primary.stop();
      origin.signal("SIGKILL");
      await origin.ended();
      await promote();
      // As one that was kept in step.
      await standby.execute(
        `SELECT pg_create_logical_replication_slot('${slot}', 'pgoutput')`,
        standby.urlOf(name),
      );
      return await startAgain(standby.port);
    },
    gap: "server, its timeline",
  },
  "another host of its address takes over": {
    fail: async ({ primary, origin, promote }) => {
      await primary.stop();
      await untilHealth(origin, 503);
      await promote();
      return origin;
    },
    gap: "replication slot",
    namesBoth: true,
  },
};
for (const [how, failover] of Object.entries(FAILOVERS)) {
  Deno.test(`the primary dies, ${how}: no value stays that the new one lacks or has changed`, {
    ...needs("PostgreSQL", HAS_POSTGRES),
  }, () => checkFailover(failover));
}

const VIEWS = parseViews(
  JSON.stringify({
    "name:{id}": {
      query: "SELECT name FROM product WHERE id = {id}",
      value: "raw",
      changes: { product: "name:{id}" },
    },
  }),
  "views.jsonc",
  ["name:"],
);

/** Asks for the end of the log at the same time, each time over a connection of its own. */
function askEnds(backend: { endOfLog(): Promise<bigint> }, count: number): Promise<bigint[]> {
  return Promise.all(Array.from({ length: count }, () => backend.endOfLog()));
}

Deno.test("the old primary lives on beside the new one: the first new connection ends its log", {
  ...needs("PostgreSQL", HAS_POSTGRES),
}, async () => {
  const primary = await PostgresServer.start();
  const standby = await primary.startStandby();
  const url = await primary.createDatabase();
  using relay = new Relay(primary.port);
  const settings = { connectionsMax: 4, timeoutMs: 20_000 };
  const relayed = url.replace(`:${primary.port}`, `:${relay.port}`);
  const backend = await openPostgres(relayed, DEFAULT_TABLE, settings);
  try {
    const product = "CREATE TABLE product (id int PRIMARY KEY, name text)";
    await primary.execute(`${product}; INSERT INTO product VALUES (1, 'old')`, url);
    await backend.prepareChanges(VIEWS);
    const views = await backend.prepareViews(VIEWS);
    const nameRead = async (): Promise<string> => {
      const [found] = await views.readMany([VIEWS.find("name:1")!]);
      return new TextDecoder().decode(found!.row!.data);
    };
    assertEquals(await nameRead(), "old");
    const before = await backend.openChanges(true);
    await before.begin();
    await askEnds(backend, 2);
    await leaveBehind(primary, standby);
    await standby.promote();
    const moved = standby.urlOf(url.slice(url.lastIndexOf("/") + 1));
    await standby.execute("UPDATE product SET name = 'new'", moved);
    // Open connections still lead to the old primary.
    relay.target = standby.port;
    const hasMoved = /the database has moved: .* 00000001 are now .* 00000002/;
    assertMatch((await assertRejects(() => askEnds(backend, 4), Error)).message, hasMoved);
    const next = async (): Promise<void> => {
      while (true) await before.next();
    };
    assertMatch((await assertRejects(next, Error)).message, hasMoved);
    await before.close();

    const after = await backend.openChanges(false);
    assertMatch(after.gap!, /the replication slot leased_\d+ does not exist/);
    await after.begin();
    assertEquals(await nameRead(), "new");
    // No connection to the old primary is left.
    await askEnds(backend, 4);
    await after.close();
  } finally {
    await backend.close();
    await Promise.all([primary.stop(), standby.stop()]);
  }
});
