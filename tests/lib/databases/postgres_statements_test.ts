// The statements of groups of writes, and the results of the server's answers, without PostgreSQL.
import { assertEquals } from "@std/assert";
import postgres from "npm:postgres@3.4.9";
import type { Change, Edit, Write, WriteResult } from "../../../lib/databases/base/backend.ts";
import { failed } from "../../../lib/databases/postgres/group.ts";
import type { Pool } from "../../../lib/databases/postgres/pool.ts";
import { LostError } from "../../../lib/databases/postgres/lost_error.ts";
import type { Statements } from "../../../lib/databases/postgres/statements.ts";
import { READ_ONLY, Writes } from "../../../lib/databases/postgres/writes.ts";

const EPOCH = 7;
const NOW_MS = 1_000;
/** The time of a write; a wait for a lock takes an eighth of it. */
const TIMEOUT_MS = 80_000;
const PROCESS = { pid: 42, startedAt: "noon" };
const STATEMENTS = {
  types: { key: "text", value: "text" },
  write: "WRITE",
  lockRows: "LOCK ROWS",
  lockedRows: "LOCKED ROWS",
  expire: "",
} as unknown as Statements;
/** Statements by a word that they have. */
const NAMES = {
  ...{ BEGIN: "begin", statement_timeout: "bound", application_name: "name", "FOR SHARE": "epoch" },
  ...{ "SELECT epoch": "read epoch", terminate: "terminate", leased_applied: "outcome" },
};
const POSTPONED: WriteResult = { kind: "postponed" };

type Rows = readonly Readonly<Record<string, unknown>>[];
/** The answer to a statement. */
type Answer = Rows | Error | boolean;

/** A server that answers statements in the order that the test gives. Statements without an answer have no rows. */
class Server {
  /** Statements in their order, with those of their parameters that differ. */
  readonly asked: string[] = [];
  readonly writes: Writes;
  /** Until then all sessions are in use. */
  isFree = Promise.resolve();
  readonly #answers: [statement: string, answer: Answer][];

  constructor(
    answers: readonly (readonly [statement: string, answer: Answer])[],
    timeoutMs = TIMEOUT_MS,
  ) {
    this.#answers = answers.map(([statement, answer]) => [statement, answer]);
    const session = {
      query: (text: string, parameters: readonly unknown[] = []) => this.#answer(text, parameters),
      commit: () => this.#answer("commit", []),
      rollBack: () => this.#answer("roll back", []),
      process: PROCESS,
    };
    const pool = {
      settings: { url: "", timeoutMs },
      use: async (run: (used: typeof session) => unknown) => {
        await this.isFree;
        return run(session);
      },
      query: session.query,
    };
    this.writes = new Writes(pool as unknown as Pool, STATEMENTS, () => NOW_MS);
  }

  #answer(text: string, parameters: readonly unknown[]): Promise<unknown> {
    const [, name = text.toLowerCase()] =
      Object.entries(NAMES).find(([word]) => text.includes(word)) ?? [];
    const isWrite = name === "write";
    // Of a write: its keys, and how long it waits for a lock.
    const shown = isWrite ? [parameters[0], parameters[1], parameters[10]] : parameters;
    this.asked.push([name, ...shown].join(" "));
    const at = this.#answers.findIndex(([statement]) => statement === name);
    const [, answer = name === "commit" ? true : []] = at < 0
      ? []
      : this.#answers.splice(at, 1)[0]!;
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
  }
}

const set = (text: string): Change => ({ flags: 0, data: new TextEncoder().encode(text) });
const write = (key: string, tokenId: number, more: Partial<Write> = {}): Write => ({
  ...{ key, tokenId, edit: set("x"), owner: "" },
  // It has just come, whenever it is looked at.
  get sinceMs() {
    return performance.now();
  },
  ...more,
});
const written = (...tokens: readonly number[]): Rows =>
  tokens.map((token) => ({ token: `${token}`, version: `${10 * token}` }));
