import { reasonOf } from "../../process/reason.ts";
import { haveSameTexts, type ParameterType, textOf } from "../views/parameter_type.ts";
import type { ViewKey } from "../base/backend.ts";
import { resultMistakes, type View, withParameters } from "../views/view.ts";
import { isNoValue, isRefusal, isTypeError, type Session } from "./session.ts";

/** Types of the server, by the names in its catalog. */
const TYPES: ReadonlyMap<string, ParameterType> = new Map([
  ["int2", "smallint"],
  ["int4", "integer"],
  ["int8", "bigint"],
  ["text", "text"],
  ["varchar", "text"],
  ["uuid", "uuid"],
  ["bool", "boolean"],
  ["numeric", "numeric"],
  ["bpchar", "character"],
  ["date", "date"],
  ["time", "time"],
  ["timestamp", "timestamp"],
  ["timestamptz", "timestamp with time zone"],
  ["inet", "inet"],
  ["cidr", "cidr"],
  ["macaddr", "macaddr"],
  // Of these, DESCRIBED makes the names.
  ["the enum", "enum"],
  ["the citext", "citext"],
]);
/** How the server writes a value of the type as part of a key. The others: as it writes them in the log. */
const WRITTEN: Partial<Record<ParameterType, (value: string) => string>> = {
  numeric: (value) => `format('%s', trim_scale(${value}))`,
  character: (value) => `(${value})::text`,
  citext: (value) => `lower((${value})::text COLLATE "default")`,
  timestamp: withT,
  "timestamp with time zone": withT,
};
/** Letters that values of a type have: a text between two parameters that is one of them ends the first within it. */
const INSIDE: Partial<Record<ParameterType, string>> = {
  uuid: "-",
  date: "-",
  time: ":",
  timestamp: "-:T",
  "timestamp with time zone": "-:T+",
  inet: ".:",
  cidr: ".:/",
  macaddr: ":",
};
/** Types of which this process knows whether a text is the one of its value. */
const OWN_RULES: readonly ParameterType[] = [
  "smallint",
  "integer",
  "bigint",
  "text",
  "uuid",
  "boolean",
];
const ASCII_FOLDED =
  `lower('ABCDEFGHIJKLMNOPQRSTUVWXYZ' COLLATE "default") = 'abcdefghijklmnopqrstuvwxyz'`;
/**
 * The types with the numbers $1, in their order: their names, as in a cast without a length, and what a domain is over.
 * A type of the extension citext is one only where the locale folds ASCII as this process does.
 */
const DESCRIBED = `WITH RECURSIVE asked (place, oid) AS (
  SELECT place, each::oid FROM unnest(string_to_array($1, ',')) WITH ORDINALITY AS list (each, place)
), base (place, oid) AS (
  SELECT place, oid FROM asked UNION ALL SELECT place, typbasetype FROM base JOIN pg_type USING (oid) WHERE typtype = 'd'
)
SELECT CASE asked.oid WHEN 'bpchar'::regtype THEN 'bpchar' ELSE format_type(asked.oid, NULL) END AS name,
  CASE WHEN typtype = 'e' THEN 'the enum' WHEN typnamespace = 'pg_catalog'::regnamespace THEN typname::text
    WHEN typname = 'citext' AND ${ASCII_FOLDED} AND EXISTS (SELECT FROM pg_depend JOIN pg_extension ON pg_extension.oid = refobjid
      WHERE classid = 'pg_type'::regclass AND objid = pg_type.oid AND deptype = 'e' AND extname = 'citext') THEN 'the citext' END AS base,
  asked.oid <> base.oid AS is_domain,
  EXISTS (SELECT FROM pg_type AS own JOIN pg_collation ON pg_collation.oid = own.typcollation
    WHERE own.oid = asked.oid AND NOT collisdeterministic) AS is_loose
FROM asked JOIN base USING (place) JOIN pg_type ON pg_type.oid = base.oid WHERE typtype <> 'd' ORDER BY place`;
const LOOSE_COLLATIONS =
  "SELECT DISTINCT collname::text AS name FROM pg_collation WHERE NOT collisdeterministic";

/** A type of the server. */
export interface ServerType {
  /** As in a cast. */
  readonly name: string;
  /** Whether it is a domain, which may take not all texts, and cut some. */
  readonly isDomain: boolean;
  /** Null: equal values may have several texts. */
  readonly type: ParameterType | null;
  /** Whether different texts are equal by its collation. */
  readonly isLoose: boolean;
}

/** A parameter of a view. */
export interface ViewParameter extends ServerType {
  readonly type: ParameterType;
}

function withT(value: string): string {
  return `regexp_replace(format('%s', ${value}), ' ', 'T')`;
}

/** Asks the server of types by their numbers. */
export async function describeTypes(
  session: Session,
  oids: readonly (string | number)[],
): Promise<ServerType[]> {
  const rows = await session.query(DESCRIBED, [oids.join()]);
  return rows.map(({ name, base, is_domain, is_loose }) => ({
    name: name as string,
    type: TYPES.get(base as string) ?? null,
    isDomain: is_domain === true,
    isLoose: is_loose === true,
  }));
}

