// An origin's requests to PostgreSQL: the sessions that execute them, and their statements, without a server.
import { assertEquals, assertRejects } from "@std/assert";
import postgres from "npm:postgres@3.4.9";
import { PostgresBackend } from "../../../lib/databases/postgres/backend.ts";
import { PostgresChanges } from "../../../lib/databases/postgres/change_stream.ts";
import { Session } from "../../../lib/databases/postgres/session.ts";
import { Views } from "../../../lib/databases/views/view.ts";
import { DEFAULT_TABLE } from "../../../lib/databases/base/table.ts";

type Row = Readonly<Record<string, unknown>>;
type Answer = readonly Row[] | Error;

const TIMEOUT_MS = 60_000;
const NOW_MS = 5_900;
const PLACE = { url: "postgres://nowhere/", timeoutMs: TIMEOUT_MS, searchPath: "public" };
const TEXTS = { key: "text", value: "text" } as const;

/** Statements by a text that only they have. */
const NAMES = {
  types: "format_type",
  origin: "pg_try_advisory_lock",
  limits: "SET LOCAL",
  lock: "LOCK TABLE",
  "take over": "SET epoch = epoch + 1",
  "end writes": "usename = current_user",
  "note end": "serves_ms = 0",
  "note mark": "SET mark =",
  read: "LEFT JOIN",
  expire: "SKIP LOCKED",
  forget: "DELETE FROM leased_applied",
  end: "AS position FROM",
  catalog: "WITH RECURSIVE",
} as const;

function refused(code: string): Error {
  return Object.assign(
    new postgres.PostgresError(`code ${code}` as never),
    { code, severity: "ERROR", message: `code ${code}` },
  );
}

/** A backend whose sessions answer what the test says, and otherwise nothing. */
class World implements Disposable {
  readonly asked: string[] = [];
  /** Sessions in the order of their opening. */
  readonly sessions: { isLost: boolean; isClosed: boolean }[] = [];
  readonly answers: [statement: string, answer: Answer][] = [];
  isCommitted = true;
  /** The types of the columns of key and value, as the server has them. */
  readonly types = { key: "text", value: "text" };
  readonly backend: PostgresBackend;
  readonly #open = Session.open;

  constructor(names = DEFAULT_TABLE) {
    Session.open = () => {
      const state = { isLost: false, isClosed: false };
      this.sessions.push(state);
      const number = this.sessions.length;
      return Promise.resolve({
        get isLost() {
          return state.isLost;
        },
        query: (text: string, parameters: readonly unknown[] = []) =>
          this.#answer(number, text, parameters),
        commit: () => this.#answer(number, "COMMIT", []).then(() => this.isCommitted),
        rollBack: () => this.#answer(number, "ROLLBACK", []),
        close: () => Promise.resolve(state.isClosed = true),
      } as unknown as Session);
    };
    this.backend = new PostgresBackend(PLACE, TEXTS, names, {
      connectionsMax: 1,
      timeoutMs: TIMEOUT_MS,
      nowUnixMs: () => NOW_MS,
    });
  }

  get #columns(): Row[] {
    return ["key", "value", "version", "flags"].map((name) => ({
      name,
      type: this.types[name as "key"] ?? "bigint",
    }));
  }

  #answer(number: number, text: string, parameters: readonly unknown[]): Promise<readonly Row[]> {
    const [name = text] = Object.entries(NAMES).find(([, part]) => text.includes(part)) ?? [];
    const times = [...text.matchAll(/timeout = (\d+)/g)].map(([, ms]) => ms);
    this.asked.push([`${number}:`, name, ...parameters, ...times].join(" "));
    if (name === "types") return Promise.resolve(this.#columns);
    if (name === "catalog") return Promise.resolve([{ state: "as ever" }]);
    const at = this.answers.findIndex(([statement]) => statement === name);
    const answer = at < 0 ? [] : this.answers.splice(at, 1)[0]![1];
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
  }

  get closed(): number[] {
    return this.sessions.flatMap(({ isClosed }, index) => isClosed ? [index + 1] : []);
  }

  [Symbol.dispose](): void {
    Session.open = this.#open;
  }
}

