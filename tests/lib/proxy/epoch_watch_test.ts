import type { CacheClient } from "../../../lib/proxy/cache_client.ts";
import { assertEquals } from "@std/assert";
import { ListKeeper } from "../../../lib/rows/caches/list_keeper.ts";
import { watchEpoch } from "../../../lib/proxy/epoch_watch.ts";
import { Proxy } from "../../../lib/proxy/proxy.ts";
import { TokenStates } from "../../../lib/rows/flows/token_states.ts";
import { createDatabase } from "../../support/servers/databases.ts";

/** The list has no caches. */
function unreachable(): CacheClient {
  throw new Error("there is none");
}

Deno.test("an idle proxy looks at its epoch between pauses, also after an error, until it is deposed", async () => {
  await using database = await createDatabase("SQLite");
  const [backend, other] = [await database.open(), await database.open()];
  const states = new TokenStates(await backend.takeOver(), 1, 1);
  const { list } = new ListKeeper("ketama", unreachable, () => {});
  const proxy = new Proxy(backend, list, states, 1, () => Promise.resolve());
  const { read } = backend;
  const happened: string[] = [];
  let pauses = 0;
  await watchEpoch(proxy, async () => {
    pauses++;
    happened.push(proxy.isDeposed ? "deposed" : "pause");
    backend.read = (key) => {
      happened.push("read");
      if (pauses === 2) return Promise.reject(new Error("no answer"));
      return read.call(backend, key);
    };
    if (pauses === 4) await other.takeOver();
  }, () => false);
  const round = ["pause", "read"];
  assertEquals(happened, [...round, ...round, ...round, ...round, "deposed"]);
  await proxy.deposed;
  assertEquals(proxy.deposedText, "another proxy has taken over: epoch 2 replaced epoch 1");
  assertEquals([proxy.counts.getsCacheable, proxy.counts.getsUncacheable], [0, 0]);
  await backend.close();
  await other.close();
});

Deno.test("the watch of the epoch ends when the proxy stops", async () => {
  const checked = { isDeposed: false, checkEpoch: () => Promise.reject(new Error("checked")) };
  let pauses = 0;
  const sleep = (): Promise<void> => Promise.resolve(void pauses++);
  await watchEpoch(checked, sleep, () => true);
  assertEquals(pauses, 1);
});
