// What callers wait for while the database or a server is slow or away.
import { assertEquals, assertRejects } from "@std/assert";
import {
  Cache,
  type CacheEntry,
  LoadTimeoutError,
  UnsupportedError,
} from "../../../../lib/client/mod.ts";
import { ServerProcess, TRANSPORTS, until } from "../../../support/servers/server_process.ts";
import { testServers } from "../servers.ts";

/** Rejects later, or returns a row: as a database that is slow. */
function gate(): { load: () => Promise<string>; open: (value: string | Error) => void } {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  promise.catch(() => {});
  const open = (value: string | Error): void =>
    value instanceof Error ? reject(value) : resolve(value);
  return { load: () => promise, open };
}

testServers(
  "nobody but the caller who loads waits for the database while a value is in its grace",
  async (address) => {
    await using cache = new Cache(address);
    await using other = new Cache(address);
    const stale: CacheEntry<string> = { value: "v", isStale: true, from: "cache" };
    const options = { ttlSec: 1, graceSec: 1_000, backoffMs: 3_600_000 };
    let others = 0;
    const never = (): Promise<string> => {
      others++;
      return Promise.reject(new Error("no other caller may load"));
    };
    const neverMany = async (): Promise<Map<string, string>> => new Map([["k", await never()]]);
    await cache.getOrLoad("k", () => "v", options);
    await until(async () => (await cache.meta("mg", "k", ["t"])).ttlSec <= options.graceSec);
    const { load, open } = gate();
    const first = cache.getOrLoadEntry("k", load, options);
    for (const each of [cache, cache, other]) {
      assertEquals(await each.getOrLoadEntry("k", never, options), stale);
      assertEquals(await each.getOrLoadMany(["k"], neverMany, options), new Map([["k", "v"]]));
    }
    open(new Error("database"));
    assertEquals(await first, stale);
    assertEquals(others, 0);
    // Its claim is given back. The client that has failed pauses, another may try.
    assertEquals(await cache.getOrLoadEntry("k", never, options), stale);
    assertEquals(others, 0);
    let failures = 0;
    const fail = (): Promise<string> => {
      failures++;
      return Promise.reject(new Error("database"));
    };
    const eager = { ...options, backoffMs: 0 };
    for (let loads = 1; loads <= 3; loads++) {
      assertEquals(await other.getOrLoadEntry("k", fail, eager), stale);
      assertEquals(failures, loads);
    }
    assertEquals(await other.getOrLoad("k", () => "fresh", eager), "fresh");
    assertEquals(await cache.getOrLoad("k", never, options), "fresh");
  },
);

testServers("tokens at a server that has none: put fails at once", async (address, isLeased) => {
  // Without --tokens and --state-dir.
  await using bare = isLeased ? await ServerProcess.start({ io: TRANSPORTS.at(-1)! }) : null;
  await using cache = new Cache(bare === null ? address : `127.0.0.1:${bare.port}`);
  const commit = (): never => {
    throw new Error("nothing is committed without a token");
  };
  const put = cache.put("k", commit, { form: "tokens", limitMs: 3_600_000 });
  await assertRejects(() => put, UnsupportedError, isLeased ? "state directory" : '"ERROR"');
});

testServers(
  "a caller behind a load that hangs waits for one time-out, not for two",
  async (address) => {
    await using cache = new Cache(address);
    const hang = (): Promise<string> => new Promise(() => {});
    const options = { hardMs: 1_000 };
    const ended: string[] = [];
    const asking = (name: string, more = {}): Promise<unknown> =>
      assertRejects(() => cache.getOrLoad(name, hang, { ...options, ...more }), LoadTimeoutError)
        .then(() => void ended.push(name));
    const first = asking("k");
    // Behind the first one, which has begun.
    await until(() => cache.counters.loads === 1);
    const second = asking("k");
    await first;
    // It has less time than a second time-out would take.
    const other = asking("other", { hardMs: 700 });
    await Promise.all([second, other]);
    assertEquals(ended, ["k", "k", "other"]);
  },
);

testServers("a slow refresh keeps no caller waiting", async (address) => {
  await using cache = new Cache(address);
  await cache.getOrLoad("k", () => "old", { ttlSec: 50 });
  const { load, open } = gate();
  const options = { ttlSec: 500, refreshSec: 100, backoffMs: 3_600_000 };
  let loads = 0;
  const count = (): Promise<string> => {
    loads++;
    return load();
  };
  for (let calls = 0; calls < 5; calls++) {
    assertEquals(await cache.getOrLoad("k", count, options), "old");
  }
  open("new");
  await until(async () => await cache.getOrLoad("k", count, options) === "new");
  assertEquals(loads, 1);
});
