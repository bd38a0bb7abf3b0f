// deno-lint-ignore-file no-console
// deno run --allow-net=127.0.0.1 examples/namespaces.mjs <port>: what belongs together is invalidated together.
import { argv } from "node:process";
import { Cache } from "../lib/client/mod.ts";

const server = `127.0.0.1:${argv[2] ?? 11211}`;
const shop = new Cache(server, { prefix: "shop:", ttlSec: "10m", graceSec: "1h" });

const rows = { "7:name": "Anna's toys" };
const tenant = shop.namespace("tenant-7", { ttlSec: "1h" });
const docs = tenant.namespace("docs");
await tenant.getOrLoad("name", () => rows["7:name"]); // its key is shop:tenant-7:name
await tenant.set("theme", "dark");
await docs.setMany([["index", "one"], ["terms", "two"]]);

await docs.invalidate("index"); // one key
console.log(await docs.getMany(["index", "terms"]));
await docs.invalidate(); // all keys of docs
console.log(await docs.getMany(["index", "terms"]), await tenant.get("theme"));
// Keys, and a namespace with those in it, by one update of the database.
await shop.put("tenants", () => void (rows["7:name"] = "Anna"), { namespaces: [tenant] });
console.log(await tenant.getOrLoad("name", () => rows["7:name"]), await tenant.get("theme"));
await shop.close();
