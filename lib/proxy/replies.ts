// The fixed reply lines of the proxy, with memcached's wording where memcached has the command.

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
  BAD_FORMAT: "CLIENT_ERROR bad command line format",
  BAD_CHUNK: "CLIENT_ERROR bad data chunk",
  LINE_TOO_LONG: "CLIENT_ERROR line too long",
  BAD_DELTA: "CLIENT_ERROR invalid numeric delta argument",
  NOT_NUMERIC: "CLIENT_ERROR cannot increment or decrement non-numeric value",
  BAD_OWNER: "CLIENT_ERROR invalid owner: up to 64 printable ASCII characters",
  NO_EXPIRY: "CLIENT_ERROR rows have no expiry time: exptime must be 0",
  UNAUTHENTICATED: "CLIENT_ERROR unauthenticated",
  AUTH_TOO_LONG: "CLIENT_ERROR auth token too long",
  BAD_AUTH_FORMAT: "CLIENT_ERROR bad authentication token format",
  AUTH_NOT_ENDED: "CLIENT_ERROR bad command line termination",
  AUTH_FAILED: "CLIENT_ERROR authentication failure",
  NEEDS_WRITE: "CLIENT_ERROR not permitted: this user may only read",
  NEEDS_ADMIN: "CLIENT_ERROR not permitted: this user is no administrator",
  TOO_LARGE: "SERVER_ERROR object too large for cache",
  TOO_MANY_TOKENS: "SERVER_ERROR too many update tokens",
  TOO_MANY_CONNECTIONS: "ERROR Too many open connections",
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

function oneLine(text: string): string {
  return text.replace(/[\r\n]+/g, " ").slice(0, 200);
}
