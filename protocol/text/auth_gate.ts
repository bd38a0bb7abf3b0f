import type { CommandName } from "../counts/op_counts.ts";
import { CR, CRLF_LENGTH, LF, SPACE } from "../../store/base/bytes.ts";
import { BUFFERED_VALUE_BYTES_MAX, LINE_LENGTH_MAX } from "../../store/limits.ts";
import { authenticate, type AuthReply, refuseAuthentication } from "../waits/auth_wait.ts";
import type { Credentials } from "../auth/password_checks.ts";
import { type Conversation, ConversationState, type Parser } from "../conversation.ts";
import { REFUSAL, REPLY } from "../reply/replies.ts";
import { REPLY_ROOM_MIN } from "../reply/reply_buffer.ts";
import { SwallowTask } from "../tasks.ts";
import type { RequestThread } from "../thread_context.ts";

// memcached's authentication by text (authfile.c, proto_text.c of 1.6.45): a line `set <any> <any> <any> <bytes>`, then
// the data block `<user> <password>`.

/** A longer data block closes the connection. In bytes. */
const LOGIN_BLOCK_LENGTH_MAX = 16_384;

const LINE = /^set +[^ ]+ +[^ ]+ +[^ ]+ +(\d{1,10})(?: .*)?$/s;
const UINT32_MAX = 2 ** 32 - 1;
/** With fewer bytes the line is not looked at. */
const BYTES_MIN = 3;
/** A shorter line, its LF not counted, closes the connection. */
const LINE_LENGTH_MIN = 6;
/** Cost of a line, in units of work. */
const LINE_UNITS = 16;

const decoder = new TextDecoder("latin1");

const TEXT_REPLY: AuthReply = {
  accepted: ({ reply }) => reply.put(REPLY.STORED),
  refused: ({ reply }) => reply.put(REFUSAL.AUTH_FAILED),
};

/** The text protocol of a peer that has not authenticated: understands nothing but authentication. */
export class TextAuthGate implements Parser {
  readonly commands: readonly CommandName[] = [];
  readonly #thread: RequestThread;

  constructor(thread: RequestThread) {
    this.#thread = thread;
  }

  run(conversation: Conversation, start: number, end: number): number {
    const { input: { bytes }, reply, work } = this.#thread;
    if (work.isSpent || reply.room < REPLY_ROOM_MIN) {
      return pause(conversation, ConversationState.UNFINISHED, start);
    }
    work.spent += LINE_UNITS;
    if (end - start < BYTES_MIN) return pause(conversation, ConversationState.NEEDS_INPUT, start);
    const lineFeed = bytes.subarray(start, end).indexOf(LF);
    // A line and a block that wait for their rest fit into PENDING_BYTES_MAX.
    if ((lineFeed < 0 ? end - start : lineFeed) > LINE_LENGTH_MAX) return close(conversation, end);
    if (lineFeed < 0) return pause(conversation, ConversationState.NEEDS_INPUT, start);
    if (lineFeed < LINE_LENGTH_MIN) return close(conversation, end);
    const line = decoder.decode(bytes.subarray(start, start + lineFeed));
    return this.#readBlock(conversation, line, start, end);
  }

  #readBlock(conversation: Conversation, line: string, start: number, end: number): number {
    const { input: { bytes }, reply } = this.#thread;
    const blockStart = start + line.length + 1;
    const length = line.endsWith("\r") ? loginBlockLength(line.slice(0, -1)) : null;
    if (length === null) {
      reply.put(REFUSAL.UNAUTHENTICATED);
      return blockStart;
    }
    if (length > LOGIN_BLOCK_LENGTH_MAX) {
      reply.put(REFUSAL.AUTH_TOO_LONG);
      return blockStart;
    }
    // No user has so long a name and a password.
    if (length > BUFFERED_VALUE_BYTES_MAX) {
      conversation.task = new SwallowTask(length + CRLF_LENGTH);
      refuseAuthentication(conversation, TEXT_REPLY);
      return blockStart;
    }
    const blockEnd = blockStart + length;
    if (blockEnd + CRLF_LENGTH > end) {
      conversation.valueMissing = true;
      return pause(conversation, ConversationState.NEEDS_INPUT, start);
    }
    if (bytes[blockEnd] !== CR || bytes[blockEnd + 1] !== LF) reply.put(REFUSAL.AUTH_NOT_ENDED);
    else this.#check(conversation, bytes.slice(blockStart, blockEnd));
    return blockEnd + CRLF_LENGTH;
  }

  #check(conversation: Conversation, block: Uint8Array): void {
    const credentials = readLogin(block);
    if (credentials === null) this.#thread.reply.put(REFUSAL.BAD_AUTH_FORMAT);
    else authenticate(conversation, credentials, TEXT_REPLY);
  }
}

/** Closes, because the peer does not keep to the protocol. */
function close(conversation: Conversation, end: number): number {
  conversation.closeReason = "error";
  return pause(conversation, ConversationState.CLOSING, end);
}

function pause(conversation: Conversation, state: ConversationState, at: number): number {
  conversation.pause(state);
  return at;
}

/**
 * Returns the length of the data block that the line announces, in bytes, or null if the line is no authentication.
 *
 * @param line One character a byte, without CR LF.
 */
function loginBlockLength(line: string): number | null {
  const length = Number(LINE.exec(line)?.[1] ?? NaN);
  return length <= UINT32_MAX ? length : null;
}

/** Reads a copy of the data block, without its CR LF. Returns null if it has no blank. */
function readLogin(block: Uint8Array): Credentials | null {
  const space = block.indexOf(SPACE);
  if (space < 0) return null;
  return { user: block.subarray(0, space), password: block.subarray(space + 1) };
}
