import { PLAIN, PLAIN_MESSAGE_BYTES_MAX, readPlain } from "../../../protocol/auth/sasl_plain.ts";
import { Status } from "../../../protocol/binary_status.ts";
import { SASL } from "../../../protocol/replies.ts";
import type { PeerAccess } from "../peer_access.ts";
import type { ReplyParts } from "./frames.ts";

/** Authenticates a client of the binary protocol, as `protocol/binary/sasl.ts` does. */
export class SaslExchange {
  readonly #access: PeerAccess;
  #isStarted = false;

  constructor(access: PeerAccess) {
    this.#access = access;
  }

  /** SaslMechanisms. */
  mechanisms(): ReplyParts {
    return this.#access.isAsked ? { value: SASL.MECHANISMS } : UNKNOWN;
  }

  /** SaslAuth: begins an exchange, which ends at once when the client's message is there. */
  async start(mechanism: string, message: Uint8Array): Promise<ReplyParts> {
    if (!this.#access.isAsked) return UNKNOWN;
    this.#access.reset();
    const isPlain = mechanism.toUpperCase() === PLAIN;
    this.#isStarted = isPlain && message.length === 0;
    if (this.#isStarted) return { status: Status.AUTH_CONTINUE };
    return isPlain ? await this.#check(message) : REFUSED;
  }

  /** SaslStep: goes on with an exchange. */
  async step(mechanism: string, message: Uint8Array): Promise<ReplyParts> {
    if (!this.#access.isAsked) return UNKNOWN;
    this.#access.reset();
    const isPlain = mechanism.toUpperCase() === PLAIN;
    return isPlain && this.#isStarted ? await this.#check(message) : REFUSED;
  }

  async #check(message: Uint8Array): Promise<ReplyParts> {
    if (message.length > PLAIN_MESSAGE_BYTES_MAX) return REFUSED;
    const credentials = readPlain(message);
    if (credentials === null || !await this.#access.authenticate(credentials)) return REFUSED;
    return { value: SASL.AUTHENTICATED };
  }
}

const UNKNOWN: ReplyParts = { status: Status.UNKNOWN_COMMAND };
const REFUSED: ReplyParts = { status: Status.REFUSED };
