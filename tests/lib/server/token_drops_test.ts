import { assertEquals, assertMatch } from "@std/assert";
import { tokensDropped } from "../../../lib/server/messages.ts";
import { testTransports as test } from "../../support/servers/server_process.ts";

const ARGS = "--tokens volatile --token-quarantine 0 --allow-token-drop -o log_format=json".split(
  " ",
);

test("the log names every update token that an operator drops", async (start) => {
  await using server = await start({ args: ARGS });
  using writer = await server.connect();
  await writer.send("token get a host:1:uuid\r\ntoken get b\r\ntoken get c\r\n");
  const replies = await writer.until("\r\n") + await writer.until("\r\n") +
    await writer.until("\r\n");
  const [id] = /\d+/.exec(replies)!;
  using operator = await server.connect();
  await operator.ask("token drop no unsafe\r\n", "OK 0\r\n");
  await operator.ask(`token drop a ${id} unsafe\r\n`, "OK 1\r\n");
  await operator.ask("token drop_all unsafe\r\n", "OK 2\r\n");
  await operator.ask("token drop_all unsafe\r\n", "OK 0\r\n");
  const { stderr } = await server.stop();
  const drops = stderr.trim().split("\n").map((line) => JSON.parse(line))
    .filter(({ event }) => event === "token_dropped");
  assertEquals(drops.map(({ level }) => level), ["warning", "warning"]);
  const [one, all] = drops;
  assertEquals([one.key, String(one.id), one.owner], ["a", id, "host:1:uuid"]);
  assertMatch(one.peer, /^tcp:127\.0\.0\.1:\d+$/);
  assertMatch(one.by, /^tcp:127\.0\.0\.1:\d+$/);
  assertMatch(one.message, /^tcp:\S+ dropped the update token \d+ of key a, owner host:1:uuid, /);
  assertEquals([all.count, all.by], [2, one.by]);
});

Deno.test("a key in the log is one word", () => {
  const token = { key: "a b\n", id: 5, ageSec: 7, owner: "", peer: "" };
  const { message, fields } = tokensDropped({ token, count: 1, by: "tcp:1" });
  assertEquals(fields!.key, "a%20b%0A");
  assertEquals(
    message,
    "tcp:1 dropped the update token 5 of key a%20b%0A, owner -, got by - 7 s ago; its owner may still write",
  );
});
