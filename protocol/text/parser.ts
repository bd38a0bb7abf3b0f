import * as bytesModule from "../../store/base/bytes.ts";
import { deadlineSec } from "../../store/clock.ts";
import * as limitsModule from "../../store/limits.ts";
import { CommandIndex, type CommandRow, commandsFor } from "./table.ts";
import * as tableModule from "./table.ts";
import { beginGetss } from "./lease.ts";
import { getOne, hasLineEnd, MultigetKind } from "./read.ts";
import { storeAndAnswer } from "./write.ts";
import { Access } from "../auth/access.ts";
import { MetaRequest } from "../meta/request.ts";
import { type Conversation, ConversationState, type Parser } from "../conversation.ts";
import * as repliesModule from "../reply/replies.ts";
import * as replyBufferModule from "../reply/reply_buffer.ts";
import { Flow, type Request } from "../request.ts";
import * as requestModule from "../request.ts";
import { prefetchGets, prefetchLines } from "../prefetch.ts";
import { park, readRowsAhead, RowWait } from "../row_wait.ts";
import type { HoldingThread } from "../thread_context.ts";
import * as workBudgetModule from "../work_budget.ts";

const { CR, CRLF, CRLF_LENGTH, LF, SPACE } = bytesModule;
const { KEY_LENGTH_MAX, LINE_LENGTH_MAX } = limitsModule;
const { COMMANDS } = tableModule;
const { REFUSAL, REPLY } = repliesModule;
const { REPLY_ROOM_MIN } = replyBufferModule;
const { WORDS_MAX } = requestModule;
const { WORK: { REQUEST: REQUEST_UNITS } } = workBudgetModule;

// Hot path: no allocation.

/** Little-endian pieces of command lines. */
const GET_SPACE = 0x20746567; // "get "
const GETS = 0x73746567; // "gets"
const SET_SPACE = 0x20746573; // "set "
const MG_SPACE = 0x20676d; // "mg "
const MN_CRLF = 0x0a0d6e6d; // "mn\r\n"
const THREE_BYTES = 0xffffff;
const ZERO = 0x30;
const LOWER_S = 0x73;
/** Lines shorter than this, their end included, are refused (memcached: proto_text.c). */
const LINE_BYTES_MIN = 4;

/** Length of the command and its blank, in bytes. */
const GET_LENGTH = 4;
const GETS_LENGTH = 5;
const SET_LENGTH = 4;
/** `set k 0 0 0` and CR LF. */
const SET_LINE_LENGTH_MIN = 13;
/** So that the number is an int32. */
const SMALL_NUMBER_DIGITS_MAX = 9;

const GET_ROW = COMMANDS.findIndex(({ name }) => name === "get");
const SET_ROW = COMMANDS.findIndex(({ name }) => name === "set");
const GETS_ROW = COMMANDS.findIndex(({ name }) => name === "gets");
const GETSS_ROW = COMMANDS.findIndex(({ name }) => name === "getss");

/** The text protocol: finds requests in the input and hands them to their handlers. */
export class TextParser implements Parser {
  readonly isOptimistic = true;
  readonly #thread: HoldingThread;
  readonly #request: Request;
  readonly #meta: MetaRequest;
  readonly commands: readonly CommandRow[] = COMMANDS;
  readonly #commands: CommandIndex;
  readonly #mayWrite: boolean;
  /** Offset behind the last small number. */
  #numberEnd = 0;

  /** @param access What the peers may do. */
  constructor(thread: HoldingThread, access: Access = Access.ADMIN) {
    this.#thread = thread;
    this.#request = thread.request;
    this.#meta = new MetaRequest(thread);
    this.#commands = new CommandIndex(commandsFor(access));
    this.#mayWrite = access >= Access.WRITE;
  }

