import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { type Table, TABLES } from "../../../../lib/admin/dashboard/tables.ts";
import { createDatabase } from "../../../support/servers/databases.ts";
import { startOrigin } from "../../../support/servers/origin_process.ts";
import {
  Client,
  ServerProcess,
  testTransports,
  until,
} from "../../../support/servers/server_process.ts";

/** As many as the server keeps. */
const STREAMS_MAX = 32;

const PERMISSIONS = ["--allow-net", "--allow-read", "--allow-ffi"];

interface Dashboard {
  readonly server: ServerProcess;
  readonly origin: string;
  readonly port: number;
}

async function dashboardOf(server: ServerProcess): Promise<Dashboard> {
  const line = await server.line("the dashboard is at http://");
  const [, origin, port] = /(http:\/\/[^/]+:(\d+))\/$/.exec(line)!;
  return { server, origin: origin!, port: Number(port) };
}

/** Sends the head of a request. @returns All of the reply. */
async function ask(
  { port }: Dashboard,
  path: string,
  headers = "Host: localhost\r\n",
): Promise<string> {
  using client = new Client(await Deno.connect({ hostname: "127.0.0.1", port }));
  await client.send(`GET ${path} HTTP/1.1\r\n${headers}\r\n`);
  return await client.rest();
}

const statusOf = (reply: string): number => Number(/^HTTP\/1\.1 (\d+) /.exec(reply)![1]);
const PAGES = [
  ...[
    "/",
    "/actions.js",
    "/elements.js",
    "/dashboard.js",
    "/dashboard.css",
    "/uplot.js",
    "/uplot.css",
  ],
  ...["/api/past", "/api/viewer"],
];
const TABLE_PAGES = Object.keys(TABLES).map((name) => `/api/tables/${name}`);

testTransports(
  "the dashboard answers all its pages, and the former option works",
  async (start) => {
    await using server = await start({ args: ["--metrics", "0"], permissions: PERMISSIONS });
    const dashboard = await dashboardOf(server);
    for (const path of [...PAGES, ...TABLE_PAGES]) {
      const reply = await ask(dashboard, path);
      assertEquals(statusOf(reply), 200, path);
      assertStringIncludes(reply, "Content-Security-Policy: default-src 'none'; script-src 'self'");
      assertEquals(/access-control/i.test(reply), false);
    }
    await server.stop();
  },
);

Deno.test("uPlot's files are those of its npm package", () => {
  const assets = new URL("../../../../lib/admin/dashboard/assets/", import.meta.url);
  for (
    const [own, original] of [["uplot.js", "uPlot.iife.min.js"], ["uplot.css", "uPlot.min.css"]]
  ) {
    const path = import.meta.resolve(`npm:uplot@1.6.32/dist/${original}`);
    const text = Deno.readTextFileSync(new URL(path));
    assertEquals(Deno.readTextFileSync(new URL(own!, assets)) === text, true, own);
  }
});

Deno.test("tricks with paths, foreign hosts and other origins get no word of the server", async () => {
  await using server = await ServerProcess.start({ args: ["--admin", "0"] });
  const dashboard = await dashboardOf(server);
  const paths = [
    ...["//", "/./", "/%2e%2e/", "/../deno.json", "/..%2fdeno.json", "/assets/uplot.js", "/api"],
    ...[
      "/api/tables/",
      "/api/tables/constructor",
      "/__proto__",
      "/constructor",
      "/api/tables/../past",
    ],
    ...["/dashboard.js%00", "/DASHBOARD.JS", "http://localhost/", "/api/tables/%61"],
  ];
  for (const path of paths) assertEquals(statusOf(await ask(dashboard, path)), 404, path);
  const foreign = [
    "Host: evil.example\r\n",
    "Host: localhost\r\nOrigin: http://evil.example\r\n",
    "Host: localhost\r\nOrigin: null\r\n",
    "Host: localhost\r\nOrigin: http://localhost:1\r\n",
    "Host: localhost\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n",
    "Host: localhost\r\nSec-Fetch-Site: same-site\r\n",
  ];
  for (const headers of foreign) {
    for (const path of ["/api/past", "/api/stream", "/api/tables/hot-keys"]) {
      const reply = await ask(dashboard, path, headers);
      assert([403, 421].includes(statusOf(reply)), `${path} ${headers}`);
      assertEquals(/columns|^data:/m.test(reply), false);
    }
  }
  const link = "Host: localhost\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n";
  assertEquals(statusOf(await ask(dashboard, "/", link)), 200);
  await server.stop();
});

