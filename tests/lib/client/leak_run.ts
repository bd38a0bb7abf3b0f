// Many requests of one cache, and what is left of them: leak_run.ts <server> <requests>, with --v8-flags=--expose-gc.
// It prints the heap in bytes after a tenth of the requests, and after all; then it ends by itself: no timer and no
// socket is left.
import { memoryUsage } from "node:process";
import { Cache } from "../../../lib/client/mod.ts";

const [address, count] = Deno.args;
const REQUESTS = Number(count);
const IN_FLIGHT = 100;
const KEYS = 1_000;
const PATIENT_MS = 100_000;

const cache = new Cache(address!, { replyMs: PATIENT_MS, connections: 2 });
/** One for all requests: each must take back its listener. */
const { signal } = new AbortController();
let sent = 0;

async function work(limit: number): Promise<void> {
  while (sent < limit) {
    const number = sent++;
    const key = `k${number % KEYS}`;
    switch (number % 1_000) {
      case 0:
        await cache.put([key], () => {}, { form: "tokens", tags: ["tag"] });
        break;
      case 1:
        await cache.withLock(`lock of ${key}`.replaceAll(" ", "-"), () => {}, {
          waitMs: PATIENT_MS,
        });
        break;
      case 2:
        await cache.getOrLoad(key, () => Promise.reject(new Error("no database"))).catch(() => {});
        break;
      case 3:
        await cache.get(key, { signal: AbortSignal.abort() }).catch(() => {});
        break;
      case 4:
        await cache.getOrLoadMany([key, "k1"], (keys) => new Map(keys.map((each) => [each, each])));
        break;
      default:
        if (number % 10 === 5) await cache.set(key, number, { signal });
        else if (number % 10 === 6) await cache.getOrLoad(key, () => number, { signal });
        else await cache.get(key, { signal });
    }
  }
}

/** Sends requests until there were so many. @returns The heap afterwards, in bytes. */
async function heapAfter(limit: number): Promise<number> {
  await Promise.all(Array.from({ length: IN_FLIGHT }, () => work(limit)));
  for (let round = 0; round < 3; round++) {
    (globalThis as unknown as { gc(): void }).gc();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return memoryUsage().heapUsed;
}

const first = await heapAfter(REQUESTS / 10);
const last = await heapAfter(REQUESTS);
await cache.close();
// deno-lint-ignore no-console -- the result of the run
console.log(JSON.stringify({ requests: sent, first, last, rss: memoryUsage().rss }));
