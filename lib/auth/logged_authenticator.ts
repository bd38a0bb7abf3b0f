import { logProcess } from "../log.ts";
import { Authenticator } from "./authenticator.ts";
import { isReadableByAll, readUserFile, UserFileError, type Users } from "./user_file.ts";

/**
 * Makes an authenticator with the clock, the timers and the log of this process.
 *
 * @param path The file of the users.
 */
export function createAuthenticator(users: Users, path: string): Authenticator {
  warnOfReaders(path);
  return new Authenticator(users, {
    nowMs: () => performance.now(),
    after(ms, callback): () => void {
      const timer = setTimeout(callback, ms);
      return () => clearTimeout(timer);
    },
    slowed(address): void {
      logProcess(
        "warning",
        "authentication_slowed",
        `${address} sent several wrong passwords: its further attempts are slowed down`,
        { address },
      );
    },
  });
}

/** Reads the user file again. After an error the previous users stay in force. */
export function reloadUsers(authenticator: Authenticator, path: string): void {
  try {
    const users = readUserFile(path);
    authenticator.replaceUsers(users);
    warnOfReaders(path);
    logProcess("info", "users_reloaded", `user file ${path} reloaded; users: ${users.size}`, {
      path,
      users: users.size,
    });
  } catch (error) {
    if (!(error instanceof UserFileError)) throw error;
    const reason = error.message;
    logProcess("error", "users_not_reloaded", `${reason}; the previous users stay in force`, {
      reason,
    });
  }
}

function warnOfReaders(path: string): void {
  if (!isReadableByAll(path)) return;
  logProcess(
    "warning",
    "user_file_readable",
    `every user of this host can read the user file ${path}; run chmod 600 ${path}`,
    { path },
  );
}