const committed = (tokenId: number): WriteResult => ({ kind: "committed", version: 10 * tokenId });
const computed: Edit = () => set("y");
const refused = (code: string, severity = "ERROR"): Error =>
  new postgres.PostgresError({ message: `code ${code}`, code, severity } as never);
const LOCKED = "55P03";
/** A write whose time is over. */
const late = (): Partial<Write> => ({ sinceMs: performance.now() - 2 * TIMEOUT_MS });

/** Writes, the server's answers, results, and statements. */
const CASES: Record<
  string,
  readonly [
    writes: readonly Write[],
    answers: readonly (readonly [string, Answer])[],
    results: readonly WriteResult[],
    asked: readonly string[],
  ]
> = {
  "one write is one statement, which waits for locks as long as it may": [
    [write("a", 1)],
    [["write", written(1)]],
    [committed(1)],
    ['write 7 {"a"} 0'],
  ],
  "a group is one statement, which waits an eighth of its time": [
    [write("a", 1), write("b", 2)],
    [["write", written(2, 1)]],
    [committed(1), committed(2)],
    ['write 7 {"a","b"} 10000'],
  ],
  "writers are named in a transaction": [
    [write("a", 1, { owner: "me" }), write("b", 2, { owner: "you" })],
    [["write", written(1, 2)]],
    [committed(1), committed(2)],
    ["begin", "name me you", 'write 7 {"a","b"} 10000', "commit"],
  ],
  "a group whose time is over has one wait for a lock left, and a part of its time": [
    [write("a", 1, late()), write("b", 2)],
    [["write", written(1, 2)]],
    [committed(1), committed(2)],
    ["begin", "bound 20000", 'write 7 {"a","b"} 10000', "commit"],
  ],
  "computed changes lock the epoch, then the rows": [
    [write("a", 1, { edit: computed, owner: "me" })],
    [["epoch", [{ epoch: EPOCH }]], ["write", written(1)]],
    [committed(1)],
    ["begin", "name me", "epoch 7 0", 'lock rows {"a"}', 'write 7 {"a"} 0', "commit"],
  ],
  "computed changes that change nothing are rolled back": [
    [write("a", 1, { edit: () => null })],
    [["epoch", [{ epoch: EPOCH }]]],
    [{ kind: "refused", row: null }],
    ["begin", "epoch 7 0", 'lock rows {"a"}', "roll back"],
  ],
  "a computed change of a row that is locked": [
    [write("a", 1, { edit: (row) => row === null ? set("none") : null })],
    [
      ["epoch", [{ epoch: EPOCH }]],
      ["lock rows", [{ key: "a", flags: "3", data: "old", version: "8", expires: "2" }]],
    ],
    [{
      kind: "refused",
      row: { flags: 3, data: new TextEncoder().encode("old"), version: 8, expiresUnixSec: 2 },
    }],
    ["begin", "epoch 7 0", 'lock rows {"a"}', "roll back"],
  ],
  "computed changes of an origin that was taken over": [
    [write("a", 1, { edit: computed }), write("b", 2)],
    [["read epoch", [{ epoch: "9" }]]],
    [{ kind: "fenced", epoch: 9 }, { kind: "fenced", epoch: 9 }],
    ["begin", "epoch 7 10000", 'lock rows {"a","b"}', "read epoch", "roll back"],
  ],
  "changes of an origin that was taken over": [
    [write("a", 1)],
    [["read epoch", [{ epoch: "9" }]]],
    [{ kind: "fenced", epoch: 9 }],
    ['write 7 {"a"} 0', "read epoch"],
  ],
  "a key that another session inserts meanwhile is written again, alone": [
    [write("a", 1), write("b", 2)],
    [["write", written(1)], ["write", written(2)]],
    [committed(1), committed(2)],
    ['write 7 {"a","b"} 10000', 'write 7 {"b"} 0'],
  ],
  "a key that appears and vanishes five times fails": [
    [write("a", 1)],
    new Array(5).fill(["read epoch", [{ epoch: EPOCH }]]),
    [failed("the row appears and vanishes: another program writes to the table")],
    new Array(5).fill(['write 7 {"a"} 0', "read epoch"]).flat(),
  ],
  "a transaction that the server rolled back": [
    [write("a", 1, { owner: "me" })],
    [["write", written(1)], ["commit", false]],
    [failed("the database rolled the transaction back")],
    ["begin", "name me", 'write 7 {"a"} 0', "commit"],
  ],
  "a row that is refused fails alone, found by halves": [
    [write("a", 1), write("b", 2), write("c", 3)],
    [
      ["write", refused("23514")],
      ["write", written(1)],
      ["write", refused("23514")],
      ["write", refused("23514")],
      ["write", written(3)],
    ],
    [committed(1), failed("code 23514"), committed(3)],
    [
      'write 7 {"a","b","c"} 10000',
      'write 7 {"a"} 0',
      'write 7 {"b","c"} 10000',
      'write 7 {"b"} 0',
      'write 7 {"c"} 0',
    ],
  ],
  "a database that is read only": [
    [write("a", 1), write("b", 2)],
    [["write", refused("25006")]],
    [failed(READ_ONLY), failed(READ_ONLY)],
    ['write 7 {"a","b"} 10000'],
  ],
  "rows that are locked wait apart from the others": [
    [write("a", 1), write("b", 2), write("c", 3), write("b", 4)],
    [
      ["write", refused(LOCKED)],
      ["locked rows", [{ key: "b" }]],
      ["write", written(2, 4)],
      ["write", written(1, 3)],
    ],
    [committed(1), committed(2), committed(3), committed(4)],
    [
      'write 7 {"a","b","c"} 10000',
      'locked rows {"a","b","c","b"}',
      'write 7 {"b"} 10000',
      'write 7 {"a","c"} 10000',
    ],
  ],
  "a row that is locked, and cannot be seen, is found by halves": [
    [write("a", 1), write("b", 2)],
    [["write", refused(LOCKED)], ["write", written(1)], ["write", written(2)]],
    [committed(1), committed(2)],
    ['write 7 {"a","b"} 10000', 'locked rows {"a","b"}', 'write 7 {"a"} 0', 'write 7 {"b"} 0'],
  ],
  "locked rows past their time: the old write fails, the others are postponed or written": [
    [write("a", 1, late()), write("b", 2), write("c", 3)],
    [
      ["write", refused(LOCKED)],
      ["locked rows", [{ key: "a" }, { key: "b" }]],
      ["write", written(3)],
    ],
    [failed(`code ${LOCKED}`), POSTPONED, committed(3)],
    [
      "begin",
      "bound 20000",
      'write 7 {"a","b","c"} 10000',
      "commit",
      "roll back",
      'locked rows {"a","b","c"}',
      "begin",
      "bound 20000",
      'write 7 {"c"} 0',
      "commit",
    ],
  ],
  "an unseen lock past the time concerns all": [
    [write("a", 1, late()), write("b", 2)],
    [["write", refused(LOCKED)]],
    [failed(`code ${LOCKED}`), POSTPONED],
    [
      ...["begin", "bound 20000", 'write 7 {"a","b"} 10000', "commit", "roll back"],
      'locked rows {"a","b"}',
    ],
  ],
  "one write that waits for a lock too long": [
    [write("a", 1)],
    [["write", refused(LOCKED)]],
    [failed(`code ${LOCKED}`)],
    ['write 7 {"a"} 0'],
  ],
  "a statement past its time": [
    [write("a", 1), write("b", 2, late())],
    [["write", refused("57014")]],
    [POSTPONED, failed("code 57014")],
    ["begin", "bound 20000", 'write 7 {"a","b"} 10000', "commit", "roll back"],
  ],
  "a statement that is ended before its time": [
    [write("a", 1), write("b", 2)],
    [["write", refused("57014")]],
    [failed("code 57014"), failed("code 57014")],
    ['write 7 {"a","b"} 10000'],
  ],
  "a connection that is lost before the commit is sent": [
    [write("a", 1, { edit: computed })],
    [["lock rows", new LostError("lost")]],
    [failed("lost")],
    ["begin", "epoch 7 0", 'lock rows {"a"}', "roll back"],
  ],
};

