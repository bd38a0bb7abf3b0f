import { Access } from "../../../protocol/auth/access.ts";
import type { Credentials } from "../../../protocol/auth/password_checks.ts";
import { isLoopback } from "../../net/transport.ts";
import type { AdminRequest, Handler, Reply, Routes } from "../http_server.ts";
import { SharedPage } from "../pages.ts";
import css from "./assets/dashboard.css" with { type: "text" };
import html from "./assets/dashboard.html" with { type: "text" };
import script from "./assets/dashboard.js" with { type: "text" };
import plotCss from "./assets/uplot.css" with { type: "text" };
import plotScript from "./assets/uplot.js" with { type: "text" };
import type { Recorder } from "./recorder.ts";
import { COLUMNS } from "./series.ts";
import { TABLES, type TableSource } from "./tables.ts";

/** Checks a user's password. @returns What the user may do. */
type CheckPassword = (credentials: Credentials, address: string) => Promise<Access>;

interface DashboardOptions {
  readonly recorder: Recorder;
  readonly tables: TableSource;
  /** Null: no authentication; only loopback clients are answered. */
  readonly check: CheckPassword | null;
}

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

/** Returns the routes of the dashboard: the page, its files, the past of its plots, their stream, and tables. */
export function dashboardRoutes(options: DashboardOptions): Routes {
  const { recorder, tables } = options;
  const guarded = (access: Access, handler: Handler): { GET: Handler } => ({
    GET: async (request) => {
      const refusal = await refusalOf(request, access, options.check);
      const reply = refusal ?? await handler(request);
      return { ...reply, headers: { ...SECURITY_HEADERS, ...reply.headers } };
    },
  });
  const file = (body: string, type: string): { GET: Handler } =>
    guarded(Access.READ, () => ({ status: 200, body, type }));
  const page = (render: () => unknown, access: Access): { GET: Handler } => {
    const shared = new SharedPage(() => JSON.stringify(render()));
    return guarded(
      access,
      async () => ({ status: 200, body: await shared.render(), type: JSON_TYPE }),
    );
  };
  const tablePages = Object.entries(TABLES).map(([name, { access, read }]) =>
    [`/api/tables/${name}`, page(() => read(tables), access)] as const
  );
  return {
    "/": file(html, "text/html; charset=utf-8"),
    "/dashboard.css": file(css, CSS_TYPE),
    "/dashboard.js": file(script, SCRIPT_TYPE),
    "/uplot.css": file(plotCss, CSS_TYPE),
    "/uplot.js": file(plotScript, SCRIPT_TYPE),
    "/api/past": page(() => past(options), Access.READ),
    "/api/stream": guarded(Access.READ, () => ({
      status: 200,
      type: "text/event-stream; charset=utf-8",
      stream: (send) => {
        send("retry: 2000\n\n");
        return recorder.listen((row) => send(`data: ${JSON.stringify(row)}\n\n`));
      },
    })),
    ...Object.fromEntries(tablePages),
  };
}

function past({ recorder, tables }: DashboardOptions): unknown {
  const { settings } = tables;
  return {
    version: settings.version,
    columns: COLUMNS,
    hasRows: tables.rowStats().length > 0,
    hasUsers: tables.users() !== null,
    ...recorder.past,
  };
}

/** Returns why a request is refused; null: it is answered. */
async function refusalOf(
  request: AdminRequest,
  needed: Access,
  check: CheckPassword | null,
): Promise<Reply | null> {
  if (isForeign(request)) {
    return { status: 403, body: "refused: the request is from a page of another site\n" };
  }
  if (check === null) {
    if (isLoopback(request.peer)) return null;
    const body = "refused: without -Y the dashboard answers only to clients on this host\n";
    return { status: 403, body };
  }
  const credentials = credentialsOf(request);
  const access = credentials === null ? Access.NONE : await check(credentials, request.peer);
  if (access === Access.NONE) {
    return {
      status: 401,
      body: "name and password of a user of -Y are needed\n",
      headers: { "WWW-Authenticate": 'Basic realm="leased", charset="UTF-8"' },
    };
  }
  return access >= needed ? null : { status: 403, body: "this needs a user of level admin\n" };
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
