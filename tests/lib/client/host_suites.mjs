// deno-lint-ignore-file no-console explicit-function-return-type -- its output is its result; JavaScript has no types
// Runs the suites that Keyv and BentoCache publish for stores: host_suites.mjs <keyv.ts> <bentocache.ts> <port>
// Prints a line for each test, "ok" or "FAILED" and its name.
import assert from "node:assert";
import process from "node:process";

// By name only here: they are packages of the folder that this file is copied to.
const [{ default: Keyv }, { default: keyvTestSuite }, { registerCacheDriverTestSuite }] =
  await Promise.all(
    ["keyv", "@keyv/test-suite", "bentocache/test_suite"].map((name) => import(name)),
  );
const [keyvPath, bentoPath, port] = process.argv.slice(2);
const server = `127.0.0.1:${port}`;

/** What Keyv's suite expects of a value. */
function expect(value) {
  return {
    toBe: (other) => assert.ok(Object.is(value, other), `${value} is not ${other}`),
    toEqual: (other) => assert.deepEqual(value, other),
    toBeTruthy: () => assert.ok(value),
    toBeFalsy: () => assert.ok(!value),
    toBeNull: () => assert.equal(value, null),
    toBeUndefined: () => assert.equal(value, undefined),
    toBeDefined: () => assert.notEqual(value, undefined),
  };
}

async function run(name, body) {
  try {
    await body();
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`FAILED ${name}: ${error.message}`);
  }
}

const { KeyvStore } = await import(keyvPath);
const stores = [];
const tests = [];
const [before, after] = [[], []];
keyvTestSuite(
  {
    it: (name, body) => tests.push([name, body]),
    beforeEach: (body) => before.push(body),
    afterEach: (body) => after.push(body),
  },
  Keyv,
  () => {
    stores.push(new KeyvStore(server));
    return stores.at(-1);
  },
);
for (const [name, body] of tests) {
  await run(`Keyv: ${name}`, async () => {
    for (const each of before) await each();
    await body({ expect });
    for (const each of after) await each();
  });
  await Promise.all(stores.splice(0).map((store) => store.disconnect()));
}

const { BentoDriver } = await import(bentoPath);
const cases = [];
const [setups, teardowns] = [[], []];
registerCacheDriverTestSuite({
  test: (name, body) => cases.push([name, body]),
  group: {
    setup: (body) => setups.push(body),
    tap: () => {},
    each: { teardown: (body) => teardowns.push(body) },
  },
  createDriver: (options) => new BentoDriver({ servers: server, prefix: "bentocache", ...options }),
});
const ends = [];
for (const setup of setups) ends.push(await setup());
const checks = {
  deepEqual: assert.deepEqual,
  notEqual: assert.notEqual,
  isTrue: (value) => assert.equal(value, true),
  isFalse: (value) => assert.equal(value, false),
  isUndefined: (value) => assert.equal(value, undefined),
};
for (const [name, body] of cases) {
  await run(`BentoCache: ${name}`, async () => {
    const cleanups = [];
    try {
      await body({ assert: checks, cleanup: (each) => cleanups.push(each) });
    } finally {
      for (const each of cleanups) await each();
    }
    for (const teardown of teardowns) await teardown();
  });
}
for (const end of ends) await end();
