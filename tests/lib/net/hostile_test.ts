import { assertEquals, assertLess, assertStringIncludes } from "@std/assert";
import { acquire, counterRequest, dump } from "../../support/sessions/counter_packets.ts";
import { randomFrom } from "../../support/random.ts";
import {
  type Client,
  IO_WAYS,
  residentKib,
  ServerProcess,
  until,
} from "../../support/servers/server_process.ts";

// Clients that mean no good, over sockets. After each of them the next client is served as if
// nothing had been, nothing of theirs is left, and at the end the store check passes.

const CONNECTIONS_MAX = 150;
/** The store has 2 MiB; the rest is the engine's, whose compiler is met with all there is to optimise. */
const GROWTH_KIB_MAX = 160 * 1024;

/** A group of connections, of which none reads unless it says so. */
class Mob {
  readonly clients: Client[] = [];
  readonly #sending: Promise<void>[] = [];
  readonly #server: ServerProcess;

  constructor(server: ServerProcess) {
    this.#server = server;
  }

  /** Connects one more and has it send this, as far as it can. */
  async send(text: string, port = this.#server.port): Promise<Client> {
    const client = await this.#server.connect(port);
    this.clients.push(client);
    this.#sending.push(client.send(text).catch(() => {}));
    return client;
  }

  /** They go: a reset where there are replies that they have not read. */
  async leave(): Promise<void> {
    for (const client of this.clients) client[Symbol.dispose]();
    await Promise.all(this.#sending);
    this.clients.length = 0;
    this.#sending.length = 0;
  }
}

const block = (line: string, value: string): string => `${line} ${value.length}\r\n${value}\r\n`;
const LONG = "v".repeat(300_000);
const SET_LONG = block("set long 0 0", LONG);
/** Binary: set of `key`, the body said to be this long. */
const binarySet = (key: string, bodyLength: number): string =>
  `\x80\x01\0${String.fromCharCode(key.length)}\x08\0\0\0` +
  String.fromCharCode(bodyLength >>> 24, bodyLength >> 16 & 255, bodyLength >> 8 & 255) +
  String.fromCharCode(bodyLength & 255) + "\0".repeat(20) + key;

type Attack = readonly [name: string, run: (mob: Mob, server: ServerProcess) => Promise<void>];

const ATTACKS: readonly Attack[] = [
  ["frames that make no sense", async (mob, server) => {
    const random = randomFrom(1);
    const pick = (words: readonly string[]): string => words[Math.floor(random() * words.length)]!;
    const commands = "get set cas incr touch gat mg ms ma md me getss deletess lock unlock stats"
      .split(" ");
    const words = ["0", "-1", "2147483648", "18446744073709551616", "k", "\0", "\xff", "", "b", "q"]
      .concat(["noreply", "N0", "x".repeat(251), "M", `O${"x".repeat(40)}`, "1e9", "C1", "E0"]);
    for (let count = 0; count < 100; count++) {
      let text = pick(["", "", "\x80"]);
      for (let line = 0; line < 30; line++) {
        text += [pick(commands), pick(words), pick(words), pick(words), pick(words)].join(" ");
        text += pick(["\r\n", "\n", "\r\nx\r\n"]);
      }
      await mob.send(text);
      await mob.send(counterRequest(count % 0x20, text, { bodyLength: count }), server.counterPort);
      if (count % 20 === 19) await mob.leave();
    }
  }],
  ["long values that are announced and never come", async (mob) => {
    const beginnings = ["set x 0 0 900000\r\n", "append long 0 0 50000\r\nabc", "ms x 900000 q\r\n"]
      .concat([binarySet("x", 900_000), "add y 0 0 100000\r\n" + "y".repeat(70_000)]);
    for (let count = 0; count < 120; count++) {
      await mob.send(beginnings[count % beginnings.length]!);
    }
  }],
  ["replies that nobody reads", async (mob) => {
    const requests = [
      "get long\r\n",
      "mg long v\r\n",
      "gats 0 long long\r\n",
      "stats settings\r\n",
    ];
    for (let count = 0; count < 60; count++) {
      await mob.send(SET_LONG + requests[count % requests.length]!.repeat(100));
    }
    await mob.send("lru_crawler metadump all\r\n");
    await mob.send("get long\r\n".repeat(200_000));
  }],
  ["lines without end", async (mob) => {
    for (let count = 0; count < 4; count++) await mob.send("get " + "key ".repeat(500_000));
    await mob.send("get " + "x".repeat(2_000_000));
    await mob.send("x".repeat(100_000));
  }],
  ["sets and gets that break off at any byte", async (mob) => {
    for (let count = 0; count < 100; count++) {
      const client = await mob.send(
        SET_LONG.slice(0, count * count * 31) + (count > 98 ? "" : "\r"),
      );
      if (count % 10 === 9) await client.socket.closeWrite().catch(() => {});
      if (count % 20 === 19) await mob.leave();
    }
    for (let count = 0; count < 20; count++) {
      const client = await mob.send(SET_LONG + "get long long\r\n");
      await client.take(count * 16_000 + 8);
      client[Symbol.dispose]();
    }
  }],
  ["requests byte by byte", async (mob) => {
    const client = await mob.send("");
    for (const byte of `${block("set a 0 0", "abc")}get a\r\n`) await client.send(byte);
    await client.expect("STORED\r\nVALUE a 0 3\r\nabc\r\nEND\r\n");
  }],
  ["a wrong magic byte in the stream", async (mob) => {
    const noop = "\x80\x0a" + "\0".repeat(22);
    for (const wrong of ["get a\r\n".repeat(5), "\x81" + noop, "\0".repeat(24)]) {
      const client = await mob.send(noop + wrong + noop);
      assertEquals((await client.rest()).length, 24);
    }
  }],
  ["more connections than -c", async (mob, server) => {
    for (let count = 0; count < 3 * CONNECTIONS_MAX; count++) await mob.send("");
    for (let count = 0; count < 20; count++) await mob.send(dump(), server.counterPort);
  }],
  ["holders of locks, and who waits for them", async (mob, server) => {
    using witness = await server.connect();
    await witness.ask(block("set l 0 0", "x"), "STORED\r\n");
    for (let count = 0; count < 100; count++) {
      await mob.send(
        `${block(`set l${count} 0 0`, "x")}lock l${count}\r\nlock l 60000\r\nget l\r\n`,
      );
    }
    await until(async () => await witness.stat("lock_waiting") === "99");
  }],
  ["leases that nobody fills", async (mob) => {
    let text = "";
    for (let count = 0; count < 5000; count++) text += `getss 10 lease${count}\r\n`;
    await mob.send(text + "lease-get x\r\nlease-set x 1 0 0 5\r\nabc");
  }],
  ["watchers that do not read", async (mob, server) => {
    for (let count = 0; count < 25; count++) {
      await mob.send("watch fetchers mutations connevents\r\n");
    }
    using client = await server.connect();
    await client.ask("get nothing\r\n".repeat(5000), "END\r\n".repeat(5000));
  }],
  ["holders of counters", async (mob, server) => {
    for (let count = 0; count < 100; count++) {
      await mob.send(acquire(1, 2 ** 32 - 1, "c") + acquire(1, 5, `c${count}`), server.counterPort);
    }
    await mob.send(dump().repeat(10_000), server.counterPort);
    await mob.send(counterRequest(2, "x", { bodyLength: 2 ** 32 - 1 }), server.counterPort);
  }],
];

/** Statistics that must be 0 when an attack is over. */
const LEFT_OVER = ["lock_curr", "lock_waiting", "log_watchers"];

for (const { name: way, io, ioUring = "auto" } of IO_WAYS) {
  Deno.test(`${way}: whatever hostile clients do, the next one is served and nothing of theirs is left`, async (t) => {
    const sizes = ["-m", "2", "-t", "4", "-c", String(CONNECTIONS_MAX)];
    await using server = await ServerProcess.start({
      io,
      ioUring,
      args: [...sizes, "-vvv", "-z", "3333", "--counter-port", "-1", "-I", "1m"],
      permissions: ["--allow-all"],
    });
    const startKib = residentKib(server.pid);
    const mob = new Mob(server);
    for (const [name, attack] of ATTACKS) {
      await t.step(name, async () => {
        await attack(mob, server);
        await mob.leave();
        await until(() => isAlone(server));
        using client = await server.connect();
        await client.ask(
          `${block("set a 0 0", "1")}get a\r\n`,
          "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n",
        );
        for (const left of LEFT_OVER) assertEquals(await client.stat(left), "0", left);
        assertLess(residentKib(server.pid) - startKib, GROWTH_KIB_MAX);
      });
    }
    const { stderr } = await server.stop();
    assertStringIncludes(stderr, "store check passed");
  });
}

/** Whether all connections but the one that asks are closed. */
async function isAlone(server: ServerProcess): Promise<boolean> {
  try {
    using client = await server.connect();
    await client.send("stats\r\n");
    const reply = await client.until("END\r\n");
    return reply.includes("STAT curr_connections 1\r\n");
  } catch {
    // It was refused: the others are still there.
    return false;
  }
}
