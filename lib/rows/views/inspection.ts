import type { View, ViewMistake } from "./view.ts";

/** Types of parameters and mapped columns: a value of them has one text, so one row has one key. */
export type ParameterType = "int2" | "int4" | "int8" | "text" | "uuid" | "bool";

/** A table that a view's `changes` names. */
export interface TableFacts {
  /** As the log names it: `public.price`, or `price` of SQLite. */
  readonly name: string;
  /** Each column's type; null: its values have more than one text. */
  readonly columns: ReadonlyMap<string, ParameterType | null>;
  /** The columns whose old values are in the log; null: all. */
  readonly logged: ReadonlySet<string> | null;
  /** Why its changes cannot be followed; "": they can. */
  readonly refusal: string;
}

/** What the plan of a query shows. */
export interface PlanFacts {
  /** The tables that it reads, named as in `TableFacts`. */
  readonly tables: readonly string[];
  /** The tables that it reads from end to end: no index fits. */
  readonly scans: readonly string[];
  /** It writes or locks rows. */
  readonly writes: boolean;
}

/** What a database says of a view. */
export interface Inspection extends PlanFacts {
  /** By the place of the parameters among those of the keys; empty: the query cannot be prepared. */
  readonly parameterTypes: readonly ParameterType[];
  /** The names of the result's columns. */
  readonly columns: readonly string[];
  /** The tables of `changes`, in their order; null: there is no such table. */
  readonly changes: readonly (TableFacts | null)[];
  /** Why the view cannot be used; empty: it can. */
  readonly mistakes: readonly ViewMistake[];
}

/** Returns the view's query as a part of another one: it must be one statement, which writes nothing. */
export function asSubquery(query: string): string {
  return `(\n${query}\n)`;
}

/** Collects what is wrong with a view. */
export class InspectionNotes {
  readonly mistakes: ViewMistake[] = [];
  readonly #view: View;

  constructor(view: View) {
    this.#view = view;
  }

  add(text: string): void {
    this.mistakes.push({ line: this.#view.line, text: `view ${this.#view.name}: ${text}` });
  }

  /** Checks the columns of the result. */
  checkResult(columns: readonly string[]): void {
    const { result } = this.#view;
    if (result === "raw" && columns.length !== 1) {
      this.add(`value raw needs a query with one column, this one has ${columns.length}`);
    }
    const twice = columns.find((name, index) => columns.indexOf(name) !== index);
    if (twice !== undefined) this.add(`its result has two columns ${twice}: name one AS another`);
  }

  /** Checks that every table that the query reads is named in `changes`. */
  checkPlan({ tables, writes }: PlanFacts, changes: readonly (TableFacts | null)[]): void {
    if (writes) this.add("its query writes or locks rows: only reads are allowed");
    const named = changes.map((facts) => facts?.name);
    for (const table of tables) {
      if (!named.includes(table)) this.add(`its query reads ${table}, which changes does not name`);
    }
  }

  /** Checks the tables and columns of `changes`. */
  checkChanges(
    parameterTypes: readonly ParameterType[],
    changes: readonly (TableFacts | null)[],
  ): void {
    this.#view.changes.forEach(({ table, keys }, index) => {
      const facts = changes[index];
      if (facts === null || facts === undefined) {
        this.add(`changes of ${table}: there is no such table`);
        return;
      }
      if (facts.refusal !== "") this.add(`changes of ${table}: ${facts.refusal}`);
      for (const template of keys) {
        template.names.forEach((name, place) => {
          this.#checkColumn(table, facts, name, parameterTypes[place]);
        });
      }
    });
  }

  #checkColumn(
    table: string,
    { columns, logged, refusal }: TableFacts,
    name: string,
    wanted: ParameterType | undefined,
  ): void {
    const label = `changes of ${table}`;
    const type = columns.get(name);
    if (type === undefined) {
      this.add(`${label}: there is no column ${name}: ${[...columns.keys()].join(", ")}`);
    } else if (type === null) {
      this.add(
        `${label}: column ${name} is no integer, text, uuid or bool: end its keys with * before it`,
      );
    } else if (wanted !== undefined && kindOf(type) !== kindOf(wanted)) {
      this.add(`${label}: column ${name} is ${type}, and the parameter in its place ${wanted}`);
    } else if (refusal === "" && logged !== null && !logged.has(name)) {
      this.add(
        `${label}: the log lacks the old ${name} of a changed row: ` +
          `ALTER TABLE ${table} REPLICA IDENTITY FULL`,
      );
    }
  }
}

/** Integers of all sizes have the same texts. */
function kindOf(type: ParameterType): string {
  return type.startsWith("int") ? "int" : type;
}

/** Returns the column types that `changes` names for each parameter; undefined: it names none. */
export function mappedTypes(
  { keys, changes }: View,
  facts: readonly (TableFacts | null)[],
): (ParameterType | undefined)[] {
  return keys.names.map((_, place) => {
    const types = changes.flatMap((table, index) =>
      table.keys.map(({ names }) => facts[index]?.columns.get(names[place] ?? ""))
    );
    return types.find((type) => type !== undefined && type !== null) ?? undefined;
  });
}
