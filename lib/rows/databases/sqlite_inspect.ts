import type { DatabaseSync } from "node:sqlite";
import { reasonOf } from "../../reason.ts";
import {
  asSubquery,
  type Inspection,
  InspectionNotes,
  mappedTypes,
  type ParameterType,
  type PlanFacts,
  type TableFacts,
} from "../views/inspection.ts";
import { type View, withParameters } from "../views/view.ts";

/** The table with all others, which has page 1. */
const SCHEMA_TABLE = "sqlite_schema";

/** Returns what SQLite says of a view: its tables and plan, and why it cannot be used. */
export function inspectSqliteView(database: DatabaseSync, view: View): Inspection {
  const notes = new InspectionNotes(view);
  const changes = view.changes.map(({ table }) => findTable(database, table));
  const types = mappedTypes(view, changes).map((type) => type ?? "text");
  const query = withParameters(view, (index) => `?${index + 1}`);
  let columns: string[] = [];
  let plan: PlanFacts = { tables: [], scans: [], writes: false };
  let isPrepared = true;
  try {
    const statement = database.prepare(`SELECT * FROM ${asSubquery(query)}`);
    columns = statement.columns().map(({ name }) => name!);
    plan = planOf(database, query);
  } catch (error) {
    isPrepared = false;
    notes.add(reasonOf(error));
  }
  if (isPrepared) {
    notes.checkResult(columns);
    notes.checkPlan(plan, changes);
  }
  notes.checkChanges(types, changes);
  return {
    ...plan,
    parameterTypes: isPrepared ? types : [],
    columns,
    changes,
    mistakes: notes.mistakes,
  };
}

/** Returns a table by its name in the file of views, or null. */
function findTable(database: DatabaseSync, name: string): TableFacts | null {
  const found = database.prepare(
    "SELECT name, type, sql FROM sqlite_schema WHERE lower(name) = lower(?) AND type IN ('table', 'view')",
  ).get(name);
  if (found === undefined) return null;
  const rows = database.prepare("SELECT name, type FROM pragma_table_xinfo(?)").all(name);
  const isTable = found["type"] === "table" && !isVirtual(String(found["sql"]));
  return {
    name: String(found["name"]),
    columns: new Map(rows.map((row) => [String(row["name"]), typeOf(String(row["type"]))])),
    logged: null,
    refusal: isTable ? "" : "it is a view or a virtual table: name the tables behind it",
  };
}

function isVirtual(sql: string): boolean {
  return /^\s*CREATE\s+VIRTUAL/i.test(sql);
}

/** Returns the type that a column's affinity keeps its values in; null: one without a single text. */
function typeOf(declared: string): ParameterType | null {
  if (/INT/i.test(declared)) return "int8";
  return /CHAR|CLOB|TEXT/i.test(declared) ? "text" : null;
}

/** Looks at the plan of a query. */
function planOf(database: DatabaseSync, query: string): PlanFacts {
  const schema = database.prepare("SELECT rootpage, tbl_name, sql FROM sqlite_schema").all();
  const owners = new Map(schema.map((row) => [Number(row["rootpage"]), String(row["tbl_name"])]));
  owners.set(1, SCHEMA_TABLE);
  const tables = new Set<string>();
  let writes = false;
  for (const { opcode, p1, p2, p3 } of database.prepare(`EXPLAIN ${query}`).all()) {
    if (opcode === "OpenWrite" || opcode === "Transaction" && Number(p2) > 0) writes = true;
    if ((opcode === "OpenRead" || opcode === "ReopenIdx") && Number(p3) === 0) {
      tables.add(owners.get(Number(p2)) ?? `page ${p2} of ${p1}`);
    }
    if (opcode !== "VOpen") continue;
    // The plan does not name it: every virtual table of the file that the text names.
    const virtual = schema.filter(({ sql }) => isVirtual(String(sql)));
    for (const { tbl_name } of virtual) {
      if (query.toLowerCase().includes(String(tbl_name).toLowerCase())) {
        tables.add(String(tbl_name));
      }
    }
  }
  return { tables: [...tables].sort(), scans: scansOf(database, query), writes };
}

/** Returns the names, in the query, of tables that it reads from end to end. */
function scansOf(database: DatabaseSync, query: string): string[] {
  const made = new Set<string>();
  const scans = new Set<string>();
  for (const { detail } of database.prepare(`EXPLAIN QUERY PLAN ${query}`).all()) {
    const [, verb, name] = /^(\S+) (\S+)/.exec(String(detail)) ?? [];
    if (verb === "CO-ROUTINE" || verb === "MATERIALIZE") made.add(name!);
    const isTable = verb === "SCAN" && name !== "CONSTANT" && !name!.startsWith("(");
    if (isTable && !String(detail).includes("VIRTUAL TABLE") && !made.has(name!)) scans.add(name!);
  }
  return [...scans];
}
