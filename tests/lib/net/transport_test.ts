import { assert, assertEquals, assertGreater, assertLess, assertMatch } from "@std/assert";
import { ACCEPT_PAUSE_MS } from "../../../lib/net/accept_failures.ts";
import { opcodeOf, packetText } from "../../support/sessions/binary_text.ts";
import { bytesOf, textOf } from "../../support/sessions/side.ts";
import {
  Client,
  leastPermissions,
  residentKib,
  ServerProcess,
  testIoWays as test,
  TRANSPORTS,
  until,
} from "../../support/servers/server_process.ts";
import { needs } from "../../support/needs/needs.ts";

/** Open descriptors of a process (Linux). */
function descriptorCount(pid: number): number {
  return [...Deno.readDirSync(`/proc/${pid}/fd`)].length;
}

test("requests cut anywhere, and many in one piece, are answered in order", async (start) => {
  await using server = await start();
  using client = await server.connect();
  for (const byte of "set foo 5 0 3\r\nbar\r\n") await client.send(byte);
  await client.expect("STORED\r\n");
  await client.ask(
    "get foo\r\n".repeat(3000),
    "VALUE foo 5 3\r\nbar\r\nEND\r\n".repeat(3000),
  );
  await client.ask(
    "set n 0 0 1\r\n1\r\nincr n 4\r\nget n\r\n",
    "STORED\r\n5\r\nVALUE n 0 1\r\n5\r\nEND\r\n",
  );
  await server.stop();
});

test("requests that many connections send at once are answered to each, at any length", async (start) => {
  await using server = await start({ args: ["-t", "1"] });
  const value = "v".repeat(40_000);
  const requests: [request: string, reply: string][] = [];
  for (const length of [20, 300, 511, 512, 513, 1000, 1023, 1024, 1025, 1536, 2047, 2048, 2049]) {
    const noops = "mn\r\n".repeat(length >> 3);
    const get = `get k${" ".repeat(length - noops.length)}`.slice(0, length - noops.length - 2);
    requests.push([`${noops}${get}\r\n`, `${noops.toUpperCase()}END\r\n`]);
    // In the middle of a line, of a data block, and with a long value.
    requests.push([`${noops}get k`, noops.toUpperCase()]);
    requests.push([`${noops}set s 0 0 3\r\nab`, noops.toUpperCase()]);
    requests.push([
      `${noops}set long 0 0 ${value.length}\r\n${value}\r\n`,
      `${noops.toUpperCase()}STORED\r\n`,
    ]);
  }
  const clients: Client[] = [];
  for (const _ of requests) clients.push(await server.connect());
  // Each connection has all the kinds, one after the other, so that what is expected of it is often wrong.
  for (let shift = 0; shift < 5; shift++) {
    server.signal("SIGSTOP");
    const sending = clients.map((client, index) =>
      client.send(requests[(index + shift) % requests.length]![0])
    );
    server.signal("SIGCONT");
    await Promise.all(sending);
    for (const [index, client] of clients.entries()) {
      const [request, reply] = requests[(index + shift) % requests.length]!;
      await client.expect(reply);
      if (request.endsWith("get k")) await client.ask("\r\n", "END\r\n");
      if (request.endsWith("ab")) {
        await client.ask("c\r\nget s\r\n", "STORED\r\nVALUE s 0 3\r\nabc\r\nEND\r\n");
      }
    }
  }
  for (const client of clients) client[Symbol.dispose]();
  await server.stop();
});

test("values larger than any buffer come back as they were", async (start) => {
  await using server = await start({ args: ["-I", "8m"] });
  using client = await server.connect();
  const value = Array.from(
    { length: 500_000 },
    (_, index) => (index % 1000).toString().padStart(6, "-"),
  )
    .join("");
  await client.ask(`set big 0 0 ${value.length}\r\n${value}\r\n`, "STORED\r\n");
  await client.ask(
    "get big\r\nget big\r\n",
    `VALUE big 0 ${value.length}\r\n${value}\r\nEND\r\n`.repeat(2),
  );
  await server.stop();
});

