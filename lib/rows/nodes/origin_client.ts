import { REPLY } from "../../../protocol/reply/replies.ts";
import { concatBytes, latin1Bytes, latin1Text } from "../../../store/base/bytes.ts";
import { controlsEscaped } from "../../process/reason.ts";
import type { Address, DialOptions } from "../../peers/dial.ts";
import { type Peer, PeerError } from "../../peers/peer.ts";
import { PeerPool, UnsentError } from "../../peers/peer_pool.ts";
import { WAIT_TEXT, WireError } from "./wire.ts";

const UNKNOWN_COMMAND = latin1Text(REPLY.ERROR).trimEnd();
/** Its other reply to a request of a session. */
const SESSION_OVER = latin1Text(REPLY.NOT_FOUND).trimEnd();
const CR_LF = latin1Bytes("\r\n");
const BLOCK = /^NODE (\d{1,10})$/;
const ERROR = /^(?:ERROR$|(?:CLIENT|SERVER)_ERROR )/;
/** Characters of an origin's line that are shown. */
const SHOWN_MAX = 300;
/** Time for a whole reply beyond its time-outs, per byte of its request and of the longest reply: a second per MB. */
const MS_PER_BYTE = 0.001;

/** The origin has answered a request with another line. The message is that line. */
export class OriginRefusal extends Error {
  override readonly name = "OriginRefusal";
  /** Whether the session of this node is over. */
  readonly isSessionOver: boolean;
  /** Whether this node must wait before it joins again. */
  readonly mustWait: boolean;
  /** Whether the line is an error, so that nothing was done. */
  readonly isError: boolean;

  constructor(origin: string, line: string) {
    const isSessionOver = line === SESSION_OVER;
    const reason = isSessionOver
      ? "it has gone on without this node"
      : controlsEscaped(line.replace(/^[A-Z]+_ERROR /, "").slice(0, SHOWN_MAX));
    super(
      line === UNKNOWN_COMMAND
        ? `${origin} is no origin: a server with --db`
        : `${origin}: ${reason}`,
    );
    this.isSessionOver = isSessionOver;
    this.mustWait = reason === WAIT_TEXT;
    this.isError = isSessionOver || ERROR.test(line);
  }
}

/** The origin announces a reply that is longer than any that this node can use. It was not read. */
export class LongReplyError extends PeerError {}

/** Requests of a node to one origin. */
export class OriginClient {
  readonly name: string;
  readonly #pool: PeerPool;

  constructor(name: string, address: Address, options: DialOptions) {
    this.name = name;
    this.#pool = new PeerPool(address, options);
  }

  /**
   * Sends a request and returns the block of its reply. Each read of the socket has the time-out; the whole reply has
   * twice that, and MS_PER_BYTE.
   *
   * @param bytesMax The longest block that the node can use.
   * @param signal Gives the request up: the connection is closed, so that the origin ends it, too.
   * @throws OriginRefusal; UnsentError; LongReplyError; PeerError: it is unknown whether the request was executed.
   */
  async ask(
    verb: string,
    session: string,
    number: number,
    block: Uint8Array,
    bytesMax: number,
    signal?: AbortSignal,
  ): Promise<Uint8Array> {
    const line = `node ${verb} ${session || "-"} ${number} ${block.length}\r\n`;
    const request = concatBytes([latin1Bytes(line), block, CR_LF]);
    return await this.#pool.with((peer) => {
      const read = (): Promise<Uint8Array> => this.#read(peer, bytesMax);
      const limitMs = 2 * peer.timeoutMs + MS_PER_BYTE * (block.length + bytesMax);
      return peer.exchange(`node ${verb}`, request, read, limitMs, signal);
    });
  }

  async #read(peer: Peer, bytesMax: number): Promise<Uint8Array> {
    const line = await peer.line();
    const [, length] = BLOCK.exec(line) ?? [];
    // Behind another reply the connection may hold anything: an error ends it.
    if (length === undefined) throw new OriginRefusal(this.name, line);
    if (Number(length) <= bytesMax) return await peer.block(Number(length));
    throw new LongReplyError(
      `${this.name}: announces a reply of ${length} bytes; the longest has ${bytesMax}`,
    );
  }

  /** Closes idle connections; the others are closed after their requests. */
  close(): void {
    this.#pool.close();
  }
}

/** Whether an error is one of the network, and may pass. */
export function mayPass(error: unknown): boolean {
  return error instanceof PeerError || error instanceof UnsentError ||
    (error instanceof OriginRefusal && (error.isSessionOver || error.mustWait));
}

/** Whether it is unknown what became of a request that ended with this error. */
export function isOutcomeUnknown(error: unknown): boolean {
  return error instanceof PeerError || isMalformed(error);
}

/** Whether an origin has sent something that no origin sends. */
export function isMalformed(error: unknown): boolean {
  return error instanceof WireError || error instanceof LongReplyError ||
    (error instanceof OriginRefusal && !error.isError);
}
