import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { CommandIndex, COMMANDS } from "../../../protocol/text/table.ts";
import { TEXT_OPS_MAX } from "../../../protocol/counts/op_counts.ts";
import { ByteRegion } from "../../../store/base/bytes.ts";

function find(word: string): string | undefined {
  const index = new CommandIndex(COMMANDS);
  const bytes = new TextEncoder().encode(word);
  return index.find(new ByteRegion(bytes.buffer), 0, bytes.length)?.name;
}

Deno.test("find() finds every command by its whole word, and nothing else", () => {
  for (const { name } of COMMANDS) {
    assertStrictEquals(find(name), name);
    assertStrictEquals(find(`${name}x`), undefined);
    assertStrictEquals(find(name.toUpperCase()), undefined);
  }
  assertStrictEquals(find(""), undefined);
  assertStrictEquals(find("x".repeat(2000)), undefined);
});

Deno.test("every command stands in the table once", () => {
  assertEquals(new Set(COMMANDS.map((row) => row.name)).size, COMMANDS.length);
});

Deno.test("every command of the table has its place among the counts of `stats ops`", () => {
  assert(COMMANDS.length <= TEXT_OPS_MAX, `${COMMANDS.length} commands`);
});
