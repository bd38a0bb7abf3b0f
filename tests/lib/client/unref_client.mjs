// deno-lint-ignore-file no-console -- its output is its result
// A process that ends without `close`, in Node and Deno: unref_client.mjs <port>
import { argv } from "node:process";
import { Cache } from "../../../lib/client/mod.ts";

const cache = new Cache(`127.0.0.1:${argv[2]}`, { connections: 2 });
console.log(await Promise.all([cache.get("none"), cache.get("none")]));
cache.unref();
// Of connections made later, too.
const other = new Cache(`127.0.0.1:${argv[2]}`);
other.unref();
console.log(
  await other.getOrLoad("unref", () => new Promise((resolve) => setTimeout(resolve, 50, "loaded"))),
);
