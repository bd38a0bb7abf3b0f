import { Access } from "../../protocol/auth/access.ts";
import { latin1Text } from "../../store/base/bytes.ts";
import { readRegularFile } from "../process/file_kinds.ts";
import { reasonOf } from "../process/reason.ts";
import { isHash, parseHash } from "./scrypt.ts";

/** One line of the file. A user may have several, each with a password. */
export interface User {
  readonly access: Access;
  /** The password, or its hash in the form that `leased passwd` prints. Characters below 256 stand for bytes. */
  readonly secret: string;
  readonly isHashed: boolean;
}

/** The users by name. Characters below 256 stand for bytes. */
export type Users = ReadonlyMap<string, readonly User[]>;

/** The users' file cannot be read, or has a mistake. */
export class UserFileError extends Error {
  override readonly name = "UserFileError";

  /**
   * @param reason The message without the file and the line.
   * @param place The file and the line, to stand before the reason.
   */
  constructor(readonly reason: string, place: string) {
    super(`${place}: ${reason}`);
  }
}

const FILE_BYTES_MAX = 1_000_000;
const LINE_BYTES_MAX = 1024;
const ACCESS_OF: Readonly<Record<string, Access>> = {
  read: Access.READ,
  write: Access.WRITE,
  node: Access.NODE,
  admin: Access.ADMIN,
};
/** Beginning of a comment; alone it is an empty comment. */
const COMMENT = /^#(?: |$)/;

/**
 * Reads the file of `-Y`.
 *
 * @throws UserFileError
 */
export function readUserFile(path: string): Users {
  let bytes: Uint8Array;
  try {
    bytes = readRegularFile(path);
  } catch (error) {
    throw new UserFileError(readFailure(error), `cannot read the user file ${path}`);
  }
  return parseUserFile(bytes, path);
}

/** Whether every user of this host may read the file. */
export function isReadableByAll(path: string): boolean {
  return ((Deno.statSync(path).mode ?? 0) & 0o004) !== 0;
}

function readFailure(error: unknown): string {
  if (error instanceof Deno.errors.NotFound) return "it does not exist";
  if (error instanceof Deno.errors.PermissionDenied) return "permission denied";
  return reasonOf(error);
}

/**
 * Parses memcached's file, lines of `user:password`; the password is everything after the first colon. Extensions: a
 * level behind the name (`user read:password`; no client of memcached can name a user with a blank), a hash in place of
 * the password, comments that begin with "# ", and empty lines.
 *
 * @param path For messages.
 * @throws UserFileError naming the line.
 */
export function parseUserFile(bytes: Uint8Array, path: string): Users {
  const fail = (line: number, reason: string): never => {
    throw new UserFileError(reason, `user file ${path}, line ${line}`);
  };
  if (bytes.length > FILE_BYTES_MAX) {
    const reason = `must have at most ${FILE_BYTES_MAX} bytes, has ${bytes.length}`;
    throw new UserFileError(reason, `user file ${path}`);
  }
  const users = new Map<string, User[]>();
  latin1Text(bytes).split("\n").forEach((text, index) => {
    const line = text.replace(/\r$/, "");
    const number = index + 1;
    if (line === "" || COMMENT.test(line)) return;
    if (line.length > LINE_BYTES_MAX) {
      fail(number, `must have at most ${LINE_BYTES_MAX} bytes, has ${line.length}`);
    }
    const { name, user } = readLine(line, (reason) => fail(number, reason));
    users.set(name, [...users.get(name) ?? [], user]);
  });
  if (users.size === 0) throw new UserFileError("has no user", `user file ${path}`);
  return users;
}

/**
 * Reads a file with the name and the password that this process itself sends: one line of a user file.
 *
 * @throws UserFileError
 */
export function readLoginFile(path: string): { readonly user: string; readonly password: string } {
  const users = [...readUserFile(path)];
  const [user, [line, ...others] = []] = users[0]!;
  if (users.length > 1 || others.length > 0 || line === undefined || line.isHashed) {
    throw new UserFileError("must have one line user:password, without a hash", `file ${path}`);
  }
  return { user, password: line.secret };
}

function readLine(line: string, fail: (reason: string) => never): { name: string; user: User } {
  const colon = line.indexOf(":");
  // A line may hold a password, so no message repeats it.
  if (colon < 0) return fail("must be user:password or user level:password");
  const [name = "", level = "admin", ...rest] = line.slice(0, colon).split(/ +/);
  const secret = line.slice(colon + 1);
  const access = ACCESS_OF[level];
  if (name === "") return fail("the user's name is missing");
  if (access === undefined || rest.length > 0) {
    return fail(`the level of user ${name} must be ${Object.keys(ACCESS_OF).join(", ")} or absent`);
  }
  if (secret === "") return fail(`user ${name} has no password`);
  const isHashed = isHash(secret);
  const problem = isHashed ? parseHash(secret) : null;
  if (typeof problem === "string") return fail(`the hash of user ${name} ${problem}`);
  return { name, user: { access, secret, isHashed } };
}
