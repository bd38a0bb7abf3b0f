import { assertEquals } from "@std/assert";
import { PAGE, PAGE_OWNER } from "../../../store/memory/memory.ts";
import { pagePieces } from "../../../store/setup.ts";

const MIB_SHIFT = 20;
/** Pages of 1 MiB in a segment, and in a piece. */
const [SEGMENT, PIECE] = [1024, 4];

/** The pieces of `count` pages of which these are in use, as [first page, pages, segment, offset, bytes]. */
function piecesOf(count: number, used: readonly number[], pageShift = MIB_SHIFT): number[][] {
  const rows = new Int32Array(count * PAGE.WORDS);
  for (let page = 0; page < count; page++) {
    rows.fill(9, page * PAGE.WORDS, (page + 1) * PAGE.WORDS);
    rows[page * PAGE.WORDS + PAGE.CLASS] = PAGE_OWNER.NOBODY;
  }
  const owners = [1, PAGE_OWNER.HASH, PAGE_OWNER.GHOST];
  for (const page of used) rows[page * PAGE.WORDS + PAGE.CLASS] = owners[page % owners.length]!;
  return pagePieces(rows, pageShift).map(({ firstPage, pages, segment, offset, bytes }) => [
    ...[firstPage, pages, segment, offset / 2 ** pageShift, bytes / 2 ** pageShift],
  ]);
}

function range(first: number, end: number): number[] {
  return Array.from({ length: end - first }, (_, index) => first + index);
}

Deno.test("pages in use are cut into pieces of consecutive pages, of 4 MiB at most", () => {
  assertEquals(piecesOf(0, []), []);
  assertEquals(piecesOf(9, []), []);
  assertEquals(piecesOf(1, [0]), [[0, 1, 0, 0, 1]]);
  assertEquals(piecesOf(9, [1, 2, 4, 8]), [[1, 2, 0, 1, 2], [4, 1, 0, 4, 1], [8, 1, 0, 8, 1]]);
  assertEquals(piecesOf(PIECE + 2, range(0, PIECE)), [[0, PIECE, 0, 0, PIECE]]);
  assertEquals(piecesOf(2 * PIECE + 3, range(1, 2 * PIECE + 3)), [
    [1, PIECE, 0, 1, PIECE],
    [1 + PIECE, PIECE, 0, 1 + PIECE, PIECE],
    [1 + 2 * PIECE, 2, 0, 1 + 2 * PIECE, 2],
  ]);
});

Deno.test("a piece lies in one segment, and its offset counts from there", () => {
  assertEquals(piecesOf(SEGMENT + 3, range(SEGMENT - 3, SEGMENT + 2)), [
    [SEGMENT - 3, 3, 0, SEGMENT - 3, 3],
    [SEGMENT, 2, 1, 0, 2],
  ]);
  assertEquals(piecesOf(2 * SEGMENT + 5, [2 * SEGMENT + 4]), [[2 * SEGMENT + 4, 1, 2, 4, 1]]);
});

Deno.test("a page that is larger than a piece is a piece of its own", () => {
  assertEquals(piecesOf(3, [0, 1], MIB_SHIFT + 3), [[0, 1, 0, 0, 1], [1, 1, 0, 1, 1]]);
});
