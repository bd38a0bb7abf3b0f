// The sockets of a connection to PostgreSQL, before a server that closes each of them.
import { assertEquals, assertRejects } from "@std/assert";
import { hostSettings } from "../../../lib/databases/postgres/dial.ts";
import { ReplicationConnection } from "../../../lib/databases/postgres/replication.ts";
import { Session } from "../../../lib/databases/postgres/session.ts";

const TIMEOUT_MS = 60_000;

/** Connections of a session, and of the log. */
const DIALS: Readonly<Record<string, (url: string) => Promise<unknown>>> = {
  session: (url) => Session.open({ url, timeoutMs: TIMEOUT_MS }),
  log: (url) =>
    ReplicationConnection.open(
      { url, slot: "s", publication: "p", hasMessages: true, timeoutMs: TIMEOUT_MS },
      { message: () => {}, sentUpTo: () => {}, ended: () => {} },
    ),
};

for (const [what, dial] of Object.entries(DIALS)) {
  for (const hostname of ["127.0.0.1", "::1"]) {
    Deno.test(`a ${what} dials ${hostname} twice, when the server closes the connection each time`, async () => {
      const listener = Deno.listen({ hostname, port: 0 });
      const host = hostname === "::1" ? "[::1]" : hostname;
      let dials = 0;
      const accepting = (async () => {
        for await (const connection of listener) {
          dials++;
          connection.close();
        }
      })();
      await assertRejects(
        () => dial(`postgres://me@${host}:${listener.addr.port}/app`),
        Error,
        "the database closed the connection before it answered",
      );
      listener.close();
      await accepting;
      assertEquals(dials, 2);
    });
  }
}

Deno.test("an address of a URL, and its port", () => {
  assertEquals(hostSettings("postgres://me@[2001:db8::1]:7/x"), {
    host: ["2001:db8::1"],
    port: [7],
  });
  assertEquals(hostSettings("postgres://[::1]/x"), { host: ["::1"], port: [5432] });
  for (const url of ["postgres://h/x", "postgres://127.0.0.1:7/x", "postgres:///x"]) {
    assertEquals(hostSettings(url), {});
  }
});
