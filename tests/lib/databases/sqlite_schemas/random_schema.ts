import { quoted } from "../../../../lib/databases/base/table.ts";
import type { Dice } from "./dice.ts";

/** A schema of an application, and what views read of it. */
export interface RandomSchema {
  readonly table: string;
  readonly statements: readonly string[];
  /** Settings of the application's connection. */
  readonly settings: readonly string[];
  /** Changes of a view by its table, as a file of views has them; without columns for the table of children. */
  readonly changes: Readonly<Record<string, readonly string[]>>;
  /** Expressions that statements write and look for; few, so that rows meet. */
  readonly values: readonly string[];
}

export const PARENTS = "p";
export const CHILDREN = "c";

interface Column {
  readonly name: string;
  readonly sql: string;
  readonly isGenerated: boolean;
}

const TABLES = ["product", "t", "my table", 'it\'s "quoted"', "order", "größe", "[x]", "Rowid"];
// deno-fmt-ignore
const NAMES = ["a", "b", "name", "rowid", "oid", "_rowid_", "two words", "it's", 'q"q', "select", "größe", "id", "key", "NEW"];
const LOOSE_TYPES = [
  "",
  "INTEGER",
  "INT",
  "TEXT",
  "VARCHAR(20)",
  "REAL",
  "NUMERIC",
  "BLOB",
  "DATE",
];
const STRICT_TYPES = ["INT", "INTEGER", "TEXT", "REAL", "BLOB", "ANY"];
const CONFLICTS = ["IGNORE", "REPLACE", "ROLLBACK", "ABORT", "FAIL"];
const COLLATIONS = ["NOCASE", "RTRIM", "BINARY"];
// deno-fmt-ignore
const DEFAULTS = [
  "5", "-5", "+1.5", "1", "2", "'x'", "'a'", "''", "'it''s'", "normal", "größe", "abort", "NULL", "TRUE", "x'61'",
  "(1 + 1)", "('a' || 'b')", "(abs(-3))", "(coalesce(NULL, 'a'))", "(1 /* it's */ + 1)", "CURRENT_DATE", '"normal"', '"it\'s ""q"""', "[two words]",
];

/** Values of which unique keys of some collation or affinity take several for one. */
const MEETING = [
  ["'a'", "'A'", "'a '", "'b'", "NULL"],
  ["1", "2", "3", "'1'", "NULL"],
  ["1", "1.0", "'1'", "2", "'a'", "'A'", "NULL"],
];
// deno-fmt-ignore
const VALUES = [
  "0", "1", "2", "3", "4", "5", "-1", "1.5", "-0.0", "'0'", "'1'", "' 1'", "'a'", "'x'", "'normal'", "'it''s'", "'bad'", "''", "'é'", "'É'",
  "x'61'", "x'ff'", "CAST(x'ff61' AS TEXT)", "'a' || char(0) || 'b'", "9007199254740993", "-9223372036854775808", "9e18", "9e999", "1 + 1", "'x' || 1",
  "(SELECT max(id) FROM p)",
];

/** @param hasTextsInQuotes Whether SQLite takes a text in double quotes for a text if it names no column. */
export function randomSchema(dice: Dice, hasTextsInQuotes: boolean): RandomSchema {
  const isStrict = dice.chance(20);
  const table = dice.pick(TABLES);
  const keyed = dice.pick(["none", "integer", "integer", "column", "columns"] as const);
  const hasNoRowid = keyed !== "none" && dice.chance(30);
  const names = namesOf(dice);
  const strictness = dice.pick([5, 10, 30]);
  const columns = names.map((name, index) =>
    columnOf(dice, name, {
      isStrict,
      hasTextsInQuotes,
      kind: index === 0 && (keyed === "integer" || keyed === "column") ? keyed : "none",
      hasNoRowid,
      strictness,
      others: names.slice(0, index),
    })
  );
  const stored = columns.filter(({ isGenerated }) => !isGenerated).map(({ name }) => name);
  const constraints = constraintsOf(dice, stored, keyed === "columns", hasTextsInQuotes);
  const options = [isStrict ? "STRICT" : "", hasNoRowid ? "WITHOUT ROWID" : ""].filter(Boolean);
  const parts = [...columns.map(({ sql }) => sql), ...constraints];
  return {
    table,
    statements: [
      `CREATE TABLE ${PARENTS} (id INTEGER PRIMARY KEY, label TEXT UNIQUE)`,
      `INSERT INTO ${PARENTS} VALUES (0, 'z'), (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')`,
      `CREATE TABLE ${quoted(table)} (${parts.join(", ")}) ${options.join(", ")}`,
      ...childrenOf(dice, table, stored[0]!),
      "CREATE TABLE log (x, y, z)",
      ...indexesOf(dice, table, names, hasTextsInQuotes),
      ...triggersOf(dice, table, stored),
    ],
    settings: [
      `PRAGMA recursive_triggers = ${dice.below(2)}`,
      `PRAGMA foreign_keys = ${dice.below(2)}`,
    ],
    changes: changesOf(dice, table, names),
    values: [...dice.pick(MEETING), ...VALUES.filter(() => dice.chance(25))],
  };
}

