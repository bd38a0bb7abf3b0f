// An origin with the file that `leased views suggest` prints: while other programs write, every value becomes the rows
// of the table that belong to its key, found here without any query of the file.
import { assert, assertEquals } from "@std/assert";
import { latin1Text } from "../../../../store/base/bytes.ts";
import { randomFrom } from "../../../support/random.ts";
import { roundsOf } from "../../../support/rounds.ts";
import { drawSeed, withSeed } from "../../../support/seed.ts";
import { type TestDatabase, testDatabases } from "../../../support/servers/databases.ts";
import { startOrigin } from "../../../support/servers/origin_process.ts";
import { openWriter, read } from "./shop.ts";
import { prepare, suggested } from "./suggestions.ts";

const ROUNDS = 5;
const TRANSACTIONS = 20;
/** Into each table, at the end of a round. */
const INSERTS = 5;

type Row = Readonly<Record<string, unknown>>;

/** A table, with values of each of its columns as SQL: few, so that statements meet. */
interface Table {
  readonly sql: string;
  readonly columns: Readonly<Record<string, readonly string[]>>;
}

/** Which rows the keys of a view have. */
interface Rows {
  readonly table: string;
  /** Of the key, in its order. */
  readonly by: readonly string[];
  /** Of the order of the rows; null: there is one. */
  readonly order: readonly string[] | null;
}

const IDS = ["1", "2", "3", "4"];
const SOME_IDS = [...IDS, "NULL"];
const TEXTS = ["'a'", "'b'", "'it''s'", "'ö,'"];
const TABLES: Readonly<Record<string, Table>> = {
  customer: {
    sql:
      "id integer PRIMARY KEY, name text NOT NULL, boss_id integer REFERENCES customer ON DELETE SET NULL ON UPDATE CASCADE",
    columns: { id: IDS, name: TEXTS, boss_id: SOME_IDS },
  },
  '"Order"': {
    sql:
      `"Shop" text NOT NULL, no integer NOT NULL, "the customer" integer REFERENCES customer ON DELETE CASCADE ON UPDATE CASCADE,
      seller integer REFERENCES customer ON DELETE SET NULL, note text, PRIMARY KEY ("Shop", no)`,
    columns: {
      '"Shop"': TEXTS,
      no: IDS,
      '"the customer"': SOME_IDS,
      seller: SOME_IDS,
      note: TEXTS,
    },
  },
  line: {
    sql: `id integer PRIMARY KEY, shop text, no integer, amount integer NOT NULL,
      FOREIGN KEY (shop, no) REFERENCES "Order" ON DELETE CASCADE ON UPDATE CASCADE`,
    columns: { id: IDS, shop: [...TEXTS, "NULL"], no: SOME_IDS, amount: IDS },
  },
  passport: {
    sql: "customer_id integer PRIMARY KEY REFERENCES customer ON DELETE CASCADE, code text UNIQUE",
    columns: { customer_id: IDS, code: TEXTS },
  },
};
/** The views of the files for two of the tables, by the beginnings of their keys. */
const FILES: readonly (readonly [table: string, views: Readonly<Record<string, Rows>>])[] = [
  ["customer", {
    "customer": { table: "customer", by: ["id"], order: null },
    "customer_by_boss_id": { table: "customer", by: ["boss_id"], order: ["id"] },
    "Order_by_the_customer": { table: '"Order"', by: ["the customer"], order: ["Shop", "no"] },
    "Order_by_seller": { table: '"Order"', by: ["seller"], order: ["Shop", "no"] },
    "passport": { table: "passport", by: ["customer_id"], order: null },
  }],
  ["Order", {
    "Order": { table: '"Order"', by: ["no", "Shop"], order: null },
    "Order_by_the_customer": { table: '"Order"', by: ["the customer"], order: ["Shop", "no"] },
    "Order_by_seller": { table: '"Order"', by: ["seller"], order: ["Shop", "no"] },
    "line_by_no_shop": { table: "line", by: ["no", "shop"], order: ["id"] },
  }],
];

/** Returns one of the items. */
function pickBy<Item>(random: () => number, items: readonly Item[]): Item {
  return items[Math.floor(random() * items.length)]!;
}

/** Returns an insert that may be refused. */
function insertOf(random: () => number, table: string): string {
  const { columns } = TABLES[table]!;
  const values = Object.values(columns).map((each) => pickBy(random, each));
  return `INSERT INTO ${table} (${Object.keys(columns).join(", ")}) VALUES (${
    values.join(", ")
  }) ON CONFLICT DO NOTHING`;
}

