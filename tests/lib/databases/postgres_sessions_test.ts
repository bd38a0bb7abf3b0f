import { assertEquals, assertRejects } from "@std/assert";
import { openPostgres, type PostgresBackend } from "../../../lib/databases/postgres/backend.ts";
import { Session } from "../../../lib/databases/postgres/session.ts";
import { DEFAULT_TABLE } from "../../../lib/databases/base/table.ts";
import { Views } from "../../../lib/databases/views/view.ts";
import { latin1Text } from "../../../store/base/bytes.ts";
import { sharedPostgres, testDatabases } from "../../support/servers/databases.ts";
import { Relay } from "../../support/servers/relay.ts";
import { until } from "../../support/servers/server_process.ts";

const KEYS = ["k"];

async function withBackend(
  url: string,
  run: (backend: PostgresBackend) => Promise<void>,
): Promise<void> {
  const backend = await openPostgres(url, DEFAULT_TABLE, { connectionsMax: 4, timeoutMs: 1000 });
  try {
    await run(backend);
  } finally {
    await backend.close();
  }
}

testDatabases("requests fail while every connection is closed at once", async ({ url }) => {
  const relayed = new URL(url);
  using relay = new Relay(Number(relayed.port));
  relayed.port = `${relay.port}`;
  await withBackend(relayed.href, async (backend) => {
    relay.passage = () => "cut";
    relay.cutAll();
    for (let count = 0; count < 3; count++) await assertRejects(() => backend.readMany(KEYS));
    await assertRejects(
      () => backend.readMany(KEYS),
      Error,
      "the database closed the connection before it answered",
    );
    relay.passage = () => "pass";
    assertEquals((await backend.readMany(KEYS))[0]!.row, null);
  });
}, ["PostgreSQL"]);

testDatabases("requests fail while connections are taken and not answered", async ({ url }) => {
  const relayed = new URL(url);
  using relay = new Relay(Number(relayed.port));
  relayed.port = `${relay.port}`;
  await withBackend(relayed.href, async (backend) => {
    using silent = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    relay.target = silent.addr.port;
    relay.cutAll();
    await assertRejects(() => backend.readMany(KEYS));
    await assertRejects(
      () => backend.readMany(KEYS),
      Error,
      "the database did not take a connection within 1000 ms",
    );
  });
}, ["PostgreSQL"]);

testDatabases(
  "one request notices for all connections that the host has vanished",
  async ({ url }) => {
    const relayed = new URL(url);
    using relay = new Relay(Number(relayed.port));
    relayed.port = `${relay.port}`;
    await withBackend(relayed.href, async (backend) => {
      const { connections } = relay;
      while (relay.connections < connections + 2) {
        await Promise.all(Array.from({ length: 4 }, () => backend.readMany(KEYS)));
      }
      relay.vanishTo(relay.target);
      await assertRejects(
        () => backend.readMany(KEYS),
        Error,
        "the database did not answer within 1000 ms",
      );
      assertEquals((await backend.readMany(KEYS))[0]!.row, null);
    });
  },
  ["PostgreSQL"],
);

testDatabases("a log whose host vanishes before it is sent ends with a reason", async ({ url }) => {
  const relayed = new URL(url);
  using relay = new Relay(Number(relayed.port));
  relayed.port = `${relay.port}`;
  await withBackend(relayed.href, async (backend) => {
    await backend.prepareChanges(Views.NONE);
    const stream = await backend.openChanges(true);
    relay.passage = (bytes) => {
      if (latin1Text(bytes).includes("START_REPLICATION")) relay.vanishTo(relay.target);
      return "pass";
    };
    const reason = "the database did not answer within 1500 ms";
    await assertRejects(() => stream.begin(), Error, reason);
    await stream.close();
    relay.passage = () => "pass";
    const next = await backend.openChanges(false);
    await next.begin();
    await next.close();
  });
}, ["PostgreSQL"]);

