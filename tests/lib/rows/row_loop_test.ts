import { deleteIn } from "../../support/rows/delete_in.ts";
import { assert, assertEquals, assertMatch } from "@std/assert";
import type { Backend, Write } from "../../../lib/databases/base/backend.ts";
import { Flows } from "../../../lib/rows/flows/flows.ts";
import { TokenStates } from "../../../lib/rows/flows/token_states.ts";
import { databaseSource } from "../../../lib/rows/origin/database_source.ts";
import { RowCommands } from "../../../lib/rows/origin/row_commands.ts";
import { RowLoop } from "../../../lib/rows/row_loop.ts";
import type { RowSource } from "../../../lib/rows/row_source.ts";
import { StepRunner } from "../../../lib/rows/origin/step_runner.ts";
import { ByteRegion } from "../../../store/base/bytes.ts";
import { formatCache, RowKind } from "../../../store/row_cache.ts";
import { checkStore } from "../../../store/check/check.ts";
import { NO_ITEM } from "../../../store/memory/item.ts";
import { createSharedMemory, Memory } from "../../../store/memory/memory.ts";
import { REQUEST } from "../../../store/memory/request_layout.ts";
import { StoreMode } from "../../../store/operation.ts";
import { Outcome } from "../../../store/outcome.ts";
import { type RequestSlot, RequestState, RowBit } from "../../../store/rows/row_requests.ts";
import { type TestDatabase, testDatabases } from "../../support/servers/databases.ts";
import { until } from "../../support/servers/server_process.ts";
import { keyIn, storeOptions } from "../../support/store.ts";

/** An outcome that the database does not say is asked for once. */
const PATIENCE_MS = 0;

function region(text: string): ByteRegion {
  return new ByteRegion(new TextEncoder().encode(text).buffer);
}

/** A loop of the database thread over a store of its own; requests are submitted as connections do. */
class Setting implements AsyncDisposable {
  readonly cache = formatCache(
    new Memory(
      createSharedMemory(
        storeOptions({ rows: { prefixes: [""], expiry: "refuse" }, leaseEntries: 100 }),
      ),
    ),
  );
  readonly flows: Flows;
  readonly runner: StepRunner;
  readonly #backend: Backend;
  readonly #loop: RowLoop;
  readonly #ended: Promise<void>;
  readonly #values = new Map<RequestSlot, Uint8Array>();

  /**
   * @param wrap Stands between the loop and the database.
   * @param fits Whether a reply can be stored.
   */
  private constructor(
    backend: Backend,
    epoch: number,
    wrap: (source: RowSource) => RowSource,
    fits: () => boolean,
  ) {
    this.#backend = backend;
    this.flows = new Flows(new TokenStates(epoch, 1000, 100), PATIENCE_MS);
    const runner = this.runner = new StepRunner(
      backend,
      (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
    );
    runner.delete = deleteIn(this.cache);
    const commands = new RowCommands(this.flows, runner, null, null, fits);
    const source = databaseSource(this.flows, runner, commands, () => false, () => {});
    this.#loop = new RowLoop(this.cache, wrap(source), false);
    // The values of requests are not what this test is about.
    this.cache.rows!.valueOf = ({ slot }) => this.#values.get(slot)!;
    this.#ended = this.#loop.run();
  }

  static async open(
    database: TestDatabase,
    wrap = (source: RowSource): RowSource => source,
    fits = (): boolean => true,
  ): Promise<Setting> {
    const backend = await database.open();
    return new Setting(backend, (await backend.takeOver()).epoch, wrap, fits);
  }

  get problem(): string | null {
    return this.#loop.problem;
  }

  /** Submits a request. */
  ask(
    kind: RowKind,
    key: string,
    value = "",
    words: Partial<Record<"mode" | "compare" | "owner", number>> = {},
  ): RequestSlot {
    const { cache } = this;
    const { requests } = cache.rows!;
    cache.enter();
    const slot = requests.take(
      kind,
      keyIn(cache, region(key), key.length),
      words.owner ?? 1,
      0,
    );
    this.#values.set(slot, new TextEncoder().encode(value));
    requests.setWord(slot, REQUEST.MODE, words.mode ?? StoreMode.SET);
    if (words.compare !== undefined) {
      requests.setWord(slot, REQUEST.BITS, RowBit.COMPARE);
      requests.setWord(slot, REQUEST.COMPARE_LOW, words.compare);
    }
    if (kind === RowKind.COUNT) requests.setWord(slot, REQUEST.DELTA_LOW, Number(value));
    requests.submit(slot);
    requests.await(slot);
    cache.leave();
    return slot;
  }

  async done(
    slot: RequestSlot,
  ): Promise<{ outcome: Outcome; version: number; value: string; text: string }> {
    const { requests } = this.cache.rows!;
    await until(() => requests.stateOf(slot) === RequestState.DONE, 1);
    const item = requests.word(slot, REQUEST.RESULT);
    return {
      outcome: requests.outcomeOf(slot),
      version: requests.word(slot, REQUEST.VERSION_LOW),
      value: item === NO_ITEM ? "" : this.#valueOf(item),
      text: requests.outcomeOf(slot) === Outcome.ROW_ERROR
        ? new TextDecoder().decode(requests.textOf(slot))
        : "",
    };
  }

  #valueOf(item: number): string {
    const bytes = new Uint8Array(this.cache.valueLength(item));
    this.cache.copyValue(item, 0, bytes.length, new ByteRegion(bytes.buffer), 0);
    return new TextDecoder().decode(bytes);
  }