test("a value whose memory runs out while it arrives is passed over", async (start) => {
  await using server = await start({ args: ["-m", "8", "-M", "-I", "4m"] });
  using client = await server.connect();
  const value = "v".repeat(3_000_000);
  const refusal = "SERVER_ERROR out of memory storing object\r\n";
  await client.ask(`set a 0 0 ${value.length}\r\n${value}\r\n`, "STORED\r\n");
  await client.ask(`set b 0 0 ${value.length}\r\n${value}\r\n`, "STORED\r\n");
  await client.ask(
    `set c 0 0 ${value.length}\r\n${value}\r\nget c\r\n`,
    `${refusal}END\r\n`,
  );
  await client.ask("get a\r\n", `VALUE a 0 ${value.length}\r\n${value}\r\nEND\r\n`);
  await server.stop();
});

test("who asks at the same moment as others gets his own answer, whatever the others do", async (start) => {
  await using server = await start({ args: ["-t", "1", "-I", "2m"] });
  const clients = await Promise.all(Array.from({ length: 60 }, () => server.connect()));
  const [filler, quitter, sleeper, breaker, reader, ...others] = clients;
  const small = "s".repeat(9000);
  const long = "l".repeat(100_000);
  await filler!.ask(`set small 0 0 9000\r\n${small}\r\n`, "STORED\r\n");
  await filler!.ask(`set long 0 0 100000\r\n${long}\r\n`, "STORED\r\n");
  // While the server is stopped, its next round fills up.
  server.signal("SIGSTOP");
  const smallReply = `VALUE small 0 9000\r\n${small}\r\nEND\r\n`;
  const longReply = `VALUE long 0 100000\r\n${long}\r\nEND\r\n`;
  const ends: Promise<void>[] = [];
  for (const [index, client] of others.entries()) {
    if (index === 20) {
      await quitter!.send("get small\r\nquit\r\n");
      await sleeper!.send("get small\r\n".repeat(2000));
      await breaker!.send("get small\r\n".repeat(20));
      breaker![Symbol.dispose]();
      await reader!.send("get long\r\nget small\r\nget long\r\n");
    }
    const own = `set own${index} 0 0 2\r\nab\r\nget own${index}\r\nget none small\r\n`;
    await client.send(own);
    ends.push(client.expect(`STORED\r\nVALUE own${index} 0 2\r\nab\r\nEND\r\n${smallReply}`));
  }
  server.signal("SIGCONT");
  await Promise.all(ends);
  await reader!.expect(longReply + smallReply + longReply);
  assertEquals(await quitter!.rest(), smallReply);
  await sleeper!.expect(smallReply.repeat(2000));
  for (const client of clients) client[Symbol.dispose]();
  await server.stop();
});

test("who asks for long work does not keep others waiting until all of it is done", async (start) => {
  await using server = await start({ args: ["-t", "1"] });
  using worker = await server.connect();
  using other = await server.connect();
  const sets = Array.from({ length: 50_000 }, (_, index) => `set k${index} 0 0 1 noreply\r\nx\r\n`);
  await other.ask("mn\r\n", "MN\r\n");
  await worker.ask(sets.join("") + "mn\r\n", "MN\r\n");
  // While the server is stopped, both requests come in.
  server.signal("SIGSTOP");
  await worker.send("keys none\r\n".repeat(20) + "set done 0 0 1\r\n1\r\n");
  await other.send("get done\r\n");
  server.signal("SIGCONT");
  await other.expect("END\r\n");
  await worker.expect("END\r\n".repeat(20) + "STORED\r\n");
  await other.ask("get done\r\n", "VALUE done 0 1\r\n1\r\nEND\r\n");
  await server.stop();
});

