import { Access } from "../../../protocol/auth/access.ts";
import type { Credentials } from "../../../protocol/auth/password_checks.ts";
import { latin1Text } from "../../../store/base/bytes.ts";
import { oneWord } from "../../../store/base/key_text.ts";
import { isLoopback } from "../../net/transport.ts";
import type { AdminRequest, Handler, Reply, Routes } from "../http_server.ts";
import { SharedPage, Turns } from "../pages.ts";
import actionsScript from "./assets/actions.js" with { type: "text" };
import elementsScript from "./assets/elements.js" with { type: "text" };
import css from "./assets/dashboard.css" with { type: "text" };
import html from "./assets/dashboard.html" with { type: "text" };
import script from "./assets/dashboard.js" with { type: "text" };
import plotCss from "./assets/uplot.css" with { type: "text" };
import plotScript from "./assets/uplot.js" with { type: "text" };
import type { Recorder } from "./recorder.ts";
import { Actions, type ActionsOptions } from "./actions.ts";
import { COLUMNS } from "./series.ts";
import { TABLES, type TableSource } from "./tables.ts";

/** Checks a user's password. @returns What the user may do. */
type CheckPassword = (credentials: Credentials, address: string) => Promise<Access>;

interface DashboardOptions {
  readonly recorder: Recorder;
  readonly tables: TableSource;
  /** Null: no authentication; only loopback clients are answered. */
  readonly check: CheckPassword | null;
  /** Null: no user may act. */
  readonly actions: ActionsOptions | null;
}

/** Characters of a search: a key's, percent-encoded. */
const SEARCH_LENGTH_MAX = 750;
const JSON_TYPE = "application/json; charset=utf-8";
const SCRIPT_TYPE = "text/javascript; charset=utf-8";
const CSS_TYPE = "text/css; charset=utf-8";

/** Only the page's own files, and nothing inline. */
const SECURITY_HEADERS = {
  "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; " +
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
};

/** A user who may see the page. */
interface Viewer {
  readonly access: Access;
  /** Without blanks; "": there is no authentication. */
  readonly name: string;
}

type ViewerHandler = (request: AdminRequest, viewer: Viewer) => ReturnType<Handler>;

/** Returns the routes of the dashboard: the page, its files, the past of its plots, their stream, tables, actions. */
export function dashboardRoutes(options: DashboardOptions): Routes {
  const { recorder, tables } = options;
  const guarded = (access: Access, handler: ViewerHandler): Handler => async (request) => {
    const viewer = await viewerOf(request, access, options.check);
    const reply = "status" in viewer ? viewer : await handler(request, viewer);
    return { ...reply, headers: { ...SECURITY_HEADERS, ...reply.headers } };
  };
  const file = (body: string, type: string): { GET: Handler } => ({
    GET: guarded(Access.READ, () => ({ status: 200, body, type })),
  });
  const page = (render: () => unknown, access: Access): { GET: Handler } => {
    const shared = new SharedPage(() => JSON.stringify(render()));
    return {
      GET: guarded(access, async () => ({
        status: 200,
        body: await shared.render(),
        type: JSON_TYPE,
      })),
    };
  };
  const tablePages = Object.entries(TABLES).map(([name, { access, read }]) =>
    [`/api/tables/${name}`, {
      GET: guarded(access, tableHandler((search) => JSON.stringify(read(tables, search)))),
    }] as const
  );
  return {
    "/": file(html, "text/html; charset=utf-8"),
    "/dashboard.css": file(css, CSS_TYPE),
    "/actions.js": file(actionsScript, SCRIPT_TYPE),
    "/elements.js": file(elementsScript, SCRIPT_TYPE),
    "/dashboard.js": file(script, SCRIPT_TYPE),
    "/uplot.css": file(plotCss, CSS_TYPE),
    "/uplot.js": file(plotScript, SCRIPT_TYPE),
    "/api/past": page(() => past(options), Access.READ),
    "/api/stream": {
      GET: guarded(Access.READ, () => ({
        status: 200,
        type: "text/event-stream; charset=utf-8",
        stream: (send) => {
          send("retry: 2000\n\n");
          return recorder.listen((row) => send(`data: ${JSON.stringify(row)}\n\n`));
        },
      })),
    },
    ...Object.fromEntries(tablePages),
    ...actionRoutes(options, guarded),
  };
}

