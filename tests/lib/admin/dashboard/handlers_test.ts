import { assert, assertEquals } from "@std/assert";
import type { ActionsOptions } from "../../../../lib/admin/dashboard/actions.ts";
import { Recorder } from "../../../../lib/admin/dashboard/recorder.ts";
import { dashboardRoutes } from "../../../../lib/admin/dashboard/routes.ts";
import { COLUMNS, takeSnapshot } from "../../../../lib/admin/dashboard/series.ts";
import type { TableSource } from "../../../../lib/admin/dashboard/tables.ts";
import type { AdminRequest, Reply } from "../../../../lib/admin/http_server.ts";
import { statSource } from "../../../../lib/admin/server_metrics.ts";
import { Access } from "../../../../protocol/auth/access.ts";
import type { TokenDrop } from "../../../../protocol/thread_context.ts";
import { counter, type Stat } from "../../../../protocol/stats/entry.ts";
import { ConversationSide } from "../../../support/sessions/conversation_side.ts";
import { textOf } from "../../../support/sessions/side.ts";

type StreamReply = Omit<Reply, "body"> & {
  stream: (send: (text: string) => void) => () => void;
};

interface Given {
  readonly options?: readonly string[];
  /** Levels by password; null: no authentication. */
  readonly levels?: Readonly<Record<string, Access>> | null;
  readonly hasActions?: boolean;
  readonly rowStats?: readonly Stat[];
}

/** The routes of a dashboard in this process, with requests that the test makes. */
class Dashboard extends ConversationSide {
  readonly peer = this.connect();
  readonly dropped: TokenDrop[] = [];
  readonly done: string[] = [];
  /** Users and passwords that were checked, with the address. */
  readonly checked: string[] = [];
  isServing = true;
  readonly recorder: Recorder;
  readonly #routes: ReturnType<typeof dashboardRoutes>;

  constructor({ options = [], levels = null, hasActions = false, rowStats = [] }: Given = {}) {
    super(["--tokens", "volatile", "--token-quarantine", "0", ...options]);
    const { cache, settings } = this.thread;
    const tables: TableSource = {
      ...statSource(cache, this.shared, settings, () => ({
        userMicroseconds: 0,
        systemMicroseconds: 0,
        accepting: true,
      })),
      users: () => levels === null ? null : new Map(),
      rowStats: () => rowStats,
      nodes: () => [],
      rowTokens: () => [],
    };
    this.recorder = new Recorder((atMs) => takeSnapshot(tables, rowStats, atMs));
    const actions: ActionsOptions = {
      cache,
      settings,
      isServing: () => this.isServing,
      done: (event, message, by) => this.done.push(`${event}: ${message} (${by})`),
      tokensDropped: (drop) => this.dropped.push(drop),
    };
    this.#routes = dashboardRoutes({
      recorder: this.recorder,
      tables,
      check: levels && (({ user, password }, address) => {
        this.checked.push(`${textOf(user)} ${textOf(password)} ${address}`);
        return Promise.resolve(levels[textOf(password)] ?? Access.NONE);
      }),
      actions: hasActions ? actions : null,
    });
  }

  get paths(): string[] {
    return Object.keys(this.#routes);
  }

  async ask(
    path: string,
    { headers = {}, peer = "127.0.0.1", body = "", method = "GET" }: {
      headers?: AdminRequest["headers"];
      peer?: string;
      body?: string | null;
      method?: string;
    } = {},
  ): Promise<Reply> {
    const [name, query] = path.split("?") as [string, string | undefined];
    const request: AdminRequest = {
      headers: { host: "localhost:1", ...headers },
      peer,
      query: new URLSearchParams(query),
      body: () => Promise.resolve(body),
    };
    const reply = await this.#routes[name]![method]!(request);
    const { headers: sent } = reply;
    // Every reply tells the browser so, refusals included.
    assertEquals(
      sent!["Content-Security-Policy"]!.startsWith("default-src 'none'; script-src 'self'"),
      true,
    );
    assertEquals(sent!["Referrer-Policy"], "no-referrer");
    assertEquals(sent!["Cross-Origin-Opener-Policy"], "same-origin");
    assertEquals(sent!["Cross-Origin-Resource-Policy"], "same-origin");
    return reply as Reply;
  }
}

