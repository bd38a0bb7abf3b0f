// SQLite: whenever a write changes the value of a view's key that reads accept, the triggers have noted that key.
import { assert, assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { latin1Text } from "../../../../store/base/bytes.ts";
import { parseViews } from "../../../../lib/databases/views/views_file.ts";
import { createDatabase } from "../../../support/servers/databases.ts";
import { randomFrom } from "../../../support/random.ts";
import { drawSeed, withSeed } from "../../../support/seed.ts";

const WRITES = 150;
const TABLES = `
CREATE TABLE part (id INTEGER PRIMARY KEY, number INTEGER, name TEXT COLLATE NOCASE UNIQUE);
CREATE TABLE stock (id INTEGER PRIMARY KEY, number TEXT, name TEXT);
`;
const FILE = JSON.stringify({
  // An integer in one table, and text in the other.
  "number:{x}": {
    query: "SELECT part.id, stock.id AS stock FROM part JOIN stock ON part.number = stock.number " +
      "WHERE part.number = {x} ORDER BY 1, 2",
    value: "array",
    changes: { part: "number:{number}", stock: "number:{number}" },
  },
  "stocked:{x}": {
    query: "SELECT stock.id FROM stock LEFT JOIN part ON part.id = 0 WHERE stock.number = {x}",
    value: "array",
    changes: { part: ["stocked:{number}", "stocked:*"], stock: "stocked:{number}" },
  },
  // Without case in one table, and with it in the other.
  "name:{x}:of": {
    query: "SELECT part.id, stock.id AS stock FROM part JOIN stock ON part.name = stock.name " +
      "WHERE part.name = {x} ORDER BY 1, 2",
    value: "array",
    changes: { part: "name:{name}:of", stock: "name:{name}*" },
  },
});
const NUMBERS = ["7", "07", "7.0", " 7", "7e1", "70", "0", "-0", "abc", "9007199254740993"];
const NAMES = ["Abc", "abc", "ABC", "TÜR", "tür", "tÜr", "", "a'b", "A:OF", "7"];

function sql(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

Deno.test("SQLite: a key whose value changes is noted, and others are never read", async () => {
  await withSeed(drawSeed(), async (seed) => {
    const random = randomFrom(seed);
    const pick = <Item>(items: readonly Item[]): Item =>
      items[Math.floor(random() * items.length)]!;
    await using database = await createDatabase("SQLite");
    using writer = new DatabaseSync(database.url.slice("sqlite:".length), { timeout: 10_000 });
    // As applications do for the letters of their language.
    writer.function("lower", (text) => String(text).toLowerCase());
    writer.exec(TABLES);
    const backend = await database.open();
    const views = parseViews(FILE, "views.jsonc", [""]);
    await backend.prepareChanges(views);
    const prepared = await backend.prepareViews(views);
    const stream = await backend.openChanges(true);
    await stream.begin();
    const keys = [
      ...NUMBERS.flatMap((text) => [`number:${text}`, `stocked:${text}`]),
      ...NAMES.map((text) => `name:${text}:of`),
    ].map((key) => latin1Text(new TextEncoder().encode(key)));
    const readAll = async (): Promise<string[]> => {
      const found = await prepared.readMany(keys.map((key) => views.find(key)!));
      return found.map(({ row, problem }) => {
        assertEquals(problem, undefined);
        return row === null ? "" : new TextDecoder().decode(row.data);
      });
    };
    const served = new Set<string>();
    let before = await readAll();
    for (let count = 0; count < WRITES; count++) {
      const id = Math.floor(random() * 6);
      const table = pick(["part", "stock"]);
      const row = `${sql(pick(NUMBERS))}, ${sql(pick(NAMES))}`;
      writer.exec(pick([
        `INSERT OR REPLACE INTO ${table} VALUES (${id}, ${row})`,
        `INSERT OR REPLACE INTO ${table} VALUES (${id}, ${row})`,
        `UPDATE OR REPLACE ${table} SET (number, name) = (SELECT ${row}) WHERE id = ${id}`,
        `DELETE FROM ${table} WHERE id = ${id}`,
      ]));
      const noted = new Set<string>();
      const prefixes: string[] = [];
      writer.exec("INSERT INTO kv (key) VALUES ('end'); DELETE FROM kv");
      while (!noted.has("end")) {
        const changes = await stream.next();
        for (const key of changes.keys) noted.add(key);
        prefixes.push(...changes.prefixes);
      }
      const after = await readAll();
      for (const [place, key] of keys.entries()) {
        if (!["", "[]"].includes(after[place]!)) served.add(key);
        if (after[place] === before[place]) continue;
        const isNoted = noted.has(key) || prefixes.some((prefix) => key.startsWith(prefix));
        assert(isNoted, `${key}: ${before[place]} becomes ${after[place]}, and is not noted`);
      }
      before = after;
    }
    const others = ["07", "7.0", " 7", "7e1", "-0"].flatMap((
      text,
    ) => [`number:${text}`, `stocked:${text}`]);
    for (const other of [...others, "name:Abc:of", "name:ABC:of", "name:A:OF:of"]) {
      assert(!served.has(other), other);
    }
    assert(served.size > 3, [...served].join());
    await stream.close();
    await prepared.close();
    await backend.close();
  });
});
