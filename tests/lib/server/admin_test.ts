import { assert, assertEquals } from "@std/assert";
import type { AdminServer } from "../../../lib/admin/http_server.ts";
import { Lifecycle, LifecyclePhase } from "../../../lib/process/lifecycle.ts";
import type { BoundTransport } from "../../../lib/net/transport.ts";
import type { DatabaseThread } from "../../../lib/rows/database_thread.ts";
import { openAdmin, processState } from "../../../lib/server/admin.ts";
import type { Authentication } from "../../../lib/server/authentication.ts";
import { Access } from "../../../protocol/auth/access.ts";
import { serverOptions } from "../../support/command_line.ts";
import { loggedBy } from "../../support/log.ts";
import { ConversationSide } from "../../support/sessions/conversation_side.ts";
import { textOf } from "../../support/sessions/side.ts";

const TRANSPORT = { certificateAgeSec: 77 } as unknown as BoundTransport;
const ADMIN = ["--admin", "0"];

/** The admin port of a server that has no other parts. */
class Opened extends ConversationSide implements AsyncDisposable {
  readonly lifecycle = new Lifecycle(Lifecycle.createShared(1));
  readonly reported: string[] = [];
  server: AdminServer | null = null;
  #serving: Promise<void> | undefined;

  async openAdmin(
    argv: readonly string[],
    origin: DatabaseThread | null = null,
    authentication: Authentication | null = null,
  ): Promise<void> {
    const shown = {
      cache: this.thread.cache,
      shared: this.shared,
      lifecycle: this.lifecycle,
      transport: TRANSPORT,
      origin,
      authentication,
    };
    this.server = await openAdmin(
      serverOptions(...argv),
      shown,
      ({ event }) => this.reported.push(event),
    );
    this.#serving = this.server?.serve();
  }

  async get(path: string, headers: Record<string, string> = {}): Promise<[number, string]> {
    const reply = await fetch(`http://127.0.0.1:${this.server!.listen.port}${path}`, { headers });
    return [reply.status, await reply.text()];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server?.stop();
    await this.#serving;
    this[Symbol.dispose]();
  }
}

Deno.test("without --admin there is no such port", async () => {
  await using opened = new Opened();
  await opened.openAdmin([]);
  assertEquals(opened.server, null);
});

Deno.test("/health follows the phase of the process, and the origin's problem", async () => {
  await using opened = new Opened();
  let problem: string | null = null;
  const origin = {
    stats: [],
    nodes: [],
    tokens: [],
    get problem() {
      return problem;
    },
  } as unknown as DatabaseThread;
  await opened.openAdmin(ADMIN, origin);
  const { lifecycle } = opened;
  const phases = [
    [LifecyclePhase.STARTING, 503],
    [LifecyclePhase.LISTENING, 503],
    [LifecyclePhase.RUNNING, 200],
    [LifecyclePhase.DRAINING, 503],
    [LifecyclePhase.STOPPING, 503],
  ] as const;
  for (const [phase, status] of phases) {
    lifecycle.phase = phase;
    assertEquals((await opened.get("/health"))[0], status, `${phase}`);
  }
  lifecycle.phase = LifecyclePhase.RUNNING;
  problem = "the log is behind";
  assertEquals(await opened.get("/health"), [503, "the log is behind\n"]);
  problem = null;
  assertEquals(await opened.get("/health"), [200, "serving\n"]);
});

Deno.test("metrics and tables have the origin's statistics, nodes and tokens, and the certificate's age", async () => {
  const origin = {
    problem: null,
    stats: [
      { name: "tokens_idle", value: 5, meaning: { kind: "gauge", unit: "", meaning: "x" }, of: "" },
      {
        name: "nodes_member",
        value: 1,
        meaning: { kind: "gauge", unit: "", meaning: "x" },
        of: "",
      },
    ],
    nodes: [{ name: "n", state: "member", ageMs: 0, fetched: 3 }],
    tokens: [{ id: 9, key: "k", owner: "o", state: "idle", ageMs: 0 }],
  } as unknown as DatabaseThread;
  await using opened = new Opened();
  await opened.openAdmin(ADMIN, origin);
  const [, metrics] = await opened.get("/metrics");
  assert(metrics.includes("\nleased_rows_tokens_idle 5\n"));
  assert(metrics.includes("\nmemcached_accepting_connections 1\n"));
  opened.lifecycle.pauseAccepting();
  assert((await opened.get("/metrics"))[1].includes("\nmemcached_accepting_connections 0\n"));
  const rowsOf = async (name: string): Promise<unknown> =>
    JSON.parse((await opened.get(`/api/tables/${name}`))[1]).rows;
  assertEquals(await rowsOf("nodes"), [["n", "member", 0, 3]]);
  assertEquals(await rowsOf("row-tokens"), [["k", 9, "idle", 0, "o"]]);
  assertEquals(await rowsOf("users"), []);
  const state = processState(opened.lifecycle, TRANSPORT);
  assertEquals([state.accepting, state.certificateAgeSec], [false, 77]);
  assert(state.userMicroseconds > 0 && state.userMicroseconds !== state.systemMicroseconds);
});