test("connections share one store over all threads", async (start) => {
  await using server = await start({ args: ["-t", "4"] });
  const clients = await Promise.all(Array.from({ length: 40 }, () => server.connect()));
  await clients[0]!.ask("set n 0 0 1\r\n0\r\n", "STORED\r\n");
  await Promise.all(clients.map(async (client) => {
    for (let round = 0; round < 25; round++) {
      await client.send("incr n 1\r\n");
      assertMatch(await client.until("\r\n"), /^\d+\r\n$/);
    }
  }));
  await clients[0]!.ask("get n\r\n", "VALUE n 0 4\r\n1000\r\nEND\r\n");
  for (const client of clients) client[Symbol.dispose]();
  await server.stop();
});

test("stats threads counts the commands of every connection, by thread", async (start) => {
  await using server = await start({ args: ["-t", "3"] });
  const clients = await Promise.all(Array.from({ length: 9 }, () => server.connect()));
  for (const client of clients) await client.ask("get a\r\n".repeat(20), "END\r\n".repeat(20));
  await clients[0]!.send("stats threads\r\n");
  const stats = await clients[0]!.until("END\r\n");
  const commands = [...stats.matchAll(/STAT [012]:commands (\d+)\r\n/g)].map(([, count]) =>
    Number(count)
  );
  assertEquals(commands.length, 3);
  assertEquals(commands.reduce((sum, count) => sum + count), 9 * 20 + 1);
  for (const client of clients) client[Symbol.dispose]();
  await server.stop();
});

test("stats latency counts each request once, with waits for locks, in pieces and in many slices", async (start) => {
  await using server = await start({ args: ["-t", "2"] });
  using holder = await server.connect();
  using waiter = await server.connect();
  await holder.ask("set a 0 0 1\r\n1\r\nlock a\r\n", "STORED\r\nOK\r\n");
  await waiter.send("get b\r\nlock a 10000\r\nget a\r\n");
  await waiter.expect("END\r\n");
  await until(async () => await holder.stat("lock_waiting") === "1");
  await holder.ask("unlock a\r\n", "OK\r\n");
  await waiter.expect("OK\r\nVALUE a 0 1\r\n1\r\nEND\r\n");
  await waiter.ask("get c\r\n".repeat(5000), "END\r\n".repeat(5000));
  const value = "v".repeat(300_000);
  await waiter.send(`set long 0 0 ${value.length}\r\n${value.slice(0, 1000)}`);
  await waiter.ask(`${value.slice(1000)}\r\n`, "STORED\r\n");
  await waiter.ask("get long\r\n", `VALUE long 0 ${value.length}\r\n${value}\r\nEND\r\n`);
  await holder.send("stats latency\r\n");
  const stats = await holder.until("END\r\n");
  const counts = [...stats.matchAll(/STAT (get|set|lock):count (\d+)\r\n/g)];
  assertEquals(counts.map(([, kind, count]) => [kind, count]), [
    ["get", "5003"],
    ["set", "2"],
    ["lock", "3"],
  ]);
  await server.stop();
});

test("a peer that ends its side gets the answers that are due", async (start) => {
  await using server = await start();
  using client = await server.connect();
  await client.send("set a 0 0 1\r\n1\r\nget a\r\nget unfinished");
  await client.socket.closeWrite();
  assertEquals(await client.rest(), "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n");
  await server.stop();
});

Deno.test("native: a silent peer is asked for a sign of life after a minute", {
  ...needs("native", TRANSPORTS.includes("native")),
}, async (): Promise<void> => {
  await using server = await ServerProcess.start({ io: "native" });
  using client = await server.connect();
  await client.ping();
  const port = server.port.toString(16).toUpperCase().padStart(4, "0");
  // Columns of /proc/net/tcp: local address, remote address, state, queues, timer: its kind, and
  // hundredths of a second.
  const timer = (): string[] =>
    Deno.readTextFileSync("/proc/net/tcp").split("\n")
      .map((line) => line.trim().split(/\s+/))
      .find(([, local, , state]) => local === `0100007F:${port}` && state === "01")![5]!
      .split(":");
  const KEEPALIVE = "02";
  await until(() => timer()[0] === KEEPALIVE); // and not of the reply any more
  assertLess(Number.parseInt(timer()[1]!, 16), 61 * 100);
  await server.stop();
});

