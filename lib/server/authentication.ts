import { type Credentials, Verdicts } from "../../protocol/auth/password_checks.ts";
import type { SharedState } from "../../protocol/thread_context.ts";
import { type ConnectionId, ConnectionTable } from "../../store/connections.ts";
import { addressOf, type Authenticator } from "../auth/authenticator.ts";
import { createAuthenticator, reloadUsers } from "../auth/logged_authenticator.ts";
import type { Users } from "../auth/user_file.ts";

/** Checks the passwords that clients of the serving threads send, on the main thread. */
export class Authentication {
  readonly #path: string;
  readonly #authenticator: Authenticator;
  readonly #verdicts: Verdicts;
  readonly #connections: ConnectionTable;
  readonly #wake: (threadIndex: number) => void;

  /** @param wake Makes a serving thread look for verdicts. */
  constructor(
    path: string,
    users: Users,
    shared: SharedState,
    wake: (threadIndex: number) => void,
  ) {
    this.#path = path;
    this.#authenticator = createAuthenticator(users, path);
    this.#connections = new ConnectionTable(shared.memory.connections);
    this.#verdicts = new Verdicts(shared.verdicts!, this.#connections);
    this.#wake = wake;
  }

  /** Checks a password, and tells the thread that serves the connection. */
  async check(owner: ConnectionId, credentials: Credentials): Promise<void> {
    const threadIndex = this.#connections.threadOf(owner);
    const access = await this.#authenticator.check({
      credentials,
      address: addressOf(this.#connections.peerOf(owner)),
      isAwaited: () => this.#verdicts.isAwaited(owner),
    });
    if (this.#verdicts.deliver(owner, access)) this.#wake(threadIndex);
  }

  /** Reads the user file anew. */
  reload(): void {
    reloadUsers(this.#authenticator, this.#path);
  }

  /** Refuses all that wait. */
  stop(): void {
    this.#authenticator.stop();
  }
}
