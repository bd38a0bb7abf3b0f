import { followCommand } from "../base/schema.ts";
import { reasonOf } from "../../process/reason.ts";
import type { ParameterType } from "../views/parameter_type.ts";
import { type View, withParameters } from "../views/view.ts";
import type { InspectedView } from "../base/backend.ts";
import { rowsMax } from "../base/found.ts";
import { quotedNames, type TableNames } from "../base/table.ts";
import {
  CHILDREN,
  HAS_PUBLICATION,
  hasOld,
  type Identity,
  IDENTITY_COLUMNS,
  identityOf,
  IS_PUBLISHED,
  PUBLICATION,
} from "./publication.ts";
import { isRefusal, type Session } from "./session.ts";
import {
  checkPair,
  checkUse,
  describeTypes,
  KeyCheck,
  parametersOf,
  type ServerType,
  type ViewParameter,
} from "./view_types.ts";

const NAME = "leased_view";
/** A name that `catalogState` would not find. */
const CODED_NAME = /u&"/i;
/** The row of a view's result: no name that a column of it would have. */
const ROW = '"the row of leased"';
/** Longest value of the server. */
const RESULT_BYTES_MAX = 2 ** 30;
const TABLE = "SELECT oid::text AS oid, oid = to_regclass($2) AS is_rows, " +
  "relkind = 'r' AND NOT relispartition AS is_table, relpersistence = 'p' AS is_logged, " +
  `${IDENTITY_COLUMNS} AS identity, ${IS_PUBLISHED} AS is_published, ${HAS_PUBLICATION} AS has_publication FROM pg_class WHERE oid = to_regclass($1)`;
const COLUMNS = "SELECT attname AS name, atttypid::text AS type, " +
  "collisdeterministic IS FALSE AS is_loose FROM pg_attribute LEFT JOIN pg_collation ON pg_collation.oid = attcollation " +
  "WHERE attrelid = $1::oid AND attnum > 0 AND NOT attisdropped";
const OID = "SELECT to_regclass($1)::oid::text AS oid";

/** A table that a view's file names. */
interface Table {
  readonly oid: string;
  readonly identity: Identity;
  readonly isPublished: boolean;
  readonly hasPublication: boolean;
  readonly columns: ReadonlyMap<string, ServerType>;
}

/** The server's description of a view. */
export interface InspectedPostgresView extends InspectedView {
  readonly check: KeyCheck;
}

/**
 * Returns the statement that makes a view's value: the column `data`, in bytes; null: a NULL, or more bytes than fit,
 * and then `isTooLarge` is true.
 *
 * @param bytesMax Most bytes of the value.
 */
export function statementOf(view: View, bytesMax = RESULT_BYTES_MAX): string {
  const most = Math.min(bytesMax, RESULT_BYTES_MAX);
  return `SELECT octet_length(data) > ${most} AS "isTooLarge", ` +
    `CASE WHEN octet_length(data) <= ${most} THEN data END AS data FROM (${
      valueOf(view, most)
    }) AS value`;
}

function valueOf(view: View, bytesMax: number): string {
  const query = withParameters(view, (index) => `$${index + 1}`);
  switch (view.result) {
    case "object":
      return `SELECT convert_to(row_to_json(${ROW})::text, 'UTF8') AS data FROM (${query}\n) AS ${ROW} LIMIT 1`;
    case "array":
      return `SELECT convert_to('[' || coalesce(string_agg(row_to_json(${ROW})::text, ','), '') || ']', 'UTF8') AS data ` +
        `FROM (SELECT * FROM (${query}\n) AS q LIMIT ${rowsMax(bytesMax) + 1}) AS ${ROW}`;
    case "raw":
      return `SELECT convert_to(q.value::text, 'UTF8') AS data FROM (${query}\n) AS q (value) LIMIT 1`;
  }
}

/**
 * Asks the server what a view is made of.
 *
 * @param oids Receives the tables that the view's changes name.
 * @param complain Called with each reason why the view is unusable.
 * @returns Null when its query cannot be prepared.
 */
export async function inspectView(
  session: Session,
  view: View,
  names: TableNames,
  oids: Map<string, string>,
  complain: (text: string) => void,
): Promise<InspectedPostgresView | null> {
  if (CODED_NAME.test(view.query)) complain('it writes a name as U&"…": write it as it is');
  const parameters = await parametersOf(session, view, complain);
  if (parameters === null) return null;
  const named = new Set<string>();
  const keyed = new Set<number>();
  const keyColumns = new Map<string, Map<string, ParameterType>>();
  for (const { table, keys } of view.changes) {
    const found = await findTable(session, table, names, complain);
    if (found === null) continue;
    oids.set(table, found.oid);
    named.add(found.oid);
    // In this order: a table without a key for the log must not be published.
    if (found.identity === null) {
      complain(
        `table ${table} has no key for the log, without which writes to it fail: ` +
          `add a primary key that is not deferrable, or ALTER TABLE ${table} REPLICA IDENTITY FULL`,
      );
    } else if (!found.isPublished) {
      const isMissing = found.hasPublication
        ? `table ${table} is not in the publication ${PUBLICATION} with all its changes`
        : `there is no publication ${PUBLICATION}`;
      complain(`${isMissing}: ${INIT_ADVICE}`);
    }
    const used = new Map<string, ParameterType>();
    keyColumns.set(table, used);
    for (const template of keys) {
      for (const [index, name] of template.names.entries()) {
        keyed.add(index);
        const type = found.columns.get(name)?.type ?? null;
        if (type !== null) used.set(name, type);
        const parameter = view.keys.names[index]!;
        checkColumn(found, table, name, parameters[index]!, parameter, complain);
      }
    }
  }
  const plan = await planOf(session, view, complain);
  if (plan === null) return null;
  if (plan.locks) complain("its query locks rows");
  await checkUse(session, view, parameters, keyed, plan.text, complain);
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
    types: parameters.map(({ type }) => type),
    columns: keyColumns,
    check: new KeyCheck(parameters),
    tables: plan.tables.map(({ table }) => table),
    scans: plan.scans,
  };
}

const INIT_ADVICE = `let the owner start \`${followCommand(true)}\``;

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
  const types = await describeTypes(session, columns.map(({ type }) => type as string));
  return {
    oid,
    identity: identityOf(row),
    isPublished: row["is_published"] === true,
    hasPublication: row["has_publication"] === true,
    columns: new Map(columns.map(({ name, is_loose }, index) => [
      name as string,
      { ...types[index]!, isLoose: is_loose === true },
    ])),
  };
}

function checkColumn(
  { identity, columns }: Table,
  table: string,
  name: string,
  parameter: ViewParameter,
  parameterName: string,
  complain: (text: string) => void,
): void {
  const column = columns.get(name);
  if (column === undefined) return complain(`table ${table} has no column ${name}`);
  const mistakes: string[] = [];
  checkPair(column, `${name} of ${table}`, parameter, parameterName, (text) => mistakes.push(text));
  if (mistakes.length > 0) return complain(mistakes[0]!);
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
  readonly text: string;
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
      text: JSON.stringify(Plan),
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
