import type { Access } from "../../protocol/auth/access.ts";
import { type Credentials, Verdicts } from "../../protocol/auth/password_checks.ts";
import type { SharedState } from "../../protocol/thread_context.ts";
import { type ConnectionId, ConnectionTable } from "../../store/connections.ts";
import { addressOf, Authenticator } from "../auth/authenticator.ts";
import { isReadableByAll, readUserFile, UserFileError, type Users } from "../auth/user_file.ts";
import { logProcess } from "../process/log.ts";
import type { BoundTransport } from "../net/transport.ts";

/** Checks the passwords that clients of the serving threads send, on the main thread. */
export class Authentication {
  readonly #path: string;
  readonly #authenticator: Authenticator;
  readonly #verdicts: Verdicts;
  readonly #connections: ConnectionTable;
  /** Wakes a serving thread, which then looks for verdicts. */
  readonly #transport: BoundTransport;

  /** @param path The file of the users. */
  constructor(path: string, users: Users, shared: SharedState, transport: BoundTransport) {
    this.#path = path;
    this.#authenticator = new Authenticator(users, {
      nowMs: () => performance.now(),
      after(ms, callback): () => void {
        const timer = setTimeout(callback, ms);
        return () => clearTimeout(timer);
      },
      slowed: logSlowed,
    });
    warnOfReaders(path);
    this.#connections = new ConnectionTable(shared.memory.connections);
    this.#verdicts = new Verdicts(shared.verdicts!, this.#connections);
    this.#transport = transport;
  }

  /** Checks a password, and tells the thread that serves the connection. */
  async check(owner: ConnectionId, credentials: Credentials): Promise<void> {
    const threadIndex = this.#connections.threadOf(owner);
    const access = await this.#authenticator.check({
      credentials,
      address: addressOf(this.#connections.peerOf(owner)),
      isAwaited: () => this.#verdicts.isAwaited(owner),
    });
    if (this.#verdicts.deliver(owner, access)) this.#transport.wake(threadIndex);
  }

  /** Returns the access of a user who asks over another way than a cache connection. */
  async accessOf(credentials: Credentials, address: string): Promise<Access> {
    return await this.#authenticator.check({ credentials, address, isAwaited: () => true });
  }

  /** The users. */
  get users(): Users {
    return this.#authenticator.users;
  }

  /** Reads the user file again. After an error the previous users stay in force. */
  reload(): void {
    const path = this.#path;
    try {
      const users = readUserFile(path);
      this.#authenticator.replaceUsers(users);
      warnOfReaders(path);
      const fields = { path, users: users.size };
      logProcess(
        "info",
        "users_reloaded",
        `user file ${path} reloaded; users: ${users.size}`,
        fields,
      );
    } catch (error) {
      if (!(error instanceof UserFileError)) throw error;
      const reason = error.message;
      const message = `${reason}; the previous users stay in force`;
      logProcess("error", "users_not_reloaded", message, { reason });
    }
  }

  /** Refuses all attempts in progress. */
  stop(): void {
    this.#authenticator.stop();
  }
}

function logSlowed(address: string): void {
  const message = `${address} sent several wrong passwords: its further attempts are slowed down`;
  logProcess("warning", "authentication_slowed", message, { address });
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
