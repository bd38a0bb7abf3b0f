import { reasonOf } from "../../process/reason.ts";
import { haveSameTexts, type ParameterType } from "../views/parameter_type.ts";
import { resultMistakes, type View, type ViewMistake, withParameters } from "../views/view.ts";
import type { InspectedView } from "../base/backend.ts";
import { quotedNames, type TableNames } from "../base/table.ts";
import {
  CHILDREN,
  hasOld,
  type Identity,
  IDENTITY_COLUMNS,
  identityOf,
  IS_PUBLISHED,
  PUBLICATION,
} from "./publication.ts";
import { isRefusal, type Session } from "./session.ts";

const NAME = "leased_view";
const TYPES: ReadonlyMap<string, ParameterType> = new Map([
  ["smallint", "smallint"],
  ["integer", "integer"],
  ["bigint", "bigint"],
  ["text", "text"],
  ["character varying", "text"],
  ["uuid", "uuid"],
  ["boolean", "boolean"],
]);
const TYPE_NAMES =
  "SELECT format_type(each::oid, NULL) AS name FROM unnest(string_to_array($1, ',')) AS each";
const TABLE = "SELECT oid::text AS oid, oid = to_regclass($2) AS is_rows, " +
  "relkind = 'r' AND NOT relispartition AS is_table, relpersistence = 'p' AS is_logged, " +
  `${IDENTITY_COLUMNS} AS identity, ${IS_PUBLISHED} AS is_published FROM pg_class WHERE oid = to_regclass($1)`;
const COLUMNS = "SELECT attname AS name, format_type(atttypid, NULL) AS type, " +
  "collisdeterministic IS FALSE AS is_loose FROM pg_attribute LEFT JOIN pg_collation ON pg_collation.oid = attcollation " +
  "WHERE attrelid = $1::oid AND attnum > 0 AND NOT attisdropped";
const OID = "SELECT to_regclass($1)::oid::text AS oid";

/** A table that a view's file names. */
interface Table {
  readonly oid: string;
  readonly identity: Identity;
  readonly isPublished: boolean;
  readonly columns: ReadonlyMap<string, { readonly type: string; readonly isLoose: boolean }>;
}

/** Returns the statement that makes a view's value: the column `data`, in bytes. */
export function statementOf(view: View): string {
  const query = withParameters(view, (index) => `$${index + 1}`);
  switch (view.result) {
    case "object":
      return `SELECT convert_to(row_to_json(q)::text, 'UTF8') AS data FROM (${query}\n) AS q LIMIT 1`;
    case "array":
      return "SELECT convert_to('[' || coalesce(string_agg(row_to_json(q)::text, ','), '') || ']', 'UTF8') AS data " +
        `FROM (${query}\n) AS q`;
    case "raw":
      return `SELECT convert_to(q.value::text, 'UTF8') AS data FROM (${query}\n) AS q (value) LIMIT 1`;
  }
}

/**
 * Asks the server what a view is made of.
 *
 * @param oids Receives the tables that the view's changes name.
 * @param mistakes Receives what makes the view unusable.
 * @returns Null when its query cannot be prepared.
 */
export async function inspectView(
  session: Session,
  view: View,
  names: TableNames,
  oids: Map<string, string>,
  mistakes: ViewMistake[],
): Promise<InspectedView | null> {
  const complain = (text: string): void => {
    mistakes.push({ line: view.line, text: `view ${view.name}: ${text}` });
  };
  const types = await typesOf(session, view, complain);
  if (types === null) return null;
  const named = new Set<string>();
  for (const { table, keys } of view.changes) {
    const found = await findTable(session, table, names, complain);
    if (found === null) continue;
    oids.set(table, found.oid);
    named.add(found.oid);
    if (!found.isPublished) {
      complain(
        `table ${table} is not in the publication ${PUBLICATION} with all its changes: ${INIT_ADVICE}`,
      );
    }
    if (found.identity === null) {
      complain(
        `table ${table} has no key for the log, without which writes to it fail: ` +
          `add a primary key that is not deferrable, or ALTER TABLE ${table} REPLICA IDENTITY FULL`,
      );
    }
    for (const template of keys) {
      for (const [index, name] of template.names.entries()) {
        checkColumn(found, table, name, types[index]!, complain);
      }
    }
  }
  const plan = await planOf(session, view, complain);
  if (plan === null) return null;
  if (plan.locks) complain("its query locks rows");
  for (const { table, oid } of plan.tables) {
    if (!named.has(oid)) complain(`its query reads table ${table}, which changes must name`);
  }
  const read = new Set(plan.tables.map(({ oid }) => oid));
  for (const { name, oid } of await session.query(CHILDREN, [`{${[...named].join(",")}}`])) {
    // Those that the query reads are named above.
    if (!read.has(oid as string)) {
      complain(`table ${name} inherits from one that changes name: name it, too`);
    }
  }
  return {
    view,
    types,
    tables: plan.tables.map(({ table }) => table),
    scans: plan.scans,
  };
}

const INIT_ADVICE = "let the owner start `leased rows init --follow --views <file> --run`";

