import { assertEquals } from "@std/assert";
import {
  compareU64,
  highHalf,
  lowHalf,
  u64ToBigInt,
  u64ToNumber,
} from "../../../store/base/u64.ts";

const NUMBERS = [0, 1, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 52 + 12345, 2 ** 53 - 1];

Deno.test("lowHalf() and highHalf() make halves that u64ToNumber() and u64ToBigInt() join", () => {
  for (const number of NUMBERS) {
    assertEquals(u64ToNumber(lowHalf(number), highHalf(number)), number);
    assertEquals(u64ToBigInt(lowHalf(number), highHalf(number)), BigInt(number));
  }
  assertEquals(u64ToBigInt(-1, -1), 2n ** 64n - 1n);
});

Deno.test("compareU64() orders as unsigned numbers", () => {
  const ordered = [[0, 0], [1, 0], [-1, 0], [0, 1], [5, 1], [0, 0x7fffffff], [0, -1], [-1, -1]];
  for (const [a, [aLow, aHigh]] of ordered.entries()) {
    for (const [b, [bLow, bHigh]] of ordered.entries()) {
      assertEquals(Math.sign(compareU64(aLow!, aHigh!, bLow!, bHigh!)), Math.sign(a - b));
    }
  }
});
