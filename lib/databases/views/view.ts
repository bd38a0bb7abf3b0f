import type { KeyTemplate } from "./key_template.ts";

/** How the result of a query becomes a value. */
export const RESULTS = ["object", "array", "raw"] as const;

/** `object`: the first row, in JSON. `array`: all rows, in JSON. `raw`: the only column of the first row. */
export type ViewResult = typeof RESULTS[number];

/** Which keys the changes of a table concern. */
export interface TableChanges {
  /** As the file names it: `price` or `shop.price`. */
  readonly table: string;
  /** Their parameters are columns of the table, those of the old and of the new row. */
  readonly keys: readonly KeyTemplate[];
}

/** Keys whose values are results of a query. */
export interface View {
  /** The template of its keys, as the file has it. */
  readonly name: string;
  readonly keys: KeyTemplate;
  /** With the parameters of the keys between braces. */
  readonly query: string;
  readonly result: ViewResult;
  /** How long a value is kept, in seconds; 0: until it changes. */
  readonly maxAgeSec: number;
  readonly changes: readonly TableChanges[];
  /** Line of the file. */
  readonly line: number;
}

/** A mistake in the file of views, or a view that the database refuses. */
export interface ViewMistake {
  readonly line: number;
  readonly text: string;
}

/** A view whose changes the log would not have, or whose query the database refuses. */
export interface BrokenView {
  readonly view: View;
  readonly reason: string;
}

/** Returns broken views as mistakes of the file: a reason once, at the first view that has it. */
export function mistakesOf(broken: readonly BrokenView[]): ViewMistake[] {
  const byReason = Map.groupBy(broken, ({ reason }) => reason);
  return [...byReason].map(([reason, all]) => {
    const [{ line, name }, ...others] = [...new Set(all.map(({ view }) => view))] as [
      View,
      ...View[],
    ];
    const more = others.length === 0 ? "" : ` and ${others.length} more`;
    return { line, text: `view ${name}${more}: ${reason}` };
  });
}

/** The file of views, or one of its views, cannot be used. */
export class ViewsError extends Error {
  override readonly name = "ViewsError";

  constructor(path: string, mistakes: readonly ViewMistake[]) {
    const lines = mistakes.map(({ line, text }) => `${path}:${line}: ${text}`);
    super([...new Set(lines)].join("; "));
  }
}

/** Replaces the parameters of a query, by their place among those of the keys. */
export function withParameters(
  { query, keys }: View,
  replace: (index: number) => string,
): string {
  return query.replaceAll(/\{([a-zA-Z_][a-zA-Z0-9_]*)\}/g, (text, name: string) => {
    const index = keys.names.indexOf(name);
    return index < 0 ? text : replace(index);
  });
}

/** Yields why a result with these columns cannot become the view's value. */
export function* resultMistakes(
  { result }: View,
  columns: readonly string[],
): Generator<string> {
  if (result === "raw" && columns.length !== 1) {
    yield `value raw needs a query with one column, this one has ${columns.length}`;
  }
  const twice = columns.find((name, index) => columns.indexOf(name) !== index);
  if (twice !== undefined) yield `its result has two columns ${twice}: name one AS another`;
}

/** The views of a file, in its order: a key belongs to the first that it fits. */
export class Views {
  static readonly NONE = new Views([]);
  readonly all: readonly View[];
  /** Path of the file; "": there is none. */
  readonly path: string;

  constructor(all: readonly View[], path = "") {
    this.all = all;
    this.path = path;
  }

  /** Returns the view of a key, with the values of its parameters; null: it belongs to none. */
  find(key: string): { readonly view: View; readonly values: readonly string[] } | null {
    for (const view of this.all) {
      const values = view.keys.match(key);
      if (values !== null) return { view, values };
    }
    return null;
  }

  /** The common beginnings of the views' keys, each once. */
  get prefixes(): readonly string[] {
    return [...new Set(this.all.map(({ keys }) => keys.prefix))];
  }
}
