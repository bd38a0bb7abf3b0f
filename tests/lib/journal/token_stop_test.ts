import { assertEquals, assertMatch } from "@std/assert";
import { DRAIN_GRACE_MS } from "../../../lib/net/transport.ts";
import { path, testIoWays as test } from "../../support/servers/server_process.ts";

/** The server on a disk that a test holds. */
const HELD_DISK = path("tests/support/servers/held_disk.ts");
const WRITERS = 20;
const ALL = { permissions: ["--allow-all"] };

test("tokens that wait for the disk at SIGTERM are promised, and kept over the restart", async (start) => {
  const folder = await Deno.makeTempDir();
  const args = ["-vvv", "--state-dir", folder];
  const promised: string[] = [];
  {
    await using server = await start({ ...ALL, main: HELD_DISK, args });
    const writers = await Promise.all(Array.from({ length: WRITERS }, () => server.connect()));
    for (const writer of writers) await writer.ping();
    await Deno.writeTextFile(`${folder}/held`, "");
    // The first sync writes some of them; the others wait for the next one.
    for (const [index, writer] of writers.entries()) {
      await writer.send(`token get k${index} w${index}\r\nget nothing\r\n`);
    }
    await server.line("a sync is held");
    server.signal("SIGTERM");
    await server.line("shutting down");
    // Longer than a drain waits for connections that have nothing to finish.
    await new Promise((resolve) => setTimeout(resolve, 3 * DRAIN_GRACE_MS));
    await Deno.remove(`${folder}/held`);
    for (const [index, writer] of writers.entries()) {
      const replies = await writer.rest();
      assertMatch(replies, /^TOKEN \d+\r\n(?:END\r\n)?$/);
      promised.push(`k${index} ${replies.split(/[ \r]/)[1]}`);
      writer[Symbol.dispose]();
    }
    const { code, stderr } = await server.ended();
    assertEquals(code, 0, stderr);
    await server.line("store check passed");
  }
  await using server = await start({ ...ALL, args });
  using client = await server.connect();
  await client.send("token list\r\n");
  const list = await client.until("END\r\n");
  const listed = [...list.matchAll(/^TOKEN (\S+ \d+) /gm)].map(([, token]) => token!);
  assertEquals(listed.sort(), promised.sort());
  for (const token of promised) await client.ask(`token release ${token}\r\n`, "OK\r\n");
  await server.stop();
  await Deno.remove(folder, { recursive: true });
});
