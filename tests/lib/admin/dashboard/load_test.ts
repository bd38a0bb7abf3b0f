import { assert, assertEquals, assertLess, assertMatch } from "@std/assert";
import { AdminServer } from "../../../../lib/admin/http_server.ts";
import { Recorder } from "../../../../lib/admin/dashboard/recorder.ts";
import { dashboardRoutes } from "../../../../lib/admin/dashboard/routes.ts";
import { takeSnapshot } from "../../../../lib/admin/dashboard/series.ts";
import { MAIN, ServerProcess } from "../../../support/servers/server_process.ts";
import { ConversationSide } from "../../../support/sessions/conversation_side.ts";
import { textOf } from "../../../support/sessions/side.ts";
import { browserTest, type Page, withPage } from "./open_page.ts";
import { roundsOf } from "../../../support/rounds.ts";

const CONNECTIONS = 10_000;
const TOKENS = 10_000;
const KEYS = 10_000;
const READERS = 4;
/** Requests that a reader sends at once. */
const READ_AT_ONCE = 100;
/** Of simulated time, between two looks at the page. */
const BATCHES_AN_HOUR = roundsOf(18);

async function count(page: Page, text: RegExp): Promise<void> {
  await page.locator("#count", { hasText: text }).waitFor();
}

function batchOf(request: (number: number) => string, first: number, size: number): string {
  return Array.from({ length: size }, (_, index) => request(first + index)).join("");
}