  async outcome(slot: RequestSlot): Promise<Outcome> {
    return (await this.done(slot)).outcome;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#loop.stop();
    await this.#ended;
    await this.#backend.close();
    checkStore(this.cache.memory);
    assertEquals([...this.flows.states.list()], [], "every token has ended");
  }
}

/** A source with other methods in the place of some. */
function changed(source: RowSource, methods: Partial<RowSource>): RowSource {
  return {
    endText: null,
    groupsMax: source.groupsMax,
    read: (keys) => source.read(keys),
    write: (group) => source.write(group),
    command: (request, addWrite, signal) => source.command(request, addWrite, signal),
    isSlow: (key) => source.isSlow(key),
    refusalOf: (key) => source.refusalOf(key),
    stop: () => source.stop(),
    ...methods,
  };
}

/** Lets the loop take what was asked. */
async function taken({ cache }: Setting): Promise<void> {
  await until(() => cache.rows!.requests.queued === 0, 1);
}

testDatabases("rows are written, read, counted and deleted", async (database) => {
  await using rows = await Setting.open(database);
  assertEquals(await rows.outcome(rows.ask(RowKind.READ, "k")), Outcome.NOT_FOUND);
  assertEquals(await rows.outcome(rows.ask(RowKind.STORE, "k", "hello")), Outcome.STORED);
  const read = await rows.done(rows.ask(RowKind.READ, "k"));
  assertEquals([read.outcome, read.value], [Outcome.OK, "hello"]);
  const add = rows.ask(RowKind.STORE, "k", "x", { mode: StoreMode.ADD });
  assertEquals(await rows.outcome(add), Outcome.NOT_STORED);
  const append = rows.ask(RowKind.STORE, "k", "!", { mode: StoreMode.APPEND });
  assertEquals((await rows.done(append)).version, 2);
  assertEquals((await rows.done(rows.ask(RowKind.TOUCH, "k"))).value, "hello!");
  const cas = rows.ask(RowKind.STORE, "k", "10", { mode: StoreMode.CAS, compare: 1 });
  assertEquals(await rows.outcome(cas), Outcome.EXISTS);
  const again = rows.ask(RowKind.STORE, "k", "10", { mode: StoreMode.CAS, compare: 2 });
  assertEquals(await rows.outcome(again), Outcome.STORED);
  assertEquals(await rows.outcome(rows.ask(RowKind.COUNT, "k", "5")), Outcome.OK);
  assertEquals((await rows.done(rows.ask(RowKind.READ, "k"))).value, "15");
  assertEquals(await rows.outcome(rows.ask(RowKind.REMOVE, "k")), Outcome.DELETED);
  assertEquals(await rows.outcome(rows.ask(RowKind.REMOVE, "k")), Outcome.NOT_FOUND);
  assertEquals(await rows.outcome(rows.ask(RowKind.READ, "k")), Outcome.NOT_FOUND);
});

