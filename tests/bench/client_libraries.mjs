// deno-lint-ignore-file no-console explicit-function-return-type
// Client libraries under load, in Node or in Deno, in a folder with their packages:
// - node libraries.mjs drive <library> <port> <in flight> <requests> gets, and prints the rate and its CPU time;
// - node libraries.mjs herd <library> <port> <callers> is a process of callers that want one row of a slow database.
//   For each line of its input it prints one: "update <version>" commits and invalidates, "read <version>" has all
//   callers read at once.
import process from "node:process";
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";

const VALUE = "x".repeat(100);
const KEYS = 1_000;
const KEY = "hot";
const TTL_SEC = 60;
const LOAD_MS = 50;

const [mode, library, port, many, requests] = process.argv.slice(2);
const address = `127.0.0.1:${port}`;
let version = "";
let loads = 0;

/** Calls a function that takes a callback. */
function called(start) {
  return new Promise((resolve, reject) =>
    start((error, result) => error ? reject(error) : resolve(result))
  );
}

/** Reads the slow database. */
async function load() {
  loads++;
  await setTimeout(LOAD_MS);
  return version;
}

async function memjs() {
  return (await import("memjs")).default.Client.create(address);
}

const DRIVEN = {
  async "@leased/client"() {
    const { Client, textCodec } = await import("@leased/client");
    const client = new Client(address, { codec: textCodec });
    return { set: (key) => client.set(key, VALUE), get: (key) => client.get(key) };
  },
  async memjs() {
    const client = await memjs();
    return {
      set: (key) => client.set(key, VALUE, {}),
      get: async (key) => (await client.get(key)).value.toString(),
    };
  },
  async memcached() {
    const Memcached = (await import("memcached")).default;
    const client = new Memcached(address);
    return {
      set: (key) => called((callback) => client.set(key, VALUE, 0, callback)),
      get: (key) => called((callback) => client.get(key, callback)),
    };
  },
  async "memcache-client"() {
    const { MemcacheClient } = await import("memcache-client");
    const client = new MemcacheClient({ server: address });
    return {
      set: (key) => client.set(key, VALUE),
      get: async (key) => (await client.get(key)).value,
    };
  },
  async memcache() {
    const { Memcache } = await import("memcache");
    const client = new Memcache(address);
    return { set: (key) => client.set(key, VALUE), get: (key) => client.get(key) };
  },
  async ioredis() {
    const { Redis } = await import("ioredis");
    const client = new Redis(Number(port));
    return { set: (key) => client.set(key, VALUE), get: (key) => client.get(key) };
  },
};

const HERDS = {
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
    const client = await memjs();
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

async function drive() {
  const client = await DRIVEN[library]();
  for (let number = 0; number < KEYS; number++) await client.set(`key:${number}`);
  const get = async (count) => {
    let next = 0;
    const work = async () => {
      while (next < count) {
        const value = await client.get(`key:${next++ % KEYS}`);
        if (value !== VALUE) throw new Error(`${library} reads ${value}`);
      }
    };
    await Promise.all(Array.from({ length: Number(many) }, work));
  };
  await get(requests / 4);
  const cpu = process.cpuUsage();
  const startMs = performance.now();
  await get(requests);
  const seconds = (performance.now() - startMs) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  console.log(JSON.stringify({ rate: requests / seconds, cpuUs: (user + system) / requests }));
}

async function herd() {
  const { read, update } = await HERDS[library]();
  const timedRead = async () => {
    const startMs = performance.now();
    const isStale = (await read()) !== version;
    return { ms: performance.now() - startMs, isStale };
  };
  for await (const line of createInterface({ input: process.stdin })) {
    const [command, number] = line.split(" ");
    version = number;
    loads = 0;
    if (command === "update") await update();
    const callers = command === "update" ? 0 : Number(many);
    const reads = await Promise.all(Array.from({ length: callers }, timedRead));
    const stale = reads.filter(({ isStale }) => isStale).length;
    console.log(JSON.stringify({ loads, stale, ms: reads.map(({ ms }) => ms) }));
  }
}

await (mode === "drive" ? drive() : herd());
process.exit(0);
