import { printable } from "../output.ts";

/** A place where the doctor has looked. */
export interface Finding {
  /** A stable name: `open-files`. */
  readonly check: string;
  /** `unseen`: it could not look. */
  readonly level: "error" | "warning" | "unseen" | "ok";
  readonly what: string;
  /** Why it matters; "": nothing is wrong. */
  readonly why: string;
  /** A command that mends it; "": none. */
  readonly command: string;
}

/** A fault, why it matters, and the command that mends it. */
export type Fault = readonly [what: string, why: string, command: string];

export function ok(check: string, what: string): Finding {
  return { check, level: "ok", what, why: "", command: "" };
}

export function unseen(check: string, what: string, command = ""): Finding {
  return { check, level: "unseen", what, why: "", command };
}

export function warning(check: string, [what, why, command]: Fault): Finding {
  return { check, level: "warning", what, why, command };
}

export function fault(check: string, [what, why, command]: Fault): Finding {
  return { check, level: "error", what, why, command };
}

/** Writes findings as lines. */
export function findingsText(title: string, findings: readonly Finding[]): string {
  const lines = findings.flatMap(({ check, level, what, why, command }) => [
    `  ${level.padEnd(8)} ${check}: ${what}`,
    ...why === "" ? [] : [`           why: ${why}`],
    ...command === "" ? [] : [`           do:  ${command}`],
  ]);
  return [title, ...lines].map((line) => `${printable(line)}\n`).join("");
}
