import { assertEquals, assertGreater } from "@std/assert";
import {
  type Client,
  ServerProcess,
  testTransports as test,
  TRANSPORTS,
  until,
} from "../../support/servers/server_process.ts";
import { packetText } from "../../support/sessions/binary_text.ts";
import { UdpClient } from "../../support/servers/udp_client.ts";
import { needs } from "../../support/needs/needs.ts";

const ARGS = ["-p", "-1", "-U", "-1", "-t", "2"];

function udpClient(server: ServerProcess): UdpClient {
  return new UdpClient(Number(/udp 127\.0\.0\.1:(\d+)/.exec(server.lines[0]!)![1]));
}

async function statistic(client: Client, name: string): Promise<number> {
  return Number(await client.stat(name));
}

test("a datagram that takes many slices is answered whole, others beside it", async (start) => {
  await using server = await start({ args: [...ARGS, "-R", "5"] });
  using client = await server.connect();
  using udp = udpClient(server);
  // More than are executed in slices at a time; they fit the receive buffer that every system grants.
  const datagrams = 70;
  const setsEach = 20;
  server.signal("SIGSTOP");
  for (let id = 0; id < datagrams; id++) {
    let requests = "";
    for (let number = 0; number < setsEach; number++) {
      requests += `set ${id}:${number} 0 0 1 noreply\r\nv\r\n`;
    }
    await udp.send(id, `${requests}mn\r\n`);
  }
  server.signal("SIGCONT");
  const answered = new Set<number>();
  while (answered.size < datagrams) {
    const [id, text] = await udp.receive();
    assertEquals(text, "MN\r\n");
    answered.add(id);
  }
  assertEquals(await statistic(client, "curr_items"), datagrams * setsEach);
  const noops = 150;
  await udp.send(7, "mn\r\n".repeat(noops));
  for (let reply = 0; reply < noops; reply++) assertEquals(await udp.receive(), [7, "MN\r\n"]);
  await server.stop();
});

test("the largest datagrams are executed, and answered by many", async (start) => {
  await using server = await start({ args: ARGS });
  using udp = udpClient(server);
  const value = "v".repeat(60_000);
  await udp.send(1, `set big 0 0 ${value.length}\r\n${value}\r\n`);
  assertEquals(await udp.receive(), [1, "STORED\r\n"]);
  await udp.send(2, "get big\r\n");
  const reply = `VALUE big 0 ${value.length}\r\n${value}\r\nEND\r\n`;
  let received = "";
  while (received.length < reply.length) {
    const [id, text] = await udp.receive();
    assertEquals(id, 2);
    received += text;
  }
  assertEquals(received, reply);
  await server.stop();
});

for (const slices of [[], ["-R", "5"]]) {
  const title = ["replies to one datagram that are too long are not sent", ...slices].join(" ");
  test(title, async (start) => {
    await using server = await start({ args: [...ARGS, "--udp-reply-max", "100", ...slices] });
    using udp = udpClient(server);
    await udp.send(1, "mn\r\n".repeat(26));
    await udp.send(2, "mn\r\n".repeat(25));
    for (let reply = 0; reply < 25; reply++) assertEquals(await udp.receive(), [2, "MN\r\n"]);
    await server.stop();
  });
}

test("replies to one datagram are counted together, also over slices and packets", async (start) => {
  const value = "v".repeat(60);
  const reply = `VALUE k 0 ${value.length}\r\n${value}\r\nEND\r\n`;
  await using server = await start({ args: [...ARGS, "-R", "2", "--udp-reply-max", "500"] });
  using udp = udpClient(server);
  await udp.send(1, `set k 0 0 ${value.length}\r\n${value}\r\n`);
  assertEquals(await udp.receive(), [1, "STORED\r\n"]);
  const fitting = Math.floor(500 / reply.length);
  await udp.send(2, "get k\r\n".repeat(fitting + 1));
  await udp.send(3, "get k\r\n".repeat(fitting));
  for (let count = 0; count < fitting; count++) assertEquals(await udp.receive(), [3, reply]);
  const get = packetText({ opcode: 0x00, key: "k", extras: "", value: "" });
  const replyLength = 24 + 4 + value.length;
  const packets = Math.floor(500 / replyLength);
  await udp.send(4, get.repeat(packets + 1));
  await udp.send(5, get.repeat(packets));
  for (let count = 0; count < packets; count++) {
    const [id, text] = await udp.receive();
    assertEquals([id, text.length], [5, replyLength]);
  }
  await server.stop();
});

Deno.test("native: every datagram of a burst is stored, or counted as dropped", {
  ...needs("native", TRANSPORTS.includes("native")),
}, async (): Promise<void> => {
  await using server = await ServerProcess.start({ args: ARGS, io: "native" });
  using client = await server.connect();
  using udp = udpClient(server);
  const sent = 30_000;
  server.signal("SIGSTOP");
  for (let number = 0; number < sent; number++) {
    await udp.send(number & 0xffff, `set k${number} 0 0 1 noreply\r\nv\r\n`);
  }
  server.signal("SIGCONT");
  await until(async () =>
    await statistic(client, "curr_items") + await statistic(client, "udp_dropped") === sent
  );
  assertGreater(await statistic(client, "curr_items"), 0);
  await client.ask("stats reset\r\n", "RESET\r\n");
  assertEquals(await statistic(client, "udp_dropped"), 0);
  await server.stop();
});
