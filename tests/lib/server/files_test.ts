import { assertEquals } from "@std/assert";
import { folderOf } from "../../../lib/server/files.ts";

Deno.test("folderOf() names the folder of a path, also the root and the current one", () => {
  const paths = ["/run/leased.pid", "/leased.pid", "leased.pid", "./leased.pid", "a/b/c"];
  assertEquals(paths.map(folderOf), ["/run", "/", ".", ".", "a/b"]);
});
