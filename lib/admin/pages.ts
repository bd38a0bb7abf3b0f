import { pause } from "../process/pause.ts";
import { EXPOSITION_TYPE } from "./exposition.ts";
import type { Reply, Routes } from "./http_server.ts";

/** The page is rendered at most once in this time; requests in between wait for it. */
const RENDER_INTERVAL_MS = 100;

/** The contents of the admin server's pages. */
interface AdminPages {
  /** Renders /metrics. */
  readonly metrics: () => string;
  /** Whether clients are served: the status of /health. */
  readonly isServing: () => boolean;
  /** The fault while clients are served, for /health; null or left out: none. */
  readonly problem?: () => string | null;
  /** Further pages. */
  readonly routes?: Routes;
}

/** Returns the routes of /metrics and /health. */
export function adminRoutes(pages: AdminPages): Routes {
  const metrics = new SharedPage(pages.metrics);
  return {
    "/metrics": {
      GET: async () => ({ status: 200, body: await metrics.render(), type: EXPOSITION_TYPE }),
    },
    "/health": { GET: () => health(pages) },
    ...pages.routes,
  };
}

function health({ isServing, problem }: AdminPages): Reply {
  if (!isServing()) return { status: 503, body: "shutting down\n" };
  const fault = problem?.() ?? null;
  return fault === null ? { status: 200, body: "serving\n" } : { status: 503, body: `${fault}\n` };
}

/** A page that requests which come together share. */
export class SharedPage {
  /** The rendering that requests wait for; null: none does. */
  #rendering: Promise<string> | null = null;
  #renderedAtMs = -Infinity;

  constructor(readonly text: () => string) {}

  /** Returns the page as rendered after the call. */
  render(): Promise<string> {
    return this.#rendering ??= this.#renderNext();
  }

  async #renderNext(): Promise<string> {
    // Always waits: requests after the rendering must not get its page.
    await pause(Math.max(0, this.#renderedAtMs + RENDER_INTERVAL_MS - performance.now()));
    this.#rendering = null;
    const page = this.text();
    this.#renderedAtMs = performance.now();
    return page;
  }
}

/** Renders pages one after the other, with pauses for the others of the thread. */
export class Turns {
  #last: Promise<unknown> = Promise.resolve();

  take(render: () => string): Promise<string> {
    const rendered = this.#last.then(render);
    // A rendering that fails ends the process by its request.
    this.#last = rendered.then(() => pause(RENDER_INTERVAL_MS));
    return rendered;
  }
}