for (const [name, [writes, answers, results, asked]] of Object.entries(CASES)) {
  Deno.test(`the statements of writes: ${name}`, async () => {
    const server = new Server(answers);
    assertEquals(await server.writes.write(writes, EPOCH), results);
    assertEquals(server.asked.map((each) => each.replace(/^begin .*/, "begin")), asked);
  });
}

Deno.test("a write is sent by the statement that its values are encoded for, whatever the columns become", async () => {
  for (const edit of [set("x"), computed]) {
    const server = new Server([["epoch", [{ epoch: EPOCH }]], ["write", written(1)]]);
    const { promise, resolve } = Promise.withResolvers<void>();
    server.isFree = promise;
    const waiting = server.writes.write([write("a", 1, { edit })], EPOCH);
    const types = { key: "bytea", value: "bytea" } as const;
    server.writes.use({ ...STATEMENTS, types, write: "OTHER", lockRows: "OTHER" });
    resolve();
    assertEquals(await waiting, [committed(1)]);
    assertEquals(server.asked.filter((each) => /write|rows|other/.test(each)), [
      ...edit === computed ? ['lock rows {"a"}'] : [],
      'write 7 {"a"} 0',
    ]);
  }
});

Deno.test("a later write of a key does not overtake one that is postponed", async () => {
  // Halves, of which the first one waits for a lock past its time.
  const writes = [
    write("a", 1, late()),
    write("b", 2),
    write("c", 3, late()),
    write("a", 4),
  ];
  const server = new Server([["write", refused("23514")], ["write", refused(LOCKED)]]);
  const reason = "an earlier write of the group has waited too long";
  assertEquals(await server.writes.write(writes, EPOCH), [
    failed(`code ${LOCKED}`),
    POSTPONED,
    failed(reason),
    POSTPONED,
  ]);
  assertEquals(server.asked.filter((each) => each.startsWith("write")).length, 2);
});