Deno.test("with -Y the dashboard wants a user; keys need the level admin", async () => {
  const file = await Deno.makeTempFile();
  await Deno.writeTextFile(file, "reader read:one\nboss admin:two\nann read:a:b:c\n");
  await Deno.chmod(file, 0o600);
  await using server = await ServerProcess.start({
    args: ["-Y", file, "--admin", "0"],
    permissions: PERMISSIONS,
  });
  const dashboard = await dashboardOf(server);
  const status = async (path: string, credentials?: string): Promise<number> => {
    const sent = credentials === undefined ? "" : `Authorization: Basic ${btoa(credentials)}\r\n`;
    return statusOf(await ask(dashboard, path, `Host: localhost\r\n${sent}`));
  };
  for (const path of [...PAGES, "/api/stream", ...TABLE_PAGES]) {
    assertEquals(await status(path), 401, path);
  }
  assertEquals(await status("/", "boss:wrong"), 401);
  assertEquals(await status("/", "boss"), 401);
  assertEquals(await status("/", "reader:one"), 200);
  assertEquals(await status("/", "ann:a:b:c"), 200);
  assertEquals(await status("/api/tables/classes", "reader:one"), 200);
  for (const table of ["hot-keys", "connections", "locks", "leases", "tokens", "users"]) {
    assertEquals(await status(`/api/tables/${table}`, "reader:one"), 403, table);
    assertEquals(await status(`/api/tables/${table}`, "boss:two"), 200, table);
  }
  assertEquals(await status("/metrics"), 200);
  await server.stop();
  await Deno.remove(file);
});

Deno.test("beyond loopback, without -Y, only clients on loopback see the dashboard", async () => {
  await using server = await ServerProcess.start({
    args: ["--admin", "*:0"],
    permissions: PERMISSIONS,
  });
  const { port } = await dashboardOf(server);
  const address = Deno.networkInterfaces().find(({ family, address }) =>
    family === "IPv4" && !address.startsWith("127.")
  )?.address;
  const at = async (host: string, path: string): Promise<number> => {
    const reply = await fetch(`http://${host}:${port}${path}`);
    await reply.body?.cancel();
    return reply.status;
  };
  assertEquals(await at("127.0.0.1", "/"), 200);
  if (address !== undefined) {
    assertEquals(await at(address, "/"), 403);
    assertEquals(await at(address, "/api/past"), 403);
    assertEquals(await at(address, "/metrics"), 200);
  }
  await server.stop();
});

