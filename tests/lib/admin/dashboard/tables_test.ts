import { assert, assertEquals } from "@std/assert";
import { History, shortened } from "../../../../lib/admin/dashboard/history.ts";
import { type Table, TABLES, type TableSource } from "../../../../lib/admin/dashboard/tables.ts";
import { statSource } from "../../../../lib/admin/server_metrics.ts";
import { Access } from "../../../../protocol/auth/access.ts";
import { counter } from "../../../../protocol/stats/entry.ts";
import { ConversationSide } from "../../../support/sessions/conversation_side.ts";

/** A store behind the tables. */
class Shown extends ConversationSide {
  readonly peer = this.connect();
  readonly source: TableSource;

  constructor(options: readonly string[] = [], other: Partial<TableSource> = {}) {
    super(["-z", "3333", "--tokens", "volatile", "--token-quarantine", "0", ...options]);
    this.source = {
      ...statSource(
        this.thread.cache,
        this.shared,
        this.thread.settings,
        () => ({ userMicroseconds: 0, systemMicroseconds: 0, accepting: true }),
      ),
      users: () => null,
      rowStats: () => [],
      nodes: () => [],
      rowTokens: () => [],
      ...other,
    };
  }

  read(name: string, search = ""): Table {
    return TABLES[name]!.read(this.source, search);
  }
}

Deno.test("locks have their keys, holders, ages, and how many wait", () => {
  using side = new Shown();
  const { peer } = side;
  peer.ask("set a\x01b 0 0 1\r\n1\r\nset c 0 0 1\r\n1\r\nlock a\x01b\r\nlock c\r\n");
  side.advanceNow(7);
  const { columns, rows, total } = side.read("locks");
  assertEquals(columns, ["key", "connection", "peer", "age s", "waiting"]);
  const number = side.source.connections.numberOf(peer.owner);
  assertEquals(rows.map((row) => row.slice(1)), [
    [number, "tcp:127.0.0.1:1", 7, 0],
    [number, "tcp:127.0.0.1:1", 7, 0],
  ]);
  assertEquals(rows.map(([key]) => key), ["a%01b", "c"]);
  assertEquals([total, side.read("locks", "nothing").total], [2, 2]);
});

Deno.test("leases have their keys and the time that is left", () => {
  using side = new Shown();
  side.peer.ask("getss 60 a\r\ngetss 90 b\r\n");
  side.advanceNow(10);
  const { columns, rows } = side.read("leases");
  assertEquals(columns, ["key", "remaining s"]);
  assertEquals(rows.toSorted((a, b) => `${a[0]}` < `${b[0]}` ? -1 : 1), [["a", 50], ["b", 80]]);
});

Deno.test("update tokens are listed by age, whether all or some are asked for", () => {
  using side = new Shown();
  const ids = Array.from({ length: 600 }, (_, index) => {
    if (index % 200 === 0) side.advanceNow(5);
    const reply = side.peer.ask(`token get key${index} web${index % 2}\r\n`);
    return Number(/TOKEN (\d+)/.exec(reply)![1]);
  });
  const all = side.read("tokens");
  assertEquals(all.columns, ["key", "id", "age s", "owner", "peer"]);
  assertEquals(all.rows.map(([, id]) => id), ids);
  assertEquals(all.rows[0], ["key0", ids[0]!, 10, "web0", "tcp:127.0.0.1:1"]);
  assertEquals(all.rows.at(-1)!.slice(2, 4), [0, "web1"]);
  assertEquals([all.found, all.total, all.isCut], [600, 600, false]);
  const some = side.read("tokens", "WEB1");
  assertEquals(some.rows.map(([, id]) => id), ids.filter((_, index) => index % 2 === 1));
  assertEquals([some.found, some.total, some.isCut], [300, 600, false]);
});

Deno.test("connections have their peers, listeners, threads, states and idle times", () => {
  using side = new Shown();
  side.advanceNow(9);
  const { columns, rows } = side.read("connections");
  assertEquals(columns, ["connection", "peer", "listener", "thread", "state", "idle s"]);
  const number = side.source.connections.numberOf(side.peer.owner);
  assertEquals(rows.length, 1);
  const [row] = rows;
  assertEquals(row!.slice(0, 4), [number, "tcp:127.0.0.1:1", "tcp:test", 0]);
  assert(/^[a-z_]+$/.test(`${row![4]}`), `${row![4]}`);
  side.peer.ask("get a\r\n");
  assert(Number(side.read("connections").rows[0]![5]) <= Number(row![5]));
});

Deno.test("hot keys have their shares in percent, with two digits, and their reads and writes", () => {
  using side = new Shown();
  const keys = [
    { key: "a\n", count: 3, error: 1, hits: 1, misses: 2, writes: 4 },
    { key: "b", count: 1, error: 0, hits: 0, misses: 0, writes: 1 },
  ];
  const cacheOf = (samples: number): TableSource["cache"] =>
    ({ inspector: { hotKeys: { samples, keys } } }) as unknown as TableSource["cache"];
  const { columns, rows } = TABLES["hot-keys"]!.read({ ...side.source, cache: cacheOf(7) }, "");
  assertEquals(columns, ["key", "share %", "hit %", "hits", "misses", "writes", "error"]);
  assertEquals(rows, [["a%0A", 42.86, 33.33, 1, 2, 4, 1], ["b", 14.29, 0, 0, 0, 1, 0]]);
  const none = TABLES["hot-keys"]!.read({ ...side.source, cache: cacheOf(0) }, "");
  assertEquals(none.rows[0]![1], 0);
});

