import { assertEquals } from "@std/assert";
import { ROW_POOL, RowPool } from "../../../store/memory/row_pool.ts";

const ROWS = 3;
const ROW_WORDS = 2;
const NEXT_WORD = 1;

Deno.test("a pool hands out each row once, and those given back again", () => {
  const words = new Int32Array(ROW_POOL.WORDS + (ROWS + 1) * ROW_WORDS);
  const pool = new RowPool(words, ROW_POOL.WORDS, ROW_WORDS, NEXT_WORD, ROWS);
  assertEquals([pool.take(), pool.take(), pool.take(), pool.take()], [1, 2, 3, 0]);
  pool.giveBack(1);
  pool.giveBack(3);
  assertEquals([pool.take(), pool.take(), pool.take()], [3, 1, 0]);
  assertEquals(words[ROW_POOL.EVER_USED], ROWS);
});
