import { printable } from "../output.ts";
import {
  type Cell,
  type Column,
  columnsOf,
  type Kind,
  rowsOf,
  type Sample,
  type ViewName,
  VIEWS,
} from "./views.ts";

/** The operator's choices. */
export interface Choices {
  readonly view: ViewName;
  /** Title of the column that sorts the rows. */
  readonly sort: string;
  readonly isReversed: boolean;
  readonly isPaused: boolean;
  readonly filter: string;
  /** Whether keys go into the filter. */
  readonly isTyping: boolean;
  /** Rows above the first one that is shown. */
  readonly scroll: number;
}

const CELL_WIDTH_MAX = 48;
const GAP = "  ";
/** Lines beside the rows: title, head, keys. */
const FRAME_LINES = 3;
const KEYS = "q quit  space pause  tab table  left/right sort  r reverse  / filter  up/down scroll";
const INVERSE = "\x1b[7m";
const PLAIN = "\x1b[0m";

export function choicesOf(view: ViewName): Choices {
  return {
    view,
    sort: VIEWS[view].sort,
    isReversed: false,
    isPaused: false,
    filter: "",
    isTyping: false,
    scroll: 0,
  };
}

/** The rows of a view, written, sorted and filtered. */
interface Grid {
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly string[])[];
}

function gridOf(samples: readonly Sample[], choices: Choices): Grid {
  const view = VIEWS[choices.view];
  const columns = columnsOf(view, samples.length);
  const rows = rowsOf(view, samples);
  const at = Math.max(0, columns.findIndex(([title]) => title === choices.sort));
  const sign = choices.isReversed ? -1 : 1;
  rows.sort((a, b) => sign * compare(a[at] ?? NaN, b[at] ?? NaN));
  const written = rows.map((cells) =>
    columns.map(([, kind], index) => cellText(cells[index] ?? NaN, kind))
  );
  const filter = choices.filter.toLowerCase();
  return {
    columns,
    rows: written.filter((cells) => cells.join(" ").toLowerCase().includes(filter)),
  };
}

/** Texts rise, numbers fall, unknown values are last. */
function compare(a: Cell, b: Cell): number {
  if (typeof a === "string" && typeof b === "string") return a < b ? -1 : a > b ? 1 : 0;
  if (typeof a !== typeof b) return typeof a === "string" ? -1 : 1;
  if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b));
  return Number(b) - Number(a);
}

const UNITS = ["", "k", "M", "G", "T"];

function cellText(cell: Cell, kind: Kind): string {
  if (typeof cell === "string") return printable(cell).slice(0, CELL_WIDTH_MAX);
  if (!Number.isFinite(cell)) return "-";
  if (kind === "percent") return cell.toFixed(1);
  if (kind === "seconds") return durationText(cell);
  const base = kind === "bytes" || kind === "byteRate" ? 1024 : 1000;
  if (Math.abs(cell) < 100_000) return Number.isInteger(cell) ? `${cell}` : cell.toFixed(1);
  const unit = Math.min(UNITS.length - 1, Math.floor(Math.log(Math.abs(cell)) / Math.log(base)));
  return `${(cell / base ** unit).toFixed(1)}${UNITS[unit]}`;
}

