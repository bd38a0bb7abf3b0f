import { assertEquals } from "@std/assert";
import {
  haveSameTexts,
  isCanonical,
  type ParameterType,
} from "../../../../lib/databases/views/parameter_type.ts";

const UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";

/** Texts that the database writes for a type, and others. A character a byte. */
const CASES: readonly [ParameterType, readonly string[], readonly string[]][] = [
  ["smallint", ["0", "-1", "32767", "-32768"], [
    "32768",
    "-32769",
    "",
    "-",
    "-0",
    "+1",
    "01",
    "1.0",
  ]],
  ["integer", ["2147483647", "-2147483648"], ["2147483648", "-2147483649", "abc", " 1", "1e3"]],
  [
    "bigint",
    ["9223372036854775807", "-9223372036854775808"],
    ["9223372036854775808", "-9223372036854775809", "10000000000000000000"],
  ],
  ["text", ["", "a b", "\xc3\xa9"], ["\xe9", "\xc3", "\xed\xa0\x80", "a\0"]],
  ["uuid", [UUID], [UUID.toUpperCase(), UUID.replaceAll("-", ""), `{${UUID}}`, `${UUID}\n`]],
  ["boolean", ["t", "f"], ["true", "T", "1", ""]],
];

for (const [type, good, bad] of CASES) {
  Deno.test(`${type}: a value has one text`, () => {
    assertEquals(good.filter((text) => !isCanonical(text, type)), []);
    assertEquals(bad.filter((text) => isCanonical(text, type)), []);
  });
}

Deno.test("integers of all sizes have the same texts", () => {
  assertEquals(haveSameTexts("smallint", "bigint"), true);
  assertEquals(haveSameTexts("uuid", "uuid"), true);
  assertEquals(haveSameTexts("integer", "text"), false);
  assertEquals(haveSameTexts("boolean", "text"), false);
});
