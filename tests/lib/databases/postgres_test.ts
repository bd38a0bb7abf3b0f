import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { Session } from "../../../lib/databases/postgres/session.ts";
import { endOfTransactions } from "../../../lib/databases/postgres/slot.ts";
import { postgresSchema } from "../../../lib/databases/base/schema.ts";
import { DEFAULT_TABLE } from "../../../lib/databases/base/table.ts";
import { latin1Bytes, latin1Text } from "../../../store/base/bytes.ts";
import { reasonOf } from "../../../lib/process/reason.ts";
import { sharedPostgres } from "../../support/servers/databases.ts";
import { HAS_POSTGRES } from "../../support/servers/postgres.ts";
import { needs } from "../../support/needs/needs.ts";
import { EDIT_FORMS } from "../../support/edits.ts";
import type { RowBackend } from "../../support/single_rows.ts";
import { Relay } from "../../support/servers/relay.ts";
import { path, until } from "../../support/servers/server_process.ts";
import {
  bytes,
  KEY,
  openPostgres,
  set,
  SETTINGS,
  testPostgres,
  withBackend,
  withSession,
  withSessions,
} from "../../support/postgres_backend.ts";

/** Sends a statement without what ends it, as a process does that is stopped meanwhile. @returns Its connection. */
async function beginStatement(url: string, text: string): Promise<Deno.TcpConn> {
  const { hostname, port, username, pathname } = new URL(url);
  const message = (type: string, body: string): Uint8Array => {
    const length = new Uint8Array(4);
    new DataView(length.buffer).setUint32(0, body.length + 4);
    return latin1Bytes(type + latin1Text(length) + body);
  };
  const connection = await Deno.connect({ hostname, port: Number(port) });
  let received = "";
  const answered = async (end: string): Promise<void> => {
    const buffer = new Uint8Array(4096);
    while (!received.includes(end)) {
      const count = await connection.read(buffer);
      assert(count !== null, received);
      received += latin1Text(buffer.subarray(0, count));
    }
  };
  const names = ["user", username, "database", pathname.slice(1), "", ""].join("\0");
  await connection.write(message("", `\0\x03\0\0${names}`));
  await answered("Z\0\0\0\x05I");
  await connection.write(message("P", `\0${text}\0\0\0`));
  await connection.write(message("H", ""));
  await answered("1\0\0\0\x04");
  return connection;
}

testPostgres(
  "a takeover ends the sessions of a stopped origin that keep it waiting",
  async (url) => {
    await withBackend(url, async (first, epoch) => {
      using _stopped = await beginStatement(url, "SELECT epoch FROM leased_proxy FOR SHARE");
      await withBackend(url, async (second, later) => {
        assertEquals(later, epoch + 1);
        assertEquals((await second.write(KEY, 1, later, set("new"))).kind, "committed");
        assertEquals((await first.write(KEY, 2, epoch, set("old"))).kind, "fenced");
      });
    });
  },
);

testPostgres("a lost session never connects again", async (url, server) => {
  using relay = new Relay(server.port);
  const session = await Session.open({
    url: url.replace(`:${server.port}`, `:${relay.port}`),
    timeoutMs: 60_000,
  });
  // The driver keeps statements back while it prepares one, and would send them over a new connection.
  relay.passage = (sent) => new TextDecoder().decode(sent).includes("$1") ? "cut" : "pass";
  const statements = Array.from(
    { length: 5 },
    (_, number) => session.query("SELECT $1::int", [number]).then(() => "executed", reasonOf),
  );
  const outcomes = await Promise.all(statements);
  await session.close();
  assertEquals(outcomes.filter((outcome) => outcome === "executed"), []);
  await withSession(url, async (other) => {
    // The server notices the end of the lost one a little later.
    await until(async () => {
      const [row] = await other.query(
        "SELECT count(*)::int AS count FROM pg_stat_activity " +
          "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'",
      );
      return row!["count"] === 0;
    });
  });
  assertEquals(relay.connections, 1);
});

testPostgres("a new slot waits for the transactions that have begun before", async (url) => {
  await withBackend(url, async () => {
    await withSessions(url, async (writer, asker) => {
      await writer.query("BEGIN");
      await writer.query("INSERT INTO kv (key, value) VALUES ($1, $1)", [KEY]);
      let hasEnded = false;
      const end = endOfTransactions(asker).then(() => hasEnded = true);
      await withSession(url, async (other) => {
        // It asks again and again, and one that begins later does not concern it.
        const asked = "SELECT query_start::text AS at FROM pg_stat_activity WHERE pid = $1";
        const lastAsked = async (): Promise<unknown> =>
          (await other.query(asked, [asker.process.pid]))[0]!["at"];
        const first = await lastAsked();
        await until(async () => await lastAsked() !== first);
        await other.query("BEGIN");
        await other.query("INSERT INTO kv (key, value) VALUES ($1, $1)", [bytes("later")]);
        assertEquals(hasEnded, false);
        await writer.commit();
        await end;
        await other.query("ROLLBACK");
      });
    });
  });
});

