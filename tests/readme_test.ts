import { assert, assertEquals } from "@std/assert";
import { freshReadme, readReadme } from "./support/readme.ts";
import { path } from "./support/servers/server_process.ts";

Deno.test("README's table of options is that of the program", () => {
  assertEquals(freshReadme(readReadme()), readReadme(), "deno task readme writes it anew");
});

Deno.test("README names files and tasks that exist", () => {
  const tasks = JSON.parse(Deno.readTextFileSync(path("deno.json"))).tasks;
  const text = readReadme();
  for (const [, task] of text.matchAll(/deno(?:@[\d.]+)? task ([\w:]+)/g)) {
    assert(task! in tasks, task);
  }
  for (const [, file] of text.matchAll(/`((?:lib|protocol|store|tests)\/[\w/]*(?:\.ts)?)`/g)) {
    assert(Deno.statSync(path(file!)), file);
  }
});

Deno.test("every task says what it is for", () => {
  const tasks: Record<string, { description?: string }> = JSON.parse(
    Deno.readTextFileSync(path("deno.json")),
  ).tasks;
  for (const [name, { description }] of Object.entries(tasks)) assert(description, name);
});
