import { assertEquals } from "@std/assert";
import { Numbers } from "../../protocol/numbers.ts";
import { ByteRegion } from "../../store/base/bytes.ts";
import { u64ToBigInt } from "../../store/base/u64.ts";
import { bytesOf } from "../support/sessions/side.ts";

const numbers = new Numbers();

function region(text: string): ByteRegion {
  return new ByteRegion(bytesOf(text).buffer);
}

function int32(text: string): number | null {
  return numbers.int32(region(text), 0, text.length) ? numbers.value : null;
}

function long(text: string): number | null {
  return numbers.long(region(text), 0, text.length) ? numbers.value : null;
}

function flags(text: string): number | null {
  return numbers.unsignedLong(region(text), 0, text.length) ? numbers.value >>> 0 : null;
}

function u64(text: string): bigint | null {
  return numbers.u64(region(text), 0, text.length) ? u64ToBigInt(numbers.low, numbers.high) : null;
}

Deno.test("int32() takes digits with at most a minus before them", () => {
  assertEquals(int32("0"), 0);
  assertEquals(int32("-0"), 0);
  assertEquals(int32("007"), 7);
  assertEquals(int32("2147483647"), 2147483647);
  assertEquals(int32("-2147483648"), -2147483648);
  assertEquals(int32("00000000001"), 1);
});

Deno.test("int32() refuses everything else", () => {
  for (
    const text of [
      "",
      "-",
      "+5",
      " 5",
      "5 ",
      "5x",
      "x",
      "1.0",
      "2147483648",
      "-2147483649",
      "000000000001",
      "99999999999",
    ]
  ) {
    assertEquals(int32(text), null, text);
  }
});

Deno.test("long() reads as C's strtol, cut to 32 bits", () => {
  assertEquals(long("5"), 5);
  assertEquals(long("+5"), 5);
  assertEquals(long("\t-5"), -5);
  assertEquals(long("5\tx"), 5);
  assertEquals(long("5\r"), 5);
  assertEquals(long("2147483648"), -2147483648);
  assertEquals(long("4294967296"), 0);
  assertEquals(long("-4294967297"), -1);
  assertEquals(long("9223372036854775807"), -1);
  assertEquals(long("-9223372036854775808"), 0);
  assertEquals(long("9007199254740993"), 1);
});

Deno.test("long() refuses what is no number, or has more than 64 bits", () => {
  for (
    const text of ["", "-", "+", "x", "5x", "--5", "\t", "9223372036854775808", "9".repeat(1000)]
  ) {
    assertEquals(long(text), null, text);
  }
});

Deno.test("unsignedLong() reads as C's strtoul, cut to 32 bits, without negative numbers", () => {
  assertEquals(flags("0"), 0);
  assertEquals(flags("-0"), 0);
  assertEquals(flags("4294967295"), 4294967295);
  assertEquals(flags("4294967296"), 0);
  assertEquals(flags("18446744073709551615"), 4294967295);
  for (const text of ["-1", "18446744073709551616", "x", "1x", ""]) {
    assertEquals(flags(text), null, text);
  }
});

Deno.test("u64() takes up to 22 digits below 2^64", () => {
  assertEquals(u64("0"), 0n);
  assertEquals(u64("9007199254740991"), 9007199254740991n);
  assertEquals(u64("9007199254740993"), 9007199254740993n);
  assertEquals(u64("18446744073709551615"), 18446744073709551615n);
  assertEquals(u64("0000000000000000000042"), 42n);
  for (
    const text of [
      "",
      "-1",
      "+1",
      "1x",
      "18446744073709551616",
      "00000000000000000000042",
      "9999999999999999999999",
    ]
  ) {
    assertEquals(u64(text), null, text);
  }
});

Deno.test("real() takes plain decimal fractions", () => {
  const real = (text: string): number => Numbers.real(region(text), 0, text.length);
  assertEquals(real("0.5"), 0.5);
  assertEquals(real("2"), 2);
  assertEquals(real("-1.25"), -1.25);
  for (const text of ["", ".", "x", "1e5", "0x10", "1.5x", "Infinity"]) {
    assertEquals(real(text), NaN, text);
  }
});