testDatabases("writes that arrive together go in few groups, in their order", async (database) => {
  await using rows = await Setting.open(database);
  const WRITES = 100;
  const slots = Array.from(
    { length: WRITES },
    (_, n) => rows.ask(RowKind.STORE, `k${n % 10}`, `${n}`),
  );
  const versions = await Promise.all(slots.map((slot) => rows.done(slot)));
  assertEquals(versions.map(({ version }) => version), slots.map((_, n) => Math.floor(n / 10) + 1));
  assert(rows.flows.counts.groups <= 3);
  for (let key = 0; key < 10; key++) {
    assertEquals((await rows.done(rows.ask(RowKind.READ, `k${key}`))).value, `${90 + key}`);
  }
});

testDatabases(
  "a row that is too large is refused, and its neighbours are written",
  async (database) => {
    await using rows = await Setting.open(database);
    const long = "x".repeat(600_000);
    const slots = [
      rows.ask(RowKind.STORE, "large", long),
      rows.ask(RowKind.STORE, "large", long, { mode: StoreMode.APPEND }),
      rows.ask(RowKind.STORE, "small", "x"),
    ];
    const outcomes = await Promise.all(slots.map((slot) => rows.outcome(slot)));
    assertEquals(outcomes, [Outcome.STORED, Outcome.TOO_LARGE, Outcome.STORED]);
  },
);

testDatabases(
  "postponed writes go again, in their order and with their times",
  async (database) => {
    const seen: (readonly Write[])[] = [];
    await using rows = await Setting.open({
      ...database,
      open: async () => {
        const backend = await database.open();
        const write = backend.writeGroup.bind(backend);
        backend.writeGroup = async (writes, epoch) => {
          seen.push(writes);
          if (seen.length > 1) return await write(writes, epoch);
          return writes.map(() => ({ kind: "postponed" }));
        };
        return backend;
      },
    });
    const begunMs = performance.now();
    const slots = ["one", "two"].map((value) => rows.ask(RowKind.STORE, "k", value));
    const done = await Promise.all(slots.map((slot) => rows.done(slot)));
    assertEquals(done.map(({ version }) => version), [1, 2]);
    assertEquals((await rows.done(rows.ask(RowKind.READ, "k"))).value, "two");
    assert(seen[0]![0]!.sinceMs! >= begunMs);
    assertEquals(seen[1]![0]!.sinceMs, seen[0]![0]!.sinceMs);
    assertEquals(rows.flows.counts.writesCommitted, 2);
    assertEquals(rows.flows.counts.writesFailed, 0);
  },
);

testDatabases("a write that takes long keeps no other row waiting", async (database) => {
  const { promise, resolve } = Promise.withResolvers<void>();
  await using rows = await Setting.open(database, (source) =>
    changed(source, {
      groupsMax: 4,
      write: async (group) => {
        if (group.some(({ key }) => key === "locked")) await promise;
        return await source.write(group);
      },
    }));
  const locked = rows.ask(RowKind.STORE, "locked", "1");
  await rows.outcome(rows.ask(RowKind.READ, "k"));
  assertEquals(
    await rows.outcome(rows.ask(RowKind.STORE, "free", "1", { owner: 2 })),
    Outcome.STORED,
  );
  resolve();
  assertEquals(await rows.outcome(locked), Outcome.STORED);
});

testDatabases(
  "a write without an outcome says so; its token ends with the outcome, a writer's own does not",
  async (database) => {
    let isLost = true;
    await using rows = await Setting.open({
      ...database,
      open: async () => {
        const backend = await database.open();
        const ask = backend.outcome.bind(backend);
        const lost = { kind: "unknown", reason: "the reply was lost" } as const;
        backend.writeGroup = (writes) => Promise.resolve(writes.map(() => lost));
        backend.outcome = (id) => isLost ? Promise.resolve(lost) : ask(id);
        return backend;
      },
    });
    const command = async (text: string): Promise<string> => {
      const { value, text: error } = await rows.done(rows.ask(RowKind.COMMAND, "", text));
      return value + error;
    };
    const { outcome, text } = await rows.done(rows.ask(RowKind.STORE, "k", "1"));
    assertEquals(outcome, Outcome.ROW_ERROR);
    assertEquals(text, "outcome unknown: the reply was lost");
    const [id] = /\d+/.exec(await command("token get own\n"))!;
    assertEquals(await command(`uput own 0 1 ${id}\n1`), text);
    for (const key of ["k", "own"]) assertEquals(rows.flows.states.isCacheable(key), false);
    assertEquals(await rows.runner.run(rows.flows.resolveUnknown()), 2);
    isLost = false;
    assertEquals(await rows.runner.run(rows.flows.resolveUnknown()), 0);
    assertEquals(rows.flows.states.isCacheable("k"), true);
    assertEquals(await command("token list\n"), `TOKEN own ${id} idle -\r\nEND\r\n`);
    assertEquals(await command(`token release own ${id}\n`), "OK\r\n");
  },
);

