/** A fault to plant in the source, which tests must notice. */
export interface Fault {
  /** The file's path from the repository's root. */
  readonly file: string;
  /** The wrong behaviour that it causes. */
  readonly fault: string;
  /** The correct text, which the file has exactly once. */
  readonly find: string;
  readonly replace: string;
  /** The tests that should notice: paths below tests/, without `_test.ts`, separated by blanks. */
  readonly tests: string;
  /** Only tests whose names contain this. */
  readonly filter?: string;
}

/** A row of a table of faults. */
type FaultRow = readonly [fault: string, find: string, replace: string, filter?: string];

/** Returns the faults of one file that the same tests should notice. */
export function faults(file: string, tests: string, rows: readonly FaultRow[]): Fault[] {
  return rows.map(([fault, find, replace, filter]) => ({
    ...{ file, fault, find, replace, tests },
    ...(filter !== undefined && { filter }),
  }));
}

/** A source text with the fault in it. @throws RangeError when the correct text is not there exactly once. */
export function plant({ file, find, replace }: Fault, text: string): string {
  const parts = text.split(find);
  if (parts.length !== 2) {
    throw new RangeError(`${file} has ${JSON.stringify(find)} ${parts.length - 1} times, not once`);
  }
  return parts.join(replace);
}
