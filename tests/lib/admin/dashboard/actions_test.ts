import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { AdminRequest } from "../../../../lib/admin/http_server.ts";
import { Actions } from "../../../../lib/admin/dashboard/actions.ts";
import { JOURNAL_NAME } from "../../../../lib/journal/token_journal.ts";
import { accessibilityFaults, type Page, type PageOptions, pageTest } from "./open_page.ts";
import type { Settings } from "../../../../protocol/settings.ts";
import { deadlineSec } from "../../../../store/clock.ts";
import { StoreMode } from "../../../../store/operation.ts";
import { Outcome } from "../../../../store/outcome.ts";
import { TestStore } from "../../../support/store.ts";
import { Client, ServerProcess } from "../../../support/servers/server_process.ts";

const PERMISSIONS = ["--allow-net", "--allow-read", "--allow-ffi"];
const BOSS = "boss:two";
const ACTIONS = ["flush", "quarantine-on", "quarantine-off", "drop-token"];
const TOKENS = ["--tokens", "volatile", "--token-quarantine", "0"];

/** Writes a user file, which stays until the tests' folder goes. */
function usersFile(): string {
  const file = Deno.makeTempFileSync();
  Deno.writeTextFileSync(file, "reader read:one\nwriter write:three\nboss admin:two\n");
  Deno.chmodSync(file, 0o600);
  return file;
}

/** A server with users, and their ways to act on it. */
class ActedOn implements AsyncDisposable {
  readonly server: ServerProcess;
  readonly #port: number;
  /** Of requests that nothing is wrong with. */
  headers: Record<string, string>;

  private constructor(server: ServerProcess, port: number) {
    this.server = server;
    this.#port = port;
    this.headers = { Host: "localhost", Origin: "http://localhost" };
  }

  /** @param folder Of the journal of update tokens; left out: there is none. */
  static async start(
    args = ["--admin-actions", "--allow-token-drop"],
    folder?: string,
  ): Promise<ActedOn> {
    const tokens = folder === undefined ? TOKENS : ["--state-dir", folder];
    const server = await ServerProcess.start({
      args: ["-Y", usersFile(), "--admin", "0", ...tokens, ...args],
      permissions: [...PERMISSIONS, ...folder === undefined ? [] : [`--allow-write=${folder}`]],
    });
    const line = await server.line("the dashboard is at http://");
    const acted = new ActedOn(server, Number(/:(\d+)\/$/.exec(line)![1]));
    const [, body] = await acted.ask("GET", "/api/viewer", BOSS);
    acted.headers["X-Leased-Secret"] = JSON.parse(body).actions?.secret ?? "none";
    return acted;
  }