testDatabases("tokens and nodes are served", async (database) => {
  await using rows = await Setting.open(database);
  const command = async (text: string): Promise<string> => {
    const { outcome, value, text: error } = await rows.done(rows.ask(RowKind.COMMAND, "", text));
    return outcome === Outcome.OK ? value : error;
  };
  const reply = await command("token get k me\n");
  assertMatch(reply, /^TOKEN \d+\r\n$/);
  const id = reply.slice(6, -2);
  assertEquals(await command("uget k\n"), "NONE k 0 N\r\nEND\r\n");
  assertEquals(await command(`uput k 5 3 ${id}\nabc`), "STORED 1\r\n");
  assertEquals(await command(`uput k 5 3 ${id}\nabc`), "STORED 1\r\n");
  assertEquals(await command("uget k\n"), "VALUE k 5 3 1 C\r\nabc\r\nEND\r\n");
  assertEquals(await command(`token release k ${id}\n`), "NOT_FOUND\r\n");
  assertEquals(await command("nodes\n"), "END\r\n");
  assertEquals(await command("nonsense\n"), "ERROR\r\n");
  assertEquals(
    await command(`uget ${"k".repeat(250)}\n`),
    `NONE ${"k".repeat(250)} 0 C\r\nEND\r\n`,
  );
  assertMatch(await command(`uget ${"k".repeat(251)}\n`), /^CLIENT_ERROR bad command line format/);
  // A line may be as long as a value: the time to split it must not grow with its square.
  const blanks = " ".repeat(1_000_000);
  assertEquals(
    await command(`${blanks}uget a${blanks}b${blanks}\n`),
    "NONE a 0 C\r\nNONE b 0 C\r\nEND\r\n",
  );
  // "à" ends with a byte that is a blank in other texts.
  assertEquals(await command("uget caf\xc3\xa0 \n"), "NONE caf\xc3\xa0 0 C\r\nEND\r\n");
  const odd = rows.flows.states.get("a\r\nb %", "");
  assertMatch(await command("token list\n"), /^TOKEN a%0D%0Ab%20%25 \d+ \w+ -\r\nEND\r\n$/);
  assertEquals(rows.flows.states.release("a\r\nb %", odd), "released");
});

testDatabases("a problem lasts until the database has answered", async (database) => {
  let isDown = false;
  const whileUp = async <T>(answer: () => Promise<T>): Promise<T> => {
    if (isDown) throw new Error("the database is down");
    return await answer();
  };
  let endText: string | null = null;
  await using rows = await Setting.open(database, (source) => ({
    get endText() {
      return endText;
    },
    groupsMax: source.groupsMax,
    read: (keys) => whileUp(() => source.read(keys)),
    write: (group) => whileUp(() => source.write(group)),
    command: (request, addWrite, signal) => source.command(request, addWrite, signal),
    isSlow: (key) => source.isSlow(key),
    refusalOf: (key) => source.refusalOf(key),
    stop: () => source.stop(),
  }));
  const read = (): Promise<Outcome> => rows.outcome(rows.ask(RowKind.READ, "k"));
  const write = (): Promise<Outcome> => rows.outcome(rows.ask(RowKind.STORE, "k", "1"));
  for (const [ask, answered] of [[read, Outcome.NOT_FOUND], [write, Outcome.STORED]] as const) {
    isDown = true;
    assertEquals(await ask(), Outcome.ROW_ERROR);
    assertEquals(rows.problem, "the database is down");
    isDown = false;
    assertEquals(await ask(), answered);
    assertEquals(rows.problem, null);
  }
  endText = "another server has the database";
  const { outcome, text } = await rows.done(rows.ask(RowKind.READ, "unread"));
  assertEquals([outcome, text], [Outcome.ROW_ERROR, endText]);
});