function login(text: string): { headers: AdminRequest["headers"] } {
  return { headers: { authorization: `Basic ${btoa(text)}` } };
}

Deno.test("requests of other sites are refused, by their origin or by what the browser says of them", async () => {
  using dashboard = new Dashboard();
  const cases: readonly (readonly [AdminRequest["headers"], number])[] = [
    [{}, 200],
    [{ origin: "http://localhost:1" }, 200],
    [{ origin: "https://localhost:1" }, 200],
    [{ origin: "http://localhost" }, 403],
    [{ origin: "http://localhost:12" }, 403],
    [{ origin: "null" }, 403],
    [{ "sec-fetch-site": "none" }, 200],
    [{ "sec-fetch-site": "same-origin" }, 200],
    [{ "sec-fetch-site": "same-site" }, 403],
    [{ "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors" }, 403],
    [{ "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate" }, 200],
    [{ origin: "http://evil", "sec-fetch-mode": "navigate" }, 403],
  ];
  for (const [headers, status] of cases) {
    assertEquals(
      (await dashboard.ask("/api/viewer", { headers })).status,
      status,
      JSON.stringify(headers),
    );
  }
});

Deno.test("without users, loopback clients see everything and others nothing; none may act", async () => {
  using dashboard = new Dashboard();
  for (const [peer, status] of [["127.0.0.1", 200], ["::1", 200], ["10.0.0.1", 403]] as const) {
    for (const path of ["/", "/api/tables/locks", "/api/viewer", "/dashboard.js"]) {
      assertEquals((await dashboard.ask(path, { peer })).status, status, `${peer} ${path}`);
    }
  }
  const viewer = JSON.parse((await dashboard.ask("/api/viewer")).body);
  assertEquals(viewer.actions, null);
  assertEquals(viewer.tables.includes("users"), false);
  assertEquals(dashboard.paths.some((path) => path.startsWith("/api/actions/")), false);
});

Deno.test("with users, each page needs its level; names and passwords are taken as bytes", async () => {
  const levels = { r: Access.READ, w: Access.WRITE, n: Access.NODE, a: Access.ADMIN };
  using dashboard = new Dashboard({ levels });
  const statuses = async (given: Parameters<Dashboard["ask"]>[1]): Promise<number[]> => [
    (await dashboard.ask("/api/tables/classes", given)).status,
    (await dashboard.ask("/api/tables/locks", given)).status,
  ];
  assertEquals(await statuses({}), [401, 401]);
  assertEquals(await statuses(login("x:wrong")), [401, 401]);
  assertEquals(await statuses(login("x:r")), [200, 403]);
  assertEquals(await statuses(login("x:w")), [200, 403]);
  assertEquals(await statuses(login("x:n")), [200, 403]);
  assertEquals(await statuses(login("x:a")), [200, 200]);
  const refused = await dashboard.ask("/", {});
  assertEquals(refused.headers!["WWW-Authenticate"], 'Basic realm="leased", charset="UTF-8"');
  dashboard.checked.length = 0;
  await dashboard.ask("/", { ...login("\xe9n:a:b:"), peer: "10.0.0.1" });
  assertEquals(dashboard.checked, [`${textOf(Uint8Array.of(0xe9, 0x6e))} a:b: 10.0.0.1`]);
  const malformed = [
    `Bearer ${btoa("x:a")}`,
    `Basic${btoa("x:a")}`,
    "Basic ",
    "Basic x:a",
    "Basic =",
    "Basic QQ",
    `Basic ${btoa("no colon")}`,
  ];
  for (const authorization of malformed) {
    assertEquals(
      (await dashboard.ask("/", { headers: { authorization } })).status,
      401,
      authorization,
    );
  }
  assertEquals(dashboard.checked.length, 1);
  const spaced = { headers: { authorization: `bAsIc   ${btoa("x:r")}  ` } };
  assertEquals((await dashboard.ask("/", spaced)).status, 200);
  assertEquals((await dashboard.ask("/", login("x:"))).status, 401);
});

