// deno-lint-ignore-file no-console explicit-function-return-type -- its output is its result; JavaScript has no types
// Applications of express-session, unstorage and cache-manager over our stores: host_applications.mjs <adapters> <port>
// Prints a line for each, "ok" or "FAILED" and its name.
import assert from "node:assert";
import process from "node:process";

// By name only here: they are packages of the folder that this file is copied to.
const [
  { default: express },
  { default: session },
  { createStorage },
  { createCache },
  { default: Keyv },
] = await Promise.all(
  ["express", "express-session", "unstorage", "cache-manager", "keyv"].map((name) => import(name)),
);
const [adapters, port] = process.argv.slice(2);
const server = `127.0.0.1:${port}`;
const [{ sessionStore }, { unstorageDriver }, { KeyvStore }] = await Promise.all(
  ["express_session", "unstorage", "keyv"].map((name) => import(`${adapters}/${name}.ts`)),
);

async function run(name, body) {
  try {
    await body();
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`FAILED ${name}: ${error.stack}`);
  }
}

/** A process of a web application: its sessions count visits. */
async function application(cookie) {
  const store = sessionStore(session, server);
  const app = express();
  app.use(session({ store, secret: "s", resave: false, saveUninitialized: false, cookie }));
  app.get("/visit", (request, response) => {
    request.session.visits = (request.session.visits ?? 0) + 1;
    response.send(`${request.session.visits}`);
  });
  app.get("/look", (request, response) => response.send(`${request.session.visits ?? "none"}`));
  app.get(
    "/again",
    (request, response, next) =>
      request.session.regenerate((error) => error ? next(error) : response.send("again")),
  );
  app.get(
    "/out",
    (request, response, next) =>
      request.session.destroy((error) => error ? next(error) : response.send("out")),
  );
  const listener = await new Promise((resolve) => {
    const each = app.listen(0, "127.0.0.1", () => resolve(each));
  });
  return {
    store,
    visit: async (path, jar) => {
      const response = await fetch(`http://127.0.0.1:${listener.address().port}${path}`, {
        headers: jar.cookie === undefined ? {} : { cookie: jar.cookie },
      });
      const [set] = response.headers.getSetCookie();
      if (set !== undefined) jar.cookie = set.split(";")[0];
      assert.equal(response.status, 200, await response.clone().text());
      return await response.text();
    },
    close: async () => {
      listener.closeAllConnections();
      await new Promise((resolve) => listener.close(resolve));
      await store.close();
    },
  };
}

await run("express-session: two processes share sessions", async () => {
  const [one, other] = [await application({ maxAge: 60_000 }), await application({})];
  const [anna, berta] = [{}, {}];
  assert.equal(await one.visit("/visit", anna), "1");
  assert.equal(await other.visit("/visit", anna), "2");
  assert.equal(await one.visit("/look", berta), "none");
  assert.equal(await other.visit("/visit", berta), "1");
  assert.equal(await one.visit("/look", anna), "2");
  const before = anna.cookie;
  await one.visit("/again", anna);
  assert.equal(await other.visit("/look", { cookie: before }), "none");
  assert.equal(await one.visit("/visit", anna), "1");
  assert.equal(await other.visit("/out", anna), "out");
  assert.equal(await one.visit("/look", anna), "none");
  assert.equal(await one.visit("/look", berta), "1");
  await Promise.all([one.close(), other.close()]);
});

await run("express-session: a session ends with its cookie", async () => {
  const one = await application({});
  const [call, get] = [
    (method, ...args) =>
      new Promise((resolve, reject) =>
        one.store[method](...args, (error, result) => error ? reject(error) : resolve(result))
      ),
    (id) => call("get", id),
  ];
  const ending = (ms) => ({ n: 1, cookie: { expires: new Date(Date.now() + ms) } });
  await call("set", "a", ending(60_000));
  assert.equal((await get("a")).n, 1);
  await call("touch", "a", ending(-1));
  assert.equal(await get("a"), undefined);
  await call("set", "b", ending(60_000));
  await call("set", "b", ending(-1));
  assert.equal(await get("b"), undefined);
  await call("set", "c", { cookie: {} });
  await call("touch", "c", { cookie: { expires: null } });
  assert.ok(await get("c"));
  await call("destroy", "c");
  assert.equal(await get("c"), undefined);
  await one.close();
  await assert.rejects(get("c"), /the client was closed/);
});

await run("unstorage", async () => {
  const storage = createStorage({ driver: unstorageDriver({ servers: server, prefix: "u:" }) });
  await storage.setItem("a:b", { n: 1 });
  await storage.setItem("a:c", "text", { ttl: 60 });
  await storage.setItem("b", 5);
  assert.deepEqual(await storage.getItem("a:b"), { n: 1 });
  assert.deepEqual(await storage.getItem("none"), null);
  assert.equal(await storage.hasItem("b"), true);
  assert.deepEqual((await storage.getItems(["a:c", "none"])).map(({ value }) => value), [
    "text",
    null,
  ]);
  await storage.setItemRaw("raw", new Uint8Array([1, 2, 255]));
  assert.deepEqual([...await storage.getItemRaw("raw")], [1, 2, 255]);
  const other = unstorageDriver({ servers: server, prefix: "u:" });
  await other.clear("a:");
  assert.deepEqual([await storage.getItem("a:b"), await storage.getItem("b")], [null, 5]);
  await storage.removeItem("b");
  await storage.setItem("c", 5);
  await storage.clear();
  assert.equal(await other.getItem("c"), null);
  await other.dispose();
  assert.equal(await storage.hasItem("b"), false);
  assert.deepEqual(await storage.getKeys(), []);
  await storage.dispose();
});

await run("cache-manager: over Keyv", async () => {
  const stores = [1, 2].map(() => new Keyv({ store: new KeyvStore(server), namespace: "m" }));
  const [one, other] = stores.map((store) => createCache({ stores: [store] }));
  await one.set("k", { n: 1 }, 60_000);
  assert.deepEqual(await other.get("k"), { n: 1 });
  let loads = 0;
  const load = () => ++loads;
  assert.deepEqual([await one.wrap("w", load), await other.wrap("w", load)], [1, 1]);
  await one.mset([{ key: "x", value: 1 }, { key: "y", value: 2 }]);
  assert.deepEqual(await other.mget(["x", "none", "y"]), [1, undefined, 2]);
  await other.del("x");
  assert.equal(await one.get("x"), undefined);
  await one.clear();
  assert.deepEqual([await other.get("k"), await other.get("y")], [undefined, undefined]);
  await Promise.all([one.disconnect(), other.disconnect()]);
});
