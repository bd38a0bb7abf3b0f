// deno-lint-ignore-file no-console explicit-function-return-type -- its output is its result; JavaScript has no types
// A client library in an outage, in Node, in a folder with the packages:
// node client_outages.mjs <library> <port> <pid of the server> <outage> <seconds>
// Two clients, as of two processes of an application, read one hot key by 40 callers. Prints the callers' waits in ms,
// errors, reads without an answer, stale reads (older than an update that was confirmed before the read began), and loads.
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";

const KEY = "hot";
const CALLERS = 20;
const LOAD_MS = 5;
const SLOW_MS = 3_000;
const UPDATE_MS = 100;
const SOFT_MS = 100;
const GRACE_SEC = 600;

const [library, port, pid, outage, seconds] = process.argv.slice(2);
const address = `127.0.0.1:${port}`;
let database = "fine";
let version = 0;
let loads = 0;

/** Reads the database. */
async function load() {
  loads++;
  const read = version;
  await sleep(database === "slow" ? SLOW_MS : LOAD_MS);
  if (database === "down") throw new Error("the database is down");
  return read;
}

/** By outage, how long a value is kept, and how it is refreshed: seconds. */
const TIMES = {
  "database down": { ttlSec: 1, refreshSec: 0 },
  "slow load": { ttlSec: 1, refreshSec: 0 },
  "slow refresh": { ttlSec: 20, refreshSec: 19 },
  "server down": { ttlSec: 60, refreshSec: 0 },
  "server stopped": { ttlSec: 60, refreshSec: 0 },
  "none": { ttlSec: 60, refreshSec: 0 },
};
const { ttlSec, refreshSec } = TIMES[outage];

const LIBRARIES = {
  async "@leased/client"() {
    const { Cache } = await import("@leased/client");
    const cache = new Cache(address, { whenDown: "miss", retryMaxMs: 1000 });
    const options = { ttlSec, refreshSec, graceSec: GRACE_SEC, softMs: SOFT_MS };
    return {
      read: () => cache.getOrLoad(KEY, load, options),
      update: (commit) => cache.put(KEY, commit, { limitMs: 1_000 }),
    };
  },
  async bentocache() {
    const { BentoCache, bentostore } = await import("bentocache");
    const { memoryDriver } = await import("bentocache/drivers/memory");
    const { redisBusDriver, redisDriver } = await import("bentocache/drivers/redis");
    const connection = { port: Number(port) };
    const store = bentostore().useL1Layer(memoryDriver()).useL2Layer(redisDriver({ connection }))
      .useBus(redisBusDriver({ connection }));
    const cache = new BentoCache({ default: "rows", stores: { rows: store } });
    const times = { ttl: ttlSec * 1000, grace: GRACE_SEC * 1000 };
    // It refreshes only what has expired: then at once, in the background, by a time-out of 0.
    const options = outage === "slow refresh"
      ? { ...times, ttl: 1000, timeout: 0 }
      : { ...times, timeout: SOFT_MS };
    return {
      read: () => cache.getOrSet({ key: KEY, factory: load, ...options }),
      update: async (commit) => {
        await commit();
        await cache.delete({ key: KEY });
      },
    };
  },
  async "cache-manager"() {
    const { createCache } = await import("cache-manager");
    const { default: Keyv } = await import("keyv");
    const { default: KeyvRedis } = await import("@keyv/redis");
    const store = new KeyvRedis(`redis://127.0.0.1:${port}`);
    const cache = createCache({ stores: [new Keyv({ store })] });
    cache.on("error", () => {});
    store.on("error", () => {});
    return {
      read: () => cache.wrap(KEY, load, ttlSec * 1000, refreshSec * 1000),
      update: async (commit) => {
        await commit();
        await cache.del(KEY);
      },
    };
  },
};

const clients = [await LIBRARIES[library](), await LIBRARIES[library]()];
process.on("unhandledRejection", () => {});
for (const { read } of clients) await read();
let confirmed = version;
let isOver = false;

async function update() {
  for (let turn = 0; !isOver; turn++) {
    const { update } = clients[turn % clients.length];
    let written = version;
    try {
      await update(() => void (written = ++version));
      confirmed = Math.max(confirmed, written);
    } catch {
      // Not confirmed.
    }
    await sleep(UPDATE_MS);
  }
}

/** The outage begins. */
async function begin() {
  switch (outage) {
    case "database down":
    case "slow load":
      await sleep(1_500);
      database = outage === "slow load" ? "slow" : "down";
      return;
    case "slow refresh":
      await sleep(1_500);
      database = "slow";
      return;
    case "server down":
      return process.kill(Number(pid), "SIGKILL");
    case "server stopped":
      return process.kill(Number(pid), "SIGSTOP");
  }
}

const hasUpdates = outage.startsWith("server") || outage === "none";
if (hasUpdates) update();
await begin();
loads = 0;
const endMs = performance.now() + seconds * 1000;
const waits = [];
let errors = 0;
let stale = 0;
let unanswered = 0;
const over = sleep(seconds * 1000 + 1_000, "over");
await Promise.all(clients.flatMap(({ read }) =>
  Array.from({ length: CALLERS }, async () => {
    while (performance.now() < endMs) {
      const startMs = performance.now();
      const least = confirmed;
      try {
        const found = await Promise.race([read(), over]);
        if (found === "over") unanswered++;
        else if (found < least) stale++;
      } catch {
        errors++;
      }
      waits.push(performance.now() - startMs);
      await sleep(1);
    }
  })
));
isOver = true;
if (outage === "server stopped") process.kill(Number(pid), "SIGCONT");
waits.sort((a, b) => a - b);
const at = (share) => waits[Math.min(waits.length - 1, Math.floor(waits.length * share))];
console.log(JSON.stringify({
  ...{ p50: at(0.5), p99: at(0.99), longest: at(1), reads: waits.length },
  ...{ errors, unanswered, stale, loads },
}));
process.exit(0);
