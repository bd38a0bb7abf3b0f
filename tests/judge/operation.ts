/** How an operation ended; "failed": it surely had no effect; "unknown": it may take effect at any later moment. */
export type Outcome = "ok" | "failed" | "unknown";

/** An operation of a client on a row: a line of a history. */
export interface Operation {
  readonly client: string;
  /** A command of the server. Those of `READS` read; any other one writes `value`. */
  readonly operation: string;
  readonly key: string;
  /** Of a write, what the row becomes; of a read, what it has returned. Null: absent. */
  readonly value: string | null;
  /** The row's version after a write, or of what was read; 0: never written. Null: nobody has said it. */
  readonly version: number | null;
  /** One clock of the whole history, in microseconds or in the order of events. */
  readonly start: number;
  /** Null: never ended. */
  readonly end: number | null;
  readonly outcome: Outcome;
}

/** Every version of a row that was never written. */
export const INITIAL_VERSION = 0;

const READS: ReadonlySet<string> = new Set(["get", "gets", "mg", "uget", "uread"]);

/** Whether an operation reads: any other one writes. */
export function isRead({ operation }: Operation): boolean {
  return READS.has(operation);
}

/** Returns the operation as a line for people. Texts are quoted, so that they cannot command a terminal. */
export function operationText(operation: Operation): string {
  const { client, value, version, start, end, outcome } = operation;
  const told = outcome === "ok" ? "" : `, ${outcome}`;
  const numbered = version === null ? "" : `, version ${version}`;
  const name = `${quoted(client)} ${plain(operation.operation)}`;
  return `[${start}..${end ?? ""}] ${name} ${valueText(value)}${numbered}${told}`;
}

const SHOWN_MAX = 60;

/** Returns a value for people. */
export function valueText(value: string | null): string {
  return value === null ? "absent" : quoted(value);
}

/** Returns a text of a history in quotes, shortened, without control characters. */
export function quoted(text: string): string {
  return `"${plain(text)}"`;
}

function plain(text: string): string {
  const shown = text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text;
  return JSON.stringify(shown).slice(1, -1)
    .replace(/[^ -~…]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