function namesOf(dice: Dice): string[] {
  const names = new Set(["a", "b"]);
  const count = 3 + dice.below(4);
  while (names.size < count) names.add(dice.pick(NAMES));
  const mixed = [...names];
  const other = dice.below(mixed.length);
  return [...mixed.slice(other), ...mixed.slice(0, other)];
}

function onConflict(dice: Dice): string {
  return dice.chance(30) ? ` ON CONFLICT ${dice.pick(CONFLICTS)}` : "";
}

interface ColumnRules {
  readonly isStrict: boolean;
  readonly hasTextsInQuotes: boolean;
  readonly kind: "none" | "integer" | "column";
  readonly hasNoRowid: boolean;
  /** How often a rule may stand at a column, of 100. */
  readonly strictness: number;
  /** Names of earlier columns. */
  readonly others: readonly string[];
}

function columnOf(dice: Dice, name: string, rules: ColumnRules): Column {
  const { isStrict, hasTextsInQuotes, kind, strictness, others } = rules;
  if (kind === "integer") {
    const order = dice.pick(["", "", " ASC", " DESC"]);
    const counts = order !== " DESC" && !rules.hasNoRowid && dice.chance(30);
    const clause = counts ? " AUTOINCREMENT" : "";
    return {
      name,
      sql: `${quoted(name)} INTEGER PRIMARY KEY${order}${onConflict(dice)}${clause}`,
      isGenerated: false,
    };
  }
  const type = dice.pick(isStrict ? STRICT_TYPES : LOOSE_TYPES);
  const isGenerated = kind === "none" && others.length > 0 && dice.chance(15);
  const parts = [quoted(name), type];
  if (isGenerated) {
    const of = quoted(dice.pick(others));
    const text = hasTextsInQuotes ? '"zz"' : "'zz'";
    const expression = dice.pick([`${of} || ${text}`, `lower(${of})`, `${of} + 1`, `abs(${of})`]);
    parts.push(`AS (${expression}) ${dice.pick(["VIRTUAL", "STORED"])}`);
  } else {
    if (kind === "column") parts.push(`PRIMARY KEY${onConflict(dice)}`);
    if (dice.chance(50)) parts.push(`DEFAULT ${dice.pick(DEFAULTS)}`);
    if (dice.chance(strictness / 2)) {
      parts.push(
        `REFERENCES ${PARENTS} ON DELETE CASCADE ON UPDATE ${
          dice.pick(["CASCADE", "SET NULL", "SET DEFAULT"])
        }`,
      );
    }
  }
  if (dice.chance(30)) parts.push(`COLLATE ${dice.pick(COLLATIONS)}`);
  if (dice.chance(strictness)) parts.push(`NOT NULL${onConflict(dice)}`);
  if (dice.chance(25)) parts.push(`UNIQUE${onConflict(dice)}`);
  if (dice.chance(strictness / 2)) {
    parts.push(`CHECK (${quoted(name)} <> ${hasTextsInQuotes ? '"bad"' : "'bad'"})`);
  }
  return { name, sql: parts.filter(Boolean).join(" "), isGenerated };
}

function constraintsOf(
  dice: Dice,
  names: readonly string[],
  isKeyed: boolean,
  hasTextsInQuotes: boolean,
): string[] {
  const all: string[] = [];
  if (isKeyed) all.push(`PRIMARY KEY (${partsOf(dice, names)})${onConflict(dice)}`);
  if (dice.chance(40)) all.push(`UNIQUE (${partsOf(dice, names)})${onConflict(dice)}`);
  if (dice.chance(20)) {
    const text = hasTextsInQuotes ? '"bad"' : "'bad'";
    all.push(`CHECK (${quoted(names[0]!)} IS NOT ${text} AND ${quoted(names.at(-1)!)} IS NOT 3)`);
  }
  return all;
}

function partsOf(dice: Dice, names: readonly string[]): string {
  const collated = (name: string): string =>
    quoted(name) + (dice.chance(30) ? ` COLLATE ${dice.pick(COLLATIONS)}` : "");
  return dice.some(names).slice(0, 3).map(collated).join(", ");
}