  /** @returns The status and the body. */
  async ask(
    method: string,
    path: string,
    login: string | null,
    body = "",
    headers: Record<string, string> = this.headers,
  ): Promise<[status: number, body: string]> {
    using client = new Client(await Deno.connect({ hostname: "127.0.0.1", port: this.#port }));
    const all = {
      ...headers,
      ...login === null ? {} : { Authorization: `Basic ${btoa(login)}` },
      "Content-Length": body.length,
    };
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`).join("");
    await client.send(`${method} ${path} HTTP/1.1\r\n${lines}\r\n${body}`);
    const reply = await client.rest();
    const [head, ...rest] = reply.split("\r\n\r\n");
    return [Number(/^HTTP\/1\.1 (\d+) /.exec(head!)![1]), rest.join("\r\n\r\n")];
  }

  async act(name: string, body: unknown = null): Promise<[status: number, body: string]> {
    return await this.ask("POST", `/api/actions/${name}`, BOSS, JSON.stringify(body));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server[Symbol.asyncDispose]();
  }
}

async function connectAs(server: ServerProcess, login: string): Promise<Client> {
  const client = await server.connect();
  const words = login.replace(":", " ");
  await client.ask(`set auth 0 0 ${words.length}\r\n${words}\r\n`, "STORED\r\n");
  return client;
}

async function tokenOf(client: Client, key: string): Promise<number> {
  await client.send(`token get ${key} web1\r\n`);
  return Number(/^TOKEN (\d+)\r\n$/.exec(await client.until("\r\n"))![1]);
}

Deno.test("flush, quarantine and drop do what the commands do, and are logged", async () => {
  await using acted = await ActedOn.start();
  const { server } = acted;
  using client = await connectAs(server, BOSS);
  await client.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
  assertEquals(await acted.act("flush"), [200, "the cache is flushed\n"]);
  await client.ask("get a\r\n", "END\r\n");
  assertEquals(await client.stat("cmd_flush"), "1");

  await client.ask("set a 0 0 1\r\n1\r\nlock a\r\n", "STORED\r\nOK\r\n");
  assertEquals((await acted.act("quarantine-on"))[0], 200);
  assertEquals(await client.stat("quarantine"), "1");
  assertEquals(await client.stat("lock_curr"), "0");
  await client.ask("get a\r\nset a 0 0 1\r\n1\r\n", "END\r\nNOT_STORED\r\n");
  assertEquals((await acted.act("quarantine-off"))[0], 200);
  await client.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");

  const first = await tokenOf(client, "k%é");
  const second = await tokenOf(client, "k%é2");
  const key = "k%25%E9";
  assertEquals((await acted.act("drop-token", { key, id: second }))[0], 404);
  assertEquals((await acted.act("drop-token", { key, id: first }))[0], 200);
  assertEquals(await client.stat("token_curr"), "1");
  assertEquals(await client.stat("token_dropped"), "1");
  assertEquals((await acted.act("drop-token", { key, id: first }))[0], 404);

  for (const what of ["flushed the cache", "turned quarantine on", "turned quarantine off"]) {
    assertStringIncludes(await server.line(what), `user boss at 127.0.0.1 ${what}`);
  }
  assertMatch(
    await server.line("dropped the update token"),
    /user boss at 127\.0\.0\.1 dropped .* owner web1, /,
  );
  await server.stop();
});

Deno.test("actions are refused without the level, the secret and an origin, and do nothing", async () => {
  await using acted = await ActedOn.start();
  using client = await connectAs(acted.server, BOSS);
  const id = await tokenOf(client, "t");
  await client.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
  const body = JSON.stringify({ key: "t", id });
  const { Host, Origin, "X-Leased-Secret": secret } = acted.headers as Record<string, string>;
  const good = { Host: Host!, Origin: Origin!, "X-Leased-Secret": secret! };
  const { Origin: _, ...withoutOrigin } = good;
  const { "X-Leased-Secret": __, ...withoutSecret } = good;
  const refused: [number, string | null, Record<string, string>][] = [
    [401, null, good],
    [401, "boss:wrong", good],
    [403, "reader:one", good],
    [403, "writer:three", good],
    [403, BOSS, withoutOrigin],
    [403, BOSS, withoutSecret],
    [403, BOSS, { ...good, "X-Leased-Secret": secret!.replaceAll(/[1-9]/g, "0") }],
    [403, BOSS, { ...good, Origin: "http://evil.example" }],
    [403, BOSS, { ...good, Origin: "null" }],
    [403, BOSS, { ...good, Origin: "http://localhost:1" }],
    [403, BOSS, { ...good, "Sec-Fetch-Site": "cross-site" }],
    [403, BOSS, { ...good, "Sec-Fetch-Site": "same-site" }],
    [421, BOSS, { ...good, Host: "evil.example", Origin: "http://evil.example" }],
  ];
  for (const name of ACTIONS) {
    const path = `/api/actions/${name}`;
    for (const [status, login, headers] of refused) {
      const reply = await acted.ask("POST", path, login, body, headers);
      assertEquals(reply[0], status, `${name} ${login} ${JSON.stringify(headers)}`);
    }
    for (const method of ["GET", "PUT"]) {
      assertEquals((await acted.ask(method, path, BOSS, body))[0], 405);
    }
  }
  for (const login of ["reader:one", "writer:three"]) {
    const [status, text] = await acted.ask("GET", "/api/viewer", login);
    assertEquals([status, JSON.parse(text)], [200, {
      tables: ["classes", "threads"],
      actions: null,
    }]);
  }
  await client.ask("get a\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n");
  assertEquals(await client.stat("token_curr"), "1");
  assertEquals(await client.stat("quarantine"), "0");
  await acted.server.stop();
});

Deno.test("drops of what is no token, and bodies without an end, are refused", async () => {
  await using acted = await ActedOn.start();
  const wrong = [
    ...[null, 1, "x", [], {}, { key: "a" }, { key: "a", id: "1" }, { key: "a", id: 1.5 }],
    ...[{ key: "a", id: -1 }, { key: "", id: 1 }, { key: "a b", id: 1 }, { key: "%ff", id: 1 }],
    ...[{ key: "a".repeat(251), id: 1 }, { key: "a", id: 2 ** 60 }, { key: ["a"], id: 1 }],
  ];
  for (const body of wrong) {
    assertEquals((await acted.act("drop-token", body))[0], 400, JSON.stringify(body));
  }
  const path = "/api/actions/drop-token";
  assertEquals((await acted.ask("POST", path, BOSS, "{"))[0], 400);
  assertEquals((await acted.ask("POST", path, BOSS, "a".repeat(5000)))[0], 413);
  await acted.server.stop();
});

Deno.test("without the option there are no actions; -F and a missing --allow-token-drop refuse some", async () => {
  {
    await using acted = await ActedOn.start(["--allow-token-drop"]);
    for (const name of ACTIONS) assertEquals((await acted.act(name))[0], 404);
    await acted.server.stop();
  }
  await using acted = await ActedOn.start(["--admin-actions", "-F"]);
  const [, text] = await acted.ask("GET", "/api/viewer", BOSS);
  const { refusals } = JSON.parse(text).actions;
  const flush = "the server runs with -F (--disable-flush-all)";
  const drop = "the server runs without --allow-token-drop";
  assertEquals(refusals, {
    flush,
    "quarantine-on": flush,
    "quarantine-off": flush,
    "drop-token": drop,
  });
  for (const name of ACTIONS) {
    assertEquals(await acted.act(name), [403, `refused: ${refusals[name]}\n`]);
  }
  await acted.server.stop();
});

Deno.test("with a journal that cannot be read, quarantine stays on, and the others act", async () => {
  const folder = Deno.makeTempDirSync();
  try {
    Deno.writeTextFileSync(`${folder}/${JOURNAL_NAME}`, "no journal\n".repeat(20));
    await using acted = await ActedOn.start(undefined, folder);
    const { server } = acted;
    await server.line("start again with --token-recover");
    using client = await connectAs(server, BOSS);
    const reason = "the journal of update tokens cannot be read; start again with --token-recover";
    const [, text] = await acted.ask("GET", "/api/viewer", BOSS);
    assertEquals(JSON.parse(text).actions.refusals["quarantine-off"], reason);
    assertEquals(await acted.act("quarantine-off"), [403, `refused: ${reason}\n`]);
    assertEquals((await acted.act("flush"))[0], 200);
    assertEquals((await acted.act("quarantine-on"))[0], 200);
    assertEquals((await acted.act("drop-token", { key: "a", id: 1 }))[0], 404);
    assertEquals(await client.stat("quarantine"), "1");
    await client.ask("set a 0 0 1\r\n1\r\n", "NOT_STORED\r\n");
    await server.stop();
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

function actionOptions(user: "reader" | "boss"): () => PageOptions {
  return () => ({
    args: ["-Y", usersFile(), ...TOKENS, "--admin-actions", "--allow-token-drop"],
    permissions: PERMISSIONS,
    login: { username: user, password: user === "boss" ? "two" : "one" },
  });
}

async function confirm(page: Page, button: string, answer: string): Promise<void> {
  await page.getByRole("button", { name: button }).click();
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  await dialog.getByRole("button", { name: answer }).click();
  await dialog.waitFor({ state: "hidden" });
}

pageTest("an action on the page wants a confirmation, then acts", async (page, server) => {
  using client = await connectAs(server, BOSS);
  await client.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
  const id = await tokenOf(client, "t");
  await confirm(page, "Flush…", "Cancel");
  await page.getByRole("button", { name: "Flush…" }).click();
  assertEquals(await accessibilityFaults(page), []);
  await page.keyboard.press("Escape");
  await client.ask("get a\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n");
  await confirm(page, "Flush…", "Do it");
  await page.getByText("the cache is flushed").waitFor();
  await client.ask("get a\r\n", "END\r\n");
  await confirm(page, "Quarantine on…", "Do it");
  await page.getByText("quarantine is on").waitFor();
  assertEquals(await client.stat("quarantine"), "1");
  await confirm(page, "Quarantine off…", "Do it");
  await page.getByText("quarantine is off").waitFor();
  await page.getByRole("tab", { name: "Update tokens" }).click();
  await page.getByRole("button", { name: `Drop update token ${id} of key t` }).waitFor();
  assertEquals(await accessibilityFaults(page), []);
  await confirm(page, "Drop update token", "Do it");
  await page.getByText("the update token is dropped").waitFor();
  await page.getByRole("button", { name: "Drop update token" }).waitFor({ state: "hidden" });
  assertEquals(await client.stat("token_curr"), "0");
}, actionOptions("boss"));

pageTest("a user of level read sees no actions", async (page) => {
  await page.locator("figure canvas").first().waitFor();
  await page.getByRole("columnheader", { name: "chunk size" }).waitFor();
  assertEquals(await page.getByRole("tab").allTextContents(), ["Classes", "Threads"]);
  assertEquals(await page.getByRole("button", { name: "Flush…" }).count(), 0);
}, actionOptions("reader"));

Deno.test("a process that ends refuses actions: its snapshot may have been described already", async () => {
  using store = new TestStore();
  store.store(StoreMode.SET, "kept", "v");
  let isServing = false;
  const actions = new Actions({
    cache: store.cache,
    settings: { disableFlushAll: false, allowTokenDrop: true } as Settings,
    isServing: () => isServing,
    done: (event) => assert(false, event),
    tokensDropped: () => assert(false, "a token was dropped"),
  });
  const { secret } = actions.describe() as { secret: string };
  const request: AdminRequest = {
    method: "POST",
    path: "",
    query: new URLSearchParams(),
    headers: { origin: "http://localhost", "x-leased-secret": secret },
    peer: "127.0.0.1",
    body: () => {
      isServing = false;
      return Promise.resolve('{"key": "k", "id": 1}');
    },
  } as unknown as AdminRequest;
  for (const name of ACTIONS) {
    // Before the request, and while its body arrives.
    for (isServing of [false, true]) {
      assertEquals(await actions.act(name, request, "boss"), {
        status: 503,
        body: "refused: shutting down\n",
      });
    }
  }
  assertEquals(store.get("kept"), "v");
});

Deno.test("quarantine takes every locked value, however many, and each switch is logged as itself", async () => {
  using store = new TestStore();
  const keys = Array.from({ length: 1000 }, (_, index) => `k${index}`);
  for (const key of keys) {
    store.store(StoreMode.SET, key, "v");
    assertEquals(store.lock(key, 1, { deadlineSec: deadlineSec(store.memory, 60) }), Outcome.OK);
  }
  const done: string[] = [];
  const actions = new Actions({
    cache: store.cache,
    settings: { disableFlushAll: false, allowTokenDrop: true } as Settings,
    isServing: () => true,
    done: (event, message) => done.push(`${event}: ${message}`),
    tokensDropped: () => assert(false, "a token was dropped"),
  });
  const { secret } = actions.describe() as { secret: string };
  const request = {
    headers: { origin: "http://localhost", "x-leased-secret": secret },
    peer: "127.0.0.1",
    body: () => Promise.resolve(""),
  } as unknown as AdminRequest;
  for (const [name, body] of [["on", "on: no key is cacheable"], ["off", "off"]] as const) {
    assertEquals(await actions.act(`quarantine-${name}`, request, "boss"), {
      status: 200,
      body: `quarantine is ${body}\n`,
    });
  }
  assertEquals(keys.filter((key) => store.get(key) !== undefined), []);
  const by = "user boss at 127.0.0.1 turned quarantine";
  assertEquals(done, [`quarantine_on: ${by} on: no key is cacheable`, `quarantine_off: ${by} off`]);
});
