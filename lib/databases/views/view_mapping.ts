import type { KeyRange } from "./key_set.ts";
import { KEY_LENGTH_MAX } from "../../../store/limits.ts";
import type { KeyTemplate } from "./key_template.ts";
import { type ParameterType, textInKey } from "./parameter_type.ts";
import type { Views } from "./view.ts";

/** Returns the value of a column, UTF-8, a character a byte; null: it is NULL or not known. */
export type ColumnValue = (name: string) => string | null;

/** Types of columns that templates of keys name, by the names of tables and columns. */
export type KeyColumns = ReadonlyMap<string, ReadonlyMap<string, ParameterType>>;

/** Which keys of views concern the changes of each table. */
export class ViewMapping {
  readonly #templates = new Map<string, KeyTemplate[]>();
  readonly #columns: KeyColumns;

  /**
   * @param views Their tables by the names that `tableOf` returns.
   * @param columns By the same names. Of others, a key has the text that the log has.
   */
  constructor(
    views: Views,
    tableOf: (name: string) => string = (name) => name,
    columns: KeyColumns = new Map(),
  ) {
    this.#columns = columns;
    for (const { changes } of views.all) {
      for (const { table, keys } of changes) {
        const name = tableOf(table);
        this.#templates.set(name, [...this.#templates.get(name) ?? [], ...keys]);
      }
    }
  }

  get tables(): readonly string[] {
    return [...this.#templates.keys()];
  }

  /** Returns the templates of a table's keys; their parameters are its columns. */
  templatesOf(table: string): readonly KeyTemplate[] {
    return this.#templates.get(table) ?? [];
  }

  /** Returns the text in keys for the text that the log has of a column; null: it is not known. */
  textInKey(table: string, name: string, text: string): string | null {
    const type = this.#columns.get(table)?.get(name);
    return type === undefined ? text : textInKey(text, type);
  }
}

/**
 * Returns the key that a row concerns: a prefix for a template of one, and for a column whose value is not known.
 *
 * @returns Null: there is no such key, it would be too long.
 */
export function keyOf(template: KeyTemplate, value: ColumnValue): KeyRange | null {
  let text = template.texts[0]!;
  let { isPrefix } = template;
  for (const [index, name] of template.names.entries()) {
    const part = value(name);
    if (part === null) {
      isPrefix = true;
      break;
    }
    text += part + template.texts[index + 1]!;
  }
  return text.length > KEY_LENGTH_MAX ? null : { text, isPrefix };
}
