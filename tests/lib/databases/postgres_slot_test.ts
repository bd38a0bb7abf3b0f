// deno-lint-ignore-file camelcase -- names of columns of the catalog
// How the log's slot is found or made: the statements in their order, without PostgreSQL.
import { assertEquals, assertRejects } from "@std/assert";
import postgres from "npm:postgres@3.4.9";
import { DEFAULT_TABLE } from "../../../lib/databases/base/table.ts";
import type { Session } from "../../../lib/databases/postgres/session.ts";
import {
  checkPublished,
  followOthers,
  makeTemporarySlot,
  noteFollowed,
  prepareSlot,
  readEnd,
  readRetained,
  type Slot,
  unboundedLog,
} from "../../../lib/databases/postgres/slot.ts";
import type { Followed } from "../../../lib/databases/postgres/catalog_state.ts";
import type { ViewMapping } from "../../../lib/databases/views/view_mapping.ts";

type Row = Readonly<Record<string, unknown>>;

const NO_VIEWS = followed([], "kv", "cat");
const VIEWS = followed(["70", "71"], "kv product", "views");

function followed(tables: readonly string[], words: string, state: string): Followed {
  return { mapping: { tables } as ViewMapping, words, state };
}

/** Statements by a text that only they have. */
const STATEMENTS = {
  level: "'wal_level'",
  bound: "'max_slot_wal_keep_size'",
  place: "AS has_messages",
  end: "AS position FROM",
  table: "AS is_published",
  state: "AS is_own",
  note: "SELECT place",
  forget: "DELETE FROM leased_follow",
  remember: "INSERT INTO leased_follow",
  make: "pg_create_logical_replication_slot",
  "end temporary": "WHERE temporary",
  "end its reader": "pg_terminate_backend(active_pid)",
  drop: "pg_drop_replication_slot",
  own: "pg_current_xact_id",
  "is over": "AS is_over",
  published: "md5((SELECT string_agg",
  catalog: "WITH RECURSIVE",
  count: "count(*)::int AS count",
  children: "pg_inherits",
} as const;

type Name = keyof typeof STATEMENTS;

const FOLLOWED = "1 0 leased_5 pub cat";
const STATE = {
  is_own: true,
  wal_status: "reserved",
  active_pid: null,
  confirmed: "500",
  retained: "4096",
  reason: null,
};
const READS: readonly Name[] = ["level", "place", "table", "published", "note", "state"];

/** A session whose server has followed the log before, and answers what a test says. */
class Server {
  readonly asked: string[] = [];
  /** Why the next statements that drop a slot fail. */
  readonly dropFailures: Error[] = [];
  readonly session: Session;

  constructor(changed: Partial<Record<Name, readonly (Row | undefined)[]>> = {}) {
    const answers: Partial<Record<Name, readonly (Row | undefined)[]>> = {
      level: [{ level: "logical" }],
      place: [{ server: "1 0", slot: "leased_5", has_messages: true }],
      end: [{ server: "1 0", position: "700" }],
      table: [{ oid: "9", name: "kv", is_published: true, identity: '["key"]' }],
      published: [{ state: "pub" }],
      note: [{ place: FOLLOWED }],
      state: [STATE],
      make: [{ confirmed: "600" }],
      own: [{ id: "33" }],
      "is over": [{ is_over: false }, { is_over: true }],
      catalog: [{ state: "cat" }],
      count: [{ count: 2 }],
      ...changed,
    };
    const left = new Map(Object.entries(answers).map(([name, rows]) => [name, [...rows]]));
    this.session = {
      query: (text: string, parameters: readonly unknown[] = []) => {
        const [name] = Object.entries(STATEMENTS).find(([, part]) => text.includes(part))!;
        this.asked.push([name, ...parameters].join(" "));
        const failure = name === "drop" ? this.dropFailures.shift() : undefined;
        if (failure !== undefined) return Promise.reject(failure);
        const rows = left.get(name) ?? [];
        const row = rows.length > 1 ? rows.shift() : rows[0];
        return Promise.resolve(row === undefined ? [] : [row]);
      },
    } as unknown as Session;
  }

