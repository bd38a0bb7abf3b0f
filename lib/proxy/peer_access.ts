import { Access } from "../../protocol/auth/access.ts";
import type { Credentials } from "../../protocol/auth/password_checks.ts";

/** Checks a client's password. */
export type Login = (credentials: Credentials) => Promise<Access>;

/** What a client may do, in both protocols. */
export class PeerAccess {
  readonly #login: Login | null;
  #level: Access;

  /** @param login Null: nobody has to authenticate. */
  constructor(login: Login | null) {
    this.#login = login;
    this.#level = login === null ? Access.ADMIN : Access.NONE;
  }

  get level(): Access {
    return this.#level;
  }

  /** Whether clients have to authenticate. */
  get isAsked(): boolean {
    return this.#login !== null;
  }

  /** Gives up the access that the client has. */
  reset(): void {
    this.#level = Access.NONE;
  }

  /** @returns Whether the password is right. */
  async authenticate(credentials: Credentials): Promise<boolean> {
    this.#level = await this.#login!(credentials);
    return this.#level !== Access.NONE;
  }
}
