import { assertEquals, assertMatch } from "@std/assert";
import { type TimedConnection, timeoutOf } from "../../../lib/proxy/connection_timeouts.ts";
import { startProxy } from "../../support/servers/proxy_process.ts";

const LIMITS = { sendTimeoutSec: 60, idleTimeoutSec: 10, authTimeoutSec: 30 };
const BUSY: TimedConnection = {
  sendingSinceMs: null,
  receivingSinceMs: null,
  unauthenticatedSinceMs: null,
};

/** Returns the event that closes a connection, or "" if it stays. */
function eventOf(connection: Partial<TimedConnection>, nowMs: number, limits = LIMITS): string {
  return timeoutOf({ ...BUSY, ...connection }, limits, nowMs, { peer: "p" })?.event ?? "";
}

Deno.test("each wait of a client has its own time", () => {
  assertEquals(eventOf({}, 1e9), "", "a request that takes long is no fault of the client");
  assertEquals(eventOf({ sendingSinceMs: 5 }, 60_005), "");
  assertEquals(eventOf({ sendingSinceMs: 5 }, 60_006), "connection_stalled");
  assertEquals(eventOf({ receivingSinceMs: 0 }, 10_000), "");
  assertEquals(eventOf({ receivingSinceMs: 0 }, 10_001), "connection_idle");
  assertEquals(eventOf({ receivingSinceMs: 0 }, 1e9, { ...LIMITS, idleTimeoutSec: 0 }), "");
  const late = { unauthenticatedSinceMs: 0, receivingSinceMs: 25_000 };
  assertEquals(eventOf(late, 30_000), "");
  assertEquals(eventOf(late, 30_001), "authentication_timed_out");
});

Deno.test("a client that never reads is dropped, and so is one that sends nothing", async () => {
  const folder = Deno.makeTempDirSync({ prefix: "leased-test-" });
  try {
    const limits = ["--send-timeout", "1", "--idle-timeout", "1", "--cache-timeout", "1"];
    await using proxy = await startProxy({ url: `sqlite:${folder}/db`, folder }, [1], limits);
    using deaf = await proxy.connect();
    const sending = deaf.send("stats\r\n".repeat(100_000)).catch(() => {});
    const line = await proxy.line("accepted no byte of its replies");
    assertMatch(
      line,
      /connection closed: tcp:127.0.0.1:\d+ accepted no byte of its replies for 1 s \(--send-timeout\)/,
    );
    await sending;
    using silent = await proxy.connect();
    assertEquals(await silent.rest(), "");
    await proxy.line("sent nothing for 1 s (--idle-timeout)");
    // No connection is left that a drain would wait for.
    assertEquals((await proxy.stop()).code, 0);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});