  prepare(evicts = true, mapping = NO_VIEWS): Promise<Slot> {
    return prepareSlot(this.session, DEFAULT_TABLE, mapping, evicts);
  }

  /** The statements behind those that only read, without their parameters. */
  get changes(): string[] {
    return this.asked.filter((each) => !READS.some((name) => each.split(" ")[0] === name));
  }
}

const SLOT: Slot = {
  name: "leased_5",
  published: "pub cat",
  server: "1 0",
  place: FOLLOWED,
  gap: null,
  confirmed: 500n,
  rows: { oid: "9", keyName: "key" },
  hasMessages: true,
};

Deno.test("a slot that was followed is continued where it was confirmed; its reader before is ended, if asked", async () => {
  const plain = new Server();
  assertEquals(await plain.prepare(), SLOT);
  assertEquals(plain.changes, ["end temporary leased_5"]);
  const used = { state: [{ ...STATE, active_pid: 17 }] };
  // What the reader confirms until it has ended counts.
  const evicting = new Server({
    state: [
      ...used.state,
      { ...STATE, active_pid: 17, confirmed: "540" },
      { ...STATE, confirmed: "550" },
    ],
  });
  assertEquals(await evicting.prepare(), { ...SLOT, confirmed: 550n });
  assertEquals(evicting.changes, ["end temporary leased_5", "end its reader leased_5"]);
  const polite = new Server(used);
  await polite.prepare(false);
  assertEquals(polite.changes, []);
  // PostgreSQL 13.
  const old = new Server({ place: [{ server: "1 0", slot: "leased_5", has_messages: false }] });
  assertEquals(await old.prepare(), { ...SLOT, hasMessages: false });
});

Deno.test("a gap: the note goes before the slot is made anew, and what was committed by then is visible before it is used", async () => {
  const made = ["make leased_5", "own", "is over 33", "is over 33"];
  const dropped = ["end its reader leased_5", "drop leased_5"];
  const moved = (from: string, to: string): string =>
    "the server, its timeline, the publication, a table in it, or what views read has changed: " +
    `${from} is now ${to}`;
  const lost = { ...STATE, wal_status: "lost" };
  const cases: readonly (readonly [
    Partial<Record<Name, readonly (Row | undefined)[]>>,
    gap: string,
    hasSlot: boolean,
  ])[] = [
    [{ state: [undefined] }, "the replication slot leased_5 does not exist", false],
    [{ state: [lost] }, "the replication slot leased_5 is lost: max_slot_wal_keep_size", true],
    [
      { state: [{ ...lost, reason: "idle_timeout" }] },
      "the replication slot leased_5 is lost: idle_timeout",
      true,
    ],
    [{ note: [undefined] }, "the log was not followed before, or had not all changes", true],
    // After a failover, or with another publication.
    [
      { place: [{ server: "1 2", slot: "leased_5", has_messages: true }] },
      moved(FOLLOWED, "1 2 leased_5 pub cat"),
      true,
    ],
    [{ published: [{ state: "new" }] }, moved(FOLLOWED, "1 0 leased_5 new cat"), true],
    [{ published: [undefined] }, moved(FOLLOWED, "1 0 leased_5 none cat"), true],
  ];
  for (const [changed, gap, hasSlot] of cases) {
    const server = new Server(changed);
    const slot = await server.prepare(false);
    assertEquals([slot.gap, slot.confirmed], [gap, 600n]);
    assertEquals(server.changes, ["forget", ...hasSlot ? dropped : [], ...made], gap);
    await noteFollowed(server.session, slot);
    assertEquals(server.asked.at(-1), `remember ${slot.place}`);
  }
});

/** An error of the server. */
function refusal(code: string): Error {
  return new postgres.PostgresError({ message: "refused", code, severity: "ERROR" } as never);
}

