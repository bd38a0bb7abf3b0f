// README's example of a table that is there, as it is written.
import { assertEquals, assertStringIncludes } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { commandsOf } from "./support/docs/commands.ts";
import { readDocument } from "./support/docs/markdown.ts";
import { startOrigin } from "./support/servers/origin_process.ts";
import { path, until } from "./support/servers/server_process.ts";

const COMMANDS = readDocument("README.md").blocks
  .filter(({ language, lines }) => language === "console" && lines.join("\n").includes("shop.db"))
  .flatMap(commandsOf);

Deno.test("README's table, query, change and replies", async () => {
  const folder = Deno.makeTempDirSync({ prefix: "leased-test-" });
  const program = async (words: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: [
        ...["run", `--lock=${path("lib/databases/postgres/deno.lock")}`, "--no-prompt", "-A"],
        ...[path("main.ts"), ...words],
      ],
      cwd: folder,
    }).output();
    const decoder = new TextDecoder();
    assertEquals(code, 0, decoder.decode(stderr));
    return decoder.decode(stdout);
  };
  {
    await using stack = new AsyncDisposableStack();
    let ask: (request: string) => Promise<string>;
    let asked = 0;
    for (const { text, output = [] } of COMMANDS) {
      const [, sql] = /^sqlite3 shop\.db "(.*)"$/.exec(text) ?? [];
      const [, words, file] = /^deno task ((?:views|rows init) [^>]*)(?: > (\S+))?$/.exec(text) ??
        [];
      const [, options] = /^deno task rows (--db sqlite:shop\.db .*)$/.exec(text) ?? [];
      const [, request] = /^printf '(.*)quit\\r\\n' \| nc 127\.0\.0\.1 11311$/.exec(text) ?? [];
      if (sql !== undefined) {
        const database = new DatabaseSync(`${folder}/shop.db`, { timeout: 10_000 });
        database.exec(sql);
        database.close();
      } else if (words !== undefined) {
        const printed = await program(words.trim().split(" "));
        if (file !== undefined) Deno.writeTextFileSync(`${folder}/${file}`, printed);
      } else if (options !== undefined) {
        const [, , follow, views, viewsFile] = options.split(" ");
        const place = { url: `sqlite:${folder}/shop.db`, folder };
        const args = [follow!, views!, `${folder}/${viewsFile}`];
        const origin = stack.use(await startOrigin(place, args));
        const client = stack.use(await origin.connect());
        ask = async (sent) => {
          await client.send(sent);
          return await client.until("END\r\n");
        };
      } else {
        assertStringIncludes(request!, "get product:1");
        const reply = `${output.filter((line) => line !== "").join("\r\n")}\r\n`;
        await until(async () => await ask(request!.replaceAll("\\r\\n", "\r\n")) === reply);
        asked++;
      }
    }
    assertEquals([COMMANDS.length, asked], [8, 2]);
  }
  Deno.removeSync(folder, { recursive: true });
});
