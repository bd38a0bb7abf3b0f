import { assert, assertEquals, assertGreater, assertLess, assertMatch } from "@std/assert";
import {
  type AdminRequest,
  AdminServer,
  isHostAllowed,
  type Routes,
} from "../../../lib/admin/http_server.ts";
import { adminRoutes } from "../../../lib/admin/pages.ts";
import type { TransportEvent } from "../../../lib/net/transport.ts";
import { Client, until } from "../../support/servers/server_process.ts";

/** More than the sockets of both sides hold. */
const LONG_PAGE = "# a long page\n".repeat(1_000_000);
/** Longer than a test may take. */
const LONG_MS = 3_600_000;
/** As many as the server keeps. */
const CONNECTIONS_MAX = 64;

/** An admin server in this process, with pages of the test's own. */
class TestServer implements AsyncDisposable {
  page = "a 1\n";
  isServing = true;
  renderings = 0;
  readonly events: TransportEvent[] = [];
  readonly server: AdminServer;
  readonly #served: Promise<void>;

  constructor(connectionMsMax?: number) {
    const routes = adminRoutes({
      metrics: () => {
        this.renderings++;
        return this.page;
      },
      isServing: () => this.isServing,
    });
    const listen = { kind: "tcp", hostname: "127.0.0.1", port: 0, protocol: "ascii" } as const;
    const report = (event: TransportEvent): void => void this.events.push(event);
    this.server = new AdminServer(listen, routes, report, connectionMsMax);
    this.#served = this.server.serve();
  }

  get origin(): string {
    return `http://127.0.0.1:${this.server.listen.port}`;
  }

  async connect(): Promise<Client> {
    const { port } = this.server.listen;
    return new Client(await Deno.connect({ hostname: "127.0.0.1", port }));
  }

  /** Sends a request and returns all of the reply. */
  async ask(head: string): Promise<string> {
    using client = await this.connect();
    await client.send(head);
    return await client.rest();
  }

  async stop(): Promise<void> {
    await this.server.stop();
    await this.#served;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    assertEquals(this.events, []);
  }
}

