// deno-lint-ignore-file no-console explicit-function-return-type
// One client library under load, in Node or in Deno: node drive.mjs <library> <port> <in flight> <requests>. Runs in
// a folder with the libraries' packages.
import process from "node:process";

const VALUE = "x".repeat(100);
const KEYS = 1_000;

const [library, port, inFlight, requests] = process.argv.slice(2);
const address = `127.0.0.1:${port}`;

function called(start) {
  return new Promise((resolve, reject) =>
    start((error, result) => error ? reject(error) : resolve(result))
  );
}

const LIBRARIES = {
  async "@leased/client"() {
    const { Client, textCodec } = await import("@leased/client");
    const client = new Client(address, { codec: textCodec });
    return { set: (key) => client.set(key, VALUE), get: (key) => client.get(key) };
  },
  async memjs() {
    const client = (await import("memjs")).default.Client.create(address);
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

const client = await LIBRARIES[library]();
for (let number = 0; number < KEYS; number++) await client.set(`key:${number}`);

async function get(count) {
  let next = 0;
  const work = async () => {
    while (next < count) {
      const value = await client.get(`key:${next++ % KEYS}`);
      if (value !== VALUE) throw new Error(`${library} reads ${value}`);
    }
  };
  await Promise.all(Array.from({ length: Number(inFlight) }, work));
}

await get(requests / 4);
const cpu = process.cpuUsage();
const startMs = performance.now();
await get(requests);
const seconds = (performance.now() - startMs) / 1000;
const { user, system } = process.cpuUsage(cpu);
console.log(JSON.stringify({ rate: requests / seconds, cpuUs: (user + system) / requests }));
process.exit(0);
