/** Measures contestants in alternating rounds, and prints tables. */
const FIRST_WIDTH = 28;
const WIDTH_MIN = 8;

/** The result of one round. */
export type Figures<F extends string = string> = Readonly<Record<F, number>>;

/** A subject that is measured in turn with others. */
export interface Contestant<F extends string> {
  readonly name: string;
  /** One round. */
  measure(): Figures<F> | Promise<Figures<F>>;
}

/** Writes a cell: from a contestant's rounds, and those of all. */
export type Cell<F extends string> = (
  own: readonly Figures<F>[],
  all: readonly (readonly Figures<F>[])[],
) => string;

/** A line on stdout. */
export function say(line: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(line + "\n"));
}

/** A Markdown table on stdout. Prints each row at once, so that a long bench shows how far it is. */
export class Table {
  readonly #widths: readonly number[];

  /** @param heads The first column is text, the others are figures. */
  constructor(...heads: readonly string[]) {
    this.#widths = heads.map((head, at) =>
      Math.max(head.length, at === 0 ? FIRST_WIDTH : WIDTH_MIN)
    );
    say("");
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

/** A table with a row for each contestant. */
export class Comparison<F extends string> {
  readonly #table: Table;
  readonly #cells: readonly Cell<F>[];

  /** @param columns The cells below each head. */
  constructor(title: string, columns: Readonly<Record<string, Cell<F>>>) {
    this.#table = new Table(title, ...Object.keys(columns));
    this.#cells = Object.values(columns);
  }

  /** Measures each contestant once a round. The first is the one that is compared with the others. */
  async add(contestants: readonly Contestant<F>[], rounds: number): Promise<void> {
    const samples: Figures<F>[][] = contestants.map(() => []);
    for (let round = 0; round < rounds; round++) {
      for (const [at, one] of contestants.entries()) samples[at]!.push(await one.measure());
    }
    for (const [at, { name }] of contestants.entries()) {
      this.#table.row(name, ...this.#cells.map((cell) => cell(samples[at]!, samples)));
    }
  }
}

const column = <F extends string>(rounds: readonly Figures<F>[], figure: F): number[] =>
  rounds.map((round) => round[figure]);

/** The median of a figure. @param show Writes it, or says with how many digits; by default it is whole. */
export function typical<F extends string>(
  figure: F,
  show: number | ((value: number) => string) = whole,
): Cell<F> {
  const text = typeof show === "number" ? fixed(show) : show;
  return (own) => text(median(column(own, figure)));
}

/** The median of a figure, the least and the largest. */
export function spread<F extends string>(figure: F): Cell<F> {
  return (own) => ranged(column(own, figure));
}

/** A figure of the first contestant ÷ that of this one, in each round. */
export function ratio<F extends string>(figure: F): Cell<F> {
  return (own, [first]) =>
    own === first ? "" : ranged(own.map((round, at) => first![at]![figure] / round[figure]));
}

/** A figure of the first contestant ÷ the sum of the others', in each round. */
export function ratioToSum<F extends string>(figure: F): Cell<F> {
  return (own, [first, ...others]) => {
    if (own !== first) return "";
    const sum = (at: number): number =>
      others.reduce((all, rounds) => all + rounds[at]![figure], 0);
    return ranged(own.map((round, at) => round[figure] / sum(at)));
  };
}

/** `0.85 (0.71 … 0.89)`: the median, and the least and the largest. Empty if there is none (NaN). */
export function ranged(values: readonly number[], digits = 2): string {
  if (values.some(Number.isNaN)) return "";
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return `${median(values).toFixed(digits)} (${least.toFixed(digits)} … ${most.toFixed(digits)})`;
}

/** `52,681` */
export function whole(value: number): string {
  return Math.round(value).toLocaleString("en");
}

export function fixed(digits: number): (value: number) => string {
  return (value) => value.toFixed(digits);
}

/** `12 %` of 0.12. */
export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Returns the quantile `share` of values in ascending order. */
export function quantile(sorted: ArrayLike<number>, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

/** Quantiles of times in milliseconds, in any order. */
export function waits(ms: Iterable<number>): Figures<"p50" | "p99" | "p999" | "longest"> {
  const sorted = Float64Array.from(ms).sort();
  const [p50, p99, p999, longest] = [0.5, 0.99, 0.999, 1].map((share) => quantile(sorted, share));
  return { p50: p50!, p99: p99!, p999: p999!, longest: longest! };
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
