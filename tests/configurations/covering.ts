import {
  type Assignments,
  assignmentsOf,
  type Choice,
  choicesOf,
  isAllowed,
  type Role,
  ROLE_ROWS,
  ROLES,
  rolesOf,
  withChoice,
} from "../lib/cli/option_roles.ts";

/** A server to start. */
export interface Configuration {
  readonly role: Role;
  /** All options, with those that make the role. */
  readonly given: Assignments;
}

/** Options that make another role, or are tried in other tests. */
const LEFT_OUT: ReadonlySet<string> = new Set(["db", "origin", "standby", "follow", "views"]);
/** The value of an option that is not given. */
const ABSENT = "";
/** Candidates of which the one with the most new pairs is taken. */
const CANDIDATES = 2;

/** An option and its values, the absence among them. */
interface Parameter {
  readonly name: string;
  readonly choices: readonly Choice[];
  readonly roles: ReadonlySet<Role>;
}

/** Chooses configurations that cover as many pairs of values as `countMax` of them can, roles and absences included. */
export function coveringConfigurations(countMax: number, random: () => number): Configuration[] {
  const parameters = ROLE_ROWS.filter((row) => !LEFT_OUT.has(row[0]) && row[3] !== "").map((
    row,
  ) => ({
    name: row[0],
    choices: choicesOf(row),
    roles: new Set(rolesOf(row)),
  }));
  const covered = new Set<string>();
  const roles = shuffled(Object.keys(ROLES) as Role[], random);
  const found: Configuration[] = [];
  for (let count = 0; count < countMax; count++) {
    const role = roles[count % roles.length]!;
    let best: { given: Assignments; pairs: string[] } | null = null;
    for (let candidate = 0; candidate < CANDIDATES; candidate++) {
      const given = choose(role, parameters, covered, random);
      const pairs = pairsOf(role, given, parameters).filter((pair) => !covered.has(pair));
      if (best === null || pairs.length > best.pairs.length) best = { given, pairs };
    }
    for (const pair of best!.pairs) covered.add(pair);
    found.push({ role, given: best!.given });
  }
  return found;
}

/** Gives every option the value, or none, that covers most new pairs with the options before it. */
function choose(
  role: Role,
  parameters: readonly Parameter[],
  covered: ReadonlySet<string>,
  random: () => number,
): Assignments {
  let given: Map<string, string> = assignmentsOf(ROLES[role]);
  const decided = new Map<string, string>([["role", role]]);
  for (const parameter of shuffled(parameters, random)) {
    if (!parameter.roles.has(role) || decided.has(parameter.name)) continue;
    let best = { gain: newPairs(new Map([[parameter.name, ABSENT]]), decided, covered), given };
    for (const choice of shuffled(parameter.choices, random)) {
      const base = new Map(given);
      // Rows have prefixes in each role; another value replaces them.
      if (parameter.name === "rows") base.delete("rows");
      const all = withChoice(base, choice);
      if (all === null || !isAllowed(role, all)) continue;
      const added = new Map([...all].filter(([name, value]) => given.get(name) !== value));
      if ([...added.keys()].some((name) => decided.get(name) === ABSENT)) continue;
      const gain = newPairs(added, decided, covered) / added.size;
      if (gain > best.gain || (gain === best.gain && random() < 0.5)) best = { gain, given: all };
    }
    given = best.given;
    for (const [name, value] of given) decided.set(name, value);
    if (!given.has(parameter.name)) decided.set(parameter.name, ABSENT);
  }
  return given;
}

function newPairs(
  added: Assignments,
  decided: Assignments,
  covered: ReadonlySet<string>,
): number {
  let count = 0;
  for (const one of added) {
    for (const other of decided) if (!covered.has(pairOf(one, other))) count++;
  }
  return count;
}

function pairsOf(role: Role, given: Assignments, parameters: readonly Parameter[]): string[] {
  const values: [string, string][] = [["role", role]];
  for (const { name, roles } of parameters) {
    if (roles.has(role)) values.push([name, given.get(name) ?? ABSENT]);
  }
  return values.flatMap((one, index) => values.slice(index + 1).map((other) => pairOf(one, other)));
}

function pairOf(one: readonly [string, string], other: readonly [string, string]): string {
  const [first, second] = one[0] < other[0] ? [one, other] : [other, one];
  return `${first[0]}=${first[1]} ${second[0]}=${second[1]}`;
}

function shuffled<T>(values: readonly T[], random: () => number): T[] {
  const all = [...values];
  for (let at = all.length - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1));
    [all[at], all[other]] = [all[other]!, all[at]!];
  }
  return all;
}
