/** Types of parameters of views. Each has one text for a value, so a row has one key. */
export type ParameterType =
  | keyof typeof INTEGER_BITS
  | "text"
  | "uuid"
  | "boolean"
  // SQLite: COLLATE NOCASE, for which A to Z are a to z.
  | "text without case"
  // PostgreSQL is asked whether a text is the one of its value.
  | "numeric"
  | "character"
  | "citext"
  | "enum"
  | "date"
  | "time"
  | "timestamp"
  | "timestamp with time zone"
  | "inet"
  | "cidr"
  | "macaddr";

const INTEGER_BITS = { smallint: 16, integer: 32, bigint: 64 };
const INTEGER = /^(?:0|-?[1-9][0-9]{0,18})$/;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** As PostgreSQL writes them. */
const BOOLEANS = ["t", "f"];
// deno-lint-ignore no-control-regex -- all of ASCII
const ASCII = /^[\x00-\x7f]*$/;

/**
 * Whether a text is the one way to write a value of the type. A key with another way, such as `007`, would not be
 * deleted when its row changes: it is absent. Of types whose rules only PostgreSQL knows, whether it can be asked.
 *
 * @param text UTF-8, a character a byte.
 */
export function isCanonical(text: string, type: ParameterType): boolean {
  switch (type) {
    case "smallint":
    case "integer":
    case "bigint":
      return INTEGER.test(text) && BigInt.asIntN(INTEGER_BITS[type], BigInt(text)) === BigInt(text);
    case "uuid":
      return UUID.test(text);
    case "boolean":
      return BOOLEANS.includes(text);
    case "text without case":
      return isText(text) && !/[A-Z]/.test(text);
    default:
      return isText(text);
  }
}

/** @param text UTF-8, a character a byte. */
function isText(text: string): boolean {
  // PostgreSQL has no text with it.
  return !text.includes("\0") && textOf(text) !== null;
}

/** Whether values of a column and of a parameter that are equal have the same text in a key. */
export function haveSameTexts(column: ParameterType, parameter: ParameterType): boolean {
  const isNumber = (type: ParameterType): boolean => type in INTEGER_BITS || type === "numeric";
  return column === parameter || isNumber(column) && isNumber(parameter) ||
    column === "enum" && parameter === "text";
}

/**
 * Returns the text in a key for the text that the log has of a column.
 *
 * @param text A character a byte.
 * @returns Null: it is not known.
 */
export function textInKey(text: string, type: ParameterType): string | null {
  switch (type) {
    case "numeric":
      // The log has the zeros of the column's scale.
      return text.includes(".") ? withoutEnd(withoutEnd(text, "0"), ".") : text;
    case "character":
      return withoutEnd(text, " ");
    case "timestamp":
    case "timestamp with time zone":
      // A key has no blank. PostgreSQL reads both.
      return text.replace(" ", "T");
    case "citext":
      // The database's locale says how others are folded.
      return ASCII.test(text) ? text.toLowerCase() : null;
    case "text without case":
      return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
    default:
      return text;
  }
}

/** Returns a text without a letter at its end, however often it stands there. */
function withoutEnd(text: string, letter: string): string {
  let length = text.length;
  while (text[length - 1] === letter) length--;
  return text.slice(0, length);
}

/** Returns the text of a parameter's bytes; null: they are no UTF-8. */
export function textOf(bytes: string): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(
      Uint8Array.from(bytes, (letter) => letter.charCodeAt(0)),
    );
  } catch {
    return null;
  }
}
