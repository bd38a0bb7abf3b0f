import { say } from "./processes.ts";
import { median } from "./rows.ts";

const FIRST_WIDTH = 28;
const WIDTH_MIN = 8;

/** A Markdown table on stdout. Prints each row at once, so that a long bench shows how far it is. */
export class Table {
  readonly #widths: readonly number[];

  /** @param heads The first column is text, the others are figures. */
  constructor(...heads: readonly string[]) {
    this.#widths = heads.map((head, at) =>
      Math.max(head.length, at === 0 ? FIRST_WIDTH : WIDTH_MIN)
    );
    this.row(...heads);
    const rules = this.#widths.map((width, at) =>
      at === 0 ? "-".repeat(width) : "-".repeat(width - 1) + ":"
    );
    this.row(...rules);
  }

  row(...cells: readonly string[]): void {
    const padded = this.#widths.map((width, at) =>
      at === 0 ? cells[at]!.padEnd(width) : (cells[at] ?? "").padStart(width)
    );
    say(`| ${padded.join(" | ")} |`);
  }
}

/** `0.85 (0.71 … 0.89)`: the median, and the least and the largest. */
export function ranged(values: readonly number[], digits = 2): string {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return `${median(values).toFixed(digits)} (${least.toFixed(digits)} … ${most.toFixed(digits)})`;
}

/** Ours ÷ theirs of each round. */
export function ratios(ours: readonly number[], theirs: readonly number[]): number[] {
  return theirs.map((value, round) => ours[round]! / value);
}

/** `52,681`: the median, as a whole number. */
export function whole(values: readonly number[]): string {
  return Math.round(median(values)).toLocaleString("en");
}

/** Returns the quantile `share` of values in ascending order. */
export function quantile(sorted: ArrayLike<number>, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

/** Measures each contestant once a round. Returns the samples of each, by round. */
export async function alternate<C, S>(
  contestants: readonly C[],
  rounds: number,
  measure: (contestant: C) => S | Promise<S>,
): Promise<S[][]> {
  const samples: S[][] = contestants.map(() => []);
  for (let round = 0; round < rounds; round++) {
    for (const [index, one] of contestants.entries()) samples[index]!.push(await measure(one));
  }
  return samples;
}
