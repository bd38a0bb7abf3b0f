import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import type {
  Change,
  PostgresSettings,
  Row,
  Write,
} from "../../../../lib/rows/databases/backend.ts";
import * as postgres from "../../../../lib/rows/databases/postgres/backend.ts";
import { Session } from "../../../../lib/rows/databases/postgres/session.ts";
import { endOfTransactions } from "../../../../lib/rows/databases/postgres/slot.ts";
import { postgresSchema } from "../../../../lib/rows/databases/schema.ts";
import { DEFAULT_TABLE } from "../../../../lib/rows/databases/table.ts";
import { latin1Bytes, latin1Text } from "../../../../store/base/bytes.ts";
import { reasonOf } from "../../../../lib/reason.ts";
import { EDIT_FORMS } from "../../../support/edits.ts";
import { type RowBackend, withSingleRows } from "../../../support/single_rows.ts";
import { sharedPostgres } from "../../../support/servers/databases.ts";
import { HAS_POSTGRES, type PostgresServer } from "../../../support/servers/postgres.ts";
import { type Passage, Relay } from "../../../support/servers/relay.ts";
import { path, until } from "../../../support/servers/server_process.ts";

const SETTINGS: PostgresSettings = { connectionsMax: 4, timeoutMs: 5000 };
const SHORT: PostgresSettings = { connectionsMax: 4, timeoutMs: 500 };
const KEY = bytes("k");

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

async function openPostgres(
  ...args: Parameters<typeof postgres.openPostgres>
): Promise<RowBackend> {
  return withSingleRows(await postgres.openPostgres(...args));
}

function set(text: string): Change {
  return { flags: 0, data: bytes(text) };
}

/**
 * Resolves when so many sessions of the database wait for a lock.
 *
 * @param session Asks the server. Must be in no transaction, which would see no change.
 */
async function untilLocked(session: Session, count: number): Promise<void> {
  await until(async () => {
    const [row] = await session.query(
      "SELECT count(*)::int AS count FROM pg_stat_activity " +
        "WHERE datname = current_database() AND wait_event_type = 'Lock'",
    );
    return row!["count"] === count;
  });
}

/** A test over an empty database. */
function testPostgres(
  name: string,
  run: (url: string, server: PostgresServer) => Promise<void>,
): void {
  Deno.test(`PostgreSQL: ${name}`, { ignore: !HAS_POSTGRES }, async () => {
    const server = await sharedPostgres();
    await run(await server.createDatabase(), server);
  });
}

async function withBackend(
  url: string,
  run: (backend: RowBackend, epoch: number) => Promise<void>,
  settings = SETTINGS,
): Promise<void> {
  const backend = await openPostgres(url, DEFAULT_TABLE, settings);
  try {
    await run(backend, (await backend.takeOver()).epoch);
  } finally {
    await backend.close();
  }
}

async function withSession(url: string, run: (session: Session) => Promise<void>): Promise<void> {
  const session = await Session.open({ url, timeoutMs: 60_000 });
  try {
    await run(session);
  } finally {
    await session.close();
  }
}

async function withSessions(
  url: string,
  run: (one: Session, other: Session) => Promise<void>,
): Promise<void> {
  await withSession(url, (one) => withSession(url, (other) => run(one, other)));
}