/** Returns the parameters of a view; null: its query cannot be prepared, or one is of another type. */
export async function parametersOf(
  session: Session,
  view: View,
  complain: (text: string) => void,
): Promise<ViewParameter[] | null> {
  const query = withParameters(view, (index) => `$${index + 1}`);
  let described;
  try {
    described = await session.describe(`SELECT * FROM (${query}\n) AS q`);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    complain(refusalOf(error, view));
    return null;
  }
  for (const text of resultMistakes(view, described.columns)) complain(text);
  const types = await describeTypes(session, described.parameterTypes);
  const parameters = view.keys.names.flatMap((name, index) => {
    const { type, ...more } = types[index]!;
    if (type !== null) return [{ ...more, type }];
    complain(
      `{${name}} is ${more.name}, whose equal values may have several texts: write ` +
        `{${name}}::text::${more.name}, and * in the changes of its table`,
    );
    return [];
  });
  checkBetween(view, types, complain);
  return parameters.length === types.length ? parameters : null;
}

/** Complains of parameters that would end within their values. */
function checkBetween(
  { keys }: View,
  types: readonly ServerType[],
  complain: (text: string) => void,
): void {
  for (const [index, name] of keys.names.slice(0, -1).entries()) {
    const type = types[index]!.type;
    const between = keys.texts[index + 1]!;
    if (type === null || !INSIDE[type]?.includes(between)) continue;
    complain(
      `{${name}} is ${type}, whose values have ${between} in them: write another text between it and ` +
        `{${keys.names[index + 1]!}} in the keys, such as ","`,
    );
  }
}

/** Returns why the server refuses a query, in the words of the file. */
function refusalOf(error: unknown, { keys }: View): string {
  const reason = reasonOf(error).replaceAll(/\$(\d+)/g, (text, place: string) => {
    const name = keys.names[Number(place) - 1];
    return name === undefined ? text : `{${name}}`;
  });
  const [name] = keys.names;
  if (name === undefined || !isTypeError(error)) return reason;
  return `${reason}: a parameter has one type, that of its first use; cast it to the type of its column, ` +
    `as in {${name}}::bigint, and a column of a domain to what that is over`;
}

/** Complains of a column whose text in keys is not that of the parameter in its place. */
export function checkPair(
  column: ServerType,
  columnName: string,
  parameter: ViewParameter,
  name: string,
  complain: (text: string) => void,
): void {
  const all = `or write * for {${name}} in changes`;
  if (column.isLoose || parameter.isLoose) {
    const what = column.isLoose ? `column ${columnName}` : `the parameter {${name}}`;
    return complain(
      `${what} has a nondeterministic collation: one row has several keys; compare it by another, ${all}`,
    );
  }
  if (column.type === null) {
    return complain(
      `column ${columnName} is ${column.name}, whose equal values may have several texts: ${
        all.slice("or ".length)
      }`,
    );
  }
  if (haveSameTexts(column.type, parameter.type)) return;
  complain(
    `column ${columnName} is ${column.name}, and the parameter ${parameter.name}, with other texts: ` +
      `compare the column as it is, with {${name}}::${column.name}, ${all}`,
  );
}

/**
 * Complains of parameters that the query cuts or rounds, or compares by a collation for which other texts are equal.
 *
 * @param keyed The places of parameters that changes have columns for.
 * @param plan Of all values of the parameters.
 */
export async function checkUse(
  session: Session,
  view: View,
  parameters: readonly ViewParameter[],
  keyed: ReadonlySet<number>,
  plan: string,
  complain: (text: string) => void,
): Promise<void> {
  for (const index of keyed) {
    const { type, name } = parameters[index]!;
    const cast = new RegExp(
      String.raw`\(\$${index + 1}\)::(?:[a-z ]+\(\d|(smallint|integer|bigint)\b)`,
    )
      .exec(plan);
    const isCut = cast !== null && (cast[1] === undefined || type === "numeric");
    if (!isCut) continue;
    const parameter = `{${view.keys.names[index]!}}`;
    complain(
      `its query cuts or rounds ${parameter}, so one row has several keys: cast it without a length, ` +
        `as in ${parameter}::${name}, or write * for it in changes`,
    );
  }
  if (keyed.size === 0 || !/\bcollate\b/i.test(view.query)) return;
  const query = view.query.toLowerCase();
  for (const { name } of await session.query(LOOSE_COLLATIONS)) {
    if (!query.includes((name as string).toLowerCase())) continue;
    complain(
      `its query compares by the collation ${name}, which is nondeterministic: one row has several keys; ` +
        "write * for the parameters in changes",
    );
  }
}

/** Finds out whether the texts of parameters are those that the server writes for their values. */
export class KeyCheck {
  readonly #statement: string;
  readonly #places: readonly number[];

  constructor(parameters: readonly ViewParameter[]) {
    this.#places = [...parameters.keys()].filter((index) => {
      const { type, isDomain } = parameters[index]!;
      return isDomain || !OWN_RULES.includes(type);
    });
    const texts = this.#places.map((index, place) => {
      const { name, type } = parameters[index]!;
      const written = WRITTEN[type] ?? ((value: string) => `format('%s', ${value})`);
      const text = `$${place + 1}::text`;
      return `(${written(`${text}::${name}`)}) COLLATE "C" = ${text}`;
    });
    // As the log has them, whatever the settings of the session.
    this.#statement =
      "SELECT set_config('DateStyle', 'ISO', true), set_config('TimeZone', 'UTC', true), " +
      `${texts.join(" AND ")} AS is_canonical`;
  }

  /** @throws The server's error, which is not that the text is no value. */
  async accepts(session: Session, { values }: ViewKey): Promise<boolean> {
    if (this.#places.length === 0) return true;
    try {
      const texts = this.#places.map((index) => textOf(values[index]!));
      const [row] = await session.query(this.#statement, texts);
      return row!["is_canonical"] === true;
    } catch (error) {
      if (isNoValue(error)) return false;
      throw error;
    }
  }
}
