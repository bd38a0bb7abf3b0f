import { assertEquals } from "@std/assert";
import { Decimal } from "../../../store/base/decimal.ts";
import { ByteRegion } from "../../../store/base/bytes.ts";
import { u64ToBigInt } from "../../../store/base/u64.ts";

function parse(text: string): bigint | null {
  const region = new ByteRegion(new TextEncoder().encode(text).buffer);
  const decimal = new Decimal();
  return decimal.parse(region, 0, text.length) ? u64ToBigInt(decimal.low, decimal.high) : null;
}

function changed(text: string, delta: bigint, increment: boolean): string {
  const region = new ByteRegion(new TextEncoder().encode(text).buffer);
  const decimal = new Decimal();
  decimal.parse(region, 0, text.length);
  decimal.addDelta(Number(delta & 0xffffffffn) | 0, Number(delta >> 32n) | 0, increment);
  return new TextDecoder().decode(decimal.digits.subarray(0, decimal.format()));
}

Deno.test("Decimal.parse() reads what strtoull reads", () => {
  const cases: [string, bigint | null][] = [
    ["0", 0n],
    ["007", 7n],
    [" +5", 5n],
    ["9 ", 9n],
    ["9\0x", 9n],
    ["999999999999999", 999999999999999n],
    ["9007199254740993", 9007199254740993n],
    ["18446744073709551615", 18446744073709551615n],
    ["18446744073709551616", null],
    ["", null],
    [" ", null],
    ["-1", null],
    ["0x1", null],
    ["1e3", null],
    ["abc", null],
  ];
  for (const [text, value] of cases) assertEquals(parse(text), value, JSON.stringify(text));
});

Deno.test("Decimal.change() wraps upwards and stops at 0 downwards, exact over 2^53", () => {
  assertEquals(changed("1", 41n, true), "42");
  assertEquals(changed("5", 6n, false), "0");
  assertEquals(changed("9007199254740991", 2n, true), "9007199254740993");
  assertEquals(changed("18446744073709551615", 1n, true), "0");
  assertEquals(changed("18446744073709551615", 1n, false), "18446744073709551614");
  assertEquals(changed("4294967295", 1n, true), "4294967296");
  assertEquals(changed("4294967296", 1n, false), "4294967295");
});