/** Reads keys until the signal aborts. */
async function readKeys(server: ServerProcess, signal: AbortSignal): Promise<void> {
  using client = await server.connect();
  for (let first = 0; !signal.aborted; first = (first + READ_AT_ONCE) % KEYS) {
    await client.ask(
      batchOf((number) => `get key${number}\r\n`, first, READ_AT_ONCE),
      batchOf((number) => `VALUE key${number} 0 1\r\n1\r\nEND\r\n`, first, READ_AT_ONCE),
    );
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

async function topOnce(server: ServerProcess, view: string): Promise<string[]> {
  const { code, stdout } = await new Deno.Command(Deno.execPath(), {
    // deno-fmt-ignore
    args: ["run", "--no-prompt", "-A", MAIN, "top", `127.0.0.1:${server.port}`, "--once",
      "--view", view, "--interval", "1000", "--timeout", "60000"],
    env: { NO_COLOR: "1" },
  }).output();
  assertEquals(code, 0);
  return textOf(stdout).trimEnd().split("\n");
}

browserTest(
  "page and top stay usable under load with 10,000 keys, connections and tokens",
  async () => {
    await using server = await ServerProcess.start({
      args: [
        ...["--admin", "0", "-c", String(CONNECTIONS + 100)],
        ...["--tokens", "volatile", "--token-quarantine", "0"],
      ],
      permissions: ["-A"],
    });
    using client = await server.connect();
    for (let batch = 0; batch < TOKENS / 1000; batch++) {
      const keys = Array.from({ length: 1000 }, (_, index) => `t${batch * 1000 + index}`);
      await client.send(keys.map((key) => `token get ${key} web1\r\n`).join(""));
      for (const _ of keys) await client.until(/TOKEN \d+\r\n/);
    }
    for (let first = 0; first < KEYS; first += 1000) {
      await client.ask(
        batchOf((number) => `set key${number} 0 0 1\r\n1\r\n`, first, 1000),
        "STORED\r\n".repeat(1000),
      );
    }
    const open: Deno.TcpConn[] = [];
    const reading = new AbortController();
    const readers = Array.from({ length: READERS }, () => readKeys(server, reading.signal));
    try {
      while (open.length < CONNECTIONS) {
        const batch = Array.from(
          { length: 100 },
          () => Deno.connect({ hostname: "127.0.0.1", port: server.port }),
        );
        open.push(...await Promise.all(batch));
      }
      await withPage(server, async (page) => {
        await page.getByRole("tab", { name: "Update tokens" }).click();
        await count(page, /^200 of 10000 found, 10000 in all$/);
        await page.getByRole("searchbox", { name: "Search" }).fill("t9999");
        await count(page, /^1 of 1 found, 10000 in all$/);
        await page.getByRole("tab", { name: "Connections" }).click();
        await page.getByRole("searchbox", { name: "Search" }).fill("tcp:127.0.0.1");
        // The search is the server's: there are more connections than a reply has.
        await count(page, /^200 of 10005 found, 10005 in all$/);
        assertEquals(await page.locator("#table tbody tr").count(), 200);
        const port = (open.at(-1)!.localAddr as Deno.NetAddr).port;
        await page.getByRole("searchbox", { name: "Search" }).fill(`127.0.0.1:${port}`);
        await page.getByRole("cell", { name: `tcp:127.0.0.1:${port}`, exact: true }).waitFor();
      });
      assert((await topOnce(server, "connections")).length > CONNECTIONS);
      const [, line] = await topOnce(server, "servers");
      assertMatch(line!, /^127\.0\.0\.1:\d+ +[1-9]/, "reads a second");
      assert((await topOnce(server, "hotkeys")).length > 1);
      await client.ping();
    } finally {
      reading.abort();
      for (const socket of open) socket.close();
      await Promise.all(readers);
    }
    await server.stop();
  },
);

/** A dashboard in this process, whose seconds the test makes. */
class FastDashboard extends ConversationSide implements AsyncDisposable {
  readonly recorder = new Recorder((atMs) => takeSnapshot(this.thread, [], atMs));
  readonly server: AdminServer;
  readonly #served: Promise<void>;
  readonly #startMs = Date.now();
  #seconds = 0;

  constructor() {
    super();
    const { cache, settings, connections, times, ops, hooks } = this.thread;
    const tables = {
      ...{ cache, settings, connections, times, ops, hooks },
      ...{ users: () => null, rowStats: () => [], nodes: () => [], rowTokens: () => [] },
    };
    const routes = dashboardRoutes({ recorder: this.recorder, tables, check: null, actions: null });
    const listen = { kind: "tcp", hostname: "127.0.0.1", port: 0, protocol: "ascii" } as const;
    this.server = new AdminServer(listen, routes, () => {});
    this.#served = this.server.serve();
  }

  line(): Promise<string> {
    const { port } = this.server.listen;
    return Promise.resolve(`the dashboard is at http://127.0.0.1:${port}/`);
  }

  /** Lets seconds pass. With the last one there is one more item. */
  pass(seconds: number): void {
    const peer = this.connect();
    for (let left = seconds; left > 0; left--) {
      peer.ask("get k\r\n");
      if (left === 1) peer.ask(`set k${this.#seconds} 0 0 1\r\n1\r\n`);
      this.thread.times.record();
      this.recorder.tick(this.#startMs + ++this.#seconds * 1000);
    }
    peer.disconnect();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server.stop();
    await this.#served;
    this[Symbol.dispose]();
  }
}

/** Bytes of live objects in the page. */
async function liveBytes(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  await session.detach();
  return usedSize;
}

browserTest("a page that is open for hours has the size of one that is open for one", async () => {
  await using dashboard = new FastDashboard();
  await withPage(dashboard, async (page) => {
    await page.getByRole("button", { name: "1 h" }).click();
    const items = page.locator("#tiles div", { hasText: "Items" }).locator("dd");
    let batches = 0;
    const hour = async (): Promise<[elements: number, bytes: number]> => {
      for (let batch = 0; batch < BATCHES_AN_HOUR; batch++) {
        dashboard.pass(3600 / BATCHES_AN_HOUR);
        await items.and(page.getByText(String(++batches), { exact: true })).waitFor();
      }
      return [await page.locator("*").count(), await liveBytes(page)];
    };
    const [elements, bytes] = await hour();
    for (const later of [await hour(), await hour()]) {
      // Legends and hot keys come and go with what they show; one element a batch would be a leak.
      assertLess(later[0] - elements, BATCHES_AN_HOUR);
      assertLess(later[1], 1.2 * bytes);
    }
  });
});