function get(path: string, host = "localhost"): string {
  return `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
}

const statusOf = (reply: string): number => Number(/^HTTP\/1\.1 (\d+) /.exec(reply)![1]);

Deno.test("GET and HEAD of /metrics and /health; 404, 405 and 421 for others; no CORS", async () => {
  await using server = new TestServer();
  const metrics = await fetch(`${server.origin}/metrics?name=a`);
  assertEquals(await metrics.text(), "a 1\n");
  assertEquals(metrics.headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  const health = await fetch(`${server.origin}/health`);
  assertEquals([health.status, await health.text()], [200, "serving\n"]);

  const head = await server.ask("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  assertMatch(head, /^HTTP\/1\.1 200 OK\r\n[^]*Content-Length: 4\r\n[^]*\r\n\r\n$/);
  const post = await server.ask(
    "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\na=b",
  );
  assertMatch(post, /^HTTP\/1\.1 405 [^]*\r\nAllow: GET, HEAD\r\n/);
  for (const path of ["/", "/metrics/", "/Health", "/../metrics", "/favicon.ico"]) {
    assertEquals(statusOf(await server.ask(get(path))), 404, path);
  }
  assertEquals(statusOf(await server.ask(get("/metrics", "evil.example"))), 421);
  const asked = `GET /metrics HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n`;
  const reply = await server.ask(asked);
  assertEquals(statusOf(reply), 200);
  assert(!/access-control/i.test(reply));
});

Deno.test("/health is 503 while the server drains, and both pages are there", async () => {
  await using server = new TestServer();
  server.isServing = false;
  assertMatch(await server.ask(get("/health")), /^HTTP\/1\.1 503 [^]*shutting down\n$/);
  assertEquals(statusOf(await server.ask("HEAD /health HTTP/1.0\r\n\r\n")), 503);
  assertEquals(statusOf(await server.ask(get("/metrics"))), 200);
});

Deno.test("many requests at once share a rendering that began after them", async () => {
  await using server = new TestServer();
  await server.ask(get("/metrics"));
  server.page = "b 2\n";
  const replies = await Promise.all(Array.from({ length: 30 }, () => server.ask(get("/metrics"))));
  for (const reply of replies) assertMatch(reply, /\r\n\r\nb 2\n$/);
  assert(server.renderings < 31, `${server.renderings} renderings`);
});

Deno.test("10,000 headers are refused, and the client reads why", async () => {
  await using server = new TestServer();
  const headers = "x-header: value\r\n".repeat(10_000);
  const reply = await server.ask(`GET /metrics HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n`);
  assertEquals(statusOf(reply), 431);
});

Deno.test("clients that send half a request, send nothing or never read stall no other client", async () => {
  await using server = new TestServer(LONG_MS);
  server.page = LONG_PAGE;
  using neverReads = await server.connect();
  await neverReads.send(get("/metrics"));
  using half = await server.connect();
  await half.send("GET /metrics HTTP/1.1\r\nHost: loc");
  using silent = await server.connect();
  assertEquals(statusOf(await server.ask(get("/health"))), 200);
  const reply = await server.ask(get("/metrics"));
  assertGreater(reply.length, LONG_PAGE.length);
  // The others are served on.
  await half.send("alhost\r\n\r\n");
  assertEquals((await half.rest()).length, reply.length);
  await silent.send(get("/health"));
  assertEquals(statusOf(await silent.rest()), 200);
});

Deno.test("a connection whose time is up is closed, whatever it waits for", async () => {
  await using server = new TestServer(50);
  server.page = LONG_PAGE;
  using silent = await server.connect();
  assertEquals(await silent.rest(), "");
  using half = await server.connect();
  await half.send("GET /metrics HTTP/1.1\r\nHost: loc");
  assertEquals(await half.rest(), "");
  // Its reply is cut: the server does not wait for it to read.
  using neverReads = await server.connect();
  await neverReads.send(get("/metrics"));
  using later = await server.connect();
  assertEquals(await later.rest(), "");
  assertLess((await neverReads.rest()).length, LONG_PAGE.length);
});

Deno.test("above the limit, the oldest connections are closed", async () => {
  await using server = new TestServer(LONG_MS);
  const mob: Client[] = [];
  try {
    for (let index = 0; index < 2 * CONNECTIONS_MAX; index++) {
      const client = await server.connect();
      mob.push(client);
      await client.send("GET /met");
    }
    assertEquals(statusOf(await server.ask(get("/health"))), 200);
    for (const client of mob.slice(0, CONNECTIONS_MAX)) assertEquals(await client.rest(), "");
    const last = mob.at(-1)!;
    await last.send("rics HTTP/1.0\r\n\r\n");
    assertEquals(statusOf(await last.rest()), 200);
  } finally {
    for (const client of mob) client[Symbol.dispose]();
  }
});

Deno.test("stop() ends although clients do not read, and closes the port", async () => {
  const server = new TestServer();
  server.page = LONG_PAGE;
  using neverReads = await server.connect();
  await neverReads.send(get("/metrics"));
  using silent = await server.connect();
  assertEquals(statusOf(await server.ask(get("/health"))), 200);
  await server.stop();
  assertEquals(await silent.rest(), "");
  const { port } = server.server.listen;
  Deno.listen({ hostname: "127.0.0.1", port }).close();
});

Deno.test("malformed requests are refused", async () => {
  await using server = new TestServer();
  const line = "GET /health HTTP/1.1\r\n";
  const refused = [
    "\r\n\r\nmore",
    "GET / x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    `${line}\r\n`,
    `${line}Host : localhost\r\n\r\n`,
    `${line}Host: localhost\r\nX: \0\r\n\r\n`,
    `${line}Host: localhost\r\n\r\nmore`.replace("GET", "G@T"),
  ];
  for (const head of refused) assertEquals(statusOf(await server.ask(head)), 400, head);
  const long = `${line}Host: localhost\r\nx: ${"y".repeat(8192)}`;
  assertEquals(statusOf(await server.ask(long)), 431);
  for (const host of ["a b", "a@b", "[::1].evil", "127.0.0.1.evil.example"]) {
    assertEquals(statusOf(await server.ask(get("/health", host))), 421, host);
  }
  for (const host of ["LocalHost:9150", "[::1]:9150", "127.0.0.1:"]) {
    assertEquals(statusOf(await server.ask(get("/health", host))), 200, host);
  }
});

Deno.test("a request is answered when its head is complete, in whatever pieces it comes", async () => {
  await using server = new TestServer();
  using client = await server.connect();
  for (const byte of get("/health?x=1")) await client.send(byte);
  assertMatch(await client.rest(), /\r\n\r\nserving\n$/);
});

Deno.test("on loopback, a host must be an address, localhost or the name of the option", () => {
  for (const local of ["127.0.0.1", "::1", "127.9.9.9", "::ffff:127.0.0.1"]) {
    for (const host of ["", "localhost", "127.0.0.1", "[::1]", "10.0.0.1", "cache1"]) {
      assertEquals(isHostAllowed(host, local, "Cache1"), true, host);
    }
    for (const host of ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example"]) {
      assertEquals(isHostAllowed(host, local, "127.0.0.1"), false, host);
    }
  }
  assertEquals(isHostAllowed("cache1.example", "10.0.0.1", "0.0.0.0"), true);
});

type Send = (text: string) => void;

/** Returns a route whose streams send what is given to `senders`. */
function streamRoutes(senders: Set<Send>): Routes {
  const stream = (send: Send): () => void => {
    senders.add(send);
    return () => senders.delete(send);
  };
  return { "/stream": { GET: () => ({ status: 200, stream }) } };
}

Deno.test("a stream is not one of the connections that newer ones close", async () => {
  const senders = new Set<Send>();
  const listen = { kind: "tcp", hostname: "127.0.0.1", port: 0, protocol: "ascii" } as const;
  const server = new AdminServer(listen, streamRoutes(senders), () => {}, LONG_MS);
  const served = server.serve();
  const connect = async (): Promise<Client> => {
    const { port } = server.listen;
    return new Client(await Deno.connect({ hostname: "127.0.0.1", port }));
  };
  using stream = await connect();
  await stream.send(get("/stream"));
  await stream.until("\r\n\r\n");
  const mob: Client[] = [];
  for (let index = 0; index < 2 * CONNECTIONS_MAX; index++) mob.push(await connect());
  for (const client of mob.slice(0, CONNECTIONS_MAX)) assertEquals(await client.rest(), "");
  assertEquals(senders.size, 1);
  for (const send of senders) send("still here\n");
  await stream.until("still here\n");
  await server.stop();
  await served;
  for (const client of mob) client[Symbol.dispose]();
});

Deno.test("a stream whose peer does not read is closed; others go on", async () => {
  const senders = new Set<Send>();
  const listen = { kind: "tcp", hostname: "127.0.0.1", port: 0, protocol: "ascii" } as const;
  const server = new AdminServer(listen, streamRoutes(senders), () => {}, 1000);
  const served = server.serve();
  const connect = async (): Promise<Client> => {
    const { port } = server.listen;
    const client = new Client(await Deno.connect({ hostname: "127.0.0.1", port }));
    await client.send(get("/stream"));
    return client;
  };
  using reads = await connect();
  await reads.until("\r\n\r\n");
  using _neverReads = await connect();
  await until(() => Promise.resolve(senders.size === 2));
  const [, slow] = [...senders];
  const more = "x".repeat(128 * 1024);
  await until(() => {
    slow!(more);
    return Promise.resolve(senders.size === 1);
  });
  for (const send of senders) send("still here\n");
  await reads.until("still here\n");
  await server.stop();
  await served;
  assertEquals(senders.size, 0);
});

Deno.test("bodies are bounded in size and time, whole or in chunks", async () => {
  const bodies: (string | null)[] = [];
  const routes = {
    "/act": {
      POST: async ({ body }: AdminRequest) => {
        bodies.push(await body());
        return { status: 200, body: "" };
      },
    },
  };
  const listen = { kind: "tcp", hostname: "127.0.0.1", port: 0, protocol: "ascii" } as const;
  const server = new AdminServer(listen, routes, () => {}, 1000);
  const served = server.serve();
  const ask = async (rest: string): Promise<string> => {
    const { port } = server.listen;
    using client = new Client(await Deno.connect({ hostname: "127.0.0.1", port }));
    await client.send(`POST /act HTTP/1.1\r\nHost: localhost\r\n${rest}`);
    return await client.rest();
  };
  const chunked = "Transfer-Encoding: chunked\r\n\r\n";
  assertEquals(statusOf(await ask("Content-Length: 3\r\n\r\nabc")), 200);
  assertEquals(statusOf(await ask(`${chunked}1\r\na\r\n2\r\nbc\r\n0\r\n\r\n`)), 200);
  assertEquals(statusOf(await ask("\r\n")), 200);
  assertEquals(statusOf(await ask(`Content-Length: 4097\r\n\r\n${"x".repeat(4097)}`)), 200);
  assertEquals(bodies, ["abc", "abc", "", null]);
  // Their time is up, and no handler waits any more.
  assertEquals(await ask("Content-Length: 100\r\n\r\nabc"), "");
  assertEquals(await ask(`${chunked}ff\r\nabc`), "");
  await until(() => bodies.length === 6);
  assertEquals(bodies.slice(4), [null, null]);
  await server.stop();
  await served;
});