const CUTS: readonly (readonly [Passage, "notApplied" | "committed"])[] = [
  ["cut", "notApplied"],
  ["strand", "notApplied"],
  ["cut reply", "committed"],
];
const CUT_WRITES = CUTS.flatMap((cut) => EDIT_FORMS.map((form) => [...cut, ...form] as const));
for (const [passage, end, form, edit] of CUT_WRITES) {
  testPostgres(
    `a connection lost during COMMIT (${passage}) is unknown, then ${end}; edit ${form}`,
    async (url, server) => {
      using relay = new Relay(server.port);
      const relayed = url.replace(`:${server.port}`, `:${relay.port}`);
      await withBackend(relayed, async (backend, epoch) => {
        await backend.write(KEY, 1, epoch, set("one"));
        // A change that does not depend on the row is one statement, which commits itself.
        const isCommit = (sent: Uint8Array): boolean =>
          typeof edit(set("two")) !== "function" ||
          new TextDecoder().decode(sent).includes("COMMIT\0");
        relay.passage = (sent) => isCommit(sent) ? passage : "pass";
        const result = await backend.write(KEY, 2, epoch, edit(set("two")));
        relay.passage = () => "pass";
        assertEquals(result.kind, "unknown");
        const outcome = await backend.outcome(2);
        assertEquals(outcome.kind, end);
        const { row, version } = await backend.read(KEY);
        const expected = end === "committed" ? ["two", 2] : ["one", 1];
        assertEquals([new TextDecoder().decode(row!.data), version], expected);
        assertEquals((await backend.write(KEY, 3, epoch, set("three"))).kind, "committed");
      });
    },
  );
}

testPostgres("a connection lost before the rows are locked is a failure", async (url, server) => {
  using relay = new Relay(server.port);
  const relayed = url.replace(`:${server.port}`, `:${relay.port}`);
  await withBackend(relayed, async (backend, epoch) => {
    relay.passage = (sent) => new TextDecoder().decode(sent).includes("BEGIN") ? "cut" : "pass";
    const result = await backend.write(KEY, 1, epoch, () => set("one"));
    relay.passage = () => "pass";
    assertEquals(result.kind, "failed");
    assertEquals((await backend.read(KEY)).row, null);
    assertEquals(await backend.outcome(1), { kind: "notApplied" });
  });
});

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
    const [row] = await other.query(
      "SELECT count(*)::int AS count FROM pg_stat_activity " +
        "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'",
    );
    assertEquals(row!["count"], 0);
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
      [1, 2, 3].map((token) => backend.write(bytes(`${token}`), token, epoch, set("x"))),
    );
    await server.restart();
    await until(() => backend.read(KEY).then(() => true, () => false));
    for (const token of [1, 2, 3]) {
      assertEquals(await backend.outcome(token), { kind: "committed", version: 1 });
    }
    assertEquals((await backend.write(KEY, 4, epoch, set("x"))).kind, "committed");
  });
});

for (const timing of ["IMMEDIATE", "DEFERRED"]) {
  testPostgres(`a serialization failure, ${timing}, is a failure`, async (url, server) => {
    await withBackend(url, async (backend, epoch) => {
      await server.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS " +
          "$$BEGIN RAISE 'could not serialize access' USING ERRCODE = '40001'; END$$; " +
          "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON kv " +
          `DEFERRABLE INITIALLY ${timing} FOR EACH ROW EXECUTE FUNCTION refuse()`,
        url,
      );
      const result = await backend.write(KEY, 1, epoch, set("x"));
      assertEquals(result, { kind: "failed", reason: "could not serialize access" });
      assertEquals(await backend.outcome(1), { kind: "notApplied" });
    });
  });
}

