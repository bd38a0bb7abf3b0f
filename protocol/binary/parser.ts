import type { CommandName } from "../counts/op_counts.ts";
import { KEY_LENGTH_MAX } from "../../store/limits.ts";
import { putError } from "./replies.ts";
import { BinaryRequest } from "./request.ts";
import { BINARY_COMMANDS, type BinaryCommand, binaryCommandsFor, Part } from "./table.ts";
import { Access } from "../auth/access.ts";
import { type Conversation, ConversationState, type Parser } from "../conversation.ts";
import * as binaryHeaderModule from "../binary_header.ts";
import * as prefetchModule from "../prefetch.ts";
import { prefetchPackets } from "../prefetch.ts";
import { REPLY_ROOM_MIN } from "../reply/reply_buffer.ts";
import { Flow, type Request } from "../request.ts";
import { Status } from "../reply/binary_status.ts";
import { SwallowTask } from "../tasks.ts";
import { park, readRowsAhead } from "../row_wait.ts";
import type { HoldingThread } from "../thread_context.ts";
import * as workBudgetModule from "../work_budget.ts";

const { HEADER_LENGTH, REQUEST_MAGIC } = binaryHeaderModule;
const { PacketKind } = prefetchModule;
const { WORK: { REQUEST: REQUEST_UNITS } } = workBudgetModule;

// Hot path: no allocation.

/** Requests with longer bodies are refused (memcached: proto_bin.c). */
const BODY_LENGTH_MAX = 1024 * 1024 * 1024;
/** The first opcode of yrmcds. A malformed request from here on does not close the connection. */
const YRMCDS_OPCODES = 0x40;

/** The binary protocol: finds requests in the input and hands them to their handlers. */
export class BinaryParser implements Parser {
  readonly isOptimistic = true;
  readonly commands: readonly CommandName[] = BINARY_COMMANDS.map(({ name, opcode }) => ({
    name,
    index: opcode,
  }));
  readonly #thread: HoldingThread;
  readonly #request: Request;
  readonly #binary: BinaryRequest;
  readonly #access: Access;
  readonly #byOpcode: (BinaryCommand | null)[] = new Array(256).fill(null);
  /** PacketKind by opcode. */
  readonly #kinds = new Uint8Array(256);

  /** @param access What the peers may do. */
  constructor(thread: HoldingThread, access: Access = Access.ADMIN) {
    this.#thread = thread;
    this.#access = access;
    this.#request = thread.request;
    this.#binary = new BinaryRequest(thread);
    for (const command of binaryCommandsFor(access)) {
      this.#byOpcode[command.opcode] = command;
      if (command.key !== Part.SOME) continue;
      this.#kinds[command.opcode] = command.grouped ? PacketKind.KEY_ONLY : PacketKind.KEYED;
    }
  }

  run(conversation: Conversation, start: number, end: number): number {
    const { reply, work } = this.#thread;
    const request = this.#request;
    request.trailerLength = 0;
    let at = start;
    let prefetchedTo = start;
    for (;;) {
      if (end - at < HEADER_LENGTH) return pause(conversation, ConversationState.NEEDS_INPUT, at);
      if (reply.room < REPLY_ROOM_MIN) {
        return pause(conversation, ConversationState.UNFINISHED, at);
      }
      if (work.spent >= work.holdEnd || reply.length > reply.yieldAt) {
        if (work.isSpent) return pause(conversation, ConversationState.UNFINISHED, at);
        this.#thread.yieldMutex();
      }
      work.spent += REQUEST_UNITS;
      if (at >= prefetchedTo) {
        prefetchedTo = prefetchPackets(this.#thread, at, end, this.#kinds, PacketKind.KEYED);
      }
      const flow = this.#execute(conversation, at, end);
      if (flow === Flow.DONE) at = request.next;
      else if (flow === Flow.PARKED) return this.#park(conversation, request.start, end);
      else return this.#leave(conversation, flow);
    }
  }

  #execute(conversation: Conversation, start: number, end: number): Flow {
    const { view, bytes } = this.#thread.input;
    const request = this.#request;
    const binary = this.#binary;
    request.start = start;
    request.replyStart = this.#thread.reply.length;
    request.inputEnd = end;
    if (bytes[start] !== REQUEST_MAGIC) return Flow.CLOSE_ERROR;
    const opcode = bytes[start + 1]!;
    const keyLength = view.getUint16(start + 2);
    const extrasLength = bytes[start + 4]!;
    const bodyLength = view.getUint32(start + 8);
    binary.opcode = opcode;
    binary.opaque = view.getInt32(start + 12);
    const valueLength = bodyLength - keyLength - extrasLength;
    const command = this.#byOpcode[opcode] ?? null;
    if (
      command === null || valueLength < 0 || bodyLength > BODY_LENGTH_MAX ||
      !isWellFormed(command, extrasLength, keyLength, valueLength)
    ) return this.#refuseMalformed(conversation, command, valueLength, bodyLength);
    const valueOffset = start + HEADER_LENGTH + extrasLength + keyLength;
    if (valueOffset > end) return Flow.INCOMPLETE;
    const { parking } = this.#thread.cache;
    if (parking !== null && parking.isAhead && !command.isAhead) return Flow.DONE;
    if (command.grouped) return this.#executeGroup(conversation, start, end);
    binary.quiet = command.quiet;
    binary.extrasOffset = start + HEADER_LENGTH;
    binary.extrasLength = extrasLength;
    request.lineEnd = valueOffset;
    request.next = valueOffset;
    this.#beginOperation(start, valueOffset - keyLength, keyLength, valueLength);
    if (command.needsMutex) this.#thread.hold();
    const flow = command.handler(conversation, binary);
    if (flow === Flow.INCOMPLETE) return flow;
    if (this.#thread.hasParked) return Flow.PARKED;
    this.#thread.ops.countBinary(opcode);
    return flow;
  }

  /** Makes the connection wait for the database, and executes the requests behind the one at `start` ahead. */
  #park(conversation: Conversation, start: number, end: number): number {
    const request = this.#request;
    park(conversation, () => {
      const { next } = request;
      return end - next >= HEADER_LENGTH &&
        this.#execute(conversation, next, end) === Flow.PARKED;
    });
    return start;
  }

