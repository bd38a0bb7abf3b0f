import { reasonOf } from "../../../reason.ts";
import {
  asSubquery,
  type Inspection,
  InspectionNotes,
  type ParameterType,
  type PlanFacts,
  type TableFacts,
} from "../../views/inspection.ts";
import { type View, withParameters } from "../../views/view.ts";
import { isRefusal, type Session } from "./session.ts";

/** Types of parameters and columns by their numbers: integers, uuid, bool; text, varchar, name. */
const TYPES: Readonly<Record<number, ParameterType>> = {
  16: "bool",
  20: "int8",
  21: "int2",
  23: "int4",
  2950: "uuid",
  25: "text",
  1043: "text",
  19: "text",
};
/** The name of a plan, for as long as it is looked at. */
const PLAN = "leased_view_plan";
/** Parts of a plan that change or lock rows. */
const WRITING = ["ModifyTable", "LockRows"];

/**
 * A row for each column. `is_logged`: the log has its old value. Generated columns are not in the log before
 * PostgreSQL 18.
 */
const COLUMNS =
  "SELECT format('%s.%s', nspname, relname) AS table, relkind AS kind, relpersistence AS persistence, " +
  "relispartition AS part, relreplident AS identity, attname AS name, " +
  "coalesce(nullif(typbasetype, 0), atttypid)::int8::text AS type, attgenerated <> '' AS is_generated, " +
  "EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND attnum = ANY (indkey) AND " +
  "CASE relreplident WHEN 'd' THEN indisprimary WHEN 'i' THEN indisreplident ELSE false END) AS is_logged " +
  "FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace " +
  "JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped " +
  "JOIN pg_type ON pg_type.oid = atttypid WHERE pg_class.oid = to_regclass($1) ORDER BY attnum";

/**
 * Returns what PostgreSQL says of a view: its parameters, tables and plan, and why it cannot be used.
 *
 * @throws LostError
 */
export async function inspectPostgresView(session: Session, view: View): Promise<Inspection> {
  const notes = new InspectionNotes(view);
  const changes = [];
  for (const { table } of view.changes) changes.push(await findTable(session, table));
  const query = withParameters(view, (index) => `$${index + 1}`);
  const types: ParameterType[] = [];
  let columns: readonly string[] = [];
  let plan: PlanFacts = { tables: [], scans: [], writes: false };
  try {
    const described = await session.describe(`SELECT * FROM ${asSubquery(query)} AS leased_view`);
    columns = described.columns;
    const numbers = described.parameterTypes;
    for (const [index, name] of view.keys.names.entries()) {
      const type = TYPES[numbers[index]!];
      if (type !== undefined) types.push(type);
      else notes.add(`{${name}} is no integer, text, uuid or bool: cast it, as in {${name}}::text`);
    }
    plan = await planOf(session, query, view.keys.names.length);
    notes.checkResult(columns);
    notes.checkPlan(plan, changes);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    notes.add(reasonOf(error));
  }
  const isPrepared = types.length === view.keys.names.length;
  notes.checkChanges(isPrepared ? types : [], changes);
  const parameterTypes = isPrepared ? types : [];
  return { ...plan, parameterTypes, columns, changes, mistakes: notes.mistakes };
}

/** Returns a table by its name in the file of views, or null. */
async function findTable(session: Session, name: string): Promise<TableFacts | null> {
  let rows;
  try {
    rows = await session.query(COLUMNS, [name]);
  } catch (error) {
    // `to_regclass` refuses a text that is no name.
    if (isRefusal(error)) return null;
    throw error;
  }
  const [first] = rows;
  if (first === undefined) return null;
  const published = rows.filter((row) => !row["is_generated"]);
  const logged = rows.filter((row) => row["is_logged"]).map((row) => row["name"] as string);
  return {
    name: first["table"] as string,
    columns: new Map(
      published.map((row) => [row["name"] as string, TYPES[Number(row["type"])] ?? null]),
    ),
    logged: first["identity"] === "f" ? null : new Set(logged),
    refusal: refusalOf(first, logged.length > 0),
  };
}

/** Returns why the log has not the changes of a table, or "". */
function refusalOf(
  { kind, persistence, part, identity }: Readonly<Record<string, unknown>>,
  hasKey: boolean,
): string {
  if (kind === "p" || part) return "partitioned tables are not supported";
  if (kind !== "r") return "it is no table: name the tables behind it";
  if (persistence !== "p") return "it is unlogged or temporary: its changes are not in the log";
  if (identity === "f" || hasKey) return "";
  return "the log needs a key of its rows, or all writes to it fail: add a primary key, " +
    "or ALTER TABLE … REPLICA IDENTITY FULL";
}

/** A part of a plan, as EXPLAIN writes it. */
interface PlanNode {
  readonly "Node Type": string;
  readonly "Schema"?: string;
  readonly "Relation Name"?: string;
  readonly "Plans"?: readonly PlanNode[];
}

/** Looks at the plan for any values of the parameters. */
async function planOf(session: Session, query: string, parameters: number): Promise<PlanFacts> {
  const nulls = new Array(parameters).fill("NULL").join(", ");
  await session.query(`PREPARE ${PLAN} AS ${query}`);
  try {
    await session.query("SET plan_cache_mode = force_generic_plan");
    const [row] = await session.query(
      `EXPLAIN (VERBOSE, FORMAT JSON) EXECUTE ${PLAN}${parameters > 0 ? `(${nulls})` : ""}`,
    );
    const written = row!["QUERY PLAN"];
    const [{ Plan: root }] = typeof written === "string" ? JSON.parse(written) : written;
    const nodes = allNodes(root);
    return {
      tables: tablesOf(nodes),
      scans: tablesOf(nodes.filter((node) => node["Node Type"] === "Seq Scan")),
      writes: nodes.some((node) => WRITING.includes(node["Node Type"])),
    };
  } finally {
    await session.query("RESET plan_cache_mode");
    await session.query(`DEALLOCATE ${PLAN}`);
  }
}

function allNodes(root: PlanNode): PlanNode[] {
  return [root, ...(root.Plans ?? []).flatMap(allNodes)];
}

function tablesOf(nodes: readonly PlanNode[]): string[] {
  const tables = nodes.filter((node) => node["Relation Name"] !== undefined)
    .map((node) => `${node.Schema}.${node["Relation Name"]}`);
  return [...new Set(tables)].sort();
}
