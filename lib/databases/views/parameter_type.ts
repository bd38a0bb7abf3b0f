/** Types of parameters of views. Each has one text for a value, so a row has one key. */
export type ParameterType = keyof typeof INTEGER_BITS | "text" | "uuid" | "boolean";

const INTEGER_BITS = { smallint: 16, integer: 32, bigint: 64 };
const INTEGER = /^(?:0|-?[1-9][0-9]{0,18})$/;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** As PostgreSQL writes them. */
const BOOLEANS = ["t", "f"];

/**
 * Whether a text is the one way to write a value of the type. A key with another way, such as `007`, would not be
 * deleted when its row changes: it is absent.
 *
 * @param text UTF-8, a character a byte.
 */
export function isCanonical(text: string, type: ParameterType): boolean {
  switch (type) {
    case "uuid":
      return UUID.test(text);
    case "boolean":
      return BOOLEANS.includes(text);
    case "text":
      // PostgreSQL has no text with it.
      return !text.includes("\0") && textOf(text) !== null;
    default:
      return INTEGER.test(text) && BigInt.asIntN(INTEGER_BITS[type], BigInt(text)) === BigInt(text);
  }
}

/** Whether equal values of both types have the same text. */
export function haveSameTexts(one: ParameterType, other: ParameterType): boolean {
  return one === other || one in INTEGER_BITS && other in INTEGER_BITS;
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
