import { assertEquals } from "@std/assert";
import { accessibilityFaults, type Page, pageTest as test } from "./open_page.ts";
import type { Client } from "../../../support/servers/server_process.ts";

function tile(page: Page, name: string): ReturnType<Page["locator"]> {
  return page.locator("#tiles div", { hasText: name }).locator("dd");
}

/** Waits until a tile shows a text. */
async function shows(page: Page, name: string, text: string): Promise<void> {
  await tile(page, name).and(page.getByText(text, { exact: true })).waitFor();
}

async function fill(client: Client): Promise<void> {
  for (let index = 0; index < 7; index++) {
    await client.ask(`set key${index} 0 0 5\r\nhello\r\n`, "STORED\r\n");
  }
  await client.ask("lock key1\r\nlock key2\r\n", "OK\r\nOK\r\n");
  await client.send("getss 100 leased-key\r\n");
  await client.until("END\r\n");
}

test("numbers and tables of the page are those of stats", async (page, server) => {
  using client = await server.connect();
  await fill(client);
  await shows(page, "Items", await client.stat("curr_items"));
  await shows(page, "Locks held", await client.stat("lock_curr"));
  await shows(page, "Leases held", await client.stat("lease_curr"));
  await shows(page, "Connections", await client.stat("curr_connections"));
  await shows(page, "Quarantine", "off");
  await page.getByRole("tab", { name: "Locks" }).click();
  await page.getByRole("cell", { name: "key1", exact: true }).waitFor();
  const cells = await page.locator("#table tbody td:first-child").allTextContents();
  assertEquals(cells.sort(), ["key1", "key2"]);
  await page.getByRole("tab", { name: "Leases" }).click();
  await page.getByRole("cell", { name: "leased-key" }).waitFor();
});

test("memory is shown although a class has pages and no items", async (page) => {
  const columns = ["chunk_size", "used_chunks", "free_chunks", "mem_requested"];
  const rows = [[48, 10, 1355, 400], [96, 0, 682, ""], [120, "", "", ""]];
  const body = JSON.stringify({ columns, rows, found: 3, total: 3, isCut: false });
  await page.route("**/api/tables/classes", (route) => route.fulfill({ body }));
  await page.locator(".bars li", { hasText: "48 B: 400 B of 64 KiB" }).waitFor();
  const texts = await page.locator(".bars li").allTextContents();
  assertEquals(texts, ["48 B: 400 B of 64 KiB", "96 B: 0 B of 63.9 KiB"]);
});

test("keys can be read, and ids copied", async (page, server) => {
  using client = await server.connect();
  await client.ask("set user:1 0 0 1\r\n1\r\nlock user:1\r\n", "STORED\r\nOK\r\n");
  await client.send("token get price:7 web1\r\n");
  const reply = await client.until("\r\n");
  await page.getByRole("tab", { name: "Locks" }).click();
  await page.getByRole("cell", { name: "user:1", exact: true }).waitFor();
  await page.getByRole("tab", { name: "Update tokens" }).click();
  for (const name of ["price:7", reply.slice("TOKEN ".length).trim()]) {
    await page.getByRole("cell", { name, exact: true }).waitFor();
  }
}, () => ({ args: ["--tokens", "volatile", "--token-quarantine", "0"] }));

test("tables are searched and sorted, by keyboard too", async (page, server) => {
  using client = await server.connect();
  await fill(client);
  await page.getByRole("tab", { name: "Classes" }).focus();
  await page.getByRole("tab", { name: "Hot keys" }).focus();
  for (let step = 0; step < 3; step++) await page.keyboard.press("ArrowRight");
  const selected = page.getByRole("tab", { selected: true });
  assertEquals(await selected.textContent(), "Threads");
  await page.keyboard.press("ArrowRight");
  await page.getByRole("cell", { name: "key1", exact: true }).waitFor();
  await page.getByRole("searchbox", { name: "Search" }).fill("KEY2");
  assertEquals(await page.locator("#table tbody tr").count(), 1);
  await page.getByRole("searchbox", { name: "Search" }).fill("");
  const key = page.getByRole("columnheader", { name: "key" });
  await key.getByRole("button").press("Enter");
  assertEquals(await key.getAttribute("aria-sort"), "descending");
  assertEquals(await page.locator("#table tbody td:first-child").allTextContents(), [
    "key2",
    "key1",
  ]);
  await page.keyboard.press("Enter");
  assertEquals(await key.getAttribute("aria-sort"), "ascending");
});

for (const colorScheme of ["light", "dark"] as const) {
  test(`axe-core finds nothing, ${colorScheme}`, async (page) => {
    await page.emulateMedia({ colorScheme });
    assertEquals(await accessibilityFaults(page), []);
  });
}

/** Waits until the server has sent so many rows of the plots. */
function rowsPassed(page: Page, rows: number): Promise<void> {
  return page.evaluate((rows) =>
    new Promise<void>((resolve) => {
      const stream = new EventSource("/api/stream");
      stream.onmessage = () => {
        if (--rows > 0) return;
        stream.close();
        resolve();
      };
    }), rows);
}

test("a page that is open does not grow", async (page) => {
  await page.getByRole("button", { name: "1 h" }).click();
  await page.getByRole("button", { name: "1 h", pressed: true }).waitFor();
  await page.locator("figure canvas").nth(10).waitFor();
  await rowsPassed(page, 2);
  const before = await page.locator("*").count();
  await rowsPassed(page, 4);
  assertEquals(await page.locator("*").count(), before);
});
