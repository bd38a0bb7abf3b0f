import { type Credentials, Verdicts } from "../../protocol/auth/password_checks.ts";
import type { SharedState } from "../../protocol/thread_context.ts";
import { type ConnectionId, ConnectionTable } from "../../store/connections.ts";
import { addressOf, type Authenticator } from "../auth/authenticator.ts";
import { createAuthenticator, reloadUsers } from "../auth/logged_authenticator.ts";
import type { Users } from "../auth/user_file.ts";
import type { BoundTransport } from "../net/transport.ts";

/** Checks the passwords that clients of the serving threads send, on the main thread. */
export class Authentication {
  readonly #path: string;
  readonly #authenticator: Authenticator;
  readonly #verdicts: Verdicts;
  readonly #connections: ConnectionTable;
  /** Wakes a serving thread, which then looks for verdicts. */
  readonly #transport: BoundTransport;

  constructor(path: string, users: Users, shared: SharedState, transport: BoundTransport) {
    this.#path = path;
    this.#authenticator = createAuthenticator(users, path);
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

  /** Reads the user file again. */
  reload(): void {
    reloadUsers(this.#authenticator, this.#path);
  }

  /** Refuses all attempts in progress. */
  stop(): void {
    this.#authenticator.stop();
  }
}