export function indexOf(
  dice: Dice,
  name: string,
  table: string,
  names: readonly string[],
  hasTextsInQuotes: boolean,
): string {
  const by = dice.chance(30)
    ? dice.pick(["lower(#)", "# + 1", hasTextsInQuotes ? '# || "zz"' : "# || 'zz'"])
      .replace("#", quoted(dice.pick(names)))
    : partsOf(dice, names);
  const where = dice.pick([
    "# > 1",
    "# IS NOT NULL",
    hasTextsInQuotes ? '# <> "where"' : "# <> ' where ('",
  ])
    .replace("#", quoted(dice.pick(names)));
  const kind = dice.chance(75) ? "UNIQUE INDEX" : "INDEX";
  const rest = dice.chance(40) ? ` WHERE ${where}` : "";
  return `CREATE ${kind} ${name} ON ${quoted(table)} (${by})${rest}`;
}

function indexesOf(
  dice: Dice,
  table: string,
  names: readonly string[],
  hasTextsInQuotes: boolean,
): string[] {
  return Array.from(
    { length: dice.below(3) },
    (_, index) => indexOf(dice, `i${index}`, table, names, hasTextsInQuotes),
  );
}

/** A table whose rows go or change with those of the table. */
function childrenOf(dice: Dice, table: string, parent: string): string[] {
  if (dice.chance(60)) return [`CREATE TABLE ${CHILDREN} (x PRIMARY KEY, y)`];
  const action = dice.pick(["CASCADE", "SET NULL", "SET DEFAULT"]);
  return [
    `CREATE TABLE ${CHILDREN} (x PRIMARY KEY, y DEFAULT 1 REFERENCES ${quoted(table)} (${
      quoted(parent)
    }) ` +
    `ON DELETE ${action} ON UPDATE ${action})`,
  ];
}

/** Triggers of the application. They change no row that is being changed: SQLite defines no result of that. */
function triggersOf(dice: Dice, table: string, names: readonly string[]): string[] {
  const column = (): string => quoted(dice.pick(names));
  const on = quoted(table);
  const raise = (): string => dice.pick(["IGNORE", "ABORT, 'a'", "FAIL, 'f'", "ROLLBACK, 'r'"]);
  const all = [
    () =>
      `AFTER INSERT ON ${on} BEGIN INSERT INTO log VALUES (NEW.${column()}, last_insert_rowid(), changes()); END`,
    () =>
      `AFTER DELETE ON ${on} BEGIN INSERT INTO log VALUES (OLD.${column()}, last_insert_rowid(), changes()); END`,
    () =>
      `AFTER UPDATE ON ${on} BEGIN INSERT OR REPLACE INTO ${CHILDREN} VALUES (NEW.${column()}, 1); END`,
    () =>
      `AFTER UPDATE OF ${column()} ON ${on} BEGIN DELETE FROM ${CHILDREN} WHERE x = OLD.${column()}; END`,
    () => `BEFORE INSERT ON ${on} WHEN NEW.${column()} = 2 BEGIN SELECT RAISE(${raise()}); END`,
    () => `BEFORE UPDATE ON ${on} WHEN NEW.${column()} = 'a' BEGIN SELECT RAISE(${raise()}); END`,
    () => `BEFORE DELETE ON ${on} WHEN OLD.${column()} = 1 BEGIN SELECT RAISE(${raise()}); END`,
    () => `AFTER INSERT ON ${on} WHEN NEW.${column()} = 'b' BEGIN SELECT RAISE(${raise()}); END`,
    () => `AFTER INSERT ON ${on} BEGIN DELETE FROM ${on} WHERE ${column()} = 4; END`,
    () => {
      const set = column();
      return `AFTER INSERT ON ${on} BEGIN UPDATE ${on} SET ${set} = NEW.${column()} WHERE ${column()} = 0; END`;
    },
    () =>
      `AFTER INSERT ON ${CHILDREN} BEGIN INSERT OR IGNORE INTO ${on} (${column()}) VALUES (NEW.x); END`,
    () =>
      `AFTER DELETE ON ${CHILDREN} BEGIN UPDATE OR REPLACE ${on} SET ${column()} = OLD.x WHERE ${column()} = OLD.y; END`,
  ];
  return all.filter(() => dice.chance(12)).map((make, index) =>
    `CREATE TRIGGER app${index} ${make()}`
  );
}

const TEMPLATE_NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/;

/** Keys begin with another text for each template. */
function changesOf(
  dice: Dice,
  table: string,
  names: readonly string[],
): Record<string, readonly string[]> {
  const columns = names.filter((name) => TEMPLATE_NAME.test(name));
  const made = Array.from({ length: 1 + dice.below(3) }, (_, index) => {
    const [one, two] = [dice.pick(columns), dice.pick(columns)];
    return dice.pick([
      `v${index}:{${one}}`,
      `v${index}:{${one}}:{${two}}`,
      `v${index}:{${one}}:*`,
      `v${index}`,
    ]);
  });
  return { [table]: made, [CHILDREN]: ["c:{x}", "d:{y}"] };
}
