// deno-lint-ignore-file no-console explicit-function-return-type
// deno run --allow-net examples/client.mjs <port>: a cache of articles that is never behind the database, which is a Map here.
import { argv } from "node:process";
import { Cache } from "../lib/client/mod.ts";

const articles = new Map([["7", { title: "first title" }]]);
const cache = new Cache(`127.0.0.1:${argv[2] ?? 11211}`);

/** Reads an article: from the cache if it is there, otherwise from the database, once for all who wait. */
function read(id) {
  return cache.getOrLoad(`article:${id}`, () => articles.get(id), { ttlSec: 60 });
}

/** Changes an article: no reader gets the old one from the cache afterwards. */
function write(id, article) {
  return cache.put(`article:${id}`, () => {
    articles.set(id, article); // run the transaction here, and return when it is committed
  });
}

await write("7", { title: "first title" });
console.log(await read("7"));
await write("7", { title: "second title" });
console.log(await Promise.all([read("7"), read("7"), read("7")]));
console.log(cache.counters);
await cache.close();