Deno.test("a stream brings a row a second, and ends with the server", async () => {
  await using server = await ServerProcess.start({ args: ["--admin", "0"] });
  const { port } = await dashboardOf(server);
  using client = new Client(await Deno.connect({ hostname: "127.0.0.1", port }));
  await client.send("GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const head = await client.until("\r\n\r\n");
  assertStringIncludes(head, "text/event-stream");
  await client.until("data: [");
  await client.until("data: [");
  await server.stop();
});

Deno.test("1,000 streams: those beyond the bound are refused, and the cache serves on", async () => {
  await using server = await ServerProcess.start({ args: ["--admin", "0"] });
  const dashboard = await dashboardOf(server);
  using cacheClient = await server.connect();
  const request = "GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const streams: Client[] = [];
  let refused = 0;
  let open = 0;
  for (let round = 0; round < 50; round++) {
    const clients = await Promise.all(
      Array.from(
        { length: 20 },
        () => Deno.connect({ hostname: "127.0.0.1", port: dashboard.port }),
      ),
    );
    await Promise.all(clients.map(async (socket) => {
      const client = new Client(socket);
      await client.send(request);
      const head = await client.until("\r\n\r\n");
      if (statusOf(head) === 503) refused++;
      else open++;
      streams.push(client);
    }));
    await cacheClient.ask("get a\r\n", "END\r\n");
  }
  assertEquals([open, refused], [STREAMS_MAX, 1000 - STREAMS_MAX]);
  assertEquals(statusOf(await ask(dashboard, "/health")), 200);
  for (const stream of streams) stream[Symbol.dispose]();
  await until(async () => {
    using client = new Client(await Deno.connect({ hostname: "127.0.0.1", port: dashboard.port }));
    await client.send(request);
    return statusOf(await client.until("\r\n\r\n")) === 200;
  });
  await server.stop();
});

Deno.test("12,000 leases and tokens: replies are bounded, and the server finds what they leave out", async () => {
  await using server = await ServerProcess.start({
    args: [
      "--admin",
      "0",
      "-z",
      "3333",
      "--tokens",
      "volatile",
      "--token-quarantine",
      "0",
      "--token-entries",
      "20000",
    ],
  });
  const { origin } = await dashboardOf(server);
  using client = await server.connect();
  for (let batch = 0; batch < 12; batch++) {
    const keys = Array.from({ length: 1000 }, (_, index) => `k${batch * 1000 + index}`);
    await client.send(keys.map((key) => `getss 60 ${key}\r\ntoken get t${key} web1\r\n`).join(""));
    for (const _ of keys) await client.until(/TOKEN \d+\r\n/);
  }
  const read = async (path: string): Promise<Table> =>
    await (await fetch(`${origin}/api/tables/${path}`)).json();
  for (const [name, key] of [["leases", "k11999"], ["tokens", "tk11999"]] as const) {
    const all = await read(name);
    assertEquals([all.rows.length, all.found, all.total], [10_000, 12_000, 12_000], name);
    assertEquals(all.isCut, true);
    // Searches beside each other take turns; upper and lower case are one.
    const found = await Promise.all(
      [key, key.toUpperCase(), "k1199", "nothing"].map((text) => read(`${name}?search=${text}`)),
    );
    assertEquals(found.map((table) => table.found), [1, 1, 11, 0]);
    assertEquals(found[0]!.rows[0]![0], key);
    assertEquals(found[3]!.total, 12_000);
  }
  const tokens = await read("tokens");
  assertEquals(tokens.rows[0]![0], "tk0", "the oldest token is the first");
  const ids = (await read("tokens?search=web1")).rows.map((row) => Number(row[1]));
  assertEquals(ids.every((id, index) => index === 0 || ids[index - 1]! < id), true);
  await server.stop();
});

Deno.test("with -X the dashboard shows no key of an update token of a row", async () => {
  for (const args of [[], ["-X"]]) {
    await using database = await createDatabase("SQLite");
    await using server = await startOrigin(database, ["--admin", "0", ...args]);
    const { origin } = await dashboardOf(server);
    const read = async (name: string): Promise<Table> =>
      await (await fetch(`${origin}/api/tables/${name}`)).json();
    using client = await server.connect();
    await client.send("token get held importer\r\n");
    await client.until("\r\n");
    await until(async () =>
      (await read("rows")).rows.some(([name, value]) =>
        name === "tokens_idle" && Number(value) === 1
      )
    );
    const { rows, total } = await read("row-tokens");
    assertEquals([rows.map(([key]) => key), total], args.length === 0 ? [["held"], 1] : [[], 0]);
    await server.stop();
  }
});
