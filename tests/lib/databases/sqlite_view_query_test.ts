import { assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { ViewQueries } from "../../../lib/databases/sqlite/view_query.ts";
import type { ViewResult } from "../../../lib/databases/views/view.ts";

const TABLES = `CREATE TABLE leased_proxy (epoch INTEGER); INSERT INTO leased_proxy VALUES (7);
  CREATE TABLE item (id INTEGER PRIMARY KEY, a TEXT, b REAL, c BLOB);
  INSERT INTO item VALUES (1, 'x', 1.5, x'00'), (2, 'y', 9e999, NULL), (3, NULL, -9e999, x'');`;

Deno.test("results of queries: each form, infinity, errors in the middle, more rows than fit", async () => {
  const path = await Deno.makeTempFile();
  {
    using file = new DatabaseSync(path);
    file.exec(TABLES);
    using queries = new ViewQueries(path);
    const ask = (sql: string, result: ViewResult = "object", bytesMax = 1000): string | null => {
      const answer = queries.execute({ sql, parameters: [], result, bytesMax, generation: 1 });
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
    assertEquals(ask("SELECT id FROM item", "array", 27), '[{"id":1},{"id":2},{"id":3}]');
    const large = "problem: its result is too large: 2 rows and more";
    assertEquals(ask("SELECT id FROM item", "array", 20), large);
  }
  await Deno.remove(path);
});