Deno.test("a slot is dropped when the server has ended its reader; another error is thrown", async () => {
  const server = new Server({ note: [undefined] });
  server.dropFailures.push(refusal("55006"), refusal("55006"));
  assertEquals((await server.prepare(false)).confirmed, 600n);
  assertEquals(server.changes.slice(0, 5), [
    ...["forget", "end its reader leased_5"],
    ...Array(3).fill("drop leased_5"),
  ]);
  const other = new Server({ note: [undefined] });
  other.dropFailures.push(refusal("42501"));
  await assertRejects(() => other.prepare(false), Error, "refused");
  const stuck = new Server({ note: [undefined] });
  stuck.dropFailures.push(...Array.from({ length: 1000 }, () => refusal("55006")));
  await assertRejects(() => stuck.prepare(false), Error, "refused");
});

Deno.test("a temporary slot is made after the note and the permanent slot have gone, and what was committed by then is visible", async () => {
  const NAME = "leased_5_77";
  const MADE = { name: NAME, confirmed: "600", server: "1 0" };
  const make = async (
    server: Server,
    evicts: boolean,
    made: Row = MADE,
  ): Promise<Slot> => {
    const query = (): Promise<Row> => {
      server.asked.push("make temporary");
      return Promise.resolve(made);
    };
    return await makeTemporarySlot(server.session, { query }, DEFAULT_TABLE, NO_VIEWS, evicts);
  };
  const made = ["make temporary", "own", "is over 33", "is over 33"];
  const dropped = ["end its reader leased_5", "drop leased_5"];
  const used = { ...STATE, active_pid: 17 };
  const cases:
    readonly (readonly [Row | undefined, evicts: boolean, changes: readonly string[]])[] = [
      [undefined, false, made],
      [undefined, true, ["end temporary leased_5", ...made]],
      [STATE, false, [...dropped, ...made]],
      [{ ...STATE, is_own: false }, true, ["end temporary leased_5", ...made]],
      [used, false, made],
      [used, true, ["end temporary leased_5", ...dropped, ...made]],
    ];
  for (const [state, evicts, changes] of cases) {
    const server = new Server({ state: [state] });
    const slot = await make(server, evicts);
    assertEquals(server.changes, ["forget", ...changes]);
    const gap = `the replication slot ${NAME} is temporary, and has no changes from before it`;
    assertEquals(slot, { ...SLOT, name: NAME, place: null, gap, confirmed: 600n });
    // There is nothing to be continued.
    await noteFollowed(server.session, slot);
    const others = await followOthers(server.session, NO_VIEWS, VIEWS, slot);
    assertEquals(others, { ...slot, published: "pub views" });
    assertEquals(server.asked.filter((each) => each.startsWith("remember")), []);
  }
  await assertRejects(
    () => make(new Server(), false, { ...MADE, server: "2 0" }),
    Error,
    "the connection of the log has reached another server",
  );
  const refused = new Server({ level: [{ level: "replica" }] });
  await assertRejects(() => make(refused, true), Error, "wal_level is replica");
  assertEquals(refused.changes, []);
});

Deno.test("a log that cannot be followed says why, and nothing is changed", async () => {
  const advice = "let its owner start `leased rows init --follow --run --db <database>`";
  const unpublished = `table kv is not in the publication leased with all its changes: ${advice}`;
  const table = { oid: "9", name: "kv", is_published: true };
  const cases: readonly (readonly [Partial<Record<Name, readonly (Row | undefined)[]>>, string])[] =
    [
      [
        { level: [{ level: "replica" }] },
        "wal_level is replica: --follow needs wal_level = logical, and a restart of PostgreSQL",
      ],
      [{ table: [undefined] }, unpublished],
      [{ table: [{ ...table, is_published: false, identity: '["key"]' }] }, unpublished],
      [
        { table: [{ ...table, identity: '["id"]' }] },
        "table kv does not log the old key of a changed row",
      ],
      [{ table: [{ ...table, identity: null }] }, "table kv does not log the old key"],
      [
        { state: [{ ...STATE, is_own: false }] },
        "the replication slot leased_5 is not one of pgoutput in this database: drop it",
      ],
    ];
  for (const [changed, message] of cases) {
    const server = new Server(changed);
    await assertRejects(() => server.prepare(), Error, message);
    assertEquals(server.changes, [], message);
  }
  for (const identity of ['["*"]', '["id","key"]']) {
    assertEquals(await new Server({ table: [{ ...table, identity }] }).prepare(), SLOT);
  }
});