Deno.test("a viewer is told of the tables of the level that there are, and of actions if allowed", async () => {
  const rowStats = ["tokens_idle", "nodes_member"].map((name): Stat => ({
    name,
    value: 1,
    meaning: counter("", "x"),
    of: "",
  }));
  const levels = { r: Access.READ, a: Access.ADMIN };
  const tablesOf = async (given: Given, password: string): Promise<string> => {
    using dashboard = new Dashboard({ levels, ...given });
    return JSON.parse((await dashboard.ask("/api/viewer", login(`x:${password}`))).body).tables
      .join();
  };
  assertEquals(await tablesOf({}, "r"), "classes,threads");
  assertEquals(await tablesOf({ rowStats }, "r"), "classes,threads,rows");
  assertEquals(
    await tablesOf({}, "a"),
    "hot-keys,classes,threads,connections,locks,leases,tokens,users",
  );
  assertEquals(
    await tablesOf({ rowStats: rowStats.slice(0, 1) }, "a"),
    "hot-keys,classes,threads,rows,row-tokens,connections,locks,leases,tokens,users",
  );
  assertEquals(
    await tablesOf({ rowStats: rowStats.slice(1) }, "a"),
    "hot-keys,classes,threads,rows,nodes,connections,locks,leases,tokens,users",
  );
  using dashboard = new Dashboard({ levels, hasActions: true });
  const actionsOf = async (password: string): Promise<unknown> =>
    JSON.parse((await dashboard.ask("/api/viewer", login(`x:${password}`))).body).actions;
  assertEquals(await actionsOf("r"), null);
  const { secret, refusals } = await actionsOf("a") as Record<string, unknown>;
  assert(typeof secret === "string" && secret.length === 36);
  assertEquals(refusals, {
    ...{ flush: null, "quarantine-on": null, "quarantine-off": null },
    "drop-token": "the server runs without --allow-token-drop",
  });
});

Deno.test("the past has columns for the rows that it sends, and the stream sends each second's row", async () => {
  using dashboard = new Dashboard({
    rowStats: [{ name: "epoch", value: 5, meaning: counter("", "x"), of: "" }],
  });
  dashboard.recorder.tick(5_000_499);
  dashboard.recorder.tick(5_060_000);
  const past = JSON.parse((await dashboard.ask("/api/past")).body);
  assertEquals(past.columns, COLUMNS);
  assertEquals(past.rowColumns, ["rows_epoch"]);
  assertEquals(past.version, dashboard.thread.settings.version);
  assertEquals(past.seconds.map((row: number[]) => row[0]), [5000, 5060]);
  assertEquals(past.seconds[1].length, COLUMNS.length + 1);
  assertEquals(past.seconds[1][1 + COLUMNS.indexOf("rows_epoch")], 5);
  const reply = await dashboard.ask("/api/stream") as unknown as StreamReply;
  assertEquals([reply.status, reply.type], [200, "text/event-stream; charset=utf-8"]);
  const sent: string[] = [];
  const end = reply.stream((text) => sent.push(text));
  dashboard.recorder.tick(5_061_500);
  end();
  dashboard.recorder.tick(5_062_000);
  assertEquals(sent.length, 2);
  assertEquals(sent[0], "retry: 2000\n\n");
  assertEquals(/^data: \[5062,.*\]\n\n$/.test(sent[1]!), true, sent[1]);
});

Deno.test("a minute's row is added when 60 seconds are over, and not before", () => {
  using dashboard = new Dashboard();
  const { recorder } = dashboard;
  const startMs = Date.now() + 1_000_000;
  recorder.tick(startMs);
  assertEquals(recorder.past.minutes.length, 1);
  recorder.tick(startMs + 59_999);
  assertEquals(recorder.past.minutes.length, 1);
  recorder.tick(startMs + 60_000);
  assertEquals(recorder.past.minutes.length, 2);
  assertEquals(recorder.past.minutes[1]![0], Math.round((startMs + 60_000) / 1000));
  assertEquals(recorder.past.seconds.length, 3);
});

