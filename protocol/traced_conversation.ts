import { LF } from "../store/base/bytes.ts";
import { clockSec } from "../store/clock.ts";
import { type ConnectionId, NO_OWNER } from "../store/connections.ts";
import { Access } from "./auth/access.ts";
import { BINARY_ERRORS, TEXT_ERROR } from "./reply/replies.ts";
import { HEADER_LENGTH, REPLY_MAGIC, REQUEST_MAGIC } from "./binary_header.ts";
import {
  Conversation,
  type ConversationOptions,
  ConversationState,
  type Protocols,
} from "./conversation.ts";

/** From this verbosity on (-vv) protocol errors are logged. */
export const ERRORS_VERBOSITY = 2;
/** From this verbosity on (-vvv) commands are logged. The `verbosity` command cannot raise it so far (memcached). */
const COMMANDS_VERBOSITY = 3;
/** Longer commands and replies are cut, in bytes. */
const LOGGED_BYTES_MAX = 200;
/** Lines that one thread logs per second at most. */
const LINES_PER_SECOND_MAX = 1000;
/** The session of a node, which lets its owner speak for that node, is not logged. */
const NODE_SESSION = /^( *node +\S+ +)\S+/;

/** Something about a connection, for the log. */
export interface ProtocolEvent {
  readonly level: "debug" | "trace";
  /** Stable name: `protocol_error`, `command` or `log_limited`. */
  readonly event: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, string | number>>;
}

/** Passes on the events of one thread, at most LINES_PER_SECOND_MAX a second. */
export class ProtocolLog {
  readonly #report: (event: ProtocolEvent) => void;
  #second = -1;
  #lines = 0;

  constructor(report: (event: ProtocolEvent) => void) {
    this.#report = report;
  }

  /** @param nowSec The store's clock. */
  add(nowSec: number, event: ProtocolEvent): void {
    if (nowSec !== this.#second) {
      this.#second = nowSec;
      this.#lines = 0;
    }
    this.#lines++;
    if (this.#lines <= LINES_PER_SECOND_MAX) return this.#report(event);
    if (this.#lines > LINES_PER_SECOND_MAX + 1) return;
    this.#report({
      level: "debug",
      event: "log_limited",
      message: `more than ${LINES_PER_SECOND_MAX} commands and errors in a second on one thread: ` +
        `the rest of this second is not logged`,
      fields: { limit: LINES_PER_SECOND_MAX },
    });
  }
}

/**
 * A conversation that logs its protocol errors and commands. Feeds one request at a time, so that the bytes of a
 * request and of its reply are known. Used from verbosity 2 on: the hot path does not know it.
 */
export class TracedConversation extends Conversation {
  readonly #log: ProtocolLog;
  readonly #mayBeBinary: boolean;
  /** The request under way, for errors that follow its first bytes. */
  #command = "";
  /** Whether the request at the beginning of the input is logged: it waits for a row. */
  #isLogged = false;
  /** Bytes of the binary request under way that have not been fed. */
  #binaryLeft = 0;

  constructor(
    protocols: Protocols,
    owner: ConnectionId,
    options: ConversationOptions,
    log: ProtocolLog,
  ) {
    super(protocols, owner, options);
    this.#log = log;
    this.#mayBeBinary = options.protocol !== "ascii";
  }

