// deno-lint-ignore-file no-console explicit-function-return-type
// A process of callers that want one row of a slow database: node herd.mjs <library> <port> <callers>. For each line of
// its input it prints one: "update <version>" commits and invalidates, "read <version>" has all callers read at once.
import process from "node:process";
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";

const KEY = "hot";
const TTL_SEC = 60;
const LOAD_MS = 50;

const [library, port, callers] = process.argv.slice(2);
const address = `127.0.0.1:${port}`;
let version = "";
let loads = 0;

async function load() {
  loads++;
  await setTimeout(LOAD_MS);
  return version;
}

const LIBRARIES = {
  async "@leased/client"() {
    const { Cache } = await import("@leased/client");
    const cache = new Cache(address);
    return {
      read: () => cache.getOrLoad(KEY, load, { ttlSec: TTL_SEC }),
      update: () => cache.put(KEY, () => {}),
    };
  },
  async bentocache() {
    const { BentoCache, bentostore } = await import("bentocache");
    const { memoryDriver } = await import("bentocache/drivers/memory");
    const { redisBusDriver, redisDriver } = await import("bentocache/drivers/redis");
    const connection = { port: Number(port) };
    const store = bentostore().useL1Layer(memoryDriver()).useL2Layer(redisDriver({ connection }))
      .useBus(redisBusDriver({ connection }));
    const cache = new BentoCache({ default: "rows", stores: { rows: store }, ttl: TTL_SEC * 1000 });
    return {
      read: () => cache.getOrSet({ key: KEY, factory: load }),
      update: () => cache.delete({ key: KEY }),
    };
  },
  async memjs() {
    const client = (await import("memjs")).default.Client.create(address);
    return {
      async read() {
        const { value } = await client.get(KEY);
        if (value !== null) return value.toString();
        const row = await load();
        await client.set(KEY, row, { expires: TTL_SEC });
        return row;
      },
      update: () => client.delete(KEY),
    };
  },
};

const { read, update } = await LIBRARIES[library]();

async function timedRead() {
  const startMs = performance.now();
  const isStale = (await read()) !== version;
  return { ms: performance.now() - startMs, isStale };
}

for await (const line of createInterface({ input: process.stdin })) {
  const [command, number] = line.split(" ");
  version = number;
  loads = 0;
  if (command === "update") await update();
  const reads = command === "update"
    ? []
    : await Promise.all(Array.from({ length: Number(callers) }, timedRead));
  const stale = reads.filter(({ isStale }) => isStale).length;
  console.log(JSON.stringify({ loads, stale, ms: reads.map(({ ms }) => ms) }));
}
process.exit(0);
