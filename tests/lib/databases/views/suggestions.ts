// `leased views suggest` in this process, and what a reader of its file does then.
import { assertEquals } from "@std/assert";
import { runInit } from "../../../../lib/operator/init.ts";
import { runSuggest } from "../../../../lib/operator/suggest/run.ts";
import { type Captured, captured } from "../../../support/sessions/captured.ts";
import type { TestDatabase } from "../../../support/servers/databases.ts";
import type { openWriter } from "./shop.ts";

type Writer = Awaited<ReturnType<typeof openWriter>>;

export function suggest(
  { url }: Pick<TestDatabase, "url">,
  ...argv: readonly string[]
): Promise<Captured<number>> {
  return captured(() => runSuggest([...argv, "--db", url]));
}

/** Returns the file for a table. */
export async function suggested(database: TestDatabase, table: string): Promise<string> {
  const { result, stdout, stderr } = await suggest(database, table);
  assertEquals([result, stderr], [0, ""], table);
  return stdout;
}

/** Returns the statements that a file has in its comments, without what they are for. */
export function statementsOf(file: string): string[] {
  return [...file.matchAll(/^\/\/ {3}(.*;) -- .*$/gm)].map(([, sql]) => sql!);
}

/** Executes the statements of a file, and the SQL that `init` prints for it. */
export async function prepare(
  { url }: TestDatabase,
  writer: Writer,
  path: string,
  file: string,
): Promise<void> {
  await Deno.writeTextFile(path, file);
  for (const sql of statementsOf(file)) await writer.writeAlone(sql);
  const init = await captured(() => runInit(["--follow", "--views", path, "--db", url]));
  assertEquals([init.result, init.stderr], [0, ""]);
  await writer.write(init.stdout);
}