  override feed(start: number, end: number): number {
    const { reply, work } = this.thread;
    let at = start;
    let stop = start;
    work.begin();
    do {
      // The `verbosity` command may have turned it off.
      if (this.#verbosity < ERRORS_VERBOSITY) return this.execute(at, end);
      const begins = this.task === null;
      const command = begins && at < end ? this.#commandAt(at, end) : this.#command;
      stop = this.#pieceEnd(begins, at, Math.max(at, stop), end);
      const replyAt = reply.length;
      const next = this.execute(at, stop);
      // A command that waits for a row is executed once more, as part of what waits.
      const hasBegun = begins && this.task !== null;
      if (next > at || hasBegun || this.state === ConversationState.CLOSING) {
        const isNew = begins && !this.#isLogged;
        if (isNew && this.#verbosity >= COMMANDS_VERBOSITY) this.#logCommand(command);
        this.#isLogged = next === at;
        this.#command = command;
        this.#binaryLeft = Math.max(0, this.#binaryLeft - (next - at));
      }
      if (this.#verbosity >= ERRORS_VERBOSITY) this.#logError(replyAt);
      const isShort = this.state === ConversationState.NEEDS_INPUT && stop < end;
      // A piece that was too short is fed again, longer, as part of the same request.
      if (next === at && isShort) work.begin();
      at = next;
    } while (this.state === ConversationState.NEEDS_INPUT && stop < end);
    return at;
  }

  get #verbosity(): number {
    return this.thread.tunables.get("verbosity");
  }

  /** Returns the end of a piece with at most one request. A piece that was too short is made longer. */
  #pieceEnd(begins: boolean, at: number, fed: number, end: number): number {
    const { bytes, view } = this.thread.input;
    if (this.#isBinary(at, end) && begins && fed === at) {
      if (end - at < HEADER_LENGTH) return end;
      this.#binaryLeft = HEADER_LENGTH + view.getUint32(at + 8);
    }
    if (this.#binaryLeft > 0) return fed === at ? Math.min(end, at + this.#binaryLeft) : end;
    const lineFeed = bytes.indexOf(LF, fed);
    return lineFeed < 0 || lineFeed >= end ? end : lineFeed + 1;
  }

  #isBinary(at: number, end: number): boolean {
    return this.#mayBeBinary && at < end && this.thread.input.bytes[at] === REQUEST_MAGIC;
  }

  /** The line, or the name and the key of a binary request. */
  #commandAt(at: number, end: number): string {
    const { bytes, view } = this.thread.input;
    if (!this.#isBinary(at, end)) {
      // A mistake in the line before makes a command of a password.
      if (this.access === Access.NONE) return "a line before authentication";
      const lineFeed = bytes.subarray(at, end).indexOf(LF);
      return escaped(bytes, at, lineFeed < 0 ? end : at + lineFeed).replace(NODE_SESSION, "$1*");
    }
    if (end - at < HEADER_LENGTH) return "";
    const opcode = bytes[at + 1]!;
    const command = this.protocols.binaryFor(Access.ADMIN).commands.find(({ index }) =>
      index === opcode
    );
    const name = command?.name ?? `opcode 0x${opcode.toString(16).padStart(2, "0")}`;
    const keyAt = at + HEADER_LENGTH + bytes[at + 4]!;
    const key = escaped(bytes, keyAt, Math.min(end, keyAt + view.getUint16(at + 2)));
    return key === "" ? name : `${name} ${key}`;
  }

  #logCommand(command: string): void {
    this.#add("trace", "command", (peer) => `${peer}: ${command}`, { command });
  }

  /** Logs the error among the replies from `replyAt` on, if the piece was answered with one. */
  #logError(replyAt: number): void {
    const error = this.#errorAt(replyAt);
    if (error === "") return;
    const command = this.#command;
    this.#add("debug", "protocol_error", (peer) => `${peer}: ${error}: ${command}`, {
      reason: error,
      command,
    });
  }

  #errorAt(replyAt: number): string {
    const { reply } = this.thread;
    const { bytes, view } = reply.region;
    if (reply.length === replyAt) {
      // quit closes without a reply, too.
      const isRefused = this.state === ConversationState.CLOSING && this.closeReason === "error";
      return isRefused ? "malformed, closing" : "";
    }
    if (bytes[replyAt] === REPLY_MAGIC) return BINARY_ERRORS[view.getUint16(replyAt + 6)] ?? "";
    const line = escaped(bytes, replyAt, Math.min(reply.length, replyAt + LOGGED_BYTES_MAX));
    return TEXT_ERROR.test(line) ? line.split("\\r")[0]! : "";
  }

  #add(
    level: ProtocolEvent["level"],
    event: string,
    message: (peer: string) => string,
    fields: ProtocolEvent["fields"],
  ): void {
    const { connections, memory } = this.thread;
    const isDatagram = this.owner === NO_OWNER;
    const peer = isDatagram ? "udp" : connections.peerOf(this.owner);
    const conn = isDatagram ? {} : { conn: connections.numberOf(this.owner) };
    this.#log.add(clockSec(memory), {
      level,
      event,
      message: message(peer),
      fields: { peer, ...conn, ...fields },
    });
  }
}

/** The bytes [start, end) in printable ASCII, the others as \xNN, at most LOGGED_BYTES_MAX of them. */
function escaped(bytes: Uint8Array, start: number, end: number): string {
  const last = Math.min(end, start + LOGGED_BYTES_MAX);
  let text = "";
  for (let at = start; at < last; at++) {
    const byte = bytes[at]!;
    if (byte === 0x0d) text += at + 1 === end ? "" : "\\r";
    else if (byte === 0x5c) text += "\\\\";
    else if (byte >= 0x20 && byte < 0x7f) text += String.fromCharCode(byte);
    else text += `\\x${byte.toString(16).padStart(2, "0")}`;
  }
  return last < end ? `${text}…` : text;
}
