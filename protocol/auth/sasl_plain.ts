import { CREDENTIAL_BYTES_MAX, type Credentials } from "./password_checks.ts";

// SASL (RFC 4422) with the mechanism PLAIN (RFC 4616): `[authorization identity] NUL user NUL password`.

/** The mechanism's name, which may come in small letters. */
export const PLAIN = "PLAIN";
/** Longer messages have no user's name and password. */
export const PLAIN_MESSAGE_BYTES_MAX = 3 * CREDENTIAL_BYTES_MAX;

/** Reads a message of PLAIN. Null: it is malformed, or asks for the rights of another user. */
export function readPlain(message: Uint8Array): Credentials | null {
  const first = message.indexOf(0);
  const second = message.indexOf(0, first + 1);
  if (first < 0 || second < 0 || message.indexOf(0, second + 1) >= 0) return null;
  const user = message.slice(first + 1, second);
  const password = message.slice(second + 1);
  const identity = message.subarray(0, first);
  const isOwn = identity.length === 0 ||
    (identity.length === user.length && identity.every((byte, at) => byte === user[at]));
  return isOwn && user.length > 0 && password.length > 0 ? { user, password } : null;
}
