import { assertEquals } from "@std/assert";
import { ByteRegion, copyBytes, equalBytes, latin1Text } from "../../../store/base/bytes.ts";

Deno.test("copyBytes() copies every length at every alignment, and nothing beside", () => {
  const from = new ByteRegion(new ArrayBuffer(4096));
  for (let at = 0; at < 4096; at++) from.bytes[at] = (at * 131 + 7) & 0xff;
  for (const length of [0, 1, 7, 8, 9, 31, 100, 1023, 1024, 1025, 3000]) {
    for (const offset of [0, 1, 3, 8]) {
      const to = new ByteRegion(new SharedArrayBuffer(4096));
      copyBytes(to, offset, from, 5, length);
      const expected = new Uint8Array(4096);
      expected.set(from.bytes.subarray(5, 5 + length), offset);
      assertEquals(new Uint8Array(to.bytes), expected, `length ${length}, offset ${offset}`);
    }
  }
});

Deno.test("copyBytes() copies inside one region, short and long", () => {
  for (const length of [16, 2000]) {
    const region = new ByteRegion(new ArrayBuffer(8192));
    region.bytes.fill(1, 0, length);
    copyBytes(region, 4096, region, 0, length);
    assertEquals(region.bytes.subarray(4096, 4096 + length).every((byte) => byte === 1), true);
    assertEquals(region.bytes[4096 + length], 0);
  }
});

Deno.test("equalBytes() sees a difference in any byte", () => {
  for (const length of [1, 4, 5, 11, 250]) {
    const a = new ByteRegion(new ArrayBuffer(256));
    const b = new ByteRegion(new ArrayBuffer(256));
    assertEquals(equalBytes(a, 1, b, 3, length), true);
    for (let at = 0; at < length; at++) {
      b.bytes[3 + at] = 9;
      assertEquals(equalBytes(a, 1, b, 3, length), false);
      b.bytes[3 + at] = 0;
    }
  }
});

Deno.test("latin1Text() gives a character for every byte, however many", () => {
  const bytes = Uint8Array.of(0x20, 0x61, 0x00, 0xff, 0x7f);
  assertEquals(latin1Text(bytes, 1, 4), "a\x00\xff\x7f");
  assertEquals(latin1Text(bytes, 1, 0), "");
  const long = new Uint8Array(20_000).fill(0xe9);
  assertEquals(latin1Text(long, 1, 19_998), "\xe9".repeat(19_998));
});
