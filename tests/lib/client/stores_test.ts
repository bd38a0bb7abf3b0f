import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { sessionStore } from "../../../lib/client/adapters/express_session.ts";
import { unstorageDriver } from "../../../lib/client/adapters/unstorage.ts";
import { Client, ConnectionError } from "../../../lib/client/mod.ts";
import { ScriptedPeer } from "../../support/servers/scripted_peer.ts";
import { testServers } from "./servers.ts";

// tests/lib/client/host_applications.mjs has the libraries themselves.

/** As the types of express-session have it. */
abstract class Base {
  readonly isBase = true;
}

testServers("sessions: as long as their cookies, or a day", async (address) => {
  const store = sessionStore({ Store: Base }, address, { prefix: "s:" });
  assert(store instanceof Base && store.isBase);
  const call = (
    method: "get" | "set" | "touch" | "destroy",
    ...args: unknown[]
  ): Promise<unknown> =>
    new Promise((resolve, reject) =>
      (store[method] as (...all: unknown[]) => void)(
        ...args,
        (error: unknown, result: unknown) => error === undefined ? resolve(result) : reject(error),
      )
    );
  await using client = new Client(address);
  const leftOf = async (id: string): Promise<number> =>
    (await client.meta("mg", `s:${id}`, ["t"])).ttlSec;
  const within = (ms: number): Date => new Date(Date.now() + ms);
  const times: readonly (readonly [expires: unknown, sec: number])[] = [
    [within(5_000_500), 5001],
    [within(5_000_000).toISOString(), 5000],
    [null, 86_400],
    [undefined, 86_400],
    ["no date", 86_400],
    [within(1e15), 0x7fff_ffff - Date.now() / 1000],
  ];
  for (const [expires, sec] of times) {
    const session = { cookie: { expires }, user: "anna" };
    await call("set", "k", session);
    const found = await call("get", "k") as { user: string };
    assertEquals(found.user, "anna");
    for (const step of ["set", "touch"] as const) {
      const left = await leftOf("k");
      // memcached counts from a clock of its own.
      assert(left > sec - 100 && left < sec + 10, `${step} ${expires}: ${left}`);
      await call("touch", "k", session);
    }
  }
  await call("set", "k", { cookie: { expires: within(-1) } });
  assertEquals(await call("get", "k"), undefined);
  await call("touch", "k", { cookie: {} });
  assertEquals(await call("get", "k"), undefined, "touch makes no session");
  store.set("k", { cookie: {} });
  store.destroy("k");
  await store.close();
  await assertRejects(() => call("get", "k"), ConnectionError);
  store.set("k", { cookie: {} });
  assertThrows(() => sessionStore({ Store: Base }, address, { ttlSec: -1 }), RangeError, "ttlSec");
});

Deno.test("a session is kept for each second that its cookie has begun", async () => {
  const asked: string[] = [];
  await using peer = new ScriptedPeer((line) => {
    const opaque = / (O\d+)/.exec(line)?.[1];
    if (opaque === undefined) return [];
    asked.push(line.replace(/ S?\d+(?= F)/, "").replace(` ${opaque}`, ""));
    return [`HD ${opaque}\r\n`];
  });
  const store = sessionStore({ Store: Base }, `127.0.0.1:${peer.port}`);
  const nowMs = Date.now();
  const { now } = Date;
  Date.now = () => nowMs;
  try {
    const [stored, touched, removed] = ["ms sess:k F0 T", "mg sess:k T", "md sess:k"];
    const times: readonly (readonly [ms: number, sec: number | null])[] = [
      ...[[-1000, null], [-1, null], [0, null], [1, 1], [999, 1], [1000, 1]] as const,
      ...[[1001, 2], [59_999, 60], [60_000, 60], [60_001, 61]] as const,
    ];
    for (const [ms, sec] of times) {
      asked.length = 0;
      const session = { cookie: { expires: new Date(nowMs + ms) } };
      await new Promise<void>((resolve) => store.set("k", session, () => resolve()));
      await new Promise<void>((resolve) => store.touch("k", session, () => resolve()));
      const expected = sec === null ? [removed, removed] : [`${stored}${sec}`, `${touched}${sec}`];
      assertEquals(asked, expected, `${ms} ms`);
    }
  } finally {
    Date.now = now;
    await store.close();
  }
});

testServers("items of unstorage: their times, and a driver's clear", async (address) => {
  const driver = unstorageDriver({ servers: address, prefix: "u:", ttlSec: "1h" });
  const other = unstorageDriver({ servers: address, prefix: "o:" });
  await using client = new Client(address);
  const leftOf = async (key: string): Promise<number> =>
    (await client.meta("mg", key, ["t"])).ttlSec;
  await driver.setItem("a:b", "1");
  await driver.setItem("short", "2", { ttl: 100 });
  await driver.setItem("ever", "3", { ttl: 0 });
  await other.setItem("a:b", "4");
  const left = [await leftOf("u:=a:b"), await leftOf("u:=short")];
  assert(left[0]! > 3_500 && left[0]! <= 3_600 && left[1]! > 50 && left[1]! <= 100, `${left}`);
  assertEquals([await leftOf("u:=ever"), await leftOf("o:=a:b")], [-1, -1]);
  assertEquals(await driver.getItems([{ key: "ever" }, { key: "none" }]), [
    { key: "ever", value: "3" },
    { key: "none", value: null },
  ]);
  assertEquals([await driver.hasItem("a:b"), await driver.hasItem("none")], [true, false]);
  await driver.clear("a::");
  assertEquals(await driver.getItem("a:b"), "1", "not below a part that is empty");
  await driver.clear("a:");
  assertEquals([await driver.getItem("a:b"), await other.getItem("a:b")], [null, "4"]);
  assertEquals(await driver.getItem("short"), "2");
  await driver.clear();
  assertEquals([await driver.getItem("short"), await other.getItem("a:b")], [null, "4"]);
  assertEquals(await driver.getKeys(), []);
  await assertRejects(() => driver.setItem("k", "v", { ttl: -1 }), RangeError, "ttl -1");
  await driver.dispose();
  await other.dispose();
  await assertRejects(() => driver.getItem("k"), ConnectionError);
  const wrong = { servers: address, ttlSec: "x" as "1s" };
  assertThrows(() => unstorageDriver(wrong), RangeError, 'ttl "x"');
});
