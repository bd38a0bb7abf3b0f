import { REFUSAL } from "../../protocol/replies.ts";

/** The fixed reply lines of the proxy, without CR LF; with memcached's wording where memcached has the command. */
export const REPLY = {
  END: "END",
  ERROR: "ERROR",
  OK: "OK",
  STORED: "STORED",
  NOT_STORED: "NOT_STORED",
  EXISTS: "EXISTS",
  NOT_FOUND: "NOT_FOUND",
  DELETED: "DELETED",
  TOUCHED: "TOUCHED",
  REVOKED: "REVOKED",
  BUSY: "BUSY",
  RESET: "RESET",
  BAD_FORMAT: textOf(REFUSAL.BAD_FORMAT),
  BAD_CHUNK: textOf(REFUSAL.BAD_CHUNK),
  LINE_TOO_LONG: "CLIENT_ERROR line too long",
  BAD_DELTA: textOf(REFUSAL.BAD_DELTA),
  NOT_NUMERIC: "CLIENT_ERROR cannot increment or decrement non-numeric value",
  BAD_OWNER: textOf(REFUSAL.BAD_OWNER),
  NO_EXPIRY: "CLIENT_ERROR rows have no expiry time: exptime must be 0",
  UNAUTHENTICATED: textOf(REFUSAL.UNAUTHENTICATED),
  AUTH_TOO_LONG: textOf(REFUSAL.AUTH_TOO_LONG),
  BAD_AUTH_FORMAT: textOf(REFUSAL.BAD_AUTH_FORMAT),
  AUTH_NOT_ENDED: textOf(REFUSAL.AUTH_NOT_ENDED),
  AUTH_FAILED: textOf(REFUSAL.AUTH_FAILED),
  NEEDS_WRITE: textOf(REFUSAL.NEEDS_WRITE),
  NEEDS_ADMIN: textOf(REFUSAL.NEEDS_ADMIN),
  TOO_LARGE: "SERVER_ERROR object too large for cache",
  TOO_MANY_TOKENS: "SERVER_ERROR too many update tokens",
  TOO_MANY_CONNECTIONS: textOf(REFUSAL.TOO_MANY_CONNECTIONS),
} as const;

/** Returns the reply to a write that wrote nothing. */
export function failedLine(reason: string): string {
  return `SERVER_ERROR ${oneLine(reason)}`;
}

/** Returns the reply to a write whose outcome is unknown. */
export function unknownLine(reason: string): string {
  return `SERVER_ERROR outcome unknown: ${oneLine(reason)}`;
}

/** Returns the refusal of a flag that the proxy does not support. */
export function unsupportedFlagLine(flag: string): string {
  return `CLIENT_ERROR flag ${flag} means nothing for rows`;
}

/** Returns a line of the server's replies without its CR LF. */
function textOf(line: Uint8Array): string {
  return new TextDecoder().decode(line).trimEnd();
}

function oneLine(text: string): string {
  return text.replace(/[\r\n]+/g, " ").slice(0, 200);
}
