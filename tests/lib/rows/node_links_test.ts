import { assert, assertEquals, assertMatch } from "@std/assert";
import { freePort } from "../../support/free_ports.ts";
import { Certificates, tlsArguments } from "../../support/servers/certificates.ts";
import { createDatabase } from "../../support/servers/databases.ts";
import {
  NODE_PERMISSIONS as PERMISSIONS,
  startNode,
  startOrigin,
} from "../../support/servers/origin_process.ts";
import {
  runToEnd,
  ServerProcess,
  testTransports,
  TRANSPORTS,
  until,
} from "../../support/servers/server_process.ts";
import { waitingFor } from "../../support/waiting.ts";

// The connection between a node and its origin, and what both log of it.

/** Attempts of a node to become a member. */
const ATTEMPTS = 5;

async function ask(server: ServerProcess, request: string): Promise<string> {
  using client = await server.connect();
  await client.send(`${request}quit\r\n`);
  return await client.rest();
}

/** A server that gives one reply to everything, and closes. @param asked Called for each connection. */
function sayOnly(reply: string, asked = (): void => {}): Deno.Listener {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const serve = async (): Promise<void> => {
    for await (const client of listener) {
      asked();
      await client.read(new Uint8Array(4096)).catch(() => {});
      await client.write(new TextEncoder().encode(reply)).catch(() => {});
      client.close();
    }
  };
  serve().catch(() => {});
  return listener;
}

/** The start of a node that must end, with this in its log. */
async function refused(
  io: "portable" | "native",
  origin: number,
  args: readonly string[],
  error: RegExp,
): Promise<void> {
  const ended = await runToEnd({
    io,
    permissions: PERMISSIONS,
    args: ["--io", io, "-p", "-1", "--origin", `127.0.0.1:${origin}`, ...args],
  });
  assertMatch(ended.stderr, error);
  assert(ended.code !== 0);
}

testTransports("a node reaches its origin over TLS, with a login", async (start, io) => {
  await using database = await createDatabase("SQLite");
  using certificates = new Certificates();
  const own = certificates.make("origin");
  const other = certificates.make("other");
  const file = (name: string, text: string): string => {
    const path = `${database.folder}/${name}`;
    Deno.writeTextFileSync(path, `${text}\n`);
    return path;
  };
  const users = file("users", "node1 node:secret\nreader read:secret");
  const login = file("login", "node1:secret");
  const args = [...tlsArguments(own), "-Y", users];
  await using origin = await startOrigin(database, args);
  const secure = ["--origin-ca-cert", own.certPath];
  await using node = await start({
    permissions: PERMISSIONS,
    args: ["--origin", `127.0.0.1:${origin.port}`, ...secure, "--origin-login", login],
  });
  assertEquals(
    await ask(node, "set k 0 0 1\r\n1\r\nget k\r\n"),
    "STORED\r\nVALUE k 0 1\r\n1\r\nEND\r\n",
  );
  const wrong = file("wrong", "node1:mistaken");
  await refused(
    io,
    origin.port,
    [...secure, "--origin-login", wrong],
    /cannot become a node: 127\.0\.0\.1:\d+: answers the login of user node1 with "CLIENT_ERROR/,
  );
  await refused(
    io,
    origin.port,
    ["--origin-ca-cert", other.certPath, "--origin-login", login],
    /cannot become a node: 127\.0\.0\.1:\d+: .*certificate/,
  );
  const reader = file("reader", "reader:secret");
  await refused(
    io,
    origin.port,
    [...secure, "--origin-login", reader],
    /cannot become a node: 127\.0\.0\.1:\d+: /,
  );
});

for (const io of TRANSPORTS) {
  Deno.test(`${io}: a node and an origin of other versions say so`, async () => {
    await using database = await createDatabase("SQLite");
    await using origin = await startOrigin(database);
    const join = { version: 99, name: "n", session: "", prefixes: [""], expiry: "refuse" };
    const block = JSON.stringify(join);
    assertMatch(
      await ask(origin, `node join - 0 ${block.length}\r\n${block}\r\n`),
      /^SERVER_ERROR the node speaks version 99, and this origin version \d+\r\n$/,
    );
    const text = "the node speaks version 1, and this origin version 99";
    using newer = sayOnly(`SERVER_ERROR ${text}\r\n`);
    const { port } = newer.addr as Deno.NetAddr;
    await refused(io, port, [], new RegExp(`cannot become a node: 127.0.0.1:${port}: ${text}`));
    using stranger = sayOnly("HTTP/1.1 400 Bad Request\r\n\r\n");
    await refused(io, (stranger.addr as Deno.NetAddr).port, [], /400 Bad Request/);
  });
}