testPostgres(
  "a table that an application has is refused with the options for its columns",
  async (url, server) => {
    await server.execute("CREATE TABLE kv (id bigint PRIMARY KEY, value bytea)", url);
    const error = await assertRejects(() => openPostgres(url, DEFAULT_TABLE, SETTINGS), Error);
    const options = ["--key-column", "--value-column", "--version-column", "--flags-column"];
    for (const word of [...options, "--table", "key, value, version and flags", "proxy init"]) {
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

testPostgres(
  "a transaction that was left open ends a write after the time-out",
  async (url) => {
    await withBackend(url, async (backend, epoch) => {
      await backend.write(KEY, 1, epoch, set("one"));
      await withSession(url, async (somebody) => {
        await somebody.query("BEGIN");
        await somebody.query("SELECT * FROM kv FOR UPDATE");
        const result = await backend.write(KEY, 2, epoch, set("two"));
        assertEquals(result, {
          kind: "failed",
          reason: "canceling statement due to statement timeout",
        });
        assertEquals((await backend.read(KEY)).version, 1);
      });
      await until(async () =>
        (await backend.write(KEY, 3, epoch, set("three"))).kind === "committed"
      );
    }, SHORT);
  },
);

for (const [form, edit] of EDIT_FORMS) {
  testPostgres(`a row that another session has locked fails alone; edit ${form}`, async (url) => {
    await withBackend(url, async (backend, epoch) => {
      const write = (name: string, tokenId: number): Write => ({
        key: bytes(name),
        tokenId,
        edit: edit(set(name)),
        owner: "",
      });
      await backend.writeGroup([write("a", 1), write("b", 2), write("c", 3)], epoch);
      await withSession(url, async (somebody) => {
        await somebody.query("BEGIN");
        await somebody.query("SELECT * FROM kv WHERE key = 'b' FOR UPDATE");
        const group = ["a", "b", "new", "c", "b"].map((name, at) => write(name, 4 + at));
        const results = await backend.writeGroup(group, epoch);
        assertEquals(results.map(({ kind }) => kind), [
          "committed",
          "failed",
          "committed",
          "committed",
          "failed",
        ]);
        await somebody.query("ROLLBACK");
        await somebody.query("BEGIN");
        await somebody.query(
          "INSERT INTO kv (key, flags, value, version) VALUES ('unseen', 0, '', 1)",
        );
        const more = ["a", "unseen", "c"].map((name, at) => write(name, 14 + at));
        const kinds = (await backend.writeGroup(more, epoch)).map(({ kind }) => kind);
        assertEquals(kinds, ["committed", "failed", "committed"]);
      });
    }, SHORT);
  });
}

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
  await second.close();
});

testPostgres(
  "a takeover waits for the writes of the old proxy, and fences later ones",
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

for (const [form, edit] of EDIT_FORMS) {
  testPostgres(`a write meets a takeover; edit ${form}`, async (url) => {
    await withBackend(url, async (backend, epoch) => {
      await withSessions(url, async (session, watcher) => {
        await backend.write(KEY, 1, epoch, set("one"));
        await session.query("BEGIN");
        await session.query("SELECT * FROM kv WHERE key = $1 FOR UPDATE", [KEY]);
        const events: string[] = [];
        const written = backend.write(KEY, 2, epoch, edit(set("two")))
          .finally(() => events.push("written"));
        await untilLocked(watcher, 1);
        const another = await openPostgres(url, DEFAULT_TABLE, SETTINGS);
        const takenOver = another.takeOver().finally(() => events.push("taken over"));
        await untilLocked(watcher, 2);
        assertEquals(events, [], "the takeover waits for the write");
        await session.query("ROLLBACK");
        assertEquals(await written, { kind: "committed", version: 2 });
        assertEquals((await takenOver).epoch, epoch + 1);
        // A takeover that commits while a write waits for it.
        await session.query("BEGIN");
        await session.query("LOCK TABLE leased_proxy IN EXCLUSIVE MODE");
        await session.query("UPDATE leased_proxy SET epoch = epoch + 1");
        const late = another.write(KEY, 3, epoch + 1, edit(set("three")));
        await untilLocked(watcher, 1);
        await session.query("COMMIT");
        assertEquals(await late, { kind: "fenced", epoch: epoch + 2 });
        assertEquals((await another.read(KEY)).version, 2);
        await another.close();
      });
    });
  });

  testPostgres(`writes of the same new key are all committed; edit ${form}`, async (url) => {
    await withBackend(url, async (backend, epoch) => {
      const WRITES = 8;
      for (let key = 0; key < 10; key++) {
        const results = await Promise.all(Array.from(
          { length: WRITES },
          (_, n) => backend.write(bytes(`${key}`), WRITES * key + n, epoch, edit(set("x"))),
        ));
        const versions = results.map((result) => result.kind === "committed" ? result.version : 0);
        assertEquals(
          versions.toSorted((a, b) => a - b),
          Array.from({ length: WRITES }, (_, n) => n + 1),
        );
      }
    });
  });

  testPostgres(
    `an application's other columns are left alone; edit ${form}`,
    async (url, server) => {
      await server.execute(
        "CREATE TABLE kv (key text PRIMARY KEY, value text, number serial, more text NOT NULL); " +
          "INSERT INTO kv (key, value, more) VALUES ('k', 'zero', 'more')",
        url,
      );
      await withBackend(url, async (backend, epoch) => {
        for (let token = 1; token < 4; token++) {
          const result = await backend.write(KEY, token, epoch, edit(set("x")));
          assertEquals(result, { kind: "committed", version: 1 + token });
        }
        const refused = await backend.write(bytes("new"), 4, epoch, edit(set("x")));
        assert(
          refused.kind === "failed" && refused.reason.includes("violates not-null constraint"),
        );
        assertEquals((await backend.write(KEY, 5, epoch, edit("delete"))).kind, "committed");
      });
      const row =
        "SELECT number, more, value IS NULL, (SELECT last_value FROM kv_number_seq) FROM kv";
      assertEquals(await server.execute(row, url), "1|more|t|2");
    },
  );
}

testPostgres("of many writes that add the same key one succeeds", async (url) => {
  await withBackend(url, async (backend, epoch) => {
    const add = (row: Row | null): Change | null => row === null ? set("x") : null;
    for (let key = 0; key < 10; key++) {
      const results = await Promise.all(
        Array.from(
          { length: 8 },
          (_, n) => backend.write(bytes(`${key}`), 10 * key + n, epoch, add),
        ),
      );
      const kinds = results.map(({ kind }) => kind).toSorted();
      assertEquals(kinds, ["committed", ...Array(7).fill("refused")]);
    }
  });
});

testPostgres("statements in progress are bounded: others wait, and then fail", async (url) => {
  await withBackend(url, async (backend, epoch) => {
    await backend.write(KEY, 1, epoch, set("one"));
    await withSession(url, async (somebody) => {
      await somebody.query("BEGIN");
      await somebody.query("LOCK TABLE kv IN ACCESS EXCLUSIVE MODE");
      const reads = await Promise.allSettled(
        Array.from({ length: 20 }, () => backend.read(KEY)),
      );
      const reasons = reads.map((read) => read.status === "rejected" ? read.reason.message : "");
      assertEquals(reasons.filter((reason) => reason === "").length, 0);
      assert(
        reasons.some((reason) => reason.startsWith("the database is busy: no connection free")),
      );
      const [{ count }] = await somebody.query(
        "SELECT count(*)::int AS count FROM pg_stat_activity " +
          "WHERE application_name = 'leased-proxy' AND datname = current_database()",
      ) as [{ count: number }];
      assert(count <= SHORT.connectionsMax + 1, `${count} connections`);
    });
    await until(() => backend.read(KEY).then(() => true, () => false));
  }, SHORT);
});

testPostgres("keys and values may be text", async (url, server) => {
  await server.execute("CREATE TABLE kv (key varchar(20) PRIMARY KEY, value text)", url);
  await server.execute("INSERT INTO kv VALUES ('old', 'grün')", url);
  await withBackend(url, async (backend, epoch) => {
    const { row } = await backend.read(bytes("old"));
    assertEquals(row, { flags: 0, data: bytes("grün"), version: 1 });
    assertEquals((await backend.write(bytes("ключ"), 1, epoch, set("значение"))).kind, "committed");
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
    const wild = new Uint8Array([0xff]);
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
  "the user of contrib/proxy_user.sql runs a proxy, and others may not write",
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