Deno.test("files and tables have their media types, and no two files are the same", async () => {
  using dashboard = new Dashboard();
  const types = {
    "/": "text/html; charset=utf-8",
    "/dashboard.css": "text/css; charset=utf-8",
    "/uplot.css": "text/css; charset=utf-8",
    "/actions.js": "text/javascript; charset=utf-8",
    "/elements.js": "text/javascript; charset=utf-8",
    "/dashboard.js": "text/javascript; charset=utf-8",
    "/uplot.js": "text/javascript; charset=utf-8",
    "/api/past": "application/json; charset=utf-8",
    "/api/viewer": "application/json; charset=utf-8",
    "/api/tables/locks": "application/json; charset=utf-8",
  };
  for (const [path, type] of Object.entries(types)) {
    assertEquals((await dashboard.ask(path)).type, type, path);
  }
  const bodies = new Set<string>();
  for (
    const path of [
      "/",
      "/dashboard.css",
      "/uplot.css",
      "/actions.js",
      "/elements.js",
      "/dashboard.js",
      "/uplot.js",
    ]
  ) {
    bodies.add((await dashboard.ask(path)).body);
  }
  assertEquals(bodies.size, 7);
});

/** Returns the headers of a request from the page. */
async function fromPage(dashboard: Dashboard): Promise<AdminRequest["headers"]> {
  const { headers } = login("boss\n:a");
  const viewer = JSON.parse((await dashboard.ask("/api/viewer", { headers })).body);
  const secret = viewer.actions.secret as string;
  return { ...headers, origin: "http://localhost:1", "x-leased-secret": secret };
}

const ADMIN = { a: Access.ADMIN, w: Access.WRITE };

Deno.test("flush and quarantine do what they say, and are logged with the user", async () => {
  using dashboard = new Dashboard({ levels: ADMIN, hasActions: true });
  const headers = await fromPage(dashboard);
  const act = async (name: string): Promise<string> => {
    const given = { headers, peer: "10.0.0.9", method: "POST" };
    const { status, body } = await dashboard.ask(`/api/actions/${name}`, given);
    return `${status} ${body}`;
  };
  dashboard.peer.ask("set a 0 0 1\r\n1\r\nset b 0 0 1\r\n1\r\nlock b\r\n");
  assertEquals(await act("flush"), "200 the cache is flushed\n");
  assertEquals(dashboard.peer.ask("get a\r\n"), "END\r\n");
  assertEquals(await act("quarantine-on"), "200 quarantine is on: no key is cacheable\n");
  assertEquals(dashboard.statsNow().get("quarantine"), 1);
  assertEquals(dashboard.statsNow().get("curr_items"), 0);
  assertEquals(await act("quarantine-off"), "200 quarantine is off\n");
  assertEquals(dashboard.statsNow().get("quarantine"), 0);
  const by = dashboard.done.map((line) => line.split(" flushed")[0]!.split(" turned")[0]);
  const user = /^flushed: (user .* at 10\.0\.0\.9)$/.exec(by[0]!)![1]!;
  assertEquals(dashboard.done, [
    `flushed: ${user} flushed the cache (${user})`,
    `quarantine_on: ${user} turned quarantine on: no key is cacheable (${user})`,
    `quarantine_off: ${user} turned quarantine off (${user})`,
  ]);
  assertEquals(/^user boss\S+ at 10\.0\.0\.9$/.test(user), true, user);
});