test("quit closes, and so does a line without end", async (start) => {
  await using server = await start();
  using polite = await server.connect();
  await polite.send("version\r\nquit\r\nversion\r\n");
  assertMatch(await polite.rest(), /^VERSION \S+\r\n$/);
  using rambling = await server.connect();
  await rambling.send("x".repeat(10_000));
  await rambling.rest();
  await server.stop();
});

test("connections above -c are told and closed; a place that is free again is given", async (start) => {
  await using server = await start({ args: ["-c", "3", "-v"] });
  const clients = await Promise.all([1, 2, 3].map(() => server.connect()));
  for (const client of clients) await client.ping();
  using refused = await server.connect();
  assertEquals(await refused.rest(), "ERROR Too many open connections\r\n");
  await server.line("connection refused: tcp:127.0.0.1");
  assertEquals(await clients[0]!.stat("rejected_connections"), "1");
  clients[2]![Symbol.dispose]();
  await until(async () => {
    using again = await server.connect();
    await again.send("get z\r\n").catch(() => {});
    return (await again.until("\r\n")) === "END\r\n";
  });
  for (const client of clients) client[Symbol.dispose]();
  await server.stop();
});

test("-vv tells of every connection", async (start) => {
  await using server = await start({ args: ["-vv"] });
  const client = await server.connect();
  await server.line("connection opened: tcp:127.0.0.1");
  client[Symbol.dispose]();
  await server.line("connection closed: tcp:127.0.0.1");
  await server.stop();
});

test("under no_maxconns_fast a connection too many waits for its turn", async (start) => {
  await using server = await start({ args: ["-c", "2", "-t", "1", "-o", "no_maxconns_fast"] });
  const clients = await Promise.all([1, 2].map(() => server.connect()));
  for (const client of clients) await client.ping();
  using waiting = await server.connect();
  await waiting.send("get z\r\n");
  await until(async () => await clients[0]!.stat("accepting_conns") === "0");
  clients[1]![Symbol.dispose]();
  await waiting.expect("END\r\n");
  assertGreater(Number(await waiting.stat("listen_disabled_num")), 0);
  // In microseconds, a pause is far longer than this.
  assertGreater(Number(await waiting.stat("time_in_listen_disabled_us")), ACCEPT_PAUSE_MS * 500);
  clients[0]![Symbol.dispose]();
  await server.stop();
});

test("under no_maxconns_fast connections that come and go use up no places", async (start) => {
  await using server = await start({ args: ["-c", "8", "-t", "1", "-o", "no_maxconns_fast"] });
  for (let come = 0; come < 30; come++) {
    using client = await server.connect();
    await client.ping();
  }
  const clients = await Promise.all(Array.from({ length: 6 }, () => server.connect()));
  for (const client of clients) await client.ping();
  for (const client of clients) client[Symbol.dispose]();
  await server.stop();
});