/** Returns a statement that may be refused. */
function statementOf(random: () => number): string {
  const pick = <Item>(items: readonly Item[]): Item => pickBy(random, items);
  const [table, { columns }] = pick(Object.entries(TABLES));
  const names = Object.keys(columns);
  const equal = (name: string): string => `${name} = ${pick(columns[name]!)}`;
  const insert = insertOf(random, table);
  const changed = pick(names);
  const update = `UPDATE ${table} SET ${equal(changed)} WHERE ${equal(pick(names))}`;
  return pick([
    insert,
    insert,
    insert,
    update,
    update,
    `DELETE FROM ${table} WHERE ${equal(pick(names))}`,
  ]);
}

/** Returns all keys of a view. */
function keysOf(prefix: string, { table, by }: Rows): string[] {
  const values = by.map((name) => {
    const { columns } = TABLES[table]!;
    const sql = columns[name] ?? columns[`"${name}"`]!;
    return sql.filter((each) => each !== "NULL").map((each) =>
      each.replace(/^'(.*)'$/, "$1").replaceAll("''", "'")
    );
  });
  const [first = [], second = [""]] = values;
  return first.flatMap((one) =>
    second.map((other) => `${prefix}:${[one, other].slice(0, by.length).join(",")}`)
  );
}

/** Returns what a key has, of all rows of its table. */
function valueOf(key: string, { by, order }: Rows, rows: readonly Row[]): string {
  const values = key.slice(key.indexOf(":") + 1).split(/,(.*)/s);
  const found = rows.filter((row) => by.every((name, index) => `${row[name]}` === values[index]));
  if (order === null) return found.length === 0 ? "" : JSON.stringify(found[0]);
  const texts = (row: Row): string => JSON.stringify(order.map((name) => row[name]));
  return JSON.stringify(found.toSorted((one, other) => texts(one) < texts(other) ? -1 : 1));
}

async function serve(database: TestDatabase, random: () => number): Promise<void> {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/views.jsonc`;
  const place = {
    url: database.url,
    folder: database.folder === "" ? folder : `${database.folder},${folder}`,
  };
  await using writer = await openWriter(database);
  if (database.folder !== "") await writer.writeAlone("PRAGMA foreign_keys = on");
  for (const [table, { sql }] of Object.entries(TABLES)) {
    await writer.write(`CREATE TABLE ${table} (${sql})`);
  }
  for (const [table, views] of FILES) {
    await prepare(database, writer, path, await suggested(database, table));
    await using stack = new AsyncDisposableStack();
    const origin = stack.use(await startOrigin(place, ["--follow", "--views", path]));
    const client = stack.use(await origin.connect());
    const asker = stack.use(await origin.connect());
    const keys = Object.entries(views).flatMap(([prefix, rows]) =>
      keysOf(prefix, rows).map((key) => ({ key, rows }))
    );
    const readAll = async (): Promise<Record<string, string>> => {
      const found: Record<string, string> = {};
      for (const { key } of keys) {
        const letters = latin1Text(new TextEncoder().encode(key));
        const bytes = Uint8Array.from(
          await read(client, letters),
          (letter) => letter.charCodeAt(0),
        );
        found[key] = new TextDecoder().decode(bytes);
      }
      return found;
    };
    let foundCount = 0;
    for (let round = 0; round < roundsOf(ROUNDS); round++) {
      let isOver = false;
      const reader = (async () => {
        while (!isOver) await readAll();
      })();
      try {
        for (let count = 0; count < TRANSACTIONS; count++) {
          const sql = `${statementOf(random)}; ${statementOf(random)}`;
          // A transaction that is refused changes nothing.
          await writer.write(sql).catch(() => {});
        }
        // So that each round has rows to compare, whatever was deleted.
        for (const table of Object.keys(TABLES)) {
          for (let count = 0; count < INSERTS; count++) {
            await writer.write(insertOf(random, table)).catch(() => {});
          }
        }
      } finally {
        isOver = true;
        await reader;
      }
      await asker.ask("follow wait now 60000\r\n", "OK\r\n");
      const right: Record<string, string> = {};
      for (const { key, rows } of keys) {
        right[key] = valueOf(key, rows, await writer.rows(rows.table));
      }
      const values = await readAll();
      assertEquals(values, right);
      foundCount += Object.values(values).filter((value) => !["", "[]"].includes(value)).length;
    }
    assert(foundCount > 0, "values were found");
  }
  await Deno.remove(folder, { recursive: true });
}

testDatabases(
  "views suggest: an origin serves the rows of tables by its file, also after random changes",
  (database) => withSeed(drawSeed(), (seed) => serve(database, randomFrom(seed))),
);