testTransports("nodes that point at themselves, or in a circle, say so", async (start, io) => {
  const [one, two] = [freePort(), freePort()];
  await using self = await start({
    permissions: PERMISSIONS,
    args: ["-p", `${one}`, "-l", "127.0.0.1", "--origin", `127.0.0.1:${one}`],
  });
  await self.line(/has no membership of .*: this server is a node, and no origin/);
  assertMatch(await ask(self, "get k\r\n"), /^SERVER_ERROR rows are not available/);
  await using first = await start({
    permissions: PERMISSIONS,
    args: ["-p", `${two}`, "-l", "127.0.0.1", "--origin", `127.0.0.1:${two}`],
  });
  await refused(io, first.port, [], /this server is a node, and no origin/);
});

Deno.test("a node has the name of the address that it listens on", async () => {
  await using database = await createDatabase("SQLite");
  await using origin = await startOrigin(database);
  await using node = await startNode([origin]);
  const name = `tcp:127.0.0.1:${node.port}`;
  assertMatch(await ask(origin, "nodes\r\n"), new RegExp(`^NODE ${name} `));
  await origin.line(`node ${name} is a member`);
  await node.line(`node ${name} is a member of origin 127.0.0.1:${origin.port}`);
});

Deno.test("origin and node log a node that joins, is silent, is lost and returns", async () => {
  await using database = await createDatabase("SQLite");
  await using origin = await startOrigin(database, ["--member-time", "500"]);
  await using node = await startNode([origin], ["--node-name", "one"]);
  await origin.line(/node one is a member$/);
  node.signal("SIGSTOP");
  await origin.line(
    /node one is silent: no renewal for \d+ ms; the next write continues without it/,
  );
  assertEquals(await ask(origin, "set k 0 0 1\r\n1\r\n"), "STORED\r\n");
  await origin.line(/node one is lost: no renewal for \d+ ms; a write went on without it/);
  assertMatch(await ask(origin, "nodes\r\n"), /^NODE one lost /);
  node.signal("SIGCONT");
  await node.line(
    /node one has no membership of 127\.0\.0\.1:\d+: .*; rows are errors until it is back/,
  );
  await node.line(/node one is a member of origin 127\.0\.0\.1:\d+ again, without rows/);
  await origin.line(/node one is a member again, after \d+ ms/);
});

Deno.test("a node logs once that its origins do not answer", async () => {
  const attempts = Promise.withResolvers<void>();
  let count = 0;
  using origin = sayOnly("", () => ++count === ATTEMPTS && attempts.resolve());
  const { port } = origin.addr as Deno.NetAddr;
  const origins = `127.0.0.1:${port},127.0.0.1:${freePort()}`;
  await using node = await ServerProcess.start({
    permissions: PERMISSIONS,
    args: ["--origin", origins, "--node-name", "one"],
  });
  await waitingFor("attempts of the node", attempts.promise);
  await node.stop();
  const losses = node.lines.filter((line) => line.includes("has no membership of"));
  assertEquals(losses.length, 1, losses.join("\n"));
  // Why none of them answers.
  assertEquals(losses[0]!.split("127.0.0.1:").length, 1 + 4, losses[0]);
});

Deno.test("nodes forget takes a node off that serves no row; not a member", async () => {
  await using database = await createDatabase("SQLite");
  await using origin = await startOrigin(database, ["--member-time", "500"]);
  await using node = await startNode([origin], ["--node-name", "one"]);
  // On a slow machine its time may be over for a moment.
  await until(async () =>
    await ask(origin, "nodes forget one\r\n") === "NOT_FOUND\r\n" &&
    (await ask(origin, "nodes\r\n")).startsWith("NODE one member ")
  );
  assertEquals(
    await ask(node, "nodes forget one\r\n"),
    `SERVER_ERROR 127.0.0.1:${origin.port}: this command is for the origin\r\n`,
  );
  node.signal("SIGSTOP");
  await until(async () => await ask(origin, "nodes forget one\r\n") === "OK\r\n");
  assertMatch(await ask(origin, "nodes\r\n"), /^END\r\n/);
  node.signal("SIGCONT");
  await node.line("again, without rows");
  await until(async () => /^NODE one member /.test(await ask(origin, "nodes\r\n")));
});
