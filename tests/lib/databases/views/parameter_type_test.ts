import { assertEquals } from "@std/assert";
import {
  haveSameTexts,
  isCanonical,
  type ParameterType,
  textInKey,
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
  ["text without case", ["", "a b", "\xc3\x9c", "1"], ["A", "aZ", "\xe9", "a\0"]],
  // PostgreSQL is asked of these.
  ["date", ["2024-02-29", "2024-2-29"], ["\xe9", "a\0"]],
  ["boolean", ["t", "f"], ["true", "T", "1", ""]],
];

for (const [type, good, bad] of CASES) {
  Deno.test(`${type}: a value has one text`, () => {
    assertEquals(good.filter((text) => !isCanonical(text, type)), []);
    assertEquals(bad.filter((text) => isCanonical(text, type)), []);
  });
}

Deno.test("types of columns and parameters whose equal values have the same texts", () => {
  const pairs: readonly [column: ParameterType, parameter: ParameterType, isSame: boolean][] = [
    ["smallint", "bigint", true],
    ["integer", "numeric", true],
    ["numeric", "integer", true],
    ["uuid", "uuid", true],
    ["enum", "text", true],
    ["text", "enum", false],
    ["integer", "text", false],
    ["boolean", "text", false],
    ["date", "text", false],
    ["date", "timestamp", false],
    ["timestamp", "timestamp with time zone", false],
    ["citext", "text", false],
    ["character", "text", false],
    ["inet", "cidr", false],
  ];
  for (const [column, parameter, isSame] of pairs) {
    assertEquals(haveSameTexts(column, parameter), isSame, `${column} ${parameter}`);
  }
});

Deno.test("a text of the log becomes that of keys", () => {
  const texts: readonly [ParameterType, string, string | null][] = [
    ["numeric", "1.50", "1.5"],
    ["numeric", "-0.10", "-0.1"],
    ["numeric", "100.00", "100"],
    ["numeric", "100", "100"],
    ["numeric", "0.00", "0"],
    ["numeric", "NaN", "NaN"],
    ["character", " ab  ", " ab"],
    ["character", "   ", ""],
    ["character", "a\t ", "a\t"],
    ["timestamp", "2024-02-29 09:30:00", "2024-02-29T09:30:00"],
    ["timestamp", "0044-03-15 09:30:00 BC", "0044-03-15T09:30:00 BC"],
    ["timestamp with time zone", "infinity", "infinity"],
    ["date", "0044-03-15 BC", "0044-03-15 BC"],
    ["citext", "Jo@X.org", "jo@x.org"],
    ["citext", "T\xc3\x9cR", null],
    ["text without case", "T\xc3\x9cR", "t\xc3\x9cr"],
    ["text", "1.50 ", "1.50 "],
    ["bigint", "100", "100"],
  ];
  for (const [type, text, key] of texts) {
    assertEquals(textInKey(text, type), key, `${type} ${text}`);
  }
});
