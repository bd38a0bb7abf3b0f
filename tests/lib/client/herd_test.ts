import { assert, assertEquals } from "@std/assert";
import { TextLineStream } from "@std/streams";
import { Cache, textCodec } from "../../../lib/client/mod.ts";
import { testDatabases } from "../../support/servers/databases.ts";
import { startOrigin } from "../../support/servers/origin_process.ts";
import { path } from "../../support/servers/server_process.ts";
import { testServers } from "./servers.ts";

// 500 callers in 4 processes want one key that is missing: one load for each invalidation.

const PROCESSES = 4;
const CALLERS = 125;
const ROUNDS = 5;
const LOAD_MS = 50;

/** Processes of callers. */
class Herd implements AsyncDisposable {
  readonly #children: Deno.ChildProcess[] = [];
  readonly #outputs: ReadableStreamDefaultReader<string>[] = [];
  readonly #inputs: WritableStreamDefaultWriter<Uint8Array>[] = [];

  /** @param port Of the database; 0: the server's own. */
  constructor(server: string, port: number) {
    for (let count = 0; count < PROCESSES; count++) {
      const child = new Deno.Command(Deno.execPath(), {
        args: [
          ...["run", "--no-prompt", "-A"],
          ...[
            `--lock=${path("tests/deno.lock")}`,
            `--config=${path("deno.json")}`,
          ],
          ...[path("tests/lib/client/herd_caller.ts"), server, `${port}`, `${CALLERS}`],
        ],
        ...{ stdin: "piped", stdout: "piped", stderr: "inherit" },
      }).spawn();
      this.#children.push(child);
      this.#inputs.push(child.stdin.getWriter());
      const lines = child.stdout.pipeThrough(new TextDecoderStream())
        .pipeThrough(new TextLineStream());
      this.#outputs.push(lines.getReader());
    }
  }

  /** All callers want the key. @returns The results of the callers of each process. */
  async call(): Promise<(string | undefined)[]> {
    const line = new TextEncoder().encode("go\n");
    await Promise.all(this.#inputs.map((input) => input.write(line)));
    return await Promise.all(this.#outputs.map(async (output) => (await output.read()).value));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const input of this.#inputs) await input.close();
    for (const output of this.#outputs) await output.cancel();
    for (const child of this.#children) await child.status;
  }
}

const expected = (value: string): string[] => new Array(PROCESSES).fill(value);

testServers("herd: one load of a slow database for each invalidation", async (address) => {
  let row = "";
  let loads = 0;
  await using database = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async () => {
      loads++;
      const value = row;
      await new Promise((resolve) => setTimeout(resolve, LOAD_MS));
      return new Response(value);
    },
  );
  await using cache = new Cache<string>(address, { codec: textCodec, replyMs: 20_000 });
  await using herd = new Herd(address, database.addr.port);
  for (let round = 1; round <= ROUNDS; round++) {
    await cache.put("hot", () => void (row = `value ${round}`));
    assertEquals(await herd.call(), expected(row));
    assertEquals(loads, round);
  }
});

testDatabases(
  "herd: a connection reads a missing row once at most, whatever its callers",
  async (database) => {
    await using origin = await startOrigin(database);
    const address = `127.0.0.1:${origin.port}`;
    await using cache = new Cache<string>(address, { codec: textCodec, replyMs: 20_000 });
    const reads = async (): Promise<number> => {
      const [statistics] = (await cache.stats("rows")).values();
      return Number(statistics!.get("gets_cacheable"));
    };
    await using herd = new Herd(address, 0);
    for (let round = 1; round <= ROUNDS; round++) {
      await cache.putRow("hot", `value ${round}`);
      assertEquals(await herd.call(), expected(`value ${round}`));
      // A miss that meets the end of another connection's read may read once more.
      const count = await reads();
      assert(count >= round && count <= round * PROCESSES, `${count} reads in round ${round}`);
    }
  },
);