Deno.test("the place has the state of the catalog, and a gap is recorded when it changes, or when the log lacks changes", async () => {
  const place = "1 0 leased_5 pub views";
  const catalog = [{ state: "views" }];
  const server = new Server({ note: [{ place }], catalog });
  const slot = await server.prepare(false, VIEWS);
  assertEquals([slot.gap, slot.place, slot.published], [null, place, "pub views"]);
  await checkPublished(server.session, VIEWS, slot);
  await checkPublished(server.session, VIEWS);
  assertEquals(server.asked.slice(READS.length), [
    ...["catalog kv product", "published", "count {70,71}", "children {70,71}"],
    ...["count {70,71}", "children {70,71}"],
  ]);
  const cases: readonly (readonly [
    Partial<Record<Name, readonly (Row | undefined)[]>>,
    of: Followed,
    slot: Slot | null,
    string,
  ])[] = [
    [{ count: [{ count: 1 }] }, VIEWS, null, "a table of views was dropped and made again"],
    [
      { children: [{ name: "part" }] },
      VIEWS,
      null,
      "table part inherits from a table of views: the changes of a view must name it, too",
    ],
    ...([
      [{ published: [{ state: "new" }] }, NO_VIEWS, SLOT],
      [{ catalog: [{ state: "new" }] }, NO_VIEWS, SLOT],
      [{ catalog: [{ state: "new" }] }, VIEWS, slot],
      [{ catalog: [{ state: null }] }, VIEWS, slot],
    ] as const).map(([changed, of, given]) =>
      [
        changed,
        of,
        given,
        "the publication leased, a table in it, or what views read has changed",
      ] as const
    ),
  ];
  for (const [changed, of, given, message] of cases) {
    const failing = new Server(changed);
    await assertRejects(() => checkPublished(failing.session, of, given), Error, message);
    assertEquals(failing.changes.at(-1), "forget", message);
  }
  const plain = new Server({ count: [{ count: 0 }] });
  await checkPublished(plain.session, NO_VIEWS, SLOT);
  assertEquals(plain.asked, ["catalog kv", "published"]);
});

Deno.test("other views are followed if nothing has changed for those before, and the place is theirs", async () => {
  const server = new Server();
  const slot = await followOthers(server.session, NO_VIEWS, VIEWS, SLOT);
  const place = "1 0 leased_5 pub views";
  assertEquals(slot, { ...SLOT, published: "pub views", place });
  assertEquals(server.asked, ["catalog kv", "published", "published", `remember ${place}`]);
  await checkPublished(new Server({ catalog: [{ state: "views" }] }).session, VIEWS, slot);
  const changed = new Server({ catalog: [{ state: "new" }] });
  await assertRejects(
    () => followOthers(changed.session, NO_VIEWS, VIEWS, SLOT),
    Error,
    "has changed",
  );
  assertEquals(changed.asked.at(-1), "forget");
});

Deno.test("a log without a bound is warned of", async () => {
  const warned = async (bound: string): Promise<string | null> =>
    await unboundedLog(new Server({ bound: [{ bound }] }).session);
  assertEquals((await warned("-1"))?.slice(0, 29), "max_slot_wal_keep_size is -1:");
  assertEquals([await warned("0"), await warned("64MB")], [null, null]);
});

Deno.test("the end of the log, and what the slot retains", async () => {
  const server = new Server();
  assertEquals(await readEnd(server.session), { server: "1 0", position: 700n });
  assertEquals(await readRetained(server.session, SLOT), 4096);
  await assertRejects(
    () => readRetained(new Server({ state: [undefined] }).session, SLOT),
    Error,
    "the replication slot leased_5 was dropped",
  );
});
