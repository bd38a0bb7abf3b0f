import { PAGE, PAGE_OWNER } from "../memory/memory.ts";

/** The most bytes of pages that one piece has. */
const PIECE_BYTES = 4 * 1024 * 1024;
/** Pages of a segment, as a power of two, are this minus the page shift. */
const SEGMENT_BYTES_SHIFT = 30;

/** Consecutive pages that are in use and lie in one segment. */
export interface PagePiece {
  readonly firstPage: number;
  readonly pages: number;
  /** Number of the segment, and where the piece lies in it, in bytes. */
  readonly segment: number;
  readonly offset: number;
  readonly bytes: number;
}

/**
 * Cuts the pages in use into pieces, in ascending order. A snapshot has its pages in this order, so the page rows say
 * where a page lies in it.
 *
 * @param rows PAGE words of each page.
 */
export function pagePieces(rows: Int32Array, pageShift: number): PagePiece[] {
  const pieces: PagePiece[] = [];
  const pageCount = rows.length / PAGE.WORDS;
  const pagesMax = Math.max(1, PIECE_BYTES >>> pageShift);
  const segmentShift = SEGMENT_BYTES_SHIFT - pageShift;
  const isUsed = (page: number): boolean =>
    rows[page * PAGE.WORDS + PAGE.CLASS] !== PAGE_OWNER.NOBODY;
  for (let page = 0; page < pageCount;) {
    if (!isUsed(page)) {
      page++;
      continue;
    }
    const firstPage = page;
    const segment = firstPage >>> segmentShift;
    const end = Math.min(pageCount, firstPage + pagesMax, (segment + 1) << segmentShift);
    while (page < end && isUsed(page)) page++;
    pieces.push({
      firstPage,
      pages: page - firstPage,
      segment,
      offset: (firstPage - (segment << segmentShift)) << pageShift,
      bytes: (page - firstPage) << pageShift,
    });
  }
  return pieces;
}
