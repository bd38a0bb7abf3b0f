import { assertEquals } from "@std/assert";
import type { Browser, Page } from "npm:playwright-core@1.65.1";
import { type ProcessOptions, ServerProcess } from "../../../support/servers/server_process.ts";
import { needs } from "../../../support/needs/needs.ts";

export type { Page } from "npm:playwright-core@1.65.1";

const CHROMIUM = "/usr/bin/chromium";
const hasChromium = await Deno.stat(CHROMIUM).then(() => true, () => false);

/** A server with a dashboard, and the user who opens it. */
export interface PageOptions extends ProcessOptions {
  readonly login?: { readonly username: string; readonly password: string };
}

/** A test of the dashboard, open and live. Ignored without chromium. */
export function pageTest(
  name: string,
  run: (page: Page, server: ServerProcess) => Promise<void>,
  options: () => PageOptions = () => ({}),
): void {
  browserTest(name, async () => {
    const { args = ["-z", "3333"], login, ...rest } = options();
    await using server = await ServerProcess.start({ ...rest, args: ["--admin", "0", ...args] });
    await withPage(server, (page) => run(page, server), login);
    await server.stop();
  });
}

/** A test that needs chromium. */
export function browserTest(name: string, run: () => Promise<void>): void {
  Deno.test({
    name: `${name}${hasChromium ? "" : " (ignored: needs Debian's package chromium)"}`,
    ...needs("chromium", hasChromium),
    // The browser's driver keeps timers and pipes of its own.
    sanitizeOps: false,
    sanitizeResources: false,
    fn: run,
  });
}

/** Opens a server's dashboard, waits until it is live, and fails if the browser reports an error. */
export async function withPage(
  server: Pick<ServerProcess, "line">,
  run: (page: Page) => Promise<void>,
  login?: PageOptions["login"],
): Promise<void> {
  const { chromium } = await import("npm:playwright-core@1.65.1");
  const line = await server.line("the dashboard is at http://");
  const url = /http:\/\/[^/]+\/$/.exec(line)![0];
  const browser: Browser = await chromium.launch({
    executablePath: CHROMIUM,
    args: ["--no-sandbox"],
  });
  try {
    const context = await browser.newContext(
      login === undefined ? {} : {
        httpCredentials: { ...login, send: "always" },
      },
    );
    const page = await context.newPage();
    const faults: string[] = [];
    page.on("pageerror", ({ message }) => faults.push(message));
    page.on("console", (message) => {
      if (message.type() === "error") faults.push(message.text());
    });
    await page.goto(url);
    await page.locator("#status", { hasText: "live" }).waitFor();
    await run(page);
    assertEquals(faults, []);
  } finally {
    await browser.close();
  }
}

/** Returns what axe-core finds on the page. */
export async function accessibilityFaults(page: Page): Promise<string[]> {
  const source = new URL(import.meta.resolve("npm:axe-core@4.14.1/axe.min.js"));
  // Not a script of the page, which its policy would refuse.
  await page.evaluate(await Deno.readTextFile(source));
  return await page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: { run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> };
    };
    return (await axe.run()).violations.map(({ id, nodes }) => `${id}: ${nodes[0]!.html}`);
  });
}