Deno.test("an unanswered commit is unknown; its process is ended before its outcome is read, once", async () => {
  for (const lost of [new LostError("lost"), refused("57P01", "FATAL")]) {
    const server = new Server([
      ["write", lost],
      // Two rounds until the process is gone.
      ["terminate", [{}]],
      ["outcome", [{ version: "12" }]],
    ]);
    const unknown: WriteResult = { kind: "unknown", reason: lost.message };
    assertEquals(await server.writes.write([write("a", 1), write("b", 2)], EPOCH), [
      unknown,
      unknown,
    ]);
    server.asked.length = 0;
    assertEquals(await server.writes.outcome(1), { kind: "committed", version: 12 });
    assertEquals(server.asked, ["terminate 42 noon", "terminate 42 noon", "outcome 1"]);
    assertEquals(await server.writes.outcome(1), { kind: "notApplied" });
    assertEquals(server.asked.slice(3), ["outcome 1"]);
    assertEquals(await server.writes.outcome(2), { kind: "notApplied" });
    assertEquals(server.asked.slice(4), ["terminate 42 noon", "outcome 2"]);
  }
});

Deno.test("a process that does not end, and a server that is away, leave an outcome unknown", async () => {
  const server = new Server([
    ["write", new LostError("lost")],
    ...new Array(3).fill(["terminate", [{}]]),
    ["outcome", new LostError("away")],
  ], 100);
  await server.writes.write([write("a", 1)], EPOCH);
  server.asked.length = 0;
  const runs = { kind: "unknown", reason: "the transaction still runs" } as const;
  assertEquals(await server.writes.outcome(1), runs);
  assertEquals(server.asked, new Array(3).fill("terminate 42 noon"));
  assertEquals(await server.writes.outcome(1), { kind: "unknown", reason: "away" });
  assertEquals(await server.writes.outcome(1), { kind: "notApplied" });
  assertEquals(server.asked.slice(3), [
    ...["terminate 42 noon", "outcome 1", "terminate 42 noon", "outcome 1"],
  ]);
});
