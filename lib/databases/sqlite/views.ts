import { followCommand } from "../base/schema.ts";
import { problemOf, resultOf } from "../base/found.ts";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { reasonOf } from "../../process/reason.ts";
import { isCanonical, textOf } from "../views/parameter_type.ts";
import {
  type BrokenView,
  mistakesOf,
  resultMistakes,
  type View,
  type Views,
  ViewsError,
  withParameters,
} from "../views/view.ts";
import type {
  Found,
  InspectedView,
  InspectedViews,
  PreparedViews,
  ViewKey,
} from "../base/backend.ts";
import { typesOf } from "./parameters.ts";
import { QueryThreads } from "./query_threads.ts";
import { viewsWithoutTriggers } from "./triggers.ts";
import type { TableNames } from "../base/table.ts";

/** The table without a page of its own: the schema itself. */
const SCHEMA = "sqlite_schema";
/** Virtual tables whose names a query has. */
const VIRTUAL_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage = 0 " +
  "AND instr(lower(?), lower(name)) > 0";
/** A table, or a whole index of it, in a line of a plan; and a result in the middle of a query. */
const SCAN = /^SCAN (?!CONSTANT ROW)([^\s(]+)(?: USING .*INDEX .*)?$/;
const MADE = /^(?:CO-ROUTINE|MATERIALIZE) (\S+)/;

/** A view that is ready. */
interface Prepared extends InspectedView {
  readonly sql: string;
}

/** Where and how an SQLite file's views are read. */
export interface SqliteViewsPlace {
  readonly path: string;
  readonly names: TableNames;
  /** Longest time of a query. */
  readonly timeoutMs: number;
  /** Most bytes of a value. */
  readonly bytesMax: number;
  readonly nowUnixMs: () => number;
  /** @throws When the file has been deleted or replaced. */
  readonly checkFile: () => void;
}

/** Views of an SQLite file: their queries, over connections that cannot write. */
export class SqliteViews implements PreparedViews {
  readonly #place: SqliteViewsPlace;
  readonly #database: DatabaseSync;
  readonly #epoch: StatementSync;
  readonly #views: Views;
  readonly #threads: QueryThreads;
  #generation = 0;
  #byView: ReadonlyMap<View, Prepared> = new Map();
  #broken: readonly BrokenView[] = [];

  private constructor(place: SqliteViewsPlace, database: DatabaseSync, views: Views) {
    this.#place = place;
    this.#database = database;
    this.#epoch = database.prepare("SELECT epoch FROM leased_proxy");
    this.#views = views;
    this.inspect();
    this.#threads = new QueryThreads(place.path, place.timeoutMs);
  }

  /** @throws ViewsError names what SQLite refuses, and triggers that are missing. */
  static prepare(place: SqliteViewsPlace, views: Views): SqliteViews {
    const database = new DatabaseSync(place.path, { readOnly: true });
    try {
      const { broken } = inspectViews(database, views, place.names);
      if (broken.length > 0) throw new ViewsError(views.path, mistakesOf(broken));
      return new SqliteViews(place, database, views);
    } catch (error) {
      database.close();
      throw error;
    }
  }

  get broken(): readonly BrokenView[] {
    const slow = [...this.#threads.slow].map((view) => ({
      view,
      reason: this.#threads.problemOf(view)!,
    }));
    return [...this.#broken, ...slow];
  }

  /** Learns the types of the parameters, and which views are broken. */
  inspect(): void {
    const { inspected, broken } = inspectViews(this.#database, this.#views, this.#place.names);
    this.#broken = broken;
    this.#byView = new Map(inspected.map((each) => [each.view, each]));
    this.#generation++;
  }

  async readMany(keys: readonly ViewKey[]): Promise<readonly Found[]> {
    this.#place.checkFile();
    return await Promise.all(keys.map((key) => this.#read(key)));
  }

  async #read({ view, values }: ViewKey): Promise<Found> {
    const broken = this.#broken.find((each) => each.view === view);
    const prepared = this.#byView.get(view);
    if (prepared === undefined) return problemOf(view, broken!.reason, this.#readEpoch());
    const found = await this.#query({ view, values }, prepared);
    return broken === undefined ? found : { ...found, isKept: false };
  }

  async #query({ view, values }: ViewKey, { sql, types }: Prepared): Promise<Found> {
    const isAsked = values.every((value, index) => isCanonical(value, types[index]!));
    if (!isAsked) return resultOf(null, view, this.#readEpoch(), 0);
    const answer = await this.#threads.execute(view, {
      sql,
      parameters: values.map((value, index) =>
        types[index] === "bigint" ? BigInt(value) : textOf(value)
      ),
      result: view.result,
      bytesMax: this.#place.bytesMax,
      generation: this.#generation,
    });
    if (typeof answer === "string") return problemOf(view, answer, this.#readEpoch());
    const { epoch, text, problem } = answer;
    if (problem !== undefined) return problemOf(view, problem, epoch);
    const data = text === null ? null : new TextEncoder().encode(text);
    return resultOf(data, view, epoch, this.#place.nowUnixMs());
  }

  #readEpoch(): number {
    return (this.#epoch.get() as { epoch: number }).epoch;
  }

  close(): Promise<void> {
    this.#threads.close();
    this.#database.close();
    return Promise.resolve();
  }
}

/** Asks SQLite of views. @throws SQLite's error. */
export function inspectSqliteViews(path: string, views: Views, names: TableNames): InspectedViews {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    return inspectViews(database, views, names);
  } finally {
    database.close();
  }
}

function inspectViews(
  database: DatabaseSync,
  views: Views,
  names: TableNames,
): { inspected: Prepared[]; broken: BrokenView[] } {
  // EXPLAIN plans with the schema that the connection knows; executing a statement reads a changed one.
  database.prepare("SELECT count(*) FROM sqlite_schema").get();
  const broken: BrokenView[] = [];
  const inspected = views.all.map((view) =>
    inspect(database, view, names, (reason) => broken.push({ view, reason }))
  );
  const others = new Set(broken.map(({ view }) => view));
  for (const [view] of viewsWithoutTriggers(database, names, views)) {
    if (!others.has(view)) broken.push({ view, reason: INIT_ADVICE });
  }
  return { inspected: inspected.filter((each) => each !== null), broken };
}

const INIT_ADVICE = `the triggers of its tables are missing or old: start \`${
  followCommand(true)
}\``;

function inspect(
  database: DatabaseSync,
  view: View,
  names: TableNames,
  complain: (text: string) => void,
): Prepared | null {
  const query = withParameters(view, (index) => `?${index + 1}`);
  const sql = `SELECT * FROM (${query}\n)`;
  let tables: string[];
  let scans: string[];
  try {
    database.prepare(sql);
    tables = tablesOf(database, query);
    scans = scansOf(database, query);
  } catch (error) {
    complain(reasonOf(error));
    return null;
  }
  const results = database.prepare(query).columns().map(({ name }) => name);
  for (const text of resultMistakes(view, results)) complain(text);
  for (const { table } of view.changes) {
    if (table.toLowerCase() === names.table.toLowerCase()) {
      complain(`${table} is the table of rows: views are of other tables`);
    }
  }
  const { types, columns } = typesOf(database, view, complain);
  const named = new Set(view.changes.map(({ table }) => table.toLowerCase()));
  for (const table of tables) {
    if (!named.has(table.toLowerCase())) {
      complain(`its query reads table ${table}, which changes must name`);
    }
  }
  return { view, sql, types, columns, tables, scans };
}

/** Returns the tables that a query opens. */
function tablesOf(database: DatabaseSync, query: string): string[] {
  const rows = database.prepare(`EXPLAIN SELECT * FROM (${query}\n)`).all();
  const opens = (opcode: unknown): boolean => opcode === "OpenRead" || opcode === "ReopenIdx";
  const roots = rows.filter(({ opcode, p3 }) => opens(opcode) && p3 === 0);
  const find = database.prepare("SELECT tbl_name AS name FROM sqlite_schema WHERE rootpage = ?");
  const names = roots.map(({ p2 }) => (find.get(p2 as number)?.["name"] ?? SCHEMA) as string);
  // The plan does not name them.
  const virtual = rows.some(({ opcode }) => opcode === "VOpen")
    ? database.prepare(VIRTUAL_TABLES).all(query).map(({ name }) => name as string)
    : [];
  return [...new Set([...names, ...virtual])];
}

/** Returns the tables that a query reads as a whole. */
function scansOf(database: DatabaseSync, query: string): string[] {
  const rows = database.prepare(`EXPLAIN QUERY PLAN SELECT * FROM (${query}\n)`).all();
  const scans = rows.flatMap(({ detail }) => SCAN.exec(detail as string)?.[1] ?? []);
  const made = rows.flatMap(({ detail }) => MADE.exec(detail as string)?.[1] ?? []);
  return scans.filter((name) => !made.includes(name));
}
