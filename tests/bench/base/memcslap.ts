/** Debian's load generator memcslap (package libmemcached-tools): threads with one request in flight each. */
import { Client } from "../../support/servers/server_process.ts";
import { textOf } from "../../support/sessions/side.ts";
import { type BenchRow, CONNECTIONS } from "./rows.ts";

/** Requests of each thread: memcslap cannot be told a time. */
const REQUESTS: Readonly<Record<string, number>> = { get: 4000, set: 2000, mget: 10_000 };

/** The tests of memcslap as rows. Its own sets, which prepare the gets, are counted too. */
export const MEMCSLAP_ROWS: readonly BenchRow[] = Object.keys(REQUESTS).map((name) => ({
  name,
  title: `memcslap -t ${name} -c ${CONNECTIONS} -e ${REQUESTS[name]}`,
  unit: name === "mget" ? "key" : "request",
  batches: () => [],
}));

/** Loads a server with a test of memcslap. Returns the number of gets and sets. */
export async function memcslap(port: number, test: string): Promise<number> {
  const before = await requestsOf(port);
  const { success, stderr } = await new Deno.Command("memcslap", {
    // deno-fmt-ignore
    args: ["-s", `127.0.0.1:${port}`, "-F", "-t", test, "-c", `${CONNECTIONS}`, "-e", `${REQUESTS[test]}`],
  }).output();
  const count = await requestsOf(port) - before;
  if (!success || count === 0) throw new Error(`memcslap: ${textOf(stderr)}`);
  return count;
}

/** Gets and sets, as the server counts them. */
async function requestsOf(port: number): Promise<number> {
  using client = new Client(await Deno.connect({ hostname: "127.0.0.1", port }));
  return Number(await client.stat("cmd_get")) + Number(await client.stat("cmd_set"));
}
