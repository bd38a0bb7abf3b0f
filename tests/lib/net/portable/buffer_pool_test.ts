import { assert, assertEquals } from "@std/assert";
import { BufferPool } from "../../../../lib/net/portable/buffer_pool.ts";

Deno.test("BufferPool lends buffers that do not overlap, and lends them again", () => {
  for (const bytes of [512, 4096, 100_000]) {
    const pool = new BufferPool(bytes, Infinity);
    const lent = Array.from({ length: 300 }, () => pool.take()!);
    lent.forEach((buffer, index) => buffer.fill(index % 251));
    lent.forEach((buffer, index) => {
      assertEquals(buffer.length, bytes);
      assert(buffer.every((byte) => byte === index % 251));
    });
    const last = lent.pop()!;
    pool.give(last);
    assertEquals(pool.take(), last);
  }
});

Deno.test("BufferPool lends no more than its bound", () => {
  const pool = new BufferPool(5000, 2, 2);
  const first = pool.take()!;
  assert(pool.take() !== null);
  assertEquals(pool.take(), null);
  pool.give(first);
  assert(pool.take() !== null);
  assertEquals(pool.take(), null);
  pool.forget();
  assertEquals(pool.memoryCount, 1);
  assert(pool.take() !== null);
  assertEquals(pool.take(), null);
});
