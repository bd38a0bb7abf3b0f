import { assert, assertEquals } from "@std/assert";
import { randomFrom } from "../../support/random.ts";
import { drawSeed, withSeed } from "../../support/seed.ts";
import {
  type Assignments,
  assignmentsOf,
  type Choice,
  choicesOf,
  EXCLUSIONS,
  flagOf,
  isAllowed,
  optionNames,
  type ReadWords,
  readWords,
  type Role,
  ROLE_ROWS,
  type RoleRow,
  ROLES,
  rolesOf,
  sampled,
  withChoice,
  wordsOf,
} from "./option_roles.ts";

/** Options that make a role: given to another one they make another server. */
const MAKERS: ReadonlySet<string> = new Set(["db", "origin"]);
const ALL_ROLES = Object.keys(ROLES) as Role[];

function read(given: Assignments): ReadWords {
  return readWords(sampled(wordsOf(given)));
}

function shown(given: Assignments): string {
  return wordsOf(given).join(" ");
}

/** Returns the role's options with this one, and what it needs; null: the role contradicts them. */
function inRole(role: Role, choice: Choice): Map<string, string> | null {
  const given = assignmentsOf(ROLES[role]);
  for (const name of ["rows", "db"]) {
    if (choice.name === name || choice.beside.has(name)) given.delete(name);
  }
  return withChoice(given, choice);
}

/** Checks the conduct of an option that means nothing beside these. */
function checkOtherwise([name, , , , otherwise]: RoleRow, given: Assignments): void {
  const { errors, told, nativeOnly } = read(given);
  const label = `${shown(given)}: ${JSON.stringify({ errors, told })}`;
  const flag = flagOf(name);
  const words = otherwise.replace(/ under .*/, "").split("|");
  if (words.includes("silent")) return assertEquals(errors, [], label);
  if (words.includes("told") && errors.length === 0) {
    const long = `--${name}`;
    return assert(told.includes(flag) || told.includes(long) || nativeOnly.includes(long), label);
  }
  const names = (error: string): boolean => error.includes(flag) || error.includes(`--${name}`);
  assert(words.some((word) => errors.some((error) => names(error) && error.includes(word))), label);
}

Deno.test("every option of the server stands in the table of roles, and no other", () => {
  const inTable = ROLE_ROWS.map(([name]) => name);
  assertEquals(inTable.toSorted(), optionNames().toSorted());
});

Deno.test("every option is accepted where it means something, and its effect is not denied", () => {
  for (const row of ROLE_ROWS) {
    for (const role of rolesOf(row)) {
      for (const choice of choicesOf(row)) {
        const given = inRole(role, choice);
        assert(given !== null, `${role} ${choice.name}`);
        if (!isAllowed(role, given)) continue;
        const { errors, told } = read(given);
        assertEquals(errors, [], `${role}: ${shown(given)}`);
        assert(!told.some((option) => option.includes(`--${choice.name}`)), `${role}: ${told}`);
      }
    }
  }
});

Deno.test("every option is refused in other roles with its name and its need, or declared without effect", () => {
  for (const row of ROLE_ROWS) {
    for (const role of ALL_ROLES) {
      if (rolesOf(row).includes(role) || (MAKERS.has(row[0]) && role === "plain")) continue;
      for (const choice of choicesOf(row)) {
        const given = assignmentsOf(ROLES[role]).set(choice.name, choice.value);
        checkOtherwise(row, given);
      }
    }
  }
});

Deno.test("every option is refused without those that it needs, or declared without effect", () => {
  for (const row of ROLE_ROWS) {
    const [name, , beside, , otherwise] = row;
    const under = / under (.*)/.exec(otherwise)?.[1];
    for (const role of rolesOf(row)) {
      for (const choice of choicesOf(row)) {
        const given = assignmentsOf(ROLES[role]).set(name, choice.value);
        if (under !== undefined) {
          const all = inRole(role, choice)!;
          for (const [other, value] of assignmentsOf(under)) all.set(other, value);
          checkOtherwise(row, all);
        } else if (beside !== "" && otherwise !== "" && !isMetBy(role, row)) {
          checkOtherwise(row, given);
        }
      }
    }
  }
});

/** Whether the role itself is what the option needs. */
function isMetBy(role: Role, [name]: RoleRow): boolean {
  return name === "token-entries" && role !== "plain" && role !== "node";
}

Deno.test("options of the native transport only are refused, or without effect, with the portable one", () => {
  for (const row of ROLE_ROWS.filter(([, roles]) => roles === "native")) {
    const choice = choicesOf(row).at(-1)!;
    const given = withChoice(new Map([["io", "portable"]]), choice)!;
    const { errors, nativeOnly } = read(given);
    assertEquals(errors, [], shown(given));
    if (row[4] !== "silent") assert(nativeOnly.includes(`--${row[0]}`), shown(given));
  }
});

Deno.test("options that exclude each other are refused by name", () => {
  const choiceOf = (text: string): Choice => {
    const [name = "", value] = text.split("=");
    const choices = choicesOf(ROLE_ROWS.find((row) => row[0] === name)!);
    return choices.find((each) => value === undefined || each.value === value)!;
  };
  for (const [one, other] of EXCLUSIONS) {
    const [first, second] = [choiceOf(one), choiceOf(other)];
    const role = ALL_ROLES.find((each) =>
      [one, other].every((text) => {
        const row = ROLE_ROWS.find(([name]) => name === text.split("=")[0])!;
        return rolesOf(row).includes(each);
      })
    ) ?? "standby";
    const given = withChoice(inRole(role, first)!, second);
    assert(given !== null, `${one} ${other}`);
    const { errors } = read(given);
    const names = [one, other].map((text) => text.split("=")[0]!);
    const isNamed = (error: string): boolean => names.some((name) => error.includes(`--${name}`));
    assert(errors.some(isNamed), `${shown(given)}: ${errors}`);
  }
});

Deno.test("all pairs of options that may be given together are accepted", async () => {
  await withSeed(drawSeed(), (seed) => {
    const random = randomFrom(seed);
    const choices = ROLE_ROWS.flatMap((row) => choicesOf(row).map((choice) => ({ row, choice })));
    let accepted = 0;
    for (const [index, one] of choices.entries()) {
      for (const other of choices.slice(index + 1)) {
        const roles = rolesOf(one.row).filter((role) => rolesOf(other.row).includes(role));
        if (roles.length === 0) continue;
        const role = roles[Math.floor(random() * roles.length)]!;
        const first = inRole(role, one.choice);
        const given = first && withChoice(first, other.choice);
        if (given === null || !isAllowed(role, given)) continue;
        assertEquals(read(given).errors, [], `${role}: ${shown(given)}`);
        accepted++;
      }
    }
    assert(
      accepted > choices.length * choices.length / 4,
      `${accepted} of ${choices.length} values`,
    );
  });
});