testPostgres("a session is named after the writer whose row it writes", async (url, server) => {
  const names = async (): Promise<string[]> => {
    const query = "SELECT application_name FROM pg_stat_activity WHERE datname = " +
      "current_database() AND application_name LIKE 'billing%'";
    return (await server.execute(query, url)).split("\n");
  };
  await withBackend(`${url}?application_name=billing`, async (backend, epoch) => {
    await backend.write(KEY, 1, epoch, set("one"), "writer:0");
    assertEquals(await names(), ["billing"]);
    await withSession(url, async (session) => {
      await session.query("BEGIN");
      await session.query("SELECT * FROM kv WHERE key = $1 FOR UPDATE", [KEY]);
      const written = backend.write(KEY, 2, epoch, set("two"), "writer:1 o'neil");
      await until(async () => (await names())[0] === "billing writer:1 o'neil");
      await session.query("ROLLBACK");
      assertEquals((await written).kind, "committed");
    });
    assertEquals(await names(), ["billing"]);
  });
});

testPostgres("a server that restarts is used again", async (url, server) => {
  await withBackend(url, async (backend, epoch) => {
    await Promise.all(
      [1, 2, 3].map((token) => backend.write(`${token}`, token, epoch, set("x"))),
    );
    await server.restart();
    await until(() => backend.read(KEY).then(() => true, () => false));
    for (const token of [1, 2, 3]) {
      assertEquals(await backend.outcome(token), { kind: "committed", version: 1 });
    }
    assertEquals((await backend.write(KEY, 4, epoch, set("x"))).kind, "committed");
  });
});

testPostgres(
  "a table that an application has is refused with the options for its columns",
  async (url, server) => {
    await server.execute("CREATE TABLE kv (id bigint PRIMARY KEY, value bytea)", url);
    const error = await assertRejects(() => openPostgres(url, DEFAULT_TABLE, SETTINGS), Error);
    const options = ["--key-column", "--value-column", "--version-column", "--flags-column"];
    for (const word of [...options, "--table", "key, value, version and flags", "rows init"]) {
      assertStringIncludes(error.message, word);
    }
  },
);

testPostgres(
  "a server that may forget what it committed is refused",
  async (url, server) => {
    const database = url.slice(url.lastIndexOf("/") + 1);
    await server.execute(`ALTER DATABASE ${database} SET synchronous_commit = off`, url);
    const error = await assertRejects(() => openPostgres(url, DEFAULT_TABLE, SETTINGS), Error);
    assertMatch(error.message, /^synchronous_commit is off: .*set it to on/);
  },
);

testPostgres("a takeover learns how long the origins before may serve rows", async (url) => {
  const first = await openPostgres(url, DEFAULT_TABLE, SETTINGS);
  const second = await openPostgres(url, DEFAULT_TABLE, SETTINGS);
  assertEquals(await first.lockOrigin(), true);
  assertEquals(await first.lockOrigin(), true, "it has the lock");
  assertEquals(await second.lockOrigin(), false);
  assertEquals(await first.takeOver(700), { epoch: 1, servedMs: 0, mark: "" });
  assertEquals(await second.takeOver(300), { epoch: 2, servedMs: 700, mark: "" });
  assertEquals(await first.readEpoch(), 2);
  await first.noteEnd(1);
  // The second may have ended before it had waited.
  assertEquals(await first.takeOver(300), { epoch: 3, servedMs: 700, mark: "" });
  await first.noteEnd(3);
  await first.close();
  assertEquals(await second.takeOver(300), { epoch: 4, servedMs: 0, mark: "" });
  assertEquals(await second.lockOrigin(), true);
  const third = await openPostgres(url, DEFAULT_TABLE, SETTINGS);
  // Each question for the epoch asks for the lock, too.
  assertEquals([await second.readEpoch(), await third.lockOrigin()], [4, false]);
  await second.unlockOrigin();
  assertEquals([await third.lockOrigin(), await second.lockOrigin()], [true, false]);
  await second.unlockOrigin();
  assertEquals(await second.lockOrigin(), false, "the lock of another stays");
  await Promise.all([second.close(), third.close()]);
});

