import { assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { ViewQueries } from "../../../lib/databases/sqlite/view_query.ts";
import type { ViewResult } from "../../../lib/databases/views/view.ts";

const TABLES = `CREATE TABLE leased_proxy (epoch INTEGER); INSERT INTO leased_proxy VALUES (7);
  CREATE TABLE item (id INTEGER PRIMARY KEY, a TEXT, b REAL, c BLOB);
  INSERT INTO item VALUES (1, 'x', 1.5, x'00'), (2, 'y', 9e999, NULL), (3, NULL, -9e999, x'');`;

Deno.test("results of queries: each form, infinity, NUL, errors in the middle, more than fits, new columns", async () => {
  const path = await Deno.makeTempFile();
  {
    using file = new DatabaseSync(path);
    file.exec(TABLES);
    using queries = new ViewQueries(path);
    let generation = 1;
    const ask = (sql: string, result: ViewResult = "object", bytesMax = 1000): string | null => {
      const answer = queries.execute({ sql, parameters: [], result, bytesMax, generation });
      assertEquals(answer.epoch, 7);
      return answer.problem === undefined ? answer.text : `problem: ${answer.problem}`;
    };
    const first = '{"id":1,"a":"x","b":1.5,"c":"\\\\x00"}';
    assertEquals(ask("SELECT * FROM item WHERE id = 1"), first);
    assertEquals(ask("SELECT * FROM item WHERE id = 4"), null);
    const infinities = '[{"b":"-Infinity"},{"b":"Infinity"}]';
    assertEquals(ask("SELECT b FROM item WHERE id > 1 ORDER BY id DESC", "array"), infinities);
    assertEquals(ask("SELECT b FROM item WHERE id = 3", "raw"), "-Infinity");
    assertEquals(ask("SELECT a FROM item WHERE id = 3", "raw"), null);
    const json = "SELECT json(CASE id WHEN 3 THEN '{' ELSE '1' END) AS j FROM item";
    assertEquals(ask(json, "array"), "problem: malformed JSON");
    assertEquals(ask("SELECT id FROM item", "array", 28), '[{"id":1},{"id":2},{"id":3}]');
    assertEquals(ask("SELECT id FROM item WHERE id = 9", "array"), "[]");
    const large = "problem: its result is too large: more than 27 bytes (-I)";
    assertEquals(ask("SELECT id FROM item", "array", 27), large);
    const endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT 1 FROM n) SELECT i FROM n";
    assertEquals(ask(endless, "array", 27), large);
    const named = 'SELECT 1 AS mark, 2 AS "Mark_", 3 AS "a""b", 4 AS "7" FROM item';
    assertEquals(ask(named), '{"mark":1,"Mark_":2,"a\\"b":3,"7":4}');
    const nul = "problem: a text in its result has the character NUL";
    const texts =
      "SELECT c, id, CASE id WHEN 2 THEN 'a' || char(0) || 'b' ELSE 'a' END AS t FROM item";
    assertEquals(ask(texts, "array"), nul);
    assertEquals(ask(`${texts} WHERE id = 2`), nul);
    assertEquals(ask(`${texts} WHERE id = 1`), '{"c":"\\\\x00","id":1,"t":"a"}');
    assertEquals(ask("SELECT char(0)", "raw"), nul);
    // The connection learns of a column that another one adds.
    assertEquals(ask("SELECT * FROM item WHERE id = 1"), first);
    file.exec("ALTER TABLE item ADD COLUMN d TEXT DEFAULT 'd'");
    const wider = first.replace("}", ',"d":"d"}');
    generation++;
    assertEquals(ask("SELECT * FROM item WHERE id = 1"), wider);
    file.exec("UPDATE item SET d = char(0)");
    assertEquals(ask("SELECT * FROM item WHERE id = 1"), nul);
  }
  await Deno.remove(path);
});
