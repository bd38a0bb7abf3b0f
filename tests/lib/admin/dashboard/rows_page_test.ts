import { assertEquals } from "@std/assert";
import { createDatabase } from "../../../support/servers/databases.ts";
import { runInit, startNode, startOrigin } from "../../../support/servers/origin_process.ts";
import { type Client, until } from "../../../support/servers/server_process.ts";
import { accessibilityFaults, browserTest, type Page, withPage } from "./open_page.ts";

/** Waits until the caption of a plot matches. */
async function caption(page: Page, plot: string, text: RegExp): Promise<void> {
  await page.locator("figure", { has: page.getByRole("heading", { name: plot, exact: true }) })
    .locator("figcaption", { hasText: text }).waitFor();
}

let writes = 0;

/** Writes rows until `done`, so that each second has some. */
async function writeUntil(client: Client, done: Promise<void>): Promise<void> {
  let isDone = false;
  done.finally(() => isDone = true).catch(() => {});
  for (let count = 0; !isDone; count++, writes++) {
    await client.ask(`set k${count % 10} 0 0 1\r\n1\r\n`, "STORED\r\n");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await done;
}

browserTest(
  "an origin's page shows steps of writes, nodes, its epoch and the lag of the log",
  async () => {
    await using database = await createDatabase("SQLite");
    await runInit(database, ["--follow", "--run"]);
    await using origin = await startOrigin(database, ["--admin", "0", "--follow"]);
    await using node = await startNode([origin], ["--node-name", "first", "--admin", "0"]);
    await until(async () => {
      using client = await origin.connect();
      return await client.stat("nodes_member", "rows") === "1";
    });
    using client = await node.connect();
    using writer = await origin.connect();
    await writer.send("token get held:1 importer\r\n");
    await writer.until("\r\n");
    await withPage(origin, async (page) => {
      await writeUntil(
        client,
        caption(page, "Steps of a write, mean time", /transaction [\d.]+ [µm]?s/),
      );
      await writeUntil(
        client,
        caption(page, "Steps of a write, mean time", /in nodes [\d.]+ [µm]?s/),
      );
      await writeUntil(client, caption(page, "Writes of rows per second", /committed [1-9]/));
      await caption(page, "Nodes", /^member 1silent 0lost 0$/);
      await caption(page, "Epoch", /takeover [1-9]/);
      await caption(page, "Lag of the followed log", /behind [\d.]+ (?:µs|ms|s)/);
      assertEquals(await page.getByRole("heading", { name: "Membership of this node" }).count(), 0);
      await page.getByRole("tab", { name: "Nodes" }).click();
      await page.getByRole("cell", { name: "first", exact: true }).waitFor();
      await page.getByRole("cell", { name: "member", exact: true }).waitFor();
      await page.getByRole("tab", { name: "Tokens of rows" }).click();
      for (const name of ["held:1", "idle", "importer"]) {
        await page.getByRole("cell", { name, exact: true }).waitFor();
      }
      await page.locator("#tiles div", { hasText: "Update tokens out" }).locator("dd")
        .and(page.getByText("1", { exact: true })).waitFor();
      assertEquals(await accessibilityFaults(page), []);
    });
    await withPage(node, async (page) => {
      await caption(page, "Membership of this node", /^member 1$/);
      await writeUntil(client, caption(page, "Rows by this node, per second", /written [1-9]/));
      assertEquals(await page.getByRole("heading", { name: "Epoch" }).count(), 0);
    });
    assertEquals(await client.stat("set:count", "latency"), String(writes));
    await node.stop();
    await origin.stop();
  },
);
