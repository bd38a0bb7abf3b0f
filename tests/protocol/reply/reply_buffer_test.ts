import { assertEquals } from "@std/assert";
import { ReplyBuffer } from "../../../protocol/reply/reply_buffer.ts";
import { ByteRegion } from "../../../store/base/bytes.ts";
import { textOf } from "../../support/sessions/side.ts";

function written(write: (reply: ReplyBuffer) => void): string {
  const reply = new ReplyBuffer(new ByteRegion(new ArrayBuffer(256)));
  write(reply);
  return textOf(reply.region.bytes.subarray(0, reply.length));
}

Deno.test("decimal() writes whole numbers of every length", () => {
  for (let digits = 1; digits <= 15; digits++) {
    for (const value of [10 ** (digits - 1), 10 ** digits - 1, 7 * 10 ** (digits - 1) + 3]) {
      assertEquals(written((reply) => reply.decimal(value)), String(value));
    }
  }
  for (const value of [0, 2147483647, 2147483648, 4294967295, Number.MAX_SAFE_INTEGER]) {
    assertEquals(written((reply) => reply.decimal(value)), String(value));
  }
});

Deno.test("decimalU64() writes all 64 bits", () => {
  assertEquals(written((reply) => reply.decimalU64(-1, 0)), "4294967295");
  assertEquals(written((reply) => reply.decimalU64(0, 1)), "4294967296");
  assertEquals(written((reply) => reply.decimalU64(-1, -1)), "18446744073709551615");
  assertEquals(written((reply) => reply.decimalU64(0, 1 << 21)), "9007199254740992");
});

Deno.test("put(), copy(), byte(), crlf() and text() append", () => {
  const from = new ByteRegion(new TextEncoder().encode("0123456789").buffer);
  assertEquals(
    written((reply) => {
      reply.put(new TextEncoder().encode("ab"));
      reply.copy(from, 2, 3);
      reply.byte(0x20);
      reply.text("x\xff");
      reply.crlf();
    }),
    "ab234 x\xff\r\n",
  );
});

Deno.test("reset() leaves nothing of a batch that began behind replies", () => {
  const reply = new ReplyBuffer(new ByteRegion(new ArrayBuffer(64)));
  reply.text("123");
  reply.begin(8);
  assertEquals([reply.start, reply.isEmpty], [8, true]);
  reply.reset();
  assertEquals([reply.start, reply.length, reply.isEmpty], [0, 0, true]);
});

Deno.test("room counts down to 0 and reset() gives it back", () => {
  const reply = new ReplyBuffer(new ByteRegion(new ArrayBuffer(8)));
  assertEquals(reply.room, 8);
  reply.text("12345678");
  assertEquals(reply.room, 0);
  reply.reset();
  assertEquals(reply.room, 8);
});
