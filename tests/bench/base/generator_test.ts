import { assert, assertEquals, assertGreaterOrEqual, assertThrows } from "@std/assert";
import { ServerProcess, TRANSPORTS } from "../../support/servers/server_process.ts";
import { Batches, Generator } from "./generator.ts";
import { fill } from "./clients.ts";
import { Mix } from "./loads.ts";
import { eachKey, preload, rowOf, seededRandom, verify } from "./rows.ts";
import { needs } from "../../support/needs/needs.ts";

// The generators call libc.

const CONNECTIONS = 3;
/** One row for each way of writing requests: small, pipelined, several keys, large values, binary. */
const PLAYED = ["p1", "p16", "mget50", "get100k", "set100k", "mg1", "getq100", "setq100", "getss1"];

Deno.test(
  "every kind of load gets the replies that its row expects",
  needs("native", TRANSPORTS.includes("native")),
  async () => {
    await using server = await ServerProcess.start({ args: ["-z", "3333", "-m", "256"] });
    fill(server.port);
    for (const name of PLAYED) {
      const batches = rowOf(name).batches(seededRandom(1)).slice(0, 2 * CONNECTIONS);
      const least = Math.min(...batches.map(({ count }) => count));
      // A connection keeps the protocol of its first byte.
      using generator = new Generator(server.port, CONNECTIONS, new Batches(batches));
      verify(generator, batches);
      const { count } = generator.run({ seconds: 0 });
      assertGreaterOrEqual(count, CONNECTIONS * least, name);
    }
  },
);

Deno.test(
  "a reply of another length stops the generator",
  needs("native", TRANSPORTS.includes("native")),
  async () => {
    await using server = await ServerProcess.start({});
    const batch = { ...preload()[0]!, reply: "STORED\r\n" };
    using generator = new Generator(server.port, 1, new Batches([batch]));
    assertThrows(() => generator.ask(batch), Error, "Cannot count replies");
    assertThrows(() => generator.run({ seconds: 0 }), Error, "Cannot count replies");
  },
);

Deno.test(
  "a schedule of requests is answered, one latency each",
  needs("native", TRANSPORTS.includes("native")),
  async () => {
    await using server = await ServerProcess.start({});
    using generator = new Generator(server.port, CONNECTIONS, new Mix(seededRandom(1)));
    assertGreaterOrEqual(generator.run({ seconds: 0 }).count, CONNECTIONS);
    const { latenciesMs } = generator.run({ seconds: 0.03, perSecond: 10_000 });
    assertEquals(latenciesMs.length, 300);
    assert(latenciesMs.every((ms) => ms > 0));
  },
);

Deno.test(
  "a timed run of a number of requests asks for each key in its turn",
  needs("native", TRANSPORTS.includes("native")),
  async () => {
    await using server = await ServerProcess.start({});
    const run = { seconds: Infinity, requests: 20, timed: true };
    const timed = (command: "get" | "set", keys: number): number => {
      const batches = new Batches(eachKey(command, keys), true);
      using generator = new Generator(server.port, CONNECTIONS, batches);
      const { count, latenciesMs } = generator.run(run);
      assertEquals(count, latenciesMs.length);
      return count;
    };
    assertThrows(() => timed("get", 20), Error, "Cannot count replies: 5 of");
    assertEquals([timed("set", 20), timed("get", 20)], [20, 20]);
  },
);
