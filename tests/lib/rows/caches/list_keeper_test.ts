import { assertEquals } from "@std/assert";
import type { DialOptions } from "../../../../lib/peers/dial.ts";
import { CacheClient } from "../../../../lib/rows/caches/cache_client.ts";
import { type ListChanger, ListKeeper } from "../../../../lib/rows/caches/list_keeper.ts";
import type { CacheAddress } from "../../../../lib/rows/caches/caches_file.ts";

const options: DialOptions = { timeoutMs: 1000, login: null, caCert: null };

Deno.test("clients are retired when their caches have left the list, and no others", async () => {
  const made: string[] = [];
  const retired: string[] = [];
  const keeper = new ListKeeper((hostname, port) => {
    const client = new CacheClient(hostname, port, options);
    made.push(client.name);
    client.retire = () => retired.push(client.name);
    return client;
  }, () => {});
  const address = (port: number): CacheAddress => ({ hostname: "127.0.0.1", port, weight: 1 });
  const unchanged: ListChanger = {
    isDeposed: false,
    changeCaches: () => Promise.resolve({ kind: "changed", failed: new Map() }),
  };
  await keeper.set(unchanged, [address(1), address(2)]);
  assertEquals([made, retired], [["127.0.0.1:1", "127.0.0.1:2"], []]);
  await keeper.set(unchanged, [address(2), address(3)]);
  assertEquals(retired, ["127.0.0.1:1"]);
  await keeper.set(unchanged, [address(1), address(2)]);
  assertEquals(made, ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:1"]);
  assertEquals(retired, ["127.0.0.1:1", "127.0.0.1:3"]);
  keeper.close();
});