testPostgres(
  "a takeover waits for the writes of the old origin, and fences later ones",
  async (url) => {
    await withBackend(url, async (old, epoch) => {
      const events: string[] = [];
      let takeover: Promise<void> | undefined;
      let another: RowBackend | undefined;
      const write = await old.write(KEY, 1, epoch, () => {
        takeover = (async () => {
          another = await openPostgres(url, DEFAULT_TABLE, SETTINGS);
          assertEquals((await another.takeOver()).epoch, epoch + 1);
          events.push("taken over");
        })();
        return set("one");
      });
      events.push("written");
      await takeover;
      assertEquals(write.kind, "committed");
      assertEquals(events, ["written", "taken over"]);
      assertEquals(await old.write(KEY, 2, epoch, set("two")), {
        kind: "fenced",
        epoch: epoch + 1,
      });
      assertEquals((await old.read(KEY)).epoch, epoch + 1);
      await another!.close();
    });
  },
);

testPostgres("keys and values may be text", async (url, server) => {
  await server.execute("CREATE TABLE kv (key varchar(20) PRIMARY KEY, value text)", url);
  await server.execute("INSERT INTO kv VALUES ('old', 'grün')", url);
  await withBackend(url, async (backend, epoch) => {
    const { row } = await backend.read("old");
    assertEquals(row, { flags: 0, data: bytes("grün"), version: 1 });
    assertEquals(
      (await backend.write(latin1Text(bytes("ключ")), 1, epoch, set("значение"))).kind,
      "committed",
    );
    assertEquals(await server.execute("SELECT value FROM kv WHERE key = 'ключ'", url), "значение");
    const refused = {
      kind: "failed",
      reason: "the value is not UTF-8 without zero bytes",
    } as const;
    for (const data of [[0xff], [0x61, 0]]) {
      for (const [, edit] of EDIT_FORMS) {
        const change = edit({ flags: 0, data: new Uint8Array(data) });
        assertEquals(await backend.write(KEY, 2, epoch, change), refused);
      }
    }
    const wild = "\xff";
    assertEquals(await backend.read(wild), { row: null, version: 0, epoch });
    assertEquals((await backend.write(wild, 3, epoch, set("x"))).kind, "failed");
  });
});

testPostgres("columns in which different keys are equal are refused", async (url, server) => {
  await server.execute(
    "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    url,
  );
  for (const type of ["char(9)", "text COLLATE loose", "integer"]) {
    await server.execute(
      `DROP TABLE IF EXISTS kv; CREATE TABLE kv (key ${type} PRIMARY KEY, value text)`,
      url,
    );
    await assertRejects(
      () => openPostgres(url, DEFAULT_TABLE, SETTINGS),
      Error,
      "column key of table kv is ",
    );
  }
});

testPostgres(
  "the user of contrib/proxy_user.sql runs an origin, and others may not write",
  async (url, server) => {
    await server.execute(postgresSchema(DEFAULT_TABLE), url);
    await server.execute("CREATE ROLE application LOGIN", url);
    await server.execute(Deno.readTextFileSync(path("contrib/proxy_user.sql")), url);
    const as = (user: string): string => url.replace("postgres@", `${user}@`);
    await withBackend(as("proxy"), async (backend, epoch) => {
      assertEquals((await backend.write(KEY, 1, epoch, set("x"))).kind, "committed");
      assertEquals((await backend.read(KEY)).version, 1);
      await backend.purgeApplied(Date.now() + 1000);
    });
    await assertRejects(
      () => server.execute("UPDATE kv SET value = ''", as("application")),
      Error,
      "permission denied for table kv",
    );
  },
);

Deno.test("PostgreSQL: a key that the database's encoding lacks fails no read of another key", {
  ...needs("PostgreSQL", HAS_POSTGRES),
}, async () => {
  const server = await sharedPostgres();
  const url = server.urlOf("latin1");
  await server.execute(
    "CREATE DATABASE latin1 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
    server.urlOf("postgres"),
  );
  await server.execute("CREATE TABLE kv (key text PRIMARY KEY, value bytea)", url);
  await withBackend(url, async (backend, epoch) => {
    const straße = latin1Text(new TextEncoder().encode("straße"));
    const writes = ["a", straße].map((key, tokenId) => ({
      ...{ key, edit: set("1"), tokenId, owner: "" },
    }));
    await backend.writeGroup(writes, epoch);
    const euro = latin1Text(new TextEncoder().encode("€"));
    const keys = ["a", euro, straße, "none"];
    const found = await backend.readMany(keys);
    assertEquals(found.map(({ row }) => row !== null), [true, false, true, false]);
    assertEquals(found.map(({ epoch }) => epoch), keys.map(() => epoch));
    assertMatch(found[1]!.problem!, /has no equivalent in encoding "LATIN1"/);
    assertEquals(found.map(({ problem }) => problem === undefined), [true, false, true, true]);
    await assertRejects(() => backend.readMany([euro]), Error, "LATIN1");
    await assertRejects(() => backend.readMany([euro, euro]), Error, "LATIN1");
  });
});
