// deno-lint-ignore-file no-console explicit-function-return-type -- its output is its result
// TLS with a client certificate and a login, in Node and Deno: tls_client.mjs <port> <certificate> <key>
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { argv } from "node:process";
import { Client } from "../../../lib/client/mod.ts";

const [port, certPath, keyPath] = argv.slice(2);
const [cert, key] = [certPath, keyPath].map((path) => readFileSync(path, "utf8"));
/** The server takes its time for a wrong password. */
const PATIENT = { connectMs: 30_000, replyMs: 30_000 };
const anna = { user: "anna", password: "secret" };

/** Prints what becomes of a set and a get: the value, or the name of the error. */
async function attempt(name, tls, login) {
  const client = new Client(`127.0.0.1:${port}`, { ...PATIENT, tls, login });
  try {
    await client.set("k", "value");
    console.log(`${name}: ${await client.get("k")}`);
  } catch (error) {
    console.log(`${name}: ${error.name}`);
  } finally {
    await client.close();
  }
}

await attempt("right", { ca: cert, cert, key }, anna);
await attempt("no certificate", { ca: cert }, anna);
await attempt("unknown authority", { cert, key }, anna);
await attempt("no TLS", undefined, anna);
await attempt("wrong password", { ca: cert, cert, key }, { ...anna, password: "x" });

// A server behind a proxy is found by the name that the client asks for, which is in its first bytes.
const asked = [];
const proxy = createServer((socket) => {
  socket.on("error", () => {}).once("data", (bytes) => {
    asked.push(bytes.includes("localhost"));
    socket.destroy();
  });
});
proxy.listen(0, "127.0.0.1");
await once(proxy, "listening");
for (const host of ["localhost", "127.0.0.1"]) {
  const client = new Client(`${host}:${proxy.address().port}`, { ...PATIENT, tls: { ca: cert } });
  await client.get("k").catch(() => {});
  await client.close();
}
proxy.close();
console.log(`server names: ${asked.join()}`);
