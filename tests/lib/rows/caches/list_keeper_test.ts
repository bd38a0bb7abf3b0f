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

/** Makes lists of caches the list, one after the other, with a database and caches that do as they are told. */
async function membersAfter(...lists: readonly (readonly CacheAddress[])[]): Promise<unknown[]> {
  const keeper = new ListKeeper(
    (hostname, port) => new CacheClient(hostname, port, options),
    () => {},
  );
  let epoch = 0;
  const changer: ListChanger = {
    isDeposed: false,
    changeCaches(target): ReturnType<ListChanger["changeCaches"]> {
      const flow = keeper.list.change(target, 1);
      let yielded = flow.next();
      while (!yielded.done) {
        const isNote = yielded.value.kind === "noteCaches";
        yielded = flow.next(isNote ? { kind: "noted", epoch: ++epoch } : undefined);
      }
      return Promise.resolve(yielded.value);
    },
  };
  for (const list of lists) await keeper.set(changer, list);
  keeper.close();
  return [...keeper.list.members].map(({ name, weight, state }) => [name, weight, state]);
}

Deno.test("a list that is changed is as one that was so from the beginning", async () => {
  const address = (port: number, weight: number): CacheAddress => ({
    hostname: "127.0.0.1",
    port,
    weight,
  });
  const last = [address(1, 3), address(2, 1)];
  const expected = await membersAfter(last);
  assertEquals(expected, [["127.0.0.1:1", 3, "listed"], ["127.0.0.1:2", 1, "listed"]]);
  assertEquals(await membersAfter([address(1, 1), address(2, 1)], last), expected, "weight");
  assertEquals(await membersAfter([address(1, 3)], last), expected, "joined");
  assertEquals(await membersAfter([...last, address(3, 2)], last), expected, "left");
});
