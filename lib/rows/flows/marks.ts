import { type RowFlow, step } from "./steps.ts";

/**
 * Notes a mark in the database, after everything else that the origin of this epoch does there: the rows in its cache
 * are those of the database. A snapshot keeps the mark beside the rows.
 *
 * @param name No other mark has it: a database that is restored from an earlier copy has another mark, or none.
 * @returns The mark; "": another origin has taken over, so the rows may be old.
 * @throws The database's error: whether it has noted the mark is unknown.
 */
export function* noteMark(epoch: number, name: string): RowFlow<string> {
  const mark = `${epoch} ${name}`;
  return (yield* step({ kind: "noteMark", mark, epoch })) ? mark : "";
}

/** Whether no origin was active between the one that noted `mark` and the one that has taken over now. */
export function isLastMark(
  mark: string,
  { epoch, mark: noted }: { readonly epoch: number; readonly mark: string },
): boolean {
  return mark === noted && mark.startsWith(`${epoch - 1} `);
}