/** @returns The types of the parameters; null: the query cannot be prepared. */
async function typesOf(
  session: Session,
  view: View,
  complain: (text: string) => void,
): Promise<ParameterType[] | null> {
  const query = withParameters(view, (index) => `$${index + 1}`);
  let described;
  try {
    described = await session.describe(`SELECT * FROM (${query}\n) AS q`);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    complain(reasonOf(error));
    return null;
  }
  for (const text of resultMistakes(view, described.columns)) complain(text);
  const rows = await session.query(TYPE_NAMES, [described.parameterTypes.join()]);
  const types = view.keys.names.map((name, index) => {
    const found = rows[index]!["name"] as string;
    const type = TYPES.get(found);
    if (type !== undefined) return type;
    complain(
      `{${name}} is ${found}: must be an integer, text, uuid or boolean, whose values have one ` +
        `text each; cast it, as in {${name}}::text`,
    );
    return null;
  });
  return types.every((type) => type !== null) ? types : null;
}

async function findTable(
  session: Session,
  table: string,
  names: TableNames,
  complain: (text: string) => void,
): Promise<Table | null> {
  let row;
  try {
    [row] = await session.query(TABLE, [table, quotedNames(names).table]);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    complain(`table ${table}: ${reasonOf(error)}`);
    return null;
  }
  if (row === undefined || !row["is_table"]) {
    complain(`${table} is no table, or has partitions: name tables whose changes are in the log`);
    return null;
  }
  if (!row["is_logged"]) {
    complain(`table ${table} is unlogged or temporary: its changes are not in the log`);
    return null;
  }
  if (row["is_rows"]) {
    complain(`${table} is the table of rows: views are of other tables`);
    return null;
  }
  const oid = row["oid"] as string;
  const columns = await session.query(COLUMNS, [oid]);
  return {
    oid,
    identity: identityOf(row),
    isPublished: row["is_published"] === true,
    columns: new Map(columns.map(({ name, type, is_loose }) => [
      name as string,
      { type: type as string, isLoose: is_loose === true },
    ])),
  };
}

function checkColumn(
  { identity, columns }: Table,
  table: string,
  name: string,
  type: ParameterType,
  complain: (text: string) => void,
): void {
  const column = columns.get(name);
  if (column === undefined) return complain(`table ${table} has no column ${name}`);
  const own = TYPES.get(column.type);
  if (own === undefined || !haveSameTexts(own, type)) {
    return complain(`column ${name} of ${table} is ${column.type}, and the parameter ${type}`);
  }
  if (column.isLoose) {
    return complain(
      `column ${name} of ${table} has a nondeterministic collation: one row has several keys`,
    );
  }
  if (hasOld(identity, name)) return;
  complain(
    `the log has no old ${name} of a row of ${table}: ALTER TABLE ${table} REPLICA IDENTITY FULL`,
  );
}

interface PlanNode {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Schema"?: string;
  readonly Plans?: readonly PlanNode[];
}

/** A step of a plan. */
interface Plan {
  readonly tables: readonly { readonly table: string; readonly oid: string }[];
  readonly scans: readonly string[];
  readonly locks: boolean;
}

/** Looks at a plan that serves every value of the parameters. @returns Null: the server refuses. */
async function planOf(
  session: Session,
  view: View,
  complain: (text: string) => void,
): Promise<Plan | null> {
  const nulls = view.keys.names.map(() => "NULL").join(", ");
  try {
    await session.query(`PREPARE ${NAME} AS ${statementOf(view)}`);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    complain(reasonOf(error));
    return null;
  }
  await session.query("BEGIN READ ONLY");
  try {
    await session.query("SET LOCAL plan_cache_mode = force_generic_plan");
    const [row] = await session.query(
      `EXPLAIN (VERBOSE, FORMAT JSON) EXECUTE ${NAME}${nulls === "" ? "" : `(${nulls})`}`,
    );
    const text = row!["QUERY PLAN"];
    const [{ Plan }] = (typeof text === "string" ? JSON.parse(text) : text) as [{ Plan: PlanNode }];
    const found = new Map<string, string>();
    const scans = new Set<string>();
    let locks = false;
    for (const node of nodesOf(Plan)) {
      if (node["Node Type"] === "LockRows") locks = true;
      const name = node["Relation Name"];
      if (name === undefined) continue;
      const table = `${identifier(node.Schema!)}.${identifier(name)}`;
      const [named] = await session.query(OID, [table]);
      found.set(table, named!["oid"] as string);
      if (node["Node Type"] === "Seq Scan") scans.add(table);
    }
    return {
      tables: [...found].map(([table, oid]) => ({ table, oid })),
      scans: [...scans],
      locks,
    };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    complain(reasonOf(error));
    return null;
  } finally {
    await session.query(`ROLLBACK; DEALLOCATE ${NAME}`);
  }
}

function* nodesOf(node: PlanNode): Generator<PlanNode> {
  yield node;
  for (const each of node.Plans ?? []) yield* nodesOf(each);
}

/** Returns a name as SQL has it. */
function identifier(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}