/** Returns `59s`, `12m`, `3h`, `9d`. */
function durationText(seconds: number): string {
  if (seconds < 100) return `${Math.floor(seconds)}s`;
  if (seconds < 6000) return `${Math.floor(seconds / 60)}m`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86_400)}d`;
}

/** Returns lines of equal columns: the head, then the rows. */
function aligned({ columns, rows }: Grid): string[] {
  const widths = columns.map(([title], at) =>
    rows.reduce((width, cells) => Math.max(width, cells[at]!.length), title.length)
  );
  const line = (cells: readonly string[]): string =>
    cells.map((text, at) =>
      columns[at]![1] === "text" ? text.padEnd(widths[at]!) : text.padStart(widths[at]!)
    ).join(GAP).trimEnd();
  return [line(columns.map(([title]) => printable(title))), ...rows.map(line)];
}

/** The plain table of `--once`. */
export function tableText(samples: readonly Sample[], view: ViewName): string {
  const lines = aligned(gridOf(samples, choicesOf(view)));
  return [...lines, ...missing(samples, view)].map((line) => `${line}\n`).join("");
}

/** Says which servers cannot be reached, or lack the view. */
function missing(samples: readonly Sample[], view: ViewName): string[] {
  return samples.flatMap(({ name, reason, now }) => {
    if (reason !== "") return [printable(`${name}: ${reason}`)];
    const absent = VIEWS[view].tables.filter((table) => now.get(table) === null);
    return absent.length < VIEWS[view].tables.length ? [] : [`${name}: has no stats ${absent[0]}`];
  });
}

/**
 * Returns the lines of a screen, none longer than `width`; columns and rows that do not fit are left out.
 *
 * @param hasColour Whether the head may be inverse.
 */
export function screenLines(
  samples: readonly Sample[],
  choices: Choices,
  { columns: width, rows: height }: { readonly columns: number; readonly rows: number },
  hasColour: boolean,
): string[] {
  const whole = gridOf(samples, choices);
  const room = Math.max(0, height - FRAME_LINES);
  const scroll = Math.min(choices.scroll, Math.max(0, whole.rows.length - room));
  const shown = { ...whole, rows: whole.rows.slice(scroll, scroll + room) };
  const fitting = fittingColumns(shown, width);
  const cut = (line: string): string => line.slice(0, width);
  const [head, ...rows] = aligned({
    columns: shown.columns.slice(0, fitting).map(([title, kind]): Column => [
      title === choices.sort ? `${title}${choices.isReversed ? "^" : "*"}` : title,
      kind,
    ]),
    rows: shown.rows.map((cells) => cells.slice(0, fitting)),
  });
  const title = [
    `leased top: ${choices.view}, ${whole.rows.length} rows`,
    ...choices.isPaused ? ["paused"] : [],
    ...choices.filter !== "" || choices.isTyping ? [`filter: ${choices.filter}`] : [],
  ].join(", ");
  const body = [...rows, ...missing(samples, choices.view)].slice(0, room);
  while (body.length < room) body.push("");
  const inverse = (line: string): string => hasColour ? `${INVERSE}${line}${PLAIN}` : line;
  return [
    cut(title),
    inverse(cut(head!.padEnd(width))),
    ...body.map(cut),
    cut(choices.isTyping ? `filter: ${choices.filter}_` : KEYS),
  ].slice(0, Math.max(1, height));
}

/** Returns how many columns fit; at least one. */
function fittingColumns({ columns, rows }: Grid, width: number): number {
  let used = 0;
  for (const [at, [title]] of columns.entries()) {
    used += rows.reduce((most, cells) => Math.max(most, cells[at]!.length), title.length + 1);
    if (used > width) return Math.max(1, at);
    used += GAP.length;
  }
  return columns.length;
}

/**
 * Returns the choices after a key; null: quit.
 *
 * @param height Of the terminal, in lines.
 */
export function pressed(
  choices: Choices,
  key: string,
  samples: readonly Sample[],
  height: number,
): Choices | null {
  if (key === "\x03") return null;
  if (choices.isTyping) return typed(choices, key);
  const pageRows = Math.max(1, height - FRAME_LINES);
  const scrollTo = (row: number): Choices => {
    const last = gridOf(samples, choices).rows.length - pageRows;
    return { ...choices, scroll: Math.max(0, Math.min(last, row)) };
  };
  const titles = columnsOf(VIEWS[choices.view], samples.length).map(([title]) => title);
  const sortBy = (step: number): Choices => {
    const at = Math.max(0, titles.indexOf(choices.sort)) + step + titles.length;
    return { ...choices, sort: titles[at % titles.length]! };
  };
  switch (key) {
    case "q":
      return null;
    case " ":
      return { ...choices, isPaused: !choices.isPaused };
    case "\t": {
      const names = Object.keys(VIEWS) as ViewName[];
      const view = names[(names.indexOf(choices.view) + 1) % names.length]!;
      return choicesOf(view);
    }
    case "r":
      return { ...choices, isReversed: !choices.isReversed };
    case "/":
      return { ...choices, isTyping: true };
    case "\x1b[C":
      return sortBy(1);
    case "\x1b[D":
      return sortBy(-1);
    case "\x1b[A":
      return scrollTo(choices.scroll - 1);
    case "\x1b[B":
      return scrollTo(choices.scroll + 1);
    case "\x1b[5~":
      return scrollTo(choices.scroll - pageRows);
    case "\x1b[6~":
      return scrollTo(choices.scroll + pageRows);
    case "\x1b[H":
      return scrollTo(0);
    case "\x1b[F":
      return scrollTo(Infinity);
    default:
      return choices;
  }
}

const FILTER_LENGTH_MAX = 60;

function typed(choices: Choices, key: string): Choices {
  const { filter } = choices;
  if (key === "\r" || key === "\n") return { ...choices, isTyping: false };
  if (key === "\x1b") return { ...choices, isTyping: false, filter: "" };
  if (key === "\x7f" || key === "\b") return { ...choices, filter: filter.slice(0, -1) };
  if (!/^[\x20-\x7e]$/.test(key) || filter.length >= FILTER_LENGTH_MAX) return choices;
  return { ...choices, filter: filter + key, scroll: 0 };
}

/** Splits what a terminal has sent into keys: characters, and sequences that begin with escape. */
export function keysOf(text: string): string[] {
  // deno-lint-ignore no-control-regex
  return text.match(/\x1b\[[\d;]*[A-Za-z~]|[^]/g) ?? [];
}
