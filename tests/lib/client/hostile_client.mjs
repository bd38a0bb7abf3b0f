// deno-lint-ignore-file no-console -- its output is its result; JavaScript has no types
// What a client gets from servers that misbehave, and for wrong arguments. package_test.ts runs it in Node and in Deno;
// it ends by itself when no timer and no socket is left.
import { createServer } from "node:net";
import process from "node:process";
import { Cache } from "../../../lib/client/mod.ts";

process.on("unhandledRejection", (error) => console.log("unhandled:", error));

/** What a server does with a connection. */
const SERVERS = {
  "garbage": (socket) => socket.write("HTTP/1.1 400 Bad Request\r\n\r\n"),
  "no opaque": (socket) => socket.once("data", () => socket.write("EN\r\n")),
  "no CR": (socket) => socket.once("data", () => socket.write("EN\n")),
  "half a reply": (socket) => socket.once("data", () => socket.end("VA 10 f0 O1\r\n123")),
  "a value of 2 GiB": (socket) =>
    socket.once("data", () => socket.write("VA 2147483648 f0 O1\r\n")),
  "bytes nobody asked for": (socket) =>
    socket.once("data", () => socket.write("EN O1\r\nEN O2\r\n")),
  "an end": (socket) => socket.end(),
  "a reset": (socket) => socket.resetAndDestroy(),
  "nothing": () => {},
};

for (const [name, behave] of Object.entries(SERVERS)) {
  const sockets = new Set();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    behave(socket);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const ms = name === "nothing" ? 50 : 20_000;
  const cache = new Cache(`127.0.0.1:${server.address().port}`, { replyMs: ms, connectMs: 20_000 });
  const results = await Promise.allSettled([cache.get("k"), cache.delete("l"), cache.lock("m")]);
  const [, removed, locked] = results.map(({ reason }) => reason?.constructor.name);
  console.log(`${name}: ${removed} ${locked}`);
  await cache.close();
  for (const socket of sockets) socket.destroy();
  await new Promise((resolve) => server.close(resolve));
}

// Flows that wait for a lease, and for a server.
const held = createServer((socket) =>
  socket.on("data", (piece) => {
    for (const line of `${piece}`.trim().split("\r\n")) {
      const opaque = /O\d+$/.exec(line)[0];
      const isRead = line.startsWith("mg ");
      socket.write(isRead ? `VA 0 f0 c5 t3600 Z ${opaque}\r\n\r\n` : "SERVER_ERROR busy\r\n");
    }
  })
);
await new Promise((resolve) => held.listen(0, "127.0.0.1", resolve));
const waiting = new Cache(`127.0.0.1:${held.address().port}`, { replyMs: 20_000 });
const settled = Promise.allSettled([
  waiting.getOrLoad("k", () => 1, { waitMs: 3_600_000 }),
  waiting.put("l", () => 1, { limitMs: 3_600_000 }),
]);
while (waiting.counters.waits < 10) await new Promise((resolve) => setTimeout(resolve, 10));
await waiting.close();
const timers = process.getActiveResourcesInfo?.().filter((name) => name === "Timeout") ?? [];
const [read, put] = (await settled).map(({ reason }) => reason?.constructor.name);
console.log(`waits: ${read} ${put}, timers: ${timers.length}`);
await new Promise((resolve) => held.close(resolve));

const cache = new Cache("127.0.0.1:1");
const WRONG = {
  "get": [5],
  "set": ["k", undefined],
  "append": ["k", "text"],
  "cas": ["k", 1, undefined],
  "touch": ["k", NaN],
  "setMany": [[["k", 1], ["", 2]]],
  "deleteMany": [["k", "a b"]],
  "getMany": ["text"],
  "lock": ["k", { waitMs: -1 }],
  "releaseToken": ["k", "1\r\nflush_all"],
  "getOrLoad": ["k", 5],
  "put": ["\ud800", () => {}],
};
for (const [method, args] of Object.entries(WRONG)) {
  const promise = cache[method](...args);
  const { name, message } = await promise.catch((error) => error);
  console.log(`${method}: ${name}: ${message}`);
}
await cache.close();