testDatabases("a key is read once for all who ask, however late they come", async (database) => {
  const reads: string[][] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  await using rows = await Setting.open(database, (source) =>
    changed(source, {
      read: async (keys) => {
        reads.push([...keys]);
        const found = await source.read(keys);
        if (keys.includes("k")) await promise;
        return found;
      },
    }));
  await rows.outcome(rows.ask(RowKind.STORE, "k", "hello"));
  const slots = [];
  for (let client = 1; client <= 8; client++) {
    slots.push(rows.ask(RowKind.READ, "k", "", { owner: client }));
    await taken(rows);
  }
  assertEquals(await rows.outcome(rows.ask(RowKind.READ, "other")), Outcome.NOT_FOUND);
  // A connection that ends while it waits leaves its request to the loop.
  const { requests } = rows.cache.rows!;
  const { inUse } = requests;
  requests.orphan(slots.pop()!);
  resolve();
  for (const slot of slots) assertEquals((await rows.done(slot)).value, "hello");
  assertEquals(reads, [["k"], ["other"]]);
  assertEquals(requests.inUse, inUse - 1);
});

testDatabases("who asks after a write gets no row that was read before it", async (database) => {
  let isRead = false;
  const { promise, resolve } = Promise.withResolvers<void>();
  await using rows = await Setting.open(database, (source) =>
    changed(source, {
      read: async (keys) => {
        const found = await source.read(keys);
        if (!isRead) {
          isRead = true;
          await promise;
        }
        return found;
      },
    }));
  await rows.outcome(rows.ask(RowKind.STORE, "k", "old"));
  const before = rows.ask(RowKind.READ, "k");
  await until(() => isRead, 1);
  await rows.outcome(rows.ask(RowKind.STORE, "k", "new", { owner: 2 }));
  const after = rows.ask(RowKind.READ, "k", "", { owner: 3 });
  const touch = rows.ask(RowKind.TOUCH, "k", "", { owner: 4 });
  await taken(rows);
  resolve();
  assertEquals((await rows.done(before)).value, "old");
  assertEquals((await rows.done(after)).value, "new");
  assertEquals((await rows.done(touch)).value, "new");
});

testDatabases("who asks for a key while its read fails gets the same error", async (database) => {
  const { promise, reject } = Promise.withResolvers<never>();
  let reads = 0;
  await using rows = await Setting.open(database, (source) =>
    changed(source, {
      read: (keys) => reads++ === 0 ? promise : source.read(keys),
    }));
  const slots = [];
  for (let client = 1; client <= 3; client++) {
    slots.push(rows.ask(RowKind.READ, "k", "", { owner: client }));
    await taken(rows);
  }
  reject(new Error("no luck"));
  for (const slot of slots) assertEquals((await rows.done(slot)).text, "no luck");
  assertEquals(await rows.outcome(rows.ask(RowKind.READ, "k")), Outcome.NOT_FOUND);
});

testDatabases("commands that read rows go a few at a time, in their order", async (database) => {
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  await using rows = await Setting.open(database, (source) =>
    changed(source, {
      command: async (request) => {
        begun.push(new TextDecoder().decode(request).trim());
        await new Promise<void>((resolve) => ends.push(resolve));
        return new TextEncoder().encode("END\r\n");
      },
    }));
  const blanks = " ".repeat(100);
  const names = [
    ...["uget a", "node read s 0 2", "node command s 0 6\nuget c", "uget d", " uget  e"],
    ...["node  read s 0 2", `${blanks}uget f`, `node${blanks}read s 0 2`],
    ...[`node${blanks}command s 0 6\nuget g`, `node command s 0 106\n${blanks}uget h`],
  ];
  const slots = names.map((name, index) =>
    rows.ask(RowKind.COMMAND, "", `${name}\n`, { owner: index + 1 })
  );
  await taken(rows);
  const list = rows.ask(RowKind.COMMAND, "", "token list\n", { owner: 90 });
  const write = rows.ask(RowKind.STORE, "k", "1", { owner: 91 });
  assertEquals(await rows.outcome(write), Outcome.STORED, "nothing else waits for them");
  assertEquals(begun, [...names.slice(0, 3), "token list"]);
  for (let index = 0; index < names.length + 1; index++) {
    await until(() => ends.length > 0, 1);
    ends.shift()!();
  }
  for (const slot of [...slots, list]) assertEquals(await rows.outcome(slot), Outcome.OK);
  assertEquals(begun.filter((name) => name !== "token list"), names.map((name) => name.trim()));
});