const TAKEN = [{ epoch: "4", served_ms: "1500", mark: "m" }];
const LOCK_NOT_AVAILABLE = "55P03";

Deno.test("a takeover waits a second for locks of writes, then ends their sessions, and waits once more", async () => {
  using world = new World();
  world.answers.push(["take over", TAKEN]);
  const taken = { epoch: 4, servedMs: 1500, mark: "m" };
  assertEquals(await world.backend.takeOver(700), taken);
  const attempt = (lockMs: number, ...rest: readonly string[]): string[] =>
    ["BEGIN", `limits ${lockMs} ${lockMs + TIMEOUT_MS}`, "lock", ...rest].map((each) =>
      `1: ${each}`
    );
  assertEquals(world.asked.splice(0), attempt(1000, "take over 700", "COMMIT"));

  world.answers.push(["lock", refused(LOCK_NOT_AVAILABLE)], ["take over", TAKEN]);
  assertEquals(await world.backend.takeOver(), taken);
  assertEquals(world.asked.splice(0), [
    ...attempt(1000, "ROLLBACK", "end writes"),
    ...attempt(TIMEOUT_MS, "take over 0", "COMMIT"),
  ]);

  world.answers.push(["lock", refused(LOCK_NOT_AVAILABLE)], ["lock", refused(LOCK_NOT_AVAILABLE)]);
  await assertRejects(
    () => world.backend.takeOver(),
    Error,
    `other sessions have kept their locks on leased_proxy for ${TIMEOUT_MS} ms`,
  );
  world.asked.length = 0;
  world.answers.push(["lock", refused("42501")]);
  await assertRejects(() => world.backend.takeOver(), Error, "code 42501");
  assertEquals(world.asked.splice(0), attempt(1000, "ROLLBACK"));
  world.answers.push(["take over", TAKEN]);
  world.isCommitted = false;
  await assertRejects(() => world.backend.takeOver(), Error, "rolled the takeover back");
  await world.backend.close();
});

function stored(key: string, version: number): Row {
  return { key, flags: "1", data: "v", version: `${version}`, expires: null, epoch: "3" };
}

const NO_ROW = [{ key: null, flags: null, data: null, version: null, expires: null, epoch: "3" }];

Deno.test("a key that the server refuses fails alone; when all fail, the reads fail", async () => {
  using world = new World();
  const read = async (...keys: readonly string[]): Promise<unknown[]> =>
    (await world.backend.readMany(keys)).map(({ version, epoch, problem = "" }) =>
      [version, epoch, problem].join(" ")
    );
  world.answers.push(["read", [stored("b", 7), stored("a", 5)]]);
  assertEquals(await read("a", "none", "b", "a"), ["5 3 ", "0 3 ", "7 3 ", "5 3 "]);
  world.answers.push(["read", NO_ROW]);
  assertEquals(await read("none"), ["0 3 "]);
  const bad = refused("22021");
  world.answers.push(
    ...[bad, [stored("a", 5)], bad, NO_ROW].map((each) => ["read", each] as [string, Answer]),
  );
  assertEquals(await read("a", "bad", "none"), ["5 3 ", "0 3 code 22021", "0 3 "]);
  world.answers.push(["read", bad], ["read", bad], ["read", bad]);
  await assertRejects(() => read("x", "y"), Error, "code 22021");
  // One key is read once, and another error is the error of all.
  for (const [keys, error] of [[["x"], bad], [["x", "y"], refused("57014")]] as const) {
    world.asked.length = 0;
    world.answers.push(["read", error]);
    await assertRejects(() => read(...keys), Error, error.message);
    assertEquals(world.asked.length, 1);
  }
  world.answers.push(["read", bad], ["read", [stored("x", 1)]], ["read", refused("57014")]);
  await assertRejects(() => read("x", "y"), Error, "code 57014");
  await world.backend.close();
});

