import { isRead, type Operation, type Outcome, quoted } from "./operation.ts";

/** Longer lines are refused, so that a file cannot fill the memory with one. */
const LINE_LENGTH_MAX = 2 ** 20;
const OUTCOMES: readonly string[] = ["ok", "failed", "unknown"] satisfies Outcome[];
const WHOLE = `a whole number from 0 to ${Number.MAX_SAFE_INTEGER}`;

/** A history that cannot be judged: its text is malformed, or it breaks a rule of histories. */
export class HistoryError extends Error {
  override readonly name = "HistoryError";

  /** @param line Its number in the file; null: the mistake is in no single line. */
  constructor(message: string, readonly line: number | null = null) {
    super(message);
  }
}

/**
 * Returns the operations of a file of JSON lines. Fields that the format does not have are ignored.
 *
 * @throws {HistoryError} When the file cannot be read, is no history, or is empty.
 */
export async function readHistory(path: string): Promise<Operation[]> {
  const operations: Operation[] = [];
  try {
    using file = await Deno.open(path);
    for await (const line of linesOf(file.readable)) {
      operations.push(parseLine(line, operations.length + 1));
    }
  } catch (error) {
    if (error instanceof HistoryError) throw error;
    throw new HistoryError(error instanceof Error ? error.message : String(error));
  }
  if (operations.length === 0) throw new HistoryError("the history has no operation");
  return operations;
}

/** Returns the operations as text that `readHistory` reads. */
export function historyText(operations: readonly Operation[]): string {
  return operations.map((operation) => `${JSON.stringify(operation)}\n`).join("");
}

async function* linesOf(bytes: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let rest = "";
  for await (const piece of bytes) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split("\n");
    rest = lines.pop()!;
    yield* lines;
    if (rest.length > LINE_LENGTH_MAX) break;
  }
  rest += decoder.decode();
  if (rest !== "") yield rest;
}

/**
 * Returns the operation of a line.
 *
 * @param number The number of the line, for errors.
 * @throws {HistoryError} With the number, and a text that names the field, its value, and the allowed ones.
 */
export function parseLine(line: string, number: number): Operation {
  const refuse = (what: string): never => {
    throw new HistoryError(what, number);
  };
  if (line.length > LINE_LENGTH_MAX) {
    refuse(`a line of ${line.length} characters; ${LINE_LENGTH_MAX} at most`);
  }
  let parsed: unknown;
  try {
    parsed = JSON.parse(line);
  } catch (error) {
    refuse(`no JSON: ${quoted((error as Error).message)}`);
  }
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) {
    refuse("a JSON object is expected");
  }
  const { client, operation, key, value, version, start, end, outcome } = parsed as Operation;
  const check = (isRight: boolean, field: string, given: unknown, wanted: string): void => {
    if (isRight) return;
    const found = given === undefined ? "is missing" : `is ${quoted(JSON.stringify(given))}`;
    refuse(`${field} ${found}: ${wanted}`);
  };
  check(typeof client === "string", "client", client, "a text");
  check(typeof operation === "string", "operation", operation, "a text");
  check(typeof key === "string", "key", key, "a text");
  check(value === null || typeof value === "string", "value", value, "a text, or null for absent");
  check(version === null || isWhole(version), "version", version, `${WHOLE}, or null`);
  check(Number.isFinite(start), "start", start, "a number");
  check(
    end === null || Number.isFinite(end) && end >= start,
    "end",
    end,
    "start or later, or null",
  );
  check(OUTCOMES.includes(outcome), "outcome", outcome, OUTCOMES.join(", "));
  const read: Operation = { client, operation, key, value, version, start, end, outcome };
  check(end !== null || outcome !== "ok", "end", end, "what is ok has ended");
  const isSaid = version !== null && outcome !== "ok" && !isRead(read);
  check(!isSaid, "version", version, `null, as a write that is ${outcome} has none`);
  return read;
}

function isWhole(value: unknown): boolean {
  return Number.isSafeInteger(value) && value as number >= 0;
}
