import { assert, assertEquals, assertMatch } from "@std/assert";
import { opcodeOf, packetText } from "../../support/sessions/binary_text.ts";
import { type Client, testIoWays as test } from "../../support/servers/server_process.ts";

async function linesUntil(watcher: Client, mark: string): Promise<string[]> {
  const text = await watcher.until(mark);
  return (text + await watcher.until("\n")).split("\n").slice(0, -1);
}

test("watch tells of what happens on all threads", async (start) => {
  await using server = await start({ args: ["-t", "3"] });
  using watcher = await server.connect();
  await watcher.ask("watch fetchers connevents\r\n", "OK\r\n");
  for (let round = 0; round < 6; round++) {
    using client = await server.connect();
    await client.ask(`get key-${round}\r\n`, "END\r\n");
    const lines = await linesUntil(watcher, `key=key-${round} `);
    assertMatch(lines.at(-1)!, /^ts=\d+\.\d+ gid=\d+ type=item_get key=key-\d status=not_found/);
    const opened = lines.find((line) => line.includes("type=conn_new"));
    const { port } = client.socket.localAddr as Deno.NetAddr;
    assertMatch(
      opened!,
      new RegExp(`type=conn_new rip=127\\.0\\.0\\.1 rport=${port} transport=tcp cfd=\\d+$`),
    );
  }
  await linesUntil(watcher, "type=conn_close");
  using client = await server.connect();
  let conns: string;
  do { // while it is sent lines, it writes
    await client.send("stats conns\r\n");
    conns = await client.until("END\r\n");
  } while (!conns.includes(":state conn_watch\r\n"));
  assertEquals(await client.stat("log_watchers"), "1");
  watcher[Symbol.dispose]();
  while (await client.stat("log_watchers") !== "0");
  await server.stop();
});

test("conn_close says who and why, as memcached does", async (start) => {
  await using server = await start();
  using watcher = await server.connect();
  await watcher.ask("watch connevents\r\n", "OK\r\n");
  const endings: [sent: string, reason: string][] = [
    ["quit\r\n", "normal"],
    ["GET / HTTP/1.0\r\n", "error"],
    ["x".repeat(3000), "error"],
    [packetText({ opcode: opcodeOf("Quit") }), "normal"],
    [packetText({ opcode: opcodeOf("QuitQ") }), "normal"],
    [packetText({ opcode: opcodeOf("Noop") }) + " ".repeat(24), "error"],
    [packetText({ opcode: opcodeOf("Get") }), "error"],
  ];
  for (const [sent, reason] of endings) {
    using client = await server.connect();
    await client.send(sent);
    await client.rest();
    const closed = (await linesUntil(watcher, "type=conn_close")).at(-1)!;
    assertEquals(/reason=(\w+)/.exec(closed)![1], reason, sent);
    const { port } = client.socket.localAddr as Deno.NetAddr;
    assertMatch(
      closed,
      new RegExp(`type=conn_close rip=127\\.0\\.0\\.1 rport=${port} transport=tcp `),
    );
  }
  await server.stop();
});

test("a watcher that does not read delays no client, and learns how many lines it lost", async (start) => {
  await using server = await start({ args: ["-o", "watcher_logbuf_size=16"] });
  using watcher = await server.connect();
  await watcher.ask("watch\r\n", "OK\r\n");
  using client = await server.connect();
  const key = "k".repeat(200);
  const count = 5000;
  do {
    await client.ask(`get ${key}\r\n`.repeat(count), "END\r\n".repeat(count));
  } while (await client.stat("log_watcher_skipped") === "0");
  let skipped = 0;
  while (skipped === 0) {
    await client.ask("get last\r\n", "END\r\n");
    const [line] = (await linesUntil(watcher, "skipped=")).slice(-1);
    skipped = Number(/skipped=(\d+)/.exec(line!)![1]);
  }
  assert(skipped > 0);
  await server.stop();
});
