import { latin1Bytes } from "../../../store/base/bytes.ts";
import { assert, assertEquals } from "@std/assert";
import type { Change, Row, Write } from "../../../lib/databases/base/backend.ts";
import { DEFAULT_TABLE } from "../../../lib/databases/base/table.ts";
import { EDIT_FORMS } from "../../support/edits.ts";
import { type Passage, Relay } from "../../support/servers/relay.ts";
import { until } from "../../support/servers/server_process.ts";
import {
  KEY,
  openPostgres,
  set,
  SETTINGS,
  SHORT,
  testPostgres,
  untilLocked,
  withBackend,
  withSession,
  withSessions,
} from "../../support/postgres_backend.ts";

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
        key: name,
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

for (const [form, edit] of EDIT_FORMS) {
  testPostgres(`the time of a write begins with its arrival; edit ${form}`, async (url) => {
    const timeoutMs = 4000;
    await withBackend(url, async (backend, epoch) => {
      const write = (name: string, tokenId: number, ageMs: number): Write => ({
        key: name,
        tokenId,
        edit: edit(set(name)),
        owner: "",
        sinceMs: performance.now() - ageMs,
      });
      await backend.writeGroup(["a", "b", "free"].map((name, at) => write(name, 1 + at, 0)), epoch);
      await withSessions(url, async (somebody, watcher) => {
        await somebody.query("BEGIN");
        await somebody.query("SELECT * FROM kv WHERE key IN ('a', 'b') FOR UPDATE");
        const ended: string[] = [];
        const young = backend.writeGroup([write("a", 4, 0)], epoch)
          .finally(() => ended.push("young"));
        await untilLocked(watcher, 1);
        const [alone] = await backend.writeGroup([write("b", 5, timeoutMs)], epoch);
        assertEquals(alone!.kind, "failed");
        const group = [
          write("b", 6, timeoutMs),
          write("free", 7, timeoutMs),
          write("b", 8, 0),
          write("a", 9, 0),
          write("free", 10, 0),
        ];
        const kinds = (await backend.writeGroup(group, epoch)).map(({ kind }) => kind);
        assertEquals(kinds, ["failed", "committed", "postponed", "postponed", "committed"]);
        assertEquals(ended, [], "a write that was there before them has time left");
        await somebody.query("ROLLBACK");
        assertEquals(await young, [{ kind: "committed", version: 2 }]);
        // After a wait, there is time for an attempt.
        const late = await backend.writeGroup([write("a", 11, 2 * timeoutMs)], epoch);
        assertEquals(late, [{ kind: "committed", version: 3 }]);
      });
    }, { connectionsMax: 4, timeoutMs });
  });
}

for (const [form, edit] of EDIT_FORMS) {
  testPostgres(`a write meets a takeover; edit ${form}`, async (url) => {
    await withBackend(url, async (backend, epoch) => {
      await withSessions(url, async (session, watcher) => {
        await backend.write(KEY, 1, epoch, set("one"));
        await session.query("BEGIN");
        await session.query("SELECT * FROM kv WHERE key = $1 FOR UPDATE", [latin1Bytes(KEY)]);
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
          (_, n) => backend.write(`${key}`, WRITES * key + n, epoch, edit(set("x"))),
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
        const refused = await backend.write("new", 4, epoch, edit(set("x")));
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

testPostgres(
  "writes behind one of their group that is to go again do not overtake it",
  async (url) => {
    const timeoutMs = 2000;
    await withBackend(url, async (backend, epoch) => {
      const write = (name: string, tokenId: number, ageMs: number): Write => ({
        key: name,
        tokenId,
        edit: set(name),
        owner: "",
        sinceMs: performance.now() - ageMs,
      });
      await withSession(url, async (somebody) => {
        await somebody.query("BEGIN");
        await somebody.query(
          "INSERT INTO kv (key, flags, value, version) VALUES ('unseen', 0, '', 1)",
        );
        const group = [
          write("unseen", 1, 0),
          write("a", 2, 0),
          write("b", 3, 0),
          write("old", 4, timeoutMs / 2),
        ];
        const kinds = (await backend.writeGroup(group, epoch)).map(({ kind }) => kind);
        assertEquals(kinds, ["postponed", "postponed", "postponed", "failed"]);
        await somebody.query("ROLLBACK");
      });
    }, { connectionsMax: 4, timeoutMs });
  },
);

testPostgres("of many writes that add the same key one succeeds", async (url) => {
  await withBackend(url, async (backend, epoch) => {
    const add = (row: Row | null): Change | null => row === null ? set("x") : null;
    for (let key = 0; key < 10; key++) {
      const results = await Promise.all(
        Array.from(
          { length: 8 },
          (_, n) => backend.write(`${key}`, 10 * key + n, epoch, add),
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
          "WHERE application_name = 'leased-origin' AND datname = current_database()",
      ) as [{ count: number }];
      assert(count <= SHORT.connectionsMax + 1, `${count} connections`);
    });
    await until(() => backend.read(KEY).then(() => true, () => false));
  }, SHORT);
});

testPostgres(
  "an outcome is unknown as long as the process that got the COMMIT runs",
  async (url, server) => {
    using relay = new Relay(server.port);
    const relayed = url.replace(`:${server.port}`, `:${relay.port}`);
    await withBackend(relayed, async (backend, epoch) => {
      await withSession(url, async (watcher) => {
        relay.passage = (sent) =>
          new TextDecoder().decode(sent).includes("COMMIT\0") ? "strand" : "pass";
        const result = await backend.write(KEY, 1, epoch, () => set("one"));
        relay.passage = () => "pass";
        assertEquals(result.kind, "unknown");
        const [row] = await watcher.query(
          "SELECT pid FROM pg_stat_activity " +
            "WHERE datname = current_database() AND state = 'idle in transaction'",
        );
        const pid = Number(row!["pid"]);
        Deno.kill(pid, "SIGSTOP");
        try {
          for (let question = 0; question < 2; question++) {
            const outcome = await backend.outcome(1);
            assertEquals(outcome, { kind: "unknown", reason: "the transaction still runs" });
          }
        } finally {
          Deno.kill(pid, "SIGCONT");
        }
        await until(async () => (await backend.outcome(1)).kind === "notApplied");
      });
    }, { connectionsMax: 4, timeoutMs: 2000 });
  },
);