Deno.test("the lock and the epoch are asked for in a session of their own, which also says whether writes are taken", async () => {
  using world = new World();
  const { backend } = world;
  await backend.noteEnd(3);
  const origin = (isLocked: boolean, isReadOnly: boolean): [string, Answer] => [
    "origin",
    [{ epoch: "3", is_locked: isLocked, is_read_only: isReadOnly }],
  ];
  world.answers.push(origin(true, false), origin(false, false), origin(true, true));
  assertEquals([await backend.lockOrigin(), await backend.lockOrigin()], [true, false]);
  await backend.check();
  assertEquals(await backend.readEpoch(), 3);
  await assertRejects(() => backend.check(), Error, "the database is read only");
  world.answers.push(origin(true, false));
  await backend.readEpoch();
  await backend.check();
  const asked = world.asked.filter((each) => !each.includes("types"));
  assertEquals(asked, ["1: note end 3", ...new Array(4).fill("2: origin")]);
  await backend.close();
  assertEquals(world.closed, [1, 2]);
});

Deno.test("columns whose types have changed are read by their types of now", async () => {
  using world = new World();
  const { backend } = world;
  const keysRead = async (): Promise<string> => {
    await backend.readMany(["a"]).catch(() => {});
    return world.asked.at(-1)!;
  };
  assertEquals(await keysRead(), '1: read {"a"}');
  world.types.key = "bytea";
  await backend.check();
  assertEquals(await keysRead(), '1: read {"\\\\x61"}');
  world.types.value = "integer";
  await assertRejects(() => backend.check(), Error, "column value of table kv is integer");
  await backend.close();
});

Deno.test("marks are noted for the active origin only; times are in their units", async () => {
  using world = new World({ ...DEFAULT_TABLE, expiry: "until" });
  const { backend } = world;
  world.answers.push(["note mark", [{ mark: "m" }]]);
  assertEquals([await backend.noteMark("m", 3), await backend.noteMark("m", 2)], [true, false]);
  await backend.purgeExpired();
  await backend.purgeApplied(4_000);
  assertEquals(world.asked.splice(0), [
    ...["1: note mark m 3", "1: note mark m 2", "1: expire 5", "1: forget 4000"],
  ]);
  await backend.close();
  using plain = new World();
  await plain.backend.purgeExpired();
  assertEquals(plain.asked, [], "rows do not expire");
});

Deno.test("when the log is opened again, it and the views come from the server of now; after a gap rows do, too", async () => {
  const { open } = PostgresChanges;
  for (const gap of [null, "the server has changed"]) {
    using world = new World();
    const { backend } = world;
    const checked: string[] = [];
    const opened: boolean[] = [];
    PostgresChanges.open = async (pool, _names, evicts) => {
      opened.push(evicts);
      await pool.query("log");
      return {
        gap,
        checkServer(server: string): void {
          checked.push(server);
          if (server !== "one") throw new Error("the database has moved");
        },
      } as unknown as PostgresChanges;
    };
    try {
      await backend.readMany(["a"]).catch(() => {});
      const views = await backend.prepareViews(Views.NONE);
      await views.readMany([]).catch(() => {});
      await backend.openChanges(true);
      await backend.openChanges(false);
      // Those of the views and of the log, and that of rows when their values may be those of before.
      assertEquals([world.closed.toSorted(), opened], [gap === null ? [2, 3, 4] : [1, 2, 3, 4], [
        true,
        false,
      ]]);
      const ofLog = world.asked.filter((each) => each.endsWith("log"));
      assertEquals(ofLog, ["3: log", "5: log"]);
      world.answers.push(["end", [{ server: "one", position: "70" }]]);
      assertEquals(await backend.endOfLog(), 70n);
      world.answers.push(["end", [{ server: "two", position: "10" }]]);
      await assertRejects(() => backend.endOfLog(), Error, "the database has moved");
      assertEquals(checked, ["one", "two"]);
      await views.readMany([]).catch(() => {});
      await backend.close();
      assertEquals([world.closed.length, world.sessions.length], gap === null ? [6, 6] : [7, 7]);
    } finally {
      PostgresChanges.open = open;
    }
  }
});