testDatabases("a command ends with its connection, in progress or not", async (database) => {
  const signals = new Map<string, AbortSignal>();
  await using rows = await Setting.open(database, (source) =>
    changed(source, {
      command: (request, _, signal) => {
        signals.set(new TextDecoder().decode(request).trim(), signal);
        return new Promise((_, reject) =>
          signal.addEventListener("abort", () => reject(new Error("given up")))
        );
      },
    }));
  const { cache } = rows;
  const { requests } = cache.rows!;
  const names = ["uget a", "uget b", "uget c", "uget waits", "follow wait now 60000"];
  const slots = names.map((name, index) =>
    rows.ask(RowKind.COMMAND, "", `${name}\n`, { owner: index + 1 })
  );
  await taken(rows);
  await rows.outcome(rows.ask(RowKind.READ, "k", "", { owner: 7 }));
  assertEquals([...signals.keys()], ["uget a", "uget b", "uget c", "follow wait now 60000"]);
  const end = (index: number): void => {
    cache.enter();
    requests.orphan(slots[index]!);
    cache.leave();
  };
  const before = requests.inUse;
  end(3);
  end(4);
  await until(() => requests.inUse <= before - 2, 1);
  assertEquals(signals.has("uget waits"), false);
  assertEquals(signals.get("follow wait now 60000")!.aborted, true);
  assertEquals(signals.get("uget a")!.aborted, false);
  for (const index of [0, 1, 2]) end(index);
  await until(() => requests.inUse <= before - 5, 1);
});

testDatabases("replies that nobody receives leave memory to others", async (database) => {
  const LENGTH = 900_000;
  let begun = 0;
  await using rows = await Setting.open(database, (source) =>
    changed(source, {
      command: () => {
        begun++;
        return Promise.resolve(new Uint8Array(LENGTH));
      },
    }));
  const { cache } = rows;
  const free = (slot: RequestSlot): void => {
    cache.enter();
    cache.rows!.free(slot);
    cache.leave();
  };
  const slots = Array.from(
    { length: 40 },
    (_, index) => rows.ask(RowKind.COMMAND, "", "uget k\n", { owner: index + 1 }),
  );
  await taken(rows);
  const write = rows.ask(RowKind.STORE, "k", "1", { owner: 50 });
  assertEquals(await rows.outcome(write), Outcome.STORED);
  // A quarter of 64 MB has room for 18; up to two more begin before the first ones end.
  assert(begun >= 18 && begun <= 21, `${begun} have begun`);
  for (const slot of slots) {
    assertEquals(await rows.outcome(slot), Outcome.OK);
    free(slot);
  }
  assertEquals(begun, slots.length);
});

testDatabases(
  "uget reads long rows in small slices, and stops at the longest reply",
  async (database) => {
    const reads: number[] = [];
    let fits = true;
    await using rows = await Setting.open(
      {
        ...database,
        open: async () => {
          const backend = await database.open();
          const read = backend.readMany.bind(backend);
          backend.readMany = (keys) => {
            reads.push(keys.length);
            return read(keys);
          };
          return backend;
        },
      },
      (source) => source,
      () => fits,
    );
    const keys = Array.from({ length: 12 }, (_, n) => `k${n}`);
    const long = "x".repeat(100_000);
    const writes = keys.slice(0, 8).map((key) => rows.ask(RowKind.STORE, key, long));
    for (const slot of writes) assertEquals(await rows.outcome(slot), Outcome.STORED);
    const uget = `uget ${keys.join(" ")}\n`;
    reads.length = 0;
    const { value } = await rows.done(rows.ask(RowKind.COMMAND, "", uget));
    assertEquals(
      value.replaceAll(long, "x"),
      keys.map((key, n) => n < 8 ? `VALUE ${key} 0 100000 1 C\r\nx\r\n` : `NONE ${key} 0 C\r\n`)
        .join("") + "END\r\n",
    );
    assertEquals(reads, [4, 2, 1, 1, 1, 2, 1]);
    fits = false;
    reads.length = 0;
    const { text } = await rows.done(rows.ask(RowKind.COMMAND, "", uget));
    assertEquals(text, "the rows are longer than a value may be (-I): ask for fewer keys at once");
    assertEquals(reads, [4]);
  },
);