Deno.test("the users of -Y are asked for, with the client's address; actions only with their option", async () => {
  const checked: string[] = [];
  const authentication = {
    users: new Map([["ann", [{ access: Access.ADMIN, secret: "x" }]]]),
    accessOf: ({ user, password }: { user: Uint8Array; password: Uint8Array }, address: string) => {
      checked.push(`${textOf(user)} ${textOf(password)} ${address}`);
      return Promise.resolve(textOf(password) === "right" ? Access.ADMIN : Access.NONE);
    },
  } as unknown as Authentication;
  for (const actions of [[], ["--admin-actions"]]) {
    await using opened = new Opened();
    await opened.openAdmin([...ADMIN, "-Y", "/u", ...actions], null, authentication);
    const login = { authorization: `Basic ${btoa("ann:right")}` };
    const [status, body] = await opened.get("/api/tables/users", login);
    assertEquals([status, JSON.parse(body).rows], [200, [["ann", "admin", 1]]]);
    const wrong = { authorization: `Basic ${btoa("ann:wrong")}` };
    assertEquals((await opened.get("/", wrong))[0], 401);
    const viewer = JSON.parse((await opened.get("/api/viewer", login))[1]);
    assertEquals(viewer.actions === null, actions.length === 0);
    assertEquals((await opened.get("/metrics"))[0], 200);
  }
  assertEquals(new Set(checked), new Set(["ann right 127.0.0.1", "ann wrong 127.0.0.1"]));
});

Deno.test("an action of the dashboard is a warning in the log with the user; dropped tokens are reported", async () => {
  const authentication = {
    users: new Map(),
    accessOf: () => Promise.resolve(Access.ADMIN),
  } as unknown as Authentication;
  await using opened = new Opened(["--tokens", "volatile", "--token-quarantine", "0"]);
  const argv = [...ADMIN, "-Y", "/u", "--admin-actions", "--allow-token-drop"];
  await opened.openAdmin(argv, null, authentication);
  opened.lifecycle.phase = LifecyclePhase.RUNNING;
  const id = Number(/TOKEN (\d+)/.exec(opened.connect().ask("token get k web\r\n"))![1]);
  const { port } = opened.server!.listen;
  const origin = `http://127.0.0.1:${port}`;
  const authorization = `Basic ${btoa("boss:x")}`;
  const { secret } = JSON.parse((await opened.get("/api/viewer", { authorization }))[1]).actions;
  const post = async (name: string, body: string): Promise<number> => {
    const headers = { authorization, origin, "x-leased-secret": secret };
    const reply = await fetch(`${origin}/api/actions/${name}`, { method: "POST", body, headers });
    await reply.text();
    return reply.status;
  };
  loggedBy("json", 0, () => {});
  const { writeSync } = Deno.stderr;
  const lines: string[] = [];
  Deno.stderr.writeSync = (bytes) => {
    lines.push(new TextDecoder().decode(bytes));
    return bytes.length;
  };
  try {
    assertEquals(await post("drop-token", JSON.stringify({ key: "k", id })), 200);
    assertEquals(await post("flush", ""), 200);
  } finally {
    Deno.stderr.writeSync = writeSync;
  }
  assertEquals(
    lines.map((line) => JSON.parse(line)).map(({ level, event, by }) => [level, event, by]),
    [
      ["warning", "flushed", "user boss at 127.0.0.1"],
    ],
  );
  assertEquals(opened.reported, ["token_dropped"]);
});