test("silent connections are closed after idle_timeout, busy ones are not", async (start) => {
  // Long enough for a busy machine to let the chatter go on.
  await using server = await start({ args: ["-o", "idle_timeout=4"] });
  using silent = await server.connect();
  using busy = await server.connect();
  let done = false;
  const chatter = (async (): Promise<void> => {
    while (!done) {
      await busy.ping();
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  })();
  await silent.ping();
  assertEquals(await silent.rest(), "");
  done = true;
  await chatter;
  assertEquals(await busy.stat("idle_kicks"), "1");
  await server.stop();
});

test("silent Unix connections stay open under idle_timeout", async (start) => {
  const folder = await Deno.makeTempDir();
  await using server = await start({
    args: ["-s", `${folder}/s`, "-o", "idle_timeout=1"],
    permissions: ["--allow-all"],
  });
  using silent = await Client.connectUnix(`${folder}/s`);
  await silent.ping();
  using other = await Client.connectUnix(`${folder}/s`);
  const since = Number(await other.stat("uptime"));
  await until(async () => Number(await other.stat("uptime")) > since + 3);
  await silent.ping();
  assertEquals(await other.stat("idle_kicks"), "0");
  await server.stop();
  await Deno.remove(folder);
});

test("a peer that reads late gets every byte of long replies", async (start) => {
  await using server = await start();
  using client = await server.connect();
  using other = await server.connect();
  const value = Array.from({ length: 100_000 }, (_, n) => `${n}`.padStart(10, ".")).join("");
  await client.ask(`set k 0 0 ${value.length}\r\n${value}\r\n`, "STORED\r\n");
  const count = 16;
  await client.send("get k\r\n".repeat(count));
  await until(async () => (await other.stats("conns")).includes("conn_mwrite"));
  const reply = `VALUE k 0 ${value.length}\r\n${value}\r\nEND\r\n`;
  for (let replies = 0; replies < count; replies++) await client.expect(reply);
  await server.stop();
});

test("a peer that never reads costs one bounded buffer, and is dropped", async (start) => {
  await using server = await start({ args: ["-v", "-o", "send_timeout=1"] });
  using client = await server.connect();
  const value = "x".repeat(100_000);
  await client.ask(`set big 0 0 ${value.length}\r\n${value}\r\n`, "STORED\r\n");
  const before = residentKib(server.pid);
  const sending = client.send("get big\r\n".repeat(1_000_000)).catch(() => {});
  await server.line("accepted no byte of its replies");
  assertLess(residentKib(server.pid) - before, 16 * 1024);
  await sending;
  using other = await server.connect();
  await other.ping();
  await server.stop();
});

test("out of descriptors the server waits, counts it, and accepts again", async (start) => {
  await using server = await start({ openFilesMax: 64, args: ["-c", "1000"] });
  const clients: Client[] = [];
  const first = await server.connect();
  await first.ping();
  for (let count = 0; count < 80; count++) clients.push(await server.connect());
  await server.line("EMFILE");
  const threads = Number(await first.stat("threads"));
  await until(async () => Number(await first.stat("listen_disabled_num")) > 2 * threads);
  const reports = server.lines.filter((line) => line.includes("EMFILE")).length;
  assert(reports <= threads, `${reports} lines of ${threads} threads`);
  for (const client of clients) client[Symbol.dispose]();
  await until(async () => {
    using again = await server.connect();
    await again.ping();
    return await first.stat("accepting_conns") === "1";
  });
  first[Symbol.dispose]();
  await server.stop();
});

test("clients that take every descriptor while the server starts do not end it", async (start) => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/socket`;
  const starting = start({
    openFilesMax: 64,
    args: ["-s", path],
    permissions: ["--allow-all"],
  });
  const clients: Client[] = [];
  while (clients.length < 80) {
    try {
      clients.push(await Client.connectUnix(path));
    } catch {
      // It does not listen yet.
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  }
  await using server = await starting;
  // The portable transport first tries whether it can listen: those who came then are lost.
  while (clients.length < 160) clients.push(await Client.connectUnix(path));
  await server.line("EMFILE");
  for (const client of clients) client[Symbol.dispose]();
  using client = await Client.connectUnix(path);
  await client.ping();
  client[Symbol.dispose]();
  await server.stop();
  await Deno.remove(folder, { recursive: true });
});

test("connections reset at any moment leave nothing behind", async (start) => {
  await using server = await start();
  using watcher = await server.connect();
  await watcher.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
  const before = descriptorCount(server.pid);
  for (let round = 0; round < 20; round++) {
    const clients = await Promise.all(Array.from({ length: 10 }, () => server.connect()));
    await Promise.all(
      clients.map((client, index) =>
        client.send(["get a\r\n".repeat(500), "set b 0 0 100000\r\nxx", "", "ge"][index % 4]!)
      ),
    );
    // Unread replies make the kernel send a reset.
    for (const client of clients) client[Symbol.dispose]();
  }
  await until(() => descriptorCount(server.pid) <= before + 2);
  await until(async () => Number(await watcher.stat("curr_connections")) <= 2);
  await watcher.ask("get a\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n");
  await server.stop();
});

test("who comes while watchers break off gets a connection of his own", async (start) => {
  await using server = await start({ args: ["-t", "4"] });
  using writer = await server.connect();
  for (let round = 0; round < 20; round++) {
    const watchers = await Promise.all(Array.from({ length: 15 }, () => server.connect()));
    // Their OK stays unread, so that closing them resets the connection.
    for (const watcher of watchers) await watcher.send("watch fetchers\r\n");
    await until(async () => await writer.stat("log_watchers") === "15");
    const newcomers: Client[] = [];
    for (const watcher of watchers) {
      watcher[Symbol.dispose]();
      await writer.send("get a\r\n".repeat(10));
      newcomers.push(await server.connect());
    }
    await writer.expect("END\r\n".repeat(10 * watchers.length));
    for (const newcomer of newcomers) await newcomer.ping();
    for (const newcomer of newcomers) newcomer[Symbol.dispose]();
    await until(async () => await writer.stat("curr_connections") === "1");
  }
  await server.stop();
});

test("what was sent before SIGTERM is answered", async (start) => {
  await using server = await start();
  using client = await server.connect();
  await client.ask(`set a 0 0 1000\r\n${"v".repeat(1000)}\r\n`, "STORED\r\n");
  await client.send("get a\r\n".repeat(2000));
  server.signal("SIGTERM");
  assertEquals(
    await client.rest(),
    `VALUE a 0 1000\r\n${"v".repeat(1000)}\r\nEND\r\n`.repeat(2000),
  );
  assertEquals((await server.ended()).code, 0);
});

test("UDP requests are answered by datagrams with the same id", async (start, io) => {
  const permissions = ["--allow-net=127.0.0.1", ...leastPermissions(io)];
  const args = ["-p", "-1", "-U", "-1", "-z", "3333"];
  await using server = await start({ args, permissions });
  using client = await server.connect();
  await client.ask(
    "set a 0 0 1\r\n1\r\nset b 0 0 2000\r\n" + "b".repeat(2000) + "\r\n",
    "STORED\r\nSTORED\r\n",
  );
  const port = Number(/udp 127\.0\.0\.1:(\d+)/.exec(server.lines[0]!)![1]);
  const socket = Deno.listenDatagram({ transport: "udp", hostname: "127.0.0.1", port: 0 });
  const address = { transport: "udp", hostname: "127.0.0.1", port } as const;
  const ask = (text: string): Promise<number> =>
    socket.send(
      new Uint8Array([0x12, 0x34, 0, 0, 0, 1, 0, 0, ...bytesOf(text)]),
      address,
    );
  const receive = async (): Promise<[number[], string]> => {
    const [datagram] = await socket.receive();
    return [[...datagram.subarray(0, 8)], textOf(datagram.subarray(8))];
  };
  await ask("get a\r\n");
  assertEquals(await receive(), [[0x12, 0x34, 0, 0, 0, 1, 0, 0], "VALUE a 0 1\r\n1\r\nEND\r\n"]);
  await ask("get b\r\n");
  const [head, first] = await receive();
  const [tail, second] = await receive();
  assertEquals([head, tail], [[0x12, 0x34, 0, 0, 0, 2, 0, 0], [0x12, 0x34, 0, 1, 0, 2, 0, 0]]);
  assertEquals(first + second, `VALUE b 0 2000\r\n${"b".repeat(2000)}\r\nEND\r\n`);
  await ask("set c 0 0 1\r\n3\r\nget c\r\n");
  assertEquals((await receive())[1], "STORED\r\n");
  assertEquals((await receive())[1], "VALUE c 0 1\r\n3\r\nEND\r\n");
  // Lines whose data is missing, short or long, are dropped, and hold nobody up.
  await ask("set d 0 0 5\r\nab");
  await ask("set d 0 0 5000\r\nab");
  await ask("get a d a\r\nmn\r\n");
  const replies = [await receive(), await receive(), await receive()];
  assertEquals(replies.map(([, text]) => text), [
    "VALUE a 0 1\r\n1\r\n",
    "VALUE a 0 1\r\n1\r\nEND\r\n",
    "MN\r\n",
  ]);
  for (const [frame] of replies) assertEquals(frame, [0x12, 0x34, 0, 0, 0, 1, 0, 0]);
  // As memcached answers quiet requests, and quit.
  const EMPTY = [0x12, 0x34, 0, 0, 0, 0, 0, 0];
  const packet = (opcode: string, key = "", extras = "", value = ""): string =>
    packetText({ opcode: opcodeOf(opcode), key, extras, value });
  const setQ = packet("SetQ", "q", "\0".repeat(8), "v");
  const noop = packet("Noop");
  const noopReply = packetText({ magic: 0x81, opcode: opcodeOf("Noop") });
  for (const quiet of [setQ, packet("GetQ", "no"), packet("QuitQ"), "quit\r\n"]) {
    await ask(quiet);
    assertEquals(await receive(), [EMPTY, ""], quiet);
  }
  await ask(packet("GetQ", "no") + noop);
  assertEquals([await receive(), (await receive())[1]], [[EMPTY, ""], noopReply]);
  await ask(noop + packet("GetQ", "no"));
  assertEquals((await receive())[1], noopReply);
  await ask("set e 0 0 1 noreply\r\n1\r\n");
  await ask("mn\r\n");
  assertEquals((await receive())[1], "MN\r\n");
  // Datagrams may come twice: nobody would know of the second lease, lock or update token.
  const refusedLines = ["getss 10 k", "deletess 10 k", "lease-get k", "lock a"];
  refusedLines.push("token get a", "token release a 5", "token list", "quarantine on");
  for (const line of refusedLines) {
    await ask(`${line}\r\n`);
    assertEquals((await receive())[1], "SERVER_ERROR not available over UDP\r\n", line);
  }
  const INVALID = 4;
  for (const name of ["Lock", "LaG", "LaGK", "TokenGet", "TokenRelease"]) {
    const opcode = opcodeOf(name);
    const extras = name === "TokenRelease" ? "\0".repeat(8) : "";
    const owner = name === "TokenGet" ? "owner" : "";
    await ask(packetText({ opcode, key: "a", extras, value: owner }) + noop);
    const value = "Invalid arguments";
    const refused = packetText({ magic: 0x81, opcode, status: INVALID, value });
    assertEquals((await receive())[1], refused, name);
    assertEquals((await receive())[1], noopReply, name);
  }
  socket.close();
  await server.stop();
});

Deno.test("native: conn_yields counts slices that ended before all was read", {
  ...needs("native", TRANSPORTS.includes("native")),
}, async (): Promise<void> => {
  await using server = await ServerProcess.start({ io: "native" });
  using client = await server.connect();
  const count = 100_000;
  const sending = client.send("touch nothing 1\r\n".repeat(count));
  await client.expect("NOT_FOUND\r\n".repeat(count));
  await sending;
  assertGreater(Number(await client.stat("conn_yields")), 0);
  await server.stop();
});