testDatabases("a takeover that another user locks out says so", async ({ url }) => {
  const server = await sharedPostgres();
  await server.execute("CREATE ROLE other LOGIN", url);
  await withBackend(url, async (backend) => {
    await server.execute("GRANT ALL ON leased_proxy TO other", url);
    const other = server.urlOf(new URL(url).pathname.slice(1), "other");
    const session = await Session.open({ url: other, timeoutMs: 60_000 });
    await session.query("BEGIN");
    await session.query("SELECT FROM leased_proxy FOR SHARE");
    await assertRejects(
      () => backend.takeOver(),
      Error,
      "other sessions have kept their locks on leased_proxy for 1000 ms",
    );
    await session.query("ROLLBACK");
    await session.close();
    assertEquals((await backend.takeOver()).epoch, 1);
  });
}, ["PostgreSQL"]);

testDatabases("a session keeps its commits when the server's settings change", async ({ url }) => {
  const server = await sharedPostgres();
  const setting = "SHOW synchronous_commit";
  const isOff = async (): Promise<boolean> => (await server.execute(setting, url)) === "off";
  const change = async (text: string): Promise<void> => {
    await server.execute(`ALTER SYSTEM ${text}`, url);
    await server.execute("SELECT pg_reload_conf()", url);
  };
  const session = await Session.open({ url, timeoutMs: 60_000 });
  await change("SET synchronous_commit = off");
  try {
    await until(isOff);
    const [row] = await session.query(setting);
    assertEquals(row!["synchronous_commit"], "on");
  } finally {
    await change("RESET synchronous_commit");
    await until(async () => !await isOff());
    await session.close();
  }
}, ["PostgreSQL"]);

/** Ends a start-up message with these settings: it has no others. */
function startup(
  message: Uint8Array<ArrayBuffer>,
  names: readonly string[],
): Uint8Array<ArrayBuffer> {
  const words = new TextDecoder().decode(message.subarray(8)).split("\0");
  const kept = words.flatMap((name, index) =>
    index % 2 === 0 && names.includes(name) ? [name, words[index + 1]!] : []
  );
  const body = new TextEncoder().encode(`${kept.join("\0")}\0\0`);
  const made = new Uint8Array(8 + body.length);
  made.set(message.subarray(0, 8));
  made.set(body, 8);
  new DataView(made.buffer).setUint32(0, made.length);
  return made;
}

testDatabases(
  "a connection pooler that drops the settings of sessions is named",
  async ({ url }) => {
    const direct = new URL(url);
    using pooler = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const serving = (async () => {
      using client = await pooler.accept();
      using server = await Deno.connect({ hostname: "127.0.0.1", port: Number(direct.port) });
      const buffer = new Uint8Array(4096);
      const length = await client.read(buffer);
      await server.write(startup(buffer.slice(0, length!), ["user", "database"]));
      await Promise.allSettled([
        client.readable.pipeTo(server.writable, { preventClose: true }),
        server.readable.pipeTo(client.writable, { preventClose: true }),
      ]);
    })();
    const pooled = new URL(url);
    pooled.port = `${pooler.addr.port}`;
    const error = await assertRejects(
      () => Session.open({ url: pooled.href, timeoutMs: 60_000 }),
      Error,
      "settings of sessions do not reach the server: a connection pooler such as pgbouncer",
    );
    assertEquals(error.message.includes("give --db the address of PostgreSQL itself"), true);
    await serving.catch(() => {});
  },
  ["PostgreSQL"],
);

Deno.test("a connection pooler that refuses the settings of sessions is named", async () => {
  using pooler = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const serving = (async () => {
    using client = await pooler.accept();
    await client.read(new Uint8Array(4096));
    const fields = "SFATAL\0C08P01\0Munsupported startup parameter: jit\0\0";
    const reply = new TextEncoder().encode(`E\0\0\0\0${fields}`);
    new DataView(reply.buffer).setUint32(1, reply.length - 1);
    await client.write(reply);
  })();
  await assertRejects(
    () => Session.open({ url: `postgres://u@127.0.0.1:${pooler.addr.port}/d`, timeoutMs: 60_000 }),
    Error,
    "unsupported startup parameter: jit: a connection pooler such as pgbouncer",
  );
  await serving;
});