Deno.test("a token is dropped by its key and its id; anything else is refused", async () => {
  const options = ["--allow-token-drop"];
  using dashboard = new Dashboard({ levels: ADMIN, hasActions: true, options });
  const headers = await fromPage(dashboard);
  const drop = async (body: string | null): Promise<number> =>
    (await dashboard.ask("/api/actions/drop-token", { headers, method: "POST", body })).status;
  const long = "k".repeat(250);
  const idOf = (key: string): number =>
    Number(/TOKEN (\d+)/.exec(dashboard.peer.ask(`token get ${key} web\r\n`))![1]);
  const [id, longId] = [idOf("a$b"), idOf(long)];
  const bodies: readonly (readonly [string | null, number])[] = [
    [null, 413],
    ["", 400],
    ["null", 400],
    ["[]", 400],
    ["{", 400],
    [JSON.stringify({ key: "a$b" }), 400],
    [JSON.stringify({ key: "", id }), 400],
    [JSON.stringify({ key: "a b", id }), 400],
    [JSON.stringify({ key: `${long}k`, id }), 400],
    [JSON.stringify({ key: ["a"], id }), 400],
    [JSON.stringify({ key: "a$b", id: `${id}` }), 400],
    [JSON.stringify({ key: "a$b", id: 0 }), 400],
    [JSON.stringify({ key: "a$b", id: -1 }), 400],
    [JSON.stringify({ key: "a$b", id: id + 0.5 }), 400],
    [JSON.stringify({ key: "a$b", id: 2 ** 53 }), 400],
    [JSON.stringify({ key: "a$b", id: id + 2 ** 32 }), 404],
    [JSON.stringify({ key: "a$b", id: longId }), 404],
    [JSON.stringify({ key: "none", id }), 404],
    [JSON.stringify({ key: "a%24b", id }), 200],
    [JSON.stringify({ key: "a$b", id }), 404],
    [JSON.stringify({ key: long, id: longId }), 200],
  ];
  for (const [body, status] of bodies) assertEquals(await drop(body), status, `${body}`);
  assertEquals(dashboard.dropped.map(({ token, count }) => [token!.key, token!.id, count]), [
    ["a$b", id, 1],
    [long, longId, 1],
  ]);
  assertEquals(dashboard.done, []);
});

Deno.test("actions need the level admin, the page's secret, its origin, and a server that serves", async () => {
  const options = ["-F"];
  using dashboard = new Dashboard({ levels: ADMIN, hasActions: true, options });
  const headers = await fromPage(dashboard);
  const status = async (changed: AdminRequest["headers"], name = "drop-token"): Promise<string> => {
    const given = { headers: { ...headers, ...changed }, method: "POST" };
    const reply = await dashboard.ask(`/api/actions/${name}`, given);
    return `${reply.status} ${reply.body}`;
  };
  const foreign = "403 refused: the request is not from this server's page\n";
  assertEquals(await status({ origin: undefined }), foreign);
  assertEquals(await status({ "x-leased-secret": undefined }), foreign);
  assertEquals(await status({ "x-leased-secret": "x" }), foreign);
  assertEquals((await status(login("x:w").headers)).slice(0, 3), "403");
  assertEquals(
    await status({}),
    "403 refused: the server runs without --allow-token-drop\n",
  );
  for (const name of ["flush", "quarantine-on", "quarantine-off"]) {
    assertEquals(
      await status({}, name),
      "403 refused: the server runs with -F (--disable-flush-all)\n",
    );
  }
  using other = new Dashboard({ levels: ADMIN, hasActions: true });
  const own = await fromPage(other);
  assert(own["x-leased-secret"] !== headers["x-leased-secret"]);
  other.isServing = false;
  const late = await other.ask("/api/actions/flush", { headers: own, method: "POST" });
  assertEquals(`${late.status} ${late.body}`, "503 refused: shutting down\n");
  assertEquals([other.done, dashboard.done], [[], []]);
});

// Turns of searches have a pause behind them, which outlasts the test.
Deno.test(
  "a search has at most 750 characters",
  { sanitizeOps: false, sanitizeResources: false },
  async () => {
    using dashboard = new Dashboard();
    const key = "k".repeat(250);
    dashboard.peer.ask(`set ${key} 0 0 1\r\n1\r\nlock ${key}\r\n`);
    const found = async (search: string): Promise<number> =>
      JSON.parse((await dashboard.ask(`/api/tables/locks?search=${search}`)).body).found;
    assertEquals(await found(key), 1);
    assertEquals(await found("k".repeat(251)), 0);
    using rows = new Dashboard({
      rowStats: [{ name: "n".repeat(750), value: 1, meaning: undefined, of: "" }],
    });
    for (const length of [750, 751, 2000]) {
      const { body } = await rows.ask(`/api/tables/rows?search=${"n".repeat(length)}`);
      assertEquals(JSON.parse(body).found, 1, `${length}`);
    }
    assertEquals(await found(`127.0.0.1:1`), 1);
  },
);
