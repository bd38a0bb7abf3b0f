// deno-lint-ignore-file no-console -- its output is its result
// Each flow once, in Node and Deno: flows_client.mjs <port>
import { argv } from "node:process";
import { Cache, compressed, jsonCodec } from "../../../lib/client/mod.ts";

const cache = new Cache(`127.0.0.1:${argv[2]}`, {
  codec: compressed(jsonCodec),
  replyMs: 30_000,
});
let row = "a".repeat(10_000);
let loads = 0;
const load = () => {
  loads++;
  return row;
};
const read = async (key, options) => (await cache.getOrLoad(key, load, options)).slice(0, 3);
const show = (name, ...results) => console.log(`${name}: ${results.join(" ")}`);

show("herd", new Set(await Promise.all(Array.from({ length: 100 }, () => read("k")))).size, loads);
const tokens = { form: "tokens" };
await cache.put("k", () => void (row = "bbb"), tokens);
show("put with tokens", await read("k"));
const lost = () => Promise.reject(new Error("lost"));
const unknown = await cache.put("k", lost, tokens).catch((error) => error);
show("unknown", unknown.name, await cache.set("k", "x"), await unknown.resolve());
await read("list", { tags: ["all"] });
row = "ccc";
await cache.invalidateTags(["all"]);
show("tags", await read("list", { tags: ["all"] }));
const many = await cache.getOrLoadMany(
  ["m1", "m2"],
  (keys) => new Map(keys.map((key) => [key, 1])),
);
show("many", ...[...many].flat());
const shop = cache.namespace("shop");
await shop.getOrLoad("n", () => 1);
await shop.invalidate();
show("namespace", await shop.getOrLoad("n", () => 2));
const within = (section) => section.set("k", 5);
show("lock", await cache.withLock("k", within, { waitMs: 1_000 }), await cache.get("k"));
show(
  "cas",
  await cache.compareAndSwap("k", (value) => value + 1),
  await cache.increment("n", 2, { initial: 2 }),
);
const aborted = cache.get("k", { signal: AbortSignal.abort() }).catch((error) => error.name);
show("abort", await aborted);
await cache.close();