Deno.test("nodes, tokens of rows, users and statistics of rows are shown as their owners tell them", () => {
  const user = { secret: "x", access: Access.READ };
  using side = new Shown([], {
    nodes: () => [{ name: "n 1", state: "member", ageMs: 1499, fetched: 5 }],
    rowTokens: () => [{ id: 4, key: "k\t", owner: "", state: "idle", ageMs: 2500 }],
    users: () =>
      new Map([
        ["ann", [user, user, { ...user, access: Access.ADMIN }]],
        ["bob", [{ ...user, access: Access.WRITE }]],
      ]) as unknown as ReturnType<TableSource["users"]>,
    rowStats: () => [
      { name: "puts", value: 3, meaning: counter("", "written"), of: "" },
      { name: "epoch", value: 9, meaning: undefined, of: "" },
    ],
  });
  assertEquals(side.read("nodes"), {
    columns: ["node", "state", "asked before s", "rows fetched"],
    rows: [["n%201", "member", 1, 5]],
    found: 1,
    total: 1,
    isCut: false,
  });
  const tokens = side.read("row-tokens");
  assertEquals(tokens.columns, ["key", "id", "state", "age s", "owner"]);
  assertEquals(tokens.rows, [["k%09", 4, "idle", 3, ""]]);
  const users = side.read("users");
  assertEquals(users.columns, ["user", "levels", "passwords"]);
  assertEquals(users.rows, [["ann", "read, admin", 3], ["bob", "write", 1]]);
  const rows = side.read("rows");
  assertEquals(rows.columns, ["statistic", "value", "meaning"]);
  assertEquals(rows.rows, [["puts", 3, "written"], ["epoch", 9, ""]]);
});

Deno.test("with -X no table shows a key; those of connections and classes stay", () => {
  for (const [options, count] of [[[], 1], [["-X"], 0]] as const) {
    using side = new Shown(options, {
      rowTokens: () => [{ id: 4, key: "k", owner: "", state: "idle", ageMs: 0 }],
    });
    side.peer.ask("set a 0 0 1\r\n1\r\nlock a\r\ngetss 60 b\r\ntoken get t web\r\n");
    for (const name of ["locks", "leases", "tokens", "row-tokens"]) {
      const { rows, columns } = side.read(name);
      assertEquals(rows.length, count, `${name} ${options}`);
      assert(columns.length > 1);
    }
    assertEquals(side.read("tokens", "web").rows.length, count);
    assertEquals(side.read("connections").rows.length, 1);
    assert(side.read("classes").rows.length > 0);
  }
});

Deno.test("a search looks at every cell, whatever the case, and counts what it leaves out", () => {
  using side = new Shown([], {
    rowStats: () =>
      Array.from({ length: 10_001 }, (_, index) => ({
        name: `Stat${index}`,
        value: 7,
        meaning: counter("", index === 5 ? "Odd" : "even"),
        of: "",
      })),
  });
  const shapeOf = (
    { rows, found, total, isCut }: Table,
  ): unknown => [rows.length, found, total, isCut];
  assertEquals(shapeOf(side.read("rows")), [10_000, 10_001, 10_001, true]);
  assertEquals(shapeOf(side.read("rows", "oDD")), [1, 1, 10_001, true]);
  assertEquals(shapeOf(side.read("rows", "STAT10000")), [1, 1, 10_001, true]);
  assertEquals(shapeOf(side.read("rows", "7")), [10_000, 10_001, 10_001, true]);
  assertEquals(shapeOf(side.read("rows", "none")), [0, 0, 10_001, true]);
  using exact = new Shown([], { rowStats: () => side.source.rowStats().slice(1) });
  assertEquals(shapeOf(exact.read("rows")), [10_000, 10_000, 10_000, false]);
});

Deno.test("keys, addresses and users are tables of administrators", () => {
  const levels = Object.entries(TABLES).map(([name, { access }]) =>
    [name, access === Access.ADMIN ? "admin" : access === Access.READ ? "read" : access] as const
  );
  assertEquals(Object.fromEntries(levels), {
    ...{ "hot-keys": "admin", classes: "read", threads: "read", rows: "read" },
    ...{ "row-tokens": "admin", nodes: "admin", connections: "admin", locks: "admin" },
    ...{ leases: "admin", tokens: "admin", users: "admin" },
  });
});

Deno.test("a history that is exactly full begins with its oldest row; figures have five digits", () => {
  const history = new History(1, 2);
  history.add(10, [1]);
  assertEquals(history.rows(), [[10, 1]]);
  history.add(11, [2]);
  assertEquals(history.rows(), [[10, 1], [11, 2]]);
  history.add(12, [123_456]);
  assertEquals(history.rows(), [[11, 2], [12, 123_460]]);
  assertEquals([shortened(0.123456), shortened(Infinity), shortened(NaN)], [0.12346, null, null]);
});