/** Returns a handler of a table's page. Requests for all rows share a rendering; searches take turns. */
function tableHandler(render: (search: string) => string): Handler {
  const all = new SharedPage(() => render(""));
  const turns = new Turns();
  return async ({ query }) => {
    const search = (query.get("search") ?? "").slice(0, SEARCH_LENGTH_MAX);
    const body = search === "" ? await all.render() : await turns.take(() => render(search));
    return { status: 200, body, type: JSON_TYPE };
  };
}

/** Returns the routes of the actions, and the one that tells the page what its user may see and do. */
function actionRoutes(
  { actions: options, tables }: DashboardOptions,
  guarded: (access: Access, handler: ViewerHandler) => Handler,
): Routes {
  const actions = options && new Actions(options);
  const has = (statistic: string): boolean =>
    tables.rowStats().some(({ name }) => name === statistic);
  const isShown = (name: string): boolean =>
    (name !== "rows" || tables.rowStats().length > 0) &&
    (name !== "row-tokens" || has("tokens_idle")) &&
    (name !== "nodes" || has("nodes_member")) &&
    (name !== "users" || tables.users() !== null);
  const describe: ViewerHandler = (_request, { access }) => {
    const own = Object.keys(TABLES).filter((name) =>
      access >= TABLES[name]!.access && isShown(name)
    );
    const may = actions !== null && access >= Access.ADMIN;
    const body = JSON.stringify({ tables: own, actions: may ? actions.describe() : null });
    return { status: 200, body, type: JSON_TYPE };
  };
  const routes = actions === null ? [] : Actions.names.map((name) =>
    [`/api/actions/${name}`, {
      POST: guarded(Access.ADMIN, (request, viewer) => actions.act(name, request, viewer.name)),
    }] as const
  );
  return { "/api/viewer": { GET: guarded(Access.READ, describe) }, ...Object.fromEntries(routes) };
}

function past({ recorder, tables }: DashboardOptions): unknown {
  const { settings } = tables;
  return {
    version: settings.version,
    columns: COLUMNS,
    rowColumns: tables.rowStats().map(({ name }) => `rows_${name}`),
    ...recorder.past,
  };
}

/** Returns the user, or why the request is refused. */
async function viewerOf(
  request: AdminRequest,
  needed: Access,
  check: CheckPassword | null,
): Promise<Viewer | Reply> {
  if (isForeign(request)) {
    return { status: 403, body: "refused: the request is from a page of another site\n" };
  }
  if (check === null) {
    // Actions need users.
    if (isLoopback(request.peer)) return { access: Access.ADMIN, name: "" };
    const body = "refused: without -Y the dashboard answers only to clients on this host\n";
    return { status: 403, body };
  }
  const credentials = credentialsOf(request);
  const access = credentials === null ? Access.NONE : await check(credentials, request.peer);
  if (credentials === null || access === Access.NONE) {
    return {
      status: 401,
      body: "name and password of a user of -Y are needed\n",
      headers: { "WWW-Authenticate": 'Basic realm="leased", charset="UTF-8"' },
    };
  }
  const { user } = credentials;
  return access >= needed
    ? { access, name: oneWord(latin1Text(user, 0, user.length)) }
    : { status: 403, body: "this needs a user of level admin\n" };
}

/** Whether a page of another origin sends the request. Following a link to the dashboard is allowed. */
function isForeign({ headers }: AdminRequest): boolean {
  const { host, origin } = headers;
  if (typeof origin === "string" && origin !== `http://${host}` && origin !== `https://${host}`) {
    return true;
  }
  const site = headers["sec-fetch-site"] ?? "none";
  return site !== "none" && site !== "same-origin" && headers["sec-fetch-mode"] !== "navigate";
}

/** Reads name and password of HTTP's basic authentication; null: there are none. */
function credentialsOf({ headers: { authorization } }: AdminRequest): Credentials | null {
  const encoded = /^basic +([a-z0-9+/]+=*) *$/i.exec(String(authorization ?? ""))?.[1];
  if (encoded === undefined) return null;
  let bytes: Uint8Array;
  try {
    bytes = Uint8Array.fromBase64(encoded);
  } catch {
    return null;
  }
  const colon = bytes.indexOf(0x3a);
  if (colon < 0) return null;
  return { user: bytes.subarray(0, colon), password: bytes.subarray(colon + 1) };
}
