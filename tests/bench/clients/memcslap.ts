/** Debian's load generator memcslap (package libmemcached-tools): threads with one request in flight each. */
import { type BenchRow, CONNECTIONS } from "../rows.ts";
import type { Load } from "./comparison.ts";

/** Requests of each thread: memcslap cannot be told a time. */
const REQUESTS = { get: 4000, set: 2000, mget: 10_000 };
type Test = keyof typeof REQUESTS;

/** The tests of memcslap as rows. Its own sets, which prepare the gets, are counted too. */
export const MEMCSLAP_ROWS: readonly BenchRow[] = Object.keys(REQUESTS).map((name) => ({
  name,
  title: `memcslap -t ${name} -c ${CONNECTIONS} -e ${REQUESTS[name as Test]}`,
  unit: name === "mget" ? "key" : "request",
  goal: 1,
  batches: () => [],
}));

/** Loads one server with memcslap, which is started anew for each round, and counts gets and sets. */
export class Memcslap implements Load {
  constructor(readonly port: number, readonly row: string) {}

  async run(): Promise<number> {
    const before = await this.#count();
    const each = REQUESTS[this.row as Test];
    const { success, stderr } = await new Deno.Command("memcslap", {
      // deno-fmt-ignore
      args: ["-s", `127.0.0.1:${this.port}`, "-F", "-t", this.row, "-c", `${CONNECTIONS}`, "-e", `${each}`],
    }).output();
    const count = await this.#count() - before;
    if (!success || count === 0) throw new Error(`memcslap: ${new TextDecoder().decode(stderr)}`);
    return count;
  }

  /** Gets and sets, as the server counts them. */
  async #count(): Promise<number> {
    using socket = await Deno.connect({ hostname: "127.0.0.1", port: this.port });
    await socket.write(new TextEncoder().encode("stats\r\nquit\r\n"));
    const text = await new Response(socket.readable).text();
    const stats = text.matchAll(/^STAT cmd_(?:get|set) (\d+)/gm);
    return [...stats].reduce((sum, [, count]) => sum + Number(count), 0);
  }
}
