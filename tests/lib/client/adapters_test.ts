import { assert, assertEquals, assertRejects } from "@std/assert";
import { PrefixedValues } from "../../../lib/client/adapters/prefixed_values.ts";
import { Client } from "../../../lib/client/client.ts";
import { newerPeersFolder } from "../../support/servers/peers.ts";
import { path, until } from "../../support/servers/server_process.ts";
import { textOf } from "../../support/sessions/side.ts";
import { startLeased, testServers } from "./servers.ts";
import { needs } from "../../support/needs/needs.ts";

testServers("values are cleared by prefix, and no other ones", async (address) => {
  const values = new PrefixedValues(address);
  const others = new PrefixedValues(address);
  try {
    const keys = ["a", "a:b", "a:b:c", "a:bc", "b:a", "::", "x".repeat(300), "with blank"];
    const set = async (): Promise<void> => {
      for (const key of keys) assert(await values.set(key, `value of ${key}`, 60_000));
    };
    const left = async (): Promise<string[]> => [...(await others.getMany(keys)).keys()];
    await set();
    assertEquals(
      [...await others.getMany([...keys, "none"])],
      keys.map((key) => [key, `value of ${key}`]),
    );
    await values.clear("a:b");
    assertEquals(await left(), keys.filter((key) => key !== "a:b:c"));
    await values.clear("a");
    assertEquals(await left(), keys.filter((key) => !key.startsWith("a:")));
    assertEquals(await others.delete("a:bc"), false);
    assertEquals(await others.delete("b:a"), true);
    await set();
    // Empty parts are parts.
    await values.clear(":");
    assertEquals(await left(), keys.filter((key) => key !== "::"));
    await others.clear("");
    assertEquals(await left(), []);
  } finally {
    await values.close();
    await others.close();
  }
});

Deno.test("what was stored under a version that has been cleared meanwhile is no value", async () => {
  await using server = await startLeased();
  const values = new PrefixedValues(`127.0.0.1:${server.port}`);
  using client = await server.connect();
  try {
    await values.set("shop:k", "old");
    await client.ask("delete @=shop\r\n", "DELETED\r\n");
    assertEquals(await values.get("shop:k"), undefined);
    await values.set("shop:k", "new");
    assertEquals(await values.get("shop:k"), "new");
  } finally {
    await values.close();
  }
});

testServers(
  "clients that store first under a prefix at the same time agree on it",
  async (address) => {
    const stores = [1, 2, 3].map(() => new PrefixedValues(address));
    try {
      for (let round = 0; round < 20; round++) {
        const keys = stores.map((_, index) => `first${round}:${index}`);
        const stored = await Promise.all(stores.map((each, at) => each.set(keys[at]!, "v")));
        assertEquals(stored, [true, true, true]);
        for (const each of stores) assertEquals([...(await each.getMany(keys)).keys()], keys);
      }
    } finally {
      for (const each of stores) await each.close();
    }
  },
);

testServers("a time to live is rounded up to seconds; none is for ever", async (address) => {
  const values = new PrefixedValues(address);
  await using client = new Client(address);
  try {
    for (const [ms, sec] of [[1, 1], [500, 1], [1001, 2], [60_000, 60]] as const) {
      // On a busy machine a second may pass before it is read.
      await until(async () => {
        await values.set("k", "v", ms);
        const { status, ttlSec } = await client.meta("mg", "=k", ["t"]);
        assert(status === "EN" || ttlSec >= 0 && ttlSec <= sec, `${ms} ms: ${ttlSec} s are left`);
        return ttlSec === sec;
      });
    }
    for (const ms of [0, undefined]) {
      await values.set("k", "v", ms);
      assertEquals((await client.meta("mg", "=k", ["t"])).ttlSec, -1);
    }
    for (const ms of [-1, NaN, Infinity]) {
      await assertRejects(() => values.set("k", "w", ms), RangeError, "ttlMs");
    }
    assertEquals(await values.get("k"), "v");
  } finally {
    await values.close();
  }
});

Deno.test("a prefix of too many parts is an error before anything is sent", async () => {
  const values = new PrefixedValues("127.0.0.1:1");
  await assertRejects(() => values.clear("1:2:3:4:5:6:7:8"), RangeError);
  await values.close();
});

const PACKAGES = newerPeersFolder("node");

/** Runs a program in the folder of the hosts' packages. @returns Its lines. */
async function runHost(script: string, args: readonly string[]): Promise<string[]> {
  const copy = `${PACKAGES}/${script}`;
  await Deno.copyFile(path(`tests/lib/client/${script}`), copy);
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-lock", "--node-modules-dir=manual", "-A", copy, ...args],
    cwd: PACKAGES!,
  }).output();
  const lines = textOf(stdout).trim().split("\n");
  assertEquals(lines.filter((line) => !line.startsWith("ok ")), [], textOf(stderr));
  return lines;
}

Deno.test({
  name: "the suites that Keyv and BentoCache publish pass",
  ...needs("newer peers", PACKAGES !== undefined),
  fn: async () => {
    await using server = await startLeased();
    const adapters = ["keyv.ts", "bentocache.ts"]
      .map((name) => `file://${path("lib/client/adapters")}/${name}`);
    const lines = await runHost("host_suites.mjs", [...adapters, `${server.port}`]);
    assert(lines.length > 50, lines.join("\n"));
  },
});

Deno.test({
  name: "applications of express-session, unstorage and cache-manager",
  ...needs("newer peers", PACKAGES !== undefined),
  fn: async () => {
    await using server = await startLeased();
    const adapters = `file://${path("lib/client/adapters")}`;
    const lines = await runHost("host_applications.mjs", [adapters, `${server.port}`]);
    assertEquals(lines.length, 4);
  },
});