  /** Starts the operation of a request: its key, its value's length, its cas id. */
  #beginOperation(start: number, keyOffset: number, keyLength: number, valueLength: number): void {
    const { operation, input: { view } } = this.#thread;
    operation.begin(keyOffset, keyLength);
    operation.valueLength = valueLength;
    operation.compareHigh = view.getInt32(start + 16);
    operation.compareLow = view.getInt32(start + 20);
    operation.compare = (operation.compareHigh | operation.compareLow) !== 0;
  }

  /**
   * Refuses a request whose lengths fit no command. Closes the connection, unless the body's length
   * can be trusted: then skips the body.
   */
  #refuseMalformed(
    conversation: Conversation,
    command: BinaryCommand | null,
    valueLength: number,
    bodyLength: number,
  ): Flow {
    // Before authentication this comes first, as in memcached.
    if (this.#access === Access.NONE && command === null) return this.#refuse(Status.REFUSED);
    if (valueLength < 0) return this.#refuse(Status.UNKNOWN_COMMAND);
    if (bodyLength > BODY_LENGTH_MAX) return this.#refuse(Status.INVALID);
    if (command === null) return this.#passOver(conversation, Status.UNKNOWN_COMMAND, bodyLength);
    if (command.opcode < YRMCDS_OPCODES) return this.#refuse(Status.INVALID);
    return this.#passOver(conversation, Status.INVALID, bodyLength);
  }

  /** Executes a grouped request and the following requests of its group. */
  #executeGroup(conversation: Conversation, start: number, end: number): Flow {
    const { cache, operation, input, ops, reply, work } = this.#thread;
    const { prefetch } = cache;
    const { bytes, view } = input;
    const request = this.#request;
    const binary = this.#binary;
    this.#thread.releaseForReads();
    const next = prefetchPackets(this.#thread, start, end, this.#kinds, PacketKind.KEY_ONLY);
    for (let index = 0; index < prefetch.count; index++) {
      const keyOffset = prefetch.keyOffset(index);
      const keyLength = prefetch.keyLength(index);
      const at = keyOffset - HEADER_LENGTH;
      request.next = at;
      if (reply.room < REPLY_ROOM_MIN) return Flow.DONE;
      if (work.spent >= work.holdEnd || reply.length > reply.yieldAt) {
        if (work.isSpent && index > 0) return Flow.DONE;
        this.#thread.yieldMutex();
      }
      if (index > 0) work.spent += REQUEST_UNITS;
      const opcode = bytes[at + 1]!;
      const command = this.#byOpcode[opcode]!;
      binary.opcode = opcode;
      binary.opaque = view.getInt32(at + 12);
      binary.quiet = command.quiet;
      // Grouped commands use only the key, and its hash.
      operation.setKey(keyOffset, keyLength, prefetch.hashAt(index));
      ops.countBinary(opcode);
      request.next = keyOffset + keyLength;
      request.replyStart = reply.length;
      const flow = command.handler(conversation, binary);
      if (this.#thread.hasParked) {
        ops.takeBackBinary(opcode);
        request.start = at;
        readRowsAhead(conversation, index + 1);
        return Flow.PARKED;
      }
      if (flow !== Flow.DONE) return flow;
    }
    request.next = next;
    return Flow.DONE;
  }

  /** Answers and closes the connection: the start of the next request is unknown. */
  #refuse(status: Status): Flow {
    putError(this.#thread.reply, this.#binary, status);
    return Flow.CLOSE_ERROR;
  }

  /** Answers, and skips the body. */
  #passOver(conversation: Conversation, status: Status, bodyLength: number): Flow {
    const request = this.#request;
    putError(this.#thread.reply, this.#binary, status);
    request.next = request.start + HEADER_LENGTH;
    if (request.inputEnd - request.next >= bodyLength) {
      request.next += bodyLength;
      return Flow.DONE;
    }
    conversation.task = new SwallowTask(bodyLength);
    return Flow.UNDER_WAY;
  }

  /** Ends `run` for the reason that a handler returned. */
  #leave(conversation: Conversation, flow: Flow): number {
    const request = this.#request;
    switch (flow) {
      case Flow.INCOMPLETE:
        return pause(conversation, ConversationState.NEEDS_INPUT, request.start);
      case Flow.CLOSE_ERROR:
        conversation.closeReason = "error";
        // falls through
      case Flow.CLOSE:
        return pause(conversation, ConversationState.CLOSING, request.inputEnd);
      default:
        return request.next;
    }
  }
}

function isWellFormed(
  command: BinaryCommand,
  extrasLength: number,
  keyLength: number,
  valueLength: number,
): boolean {
  return command.extras.includes(extrasLength) && fits(command.key, keyLength) &&
    keyLength <= KEY_LENGTH_MAX && fits(command.value, valueLength);
}

function fits(part: Part, length: number): boolean {
  return part === Part.ANY || (length > 0) === (part === Part.SOME);
}

function pause(conversation: Conversation, state: ConversationState, at: number): number {
  conversation.pause(state);
  return at;
}