  run(conversation: Conversation, start: number, end: number): number {
    const { reply, work } = this.#thread;
    const { view } = this.#thread.input;
    this.#request.trailerLength = CRLF_LENGTH;
    let at = start;
    // Not the first request, which may be alone: a prefetch gains nothing for it.
    let prefetchedTo = start + 1;
    for (;;) {
      if (at === end) return this.#pause(conversation, ConversationState.NEEDS_INPUT, at);
      if (reply.room < REPLY_ROOM_MIN) {
        return this.#pause(conversation, ConversationState.UNFINISHED, at);
      }
      if (work.spent >= work.holdEnd || reply.length > reply.yieldAt) {
        if (work.isSpent) return this.#pause(conversation, ConversationState.UNFINISHED, at);
        this.#thread.yieldMutex();
      }
      // 0: too short for a command.
      const word = end - at >= LINE_BYTES_MIN ? view.getInt32(at, true) : 0;
      if (end - at > GETS_LENGTH) {
        if (word === GET_SPACE) {
          this.#thread.releaseForReads();
          const next = this.#gets(conversation, at, end);
          if (conversation.task !== null) return next;
          if (next > at) at = next;
          else if (!this.#beginKeys(conversation, at, end, false)) return at;
          else return at + GET_LENGTH;
          continue;
        }
        if (word === GETS) {
          this.#thread.releaseForReads();
          if (this.#thread.input.bytes[at + 4] === SPACE) {
            return this.#beginKeys(conversation, at, end, true) ? at + GETS_LENGTH : at;
          }
          const next = this.#beginGetss(conversation, at, end);
          if (next > at) return next;
        }
      }
      if (at >= prefetchedTo) prefetchedTo = prefetchLines(this.#thread, at, end);
      work.spent += REQUEST_UNITS;
      const flow = this.#execute(conversation, at, end, word);
      if (flow === Flow.DONE) at = this.#request.next;
      else if (flow === Flow.PARKED) return this.#park(conversation, at, end);
      else return this.#leave(conversation, flow);
    }
  }

  /**
   * Executes consecutive lines of `get`, one blank, one key and CR LF as one group.
   *
   * @returns The offset of the next line, or `start` if the first line has another form and nothing has happened.
   */
  #gets(conversation: Conversation, start: number, end: number): number {
    const { cache, operation, reply, ops, work } = this.#thread;
    const { prefetch } = cache;
    const next = prefetchGets(this.#thread, start, end);
    for (let index = 0; index < prefetch.count; index++) {
      const keyOffset = prefetch.keyOffset(index);
      if (reply.room < REPLY_ROOM_MIN) return keyOffset - GET_LENGTH;
      if (work.spent >= work.holdEnd || reply.length > reply.yieldAt) {
        if (work.isSpent) return keyOffset - GET_LENGTH;
        this.#thread.yieldMutex();
      }
      work.spent += REQUEST_UNITS;
      ops.countText(GET_ROW);
      const keyLength = prefetch.keyLength(index);
      operation.setKey(keyOffset, keyLength, prefetch.hashAt(index));
      if (getOne(conversation)) continue;
      if (!this.#thread.hasParked) return keyOffset + keyLength;
      ops.takeBackText(GET_ROW);
      conversation.task = new RowWait(this.#thread, null);
      readRowsAhead(conversation, index + 1);
      return keyOffset - GET_LENGTH;
    }
    return next;
  }

  /**
   * Starts any other get or gets line. It is executed key by key and may be longer than a buffer. A line of ordinary
   * length starts only when all of it has arrived, so that it fails as a whole.
   *
   * @returns False if it does not start yet.
   */
  #beginKeys(
    conversation: Conversation,
    start: number,
    end: number,
    withId: boolean,
  ): boolean {
    if (end - start <= LINE_LENGTH_MAX && !hasLineEnd(this.#thread, start, end)) {
      this.#pause(conversation, ConversationState.NEEDS_INPUT, start);
      return false;
    }
    this.#thread.ops.countText(withId ? GETS_ROW : GET_ROW);
    const { multiget } = conversation.protocols;
    multiget.begin(withId ? MultigetKind.GETS : MultigetKind.GET);
    conversation.task = multiget;
    return true;
  }

  /**
   * Starts a complete getss line with a small number of seconds.
   *
   * @returns The offset of its keys, or `start` if the line has another form and nothing has happened.
   */
  #beginGetss(conversation: Conversation, start: number, end: number): number {
    const { input, settings } = this.#thread;
    const { bytes } = input;
    if (settings.leaseMask === 0 || !this.#mayWrite || bytes[start + 4] !== LOWER_S) return start;
    const seconds = this.#smallNumber(start + GETS_LENGTH, end);
    if (seconds < 0 || bytes[this.#numberEnd] !== SPACE || bytes[this.#numberEnd + 1]! <= SPACE) {
      return start;
    }
    if (!hasLineEnd(this.#thread, start, end)) return start;
    if (beginGetss(conversation, seconds) !== null) return start;
    this.#thread.ops.countText(GETSS_ROW);
    return this.#numberEnd;
  }

  /**
   * Executes any line by the table of commands.
   *
   * @param word The line's first four bytes, or 0.
   */
  #execute(conversation: Conversation, start: number, end: number, word: number): Flow {
    const request = this.#request;
    request.start = start;
    request.replyStart = this.#thread.reply.length;
    request.inputEnd = end;
    request.noreply = false;
    if (this.#mayWrite && this.#readSet(start, end)) {
      this.#thread.hold();
      return this.#count(SET_ROW, storeAndAnswer(conversation));
    }
    if ((word & THREE_BYTES) !== MG_SPACE && word !== MN_CRLF) this.#thread.hold();
    if (!this.#splitLine(start, end)) {
      return end - start > LINE_LENGTH_MAX ? Flow.CLOSE_ERROR : Flow.INCOMPLETE;
    }
    request.next = request.lineEnd;
    if (request.lineEnd - start < LINE_BYTES_MIN) return this.#refuse(REFUSAL.BAD_FORMAT);
    const { bytes } = this.#thread.input;
    // A line that starts with a blank has no command.
    const row = bytes[start] === SPACE || request.wordCount === 0
      ? null
      : this.#commands.find(this.#thread.input, start, request.wordEnd[0]! - start);
    if (row === null) return this.#unknown(conversation);
    const { parking } = this.#thread.cache;
    if (parking !== null && parking.isAhead && !row.isAhead) return Flow.DONE;
    if (request.wordCount < row.wordsMin) return this.#refuse(REFUSAL.BAD_FORMAT);
    request.noreply = row.noreply && this.#lastWordIs(NOREPLY);
    const flow = this.#count(row.index, row.handler(conversation, this.#meta));
    return flow === Flow.UNKNOWN ? this.#unknown(conversation) : flow;
  }

  /** Counts a command, unless it will be parsed again. */
  #count(row: number, flow: Flow): Flow {
    if (flow === Flow.INCOMPLETE) return flow;
    if (this.#thread.hasParked) return Flow.PARKED;
    this.#thread.ops.countText(row);
    return flow;
  }

  /** Makes the connection wait for the database, and executes the requests behind the one at `start` ahead. */
  #park(conversation: Conversation, start: number, end: number): number {
    const { input: { view } } = this.#thread;
    park(conversation, () => {
      const { next } = this.#request;
      if (end - next < LINE_BYTES_MIN) return false;
      const word = view.getInt32(next, true);
      if (word === GET_SPACE || word === GETS) return false;
      return this.#execute(conversation, next, end, word) === Flow.PARKED;
    });
    return start;
  }

  /**
   * Reads a set line in one pass into the operation, if it has single blanks, no further words and small numbers.
   *
   * @returns False if the line has another form.
   */
  #readSet(start: number, end: number): boolean {
    const { bytes, view } = this.#thread.input;
    if (end - start < SET_LINE_LENGTH_MIN || view.getInt32(start, true) !== SET_SPACE) return false;
    const keyOffset = start + SET_LENGTH;
    let at = keyOffset + this.#thread.cache.prefetch.lengthAt(keyOffset);
    while (at < end && bytes[at]! > SPACE) at++;
    const keyLength = at - keyOffset;
    if (keyLength === 0 || keyLength > KEY_LENGTH_MAX) return false;
    const flags = this.#smallNumber(at, end);
    const exptime = this.#smallNumber(this.#numberEnd, end);
    const valueLength = this.#smallNumber(this.#numberEnd, end);
    if ((flags | exptime | valueLength) < 0) return false;
    at = this.#numberEnd;
    if (end - at < 2 || view.getInt16(at, true) !== CRLF) return false;
    const { operation, memory } = this.#thread;
    operation.begin(keyOffset, keyLength);
    operation.valueLength = valueLength;
    operation.clientFlags = flags;
    operation.deadlineSec = deadlineSec(memory, exptime);
    this.#request.lineEnd = at + 2;
    return true;
  }

  /**
   * Reads a blank and up to nine digits.
   *
   * @returns The number, or -1 for anything else. `#numberEnd` is the offset behind it.
   */
  #smallNumber(start: number, end: number): number {
    const { bytes } = this.#thread.input;
    let at = start + 1;
    if (at >= end || bytes[start] !== SPACE) return -1;
    const last = Math.min(end, at + SMALL_NUMBER_DIGITS_MAX);
    let value = 0;
    for (; at < last; at++) {
      const digit = bytes[at]! - ZERO;
      if (digit < 0 || digit > 9) break;
      value = value * 10 + digit;
    }
    this.#numberEnd = at;
    return at === start + 1 ? -1 : value;
  }

  /** Finds the line's end and its words. Returns false if the line does not end in the input. */
  #splitLine(start: number, end: number): boolean {
    const request = this.#request;
    const { wordStart, wordEnd } = request;
    const { bytes } = this.#thread.input;
    let count = 0;
    let at = start;
    for (;;) {
      while (at < end && bytes[at] === SPACE) at++;
      const word = at;
      while (at < end && bytes[at] !== SPACE && bytes[at] !== LF) at++;
      if (at === end) return false;
      const last = bytes[at] === LF;
      const wordEndOffset = last && at > word && bytes[at - 1] === CR ? at - 1 : at;
      if (wordEndOffset > word && count < WORDS_MAX) {
        wordStart[count] = word;
        wordEnd[count] = wordEndOffset;
        count++;
      }
      if (last) {
        request.lineEnd = at + 1;
        request.wordCount = count;
        return true;
      }
    }
  }

  #unknown(conversation: Conversation): Flow {
    const request = this.#request;
    if (request.wordCount > 1 && this.#lastWordStartsWith(HTTP)) return Flow.CLOSE_ERROR;
    if (request.wordCount > 1 && this.#lastWordIs(NOREPLY)) return Flow.DONE;
    conversation.thread.reply.put(REPLY.ERROR);
    return Flow.DONE;
  }

  #refuse(line: Uint8Array): Flow {
    this.#thread.reply.put(line);
    return Flow.DONE;
  }

  #lastWordIs(word: Uint8Array): boolean {
    const request = this.#request;
    return request.wordLength(request.wordCount - 1) === word.length &&
      this.#lastWordStartsWith(word);
  }

  #lastWordStartsWith(word: Uint8Array): boolean {
    const request = this.#request;
    const { bytes } = this.#thread.input;
    const last = request.wordCount - 1;
    if (last < 1 || request.wordLength(last) < word.length) return false;
    const start = request.wordStart[last]!;
    for (let at = 0; at < word.length; at++) if (bytes[start + at] !== word[at]) return false;
    return true;
  }

  /** Ends `run` for the reason that a handler returned. */
  #leave(conversation: Conversation, flow: Flow): number {
    const request = this.#request;
    switch (flow) {
      case Flow.INCOMPLETE:
        return this.#pause(conversation, ConversationState.NEEDS_INPUT, request.start);
      case Flow.CLOSE_ERROR:
        conversation.closeReason = "error";
        // falls through
      case Flow.CLOSE:
        return this.#pause(conversation, ConversationState.CLOSING, request.inputEnd);
      default:
        return request.next;
    }
  }

  #pause(conversation: Conversation, state: ConversationState, at: number): number {
    conversation.pause(state);
    return at;
  }
}

const NOREPLY = new TextEncoder().encode("noreply");
const HTTP = new TextEncoder().encode("HTTP/");
