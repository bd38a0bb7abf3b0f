// deno-lint-ignore-file no-console explicit-function-return-type -- its output is its result
// A name whose address changes, in Node, whose look-up a program can replace: renamed_client.mjs <port>
import dns from "node:dns";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { argv } from "node:process";
import { Client } from "../../../lib/client/mod.ts";

const NAME = "cache.example";
const ADDRESSES = ["127.0.0.1", "127.0.0.2"];
let address = ADDRESSES[0];
const { lookup } = dns;
dns.lookup = (name, ...rest) => lookup(name === NAME ? address : name, ...rest);

/** Forwards to the server, and says so. */
async function forward(host, port) {
  const open = [];
  const listener = createServer((client) => {
    console.log(`a connection to ${host}`);
    const server = connect(Number(argv[2]), "127.0.0.1");
    for (const [from, to] of [[client, server], [server, client]]) {
      open.push(from);
      from.on("error", () => {}).pipe(to);
    }
  });
  listener.listen(port, host);
  await once(listener, "listening");
  return {
    port: listener.address().port,
    end() {
      listener.close();
      for (const socket of open) socket.destroy();
    },
  };
}

const old = await forward(ADDRESSES[0], 0);
const next = await forward(ADDRESSES[1], old.port);
const client = new Client(`${NAME}:${old.port}`, { retryFirstMs: 1 });
await client.set("moved", "by name");
address = ADDRESSES[1];
console.log(await client.get("moved"));
old.end();
let value;
while (value === undefined) value = await client.get("moved").catch(() => undefined);
console.log(value);
await client.close();
next.end();
