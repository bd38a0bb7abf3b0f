import { assertEquals } from "@std/assert";
import { unwatchedEvents, unwatchedPart } from "../../../../lib/databases/views/unwatched.ts";
import type { Views } from "../../../../lib/databases/views/view.ts";
import { parseViews } from "../../../../lib/databases/views/views_file.ts";

function viewsOf(query: string, maxAgeSec?: number): Views {
  const view = { query, "max-age": maxAgeSec, changes: { a: "v:*" } };
  return parseViews(JSON.stringify({ "v:{id}": view }), "views.jsonc", [""]);
}

const QUERIES: readonly (readonly [query: string, part: string | null])[] = [
  ["SELECT * FROM a WHERE id = {id}", null],
  ["SELECT * FROM a WHERE id = {id} AND until > now()", "now()"],
  ["SELECT NOW ( ), {id}", "now()"],
  ["SELECT now, {id} FROM a", null],
  ["SELECT * FROM a WHERE id = {id} AND until > CURRENT_TIMESTAMP", "current_timestamp"],
  ["SELECT current_timestamp_of_a, {id} FROM a", null],
  ["SELECT * FROM a WHERE id = {id} -- later: now()", null],
  ["SELECT * FROM a WHERE id = {id} AND name = 'call now()'", null],
  ["SELECT * FROM a WHERE id = {id} AND day = date('now')", "'now'"],
  ["SELECT * FROM a WHERE id = {id} AND day = 'today'::date", "'today'"],
  ["SELECT * FROM a WHERE id = {id} AND day = date()", "date()"],
  ["SELECT date(day) FROM a WHERE id = {id}", null],
  ["SELECT * FROM a WHERE owner = current_user AND id = {id}", "current_user"],
  ["SELECT * FROM a WHERE org = current_setting('app.org') AND id = {id}", "current_setting()"],
  ["SELECT * FROM a WHERE id = {id} ORDER BY random()", "random()"],
  ['SELECT "random" (), {id} FROM a', null],
];

Deno.test("what a query depends on beside its tables", () => {
  for (const [query, part] of QUERIES) {
    assertEquals(unwatchedPart(viewsOf(query).all[0]!), part, query);
  }
});

Deno.test("the log warns of views that grow old unnoticed, not of those with a max-age", () => {
  const query = "SELECT now(), {id}";
  assertEquals(unwatchedEvents(viewsOf(query, 60)), []);
  assertEquals(
    unwatchedEvents(viewsOf(query)).map(({ level, event, message }) => [level, event, message]),
    [[
      "warning",
      "view_unwatched",
      "view v:{id}: its result depends on now(), no change of which is noticed: give it a max-age",
    ]],
  );
});
