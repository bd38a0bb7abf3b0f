import { assertEquals, assertGreaterOrEqual, assertThrows } from "@std/assert";
import { ServerProcess, TRANSPORTS } from "../support/servers/server_process.ts";
import { Generator } from "./generator.ts";
import { OpenGenerator } from "./open_generator.ts";
import { checkReply, preload, ROWS, seededRandom } from "./rows.ts";

// The generators call libc.
const ignore = !TRANSPORTS.includes("native");
const CONNECTIONS = 3;
/** One row for each way of writing requests: small, pipelined, several keys, large values, binary. */
const PLAYED = ["p1", "p16", "mget50", "get100k", "set100k", "mg1", "bget1", "setq100", "getss1"];

Deno.test({
  name: "every kind of load gets the replies that its row expects",
  ignore,
  fn: async () => {
    await using server = await ServerProcess.start({ args: ["-z", "3333", "-m", "256"] });
    const filler = new Generator(server.port, 1);
    filler.verify(preload(), checkReply(preload()));
    filler.close();
    for (const name of PLAYED) {
      const row = ROWS.find((each) => each.name === name)!;
      const batches = row.batches(seededRandom(1)).slice(0, 2 * CONNECTIONS);
      const least = Math.min(...batches.map(({ count }) => count));
      // A connection keeps the protocol of its first byte.
      const generator = new Generator(server.port, CONNECTIONS);
      generator.verify(batches, checkReply(batches));
      assertGreaterOrEqual(generator.run(batches, 0).count, CONNECTIONS * least, name);
      generator.close();
    }
  },
});

Deno.test({
  name: "a reply of another length stops the generator",
  ignore,
  fn: async () => {
    await using server = await ServerProcess.start({});
    const generator = new Generator(server.port, 1);
    const batch = { ...preload()[0]!, reply: "STORED\r\n" };
    assertThrows(() => generator.verify([batch], () => {}), Error, "Cannot count replies");
    generator.close();
  },
});

Deno.test({
  name: "a schedule of requests is answered, one latency each",
  ignore,
  fn: async () => {
    await using server = await ServerProcess.start({});
    const generator = new OpenGenerator(server.port, CONNECTIONS);
    const encoder = new TextEncoder();
    const requests = ["set k 0 0 1\r\nv\r\n", "get k\r\n", "get absent\r\n"];
    const bytes = requests.map((request) => encoder.encode(request));
    generator.runClosed(bytes, 30);
    const { latenciesMs } = generator.run(bytes, 10_000, 0.03);
    assertEquals(latenciesMs.length, 300);
    generator.close();
  },
});
