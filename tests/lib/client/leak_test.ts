import { assert, assertEquals } from "@std/assert";
import { path } from "../../support/servers/server_process.ts";
import { textOf } from "../../support/sessions/side.ts";
import { startLeased } from "./servers.ts";

const REQUESTS = 200_000;
/** A leak of one small object a request would be ten times as much. */
const GROWTH_MAX = 2 ** 21;

Deno.test("many requests leave no memory, no timer and no socket", async () => {
  await using server = await startLeased();
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "--no-prompt", "-A", "--v8-flags=--expose-gc", `--config=${path("deno.json")}`],
      ...["--no-lock", path("tests/lib/client/leak_run.ts")],
      ...[`127.0.0.1:${server.port}`, `${REQUESTS}`],
    ],
    stdin: "null",
  }).output();
  assertEquals(success, true, textOf(stderr));
  const { requests, first, last } = JSON.parse(textOf(stdout));
  assert(requests >= REQUESTS);
  assert(last - first < GROWTH_MAX, `heap: ${first} bytes, later ${last}`);
});
