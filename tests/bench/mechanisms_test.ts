import { assertEquals } from "@std/assert";
import { path } from "../support/servers/server_process.ts";
import { MECHANISMS, ROW_MECHANISMS } from "./base/mechanisms.ts";

Deno.test("--without takes out text that the sources have once", () => {
  for (const [name, changes] of Object.entries({ ...MECHANISMS, ...ROW_MECHANISMS })) {
    for (const [file, text] of changes) {
      assertEquals(Deno.readTextFileSync(path(file)).split(text).length, 2, name);
    }
  }
});
