import { Access } from "../../protocol/auth/access.ts";
import {
  LOGIN_BLOCK_LENGTH_MAX,
  loginBlockLength,
  readLogin,
} from "../../protocol/auth/text_login.ts";
import { REQUEST_MAGIC } from "./binary/frames.ts";
import { BinaryRequests } from "./binary/serve.ts";
import { latin1Bytes } from "../rows/bytes.ts";
import { COMMANDS, type ProxyCommand } from "./commands.ts";
import type { TimedConnection } from "./connection_timeouts.ts";
import { type Login, PeerAccess } from "./peer_access.ts";
import type { Proxy } from "./proxy.ts";
import { failedLine, REPLY } from "./replies.ts";
import { type ProxySession, Refusal } from "./request.ts";
import { type ByteSource, LineReader, LineTooLongError } from "../rows/caches/line_reader.ts";
import { reasonOf } from "../reason.ts";

/** The two directions of a client's connection. */
export interface ByteStream extends ByteSource {
  write(bytes: Uint8Array): Promise<number>;
}

const CR = 0x0d;
const LF = 0x0a;
/** Longest request line, in bytes: a line may name many keys. */
const LINE_LENGTH_MAX = 64 * 1024;
/** Replies are sent before more input is read, when they exceed these bytes, or when one is older. */
const REPLY_BYTES = 64 * 1024;
const REPLY_DELAY_MS = 5;
/** Length of the CR LF behind a data block. */
const TRAILER_LENGTH = 2;

/** One client's connection. Executes its requests one after the other, and replies in the same order. */
export class ProxyConnection implements ProxySession, TimedConnection {
  readonly proxy: Proxy;
  readonly version: string;
  readonly #stream: ByteStream;
  readonly #reader: LineReader;
  readonly #binary: BinaryRequests;
  readonly #access: PeerAccess;
  #replies: Uint8Array[] = [];
  #replyBytes = 0;
  readonly #nowMs: () => number;
  readonly #openedAtMs: number;
  /** When the oldest unsent reply was made. */
  #oldestReplyMs = 0;
  #sendingSinceMs: number | null = null;
  #receivingSinceMs: number | null = null;
  #isSilent = false;
  #isStopping = false;

  /**
   * @param login Null: nobody has to authenticate.
   * @param nowMs The process's clock, in milliseconds; it never goes back.
   */
  constructor(
    proxy: Proxy,
    version: string,
    stream: ByteStream,
    login: Login | null = null,
    nowMs: () => number = () => performance.now(),
  ) {
    this.#nowMs = nowMs;
    this.#openedAtMs = nowMs();
    this.proxy = proxy;
    this.version = version;
    this.#stream = stream;
    this.#access = new PeerAccess(login);
    this.#reader = new LineReader({ read: (buffer) => this.#read(buffer) }, LINE_LENGTH_MAX);
    const append = (bytes: Uint8Array): void => this.#append(bytes);
    this.#binary = new BinaryRequests(proxy, version, this.#reader, this.#access, append);
  }

  line(text: string): void {
    if (!this.#isSilent) this.#append(latin1Bytes(`${text}\r\n`));
  }

  block(data: Uint8Array): void {
    if (this.#isSilent) return;
    this.#append(data);
    this.#append(latin1Bytes("\r\n"));
  }

  async sendLong(): Promise<void> {
    if (this.#replyBytes > REPLY_BYTES) await this.#flush();
  }

  /**
   * Ends the connection after the request in progress.
   *
   * @returns False when the connection waits for input: the caller closes the stream.
   */
  stop(): boolean {
    this.#isStopping = true;
    return this.#receivingSinceMs === null;
  }

  get sendingSinceMs(): number | null {
    return this.#sendingSinceMs;
  }

  get receivingSinceMs(): number | null {
    return this.#receivingSinceMs;
  }

  get unauthenticatedSinceMs(): number | null {
    return this.#access.level === Access.NONE ? this.#openedAtMs : null;
  }

  /**
   * Serves the peer until it closes, or sends `quit`.
   *
   * @throws The stream's error.
   */
  async serve(): Promise<void> {
    try {
      while (!this.#isStopping) {
        const first = await this.#reader.peek();
        if (first === null) break;
        const isBinary = first === REQUEST_MAGIC;
        const goesOn = isBinary ? await this.#binary.next() : await this.#nextLine();
        if (!goesOn) break;
        const isLate = this.#replyBytes > 0 &&
          this.#nowMs() - this.#oldestReplyMs > REPLY_DELAY_MS;
        if (isLate) await this.#flush();
        else await this.sendLong();
      }
    } catch (error) {
      if (!(error instanceof LineTooLongError)) throw error;
      this.#isSilent = false;
      this.line(REPLY.LINE_TOO_LONG);
    }
    await this.#flush();
  }

  /** Sends the replies, then reads: the peer may wait for them before it sends more. */
  async #read(buffer: Uint8Array): Promise<number | null> {
    await this.#flush();
    if (this.#isStopping) return null;
    this.#receivingSinceMs = this.#nowMs();
    try {
      return await this.#stream.read(buffer);
    } finally {
      this.#receivingSinceMs = null;
    }
  }

  /** Reads and executes a request of the text protocol. @returns False when the connection ends. */
  async #nextLine(): Promise<boolean> {
    const line = await this.#reader.line();
    if (line === null || line === "quit") return false;
    return this.#access.level === Access.NONE
      ? await this.#authenticate(line)
      : await this.#execute(line);
  }

  /** As `TextAuthGate` does. @returns False when the connection ends. */
  async #authenticate(line: string): Promise<boolean> {
    const length = loginBlockLength(line);
    if (length === null) {
      this.line(REPLY.UNAUTHENTICATED);
      return true;
    }
    if (length > LOGIN_BLOCK_LENGTH_MAX) {
      this.line(REPLY.AUTH_TOO_LONG);
      return true;
    }
    const block = await this.#reader.block(length + TRAILER_LENGTH);
    if (block === null) return false;
    const credentials = readLogin(block.subarray(0, length));
    if (block[length] !== CR || block[length + 1] !== LF) this.line(REPLY.AUTH_NOT_ENDED);
    else if (credentials === null) this.line(REPLY.BAD_AUTH_FORMAT);
    else {
      const isRight = await this.#access.authenticate(credentials);
      this.line(isRight ? REPLY.STORED : REPLY.AUTH_FAILED);
    }
    return true;
  }

  /** @returns False when the connection ends. */
  async #execute(line: string): Promise<boolean> {
    this.#isSilent = false;
    const [name = "", ...words] = line.split(" ").filter((word) => word !== "");
    const command = COMMANDS.get(name);
    if (command === undefined) {
      this.line(REPLY.ERROR);
      return true;
    }
    if (command.noreply && words.at(-1) === "noreply") {
      words.pop();
      this.#isSilent = true;
    }
    const block = await this.#readBlock(command, words);
    if (block === "closed") return false;
    if (block === "refused") return true;
    if (words.length < command.wordsMin || words.length > command.wordsMax) {
      this.line(words.length < command.wordsMin ? REPLY.ERROR : REPLY.BAD_FORMAT);
      return true;
    }
    if (this.proxy.isDeposed) {
      this.line(failedLine(this.proxy.deposedText));
      return true;
    }
    const needed = typeof command.access === "number" ? command.access : command.access(words);
    if (needed > this.#access.level) {
      this.line(needed === Access.ADMIN ? REPLY.NEEDS_ADMIN : REPLY.NEEDS_WRITE);
      return true;
    }
    try {
      await command.handler(this, { words, data: block });
    } catch (error) {
      this.line(error instanceof Refusal ? error.message : failedLine(reasonOf(error)));
    }
    return true;
  }

  /** Reads the data block of a command; skips a block that is too large. */
  async #readBlock(
    command: ProxyCommand,
    words: readonly string[],
  ): Promise<Uint8Array | null | "closed" | "refused"> {
    if (command.lengthWord < 0) return null;
    const word = words[command.lengthWord] ?? "";
    if (!/^\d{1,10}$/.test(word)) {
      this.line(REPLY.BAD_FORMAT);
      return "refused";
    }
    const length = Number(word);
    if (length > this.proxy.valueLengthMax) {
      if (!await this.#reader.skip(length + TRAILER_LENGTH)) return "closed";
      this.line(REPLY.TOO_LARGE);
      return "refused";
    }
    const block = await this.#reader.block(length + TRAILER_LENGTH);
    if (block === null) return "closed";
    if (block[length] === CR && block[length + 1] === LF) return block.subarray(0, length);
    this.line(REPLY.BAD_CHUNK);
    return "refused";
  }

  #append(bytes: Uint8Array): void {
    if (this.#replyBytes === 0) this.#oldestReplyMs = this.#nowMs();
    this.#replies.push(bytes);
    this.#replyBytes += bytes.length;
  }

  async #flush(): Promise<void> {
    if (this.#replyBytes === 0) return;
    const all = new Uint8Array(this.#replyBytes);
    let at = 0;
    for (const reply of this.#replies) {
      all.set(reply, at);
      at += reply.length;
    }
    this.#replies = [];
    this.#replyBytes = 0;
    for (let sent = 0; sent < all.length;) {
      this.#sendingSinceMs = this.#nowMs();
      sent += await this.#stream.write(all.subarray(sent));
    }
    this.#sendingSinceMs = null;
  }
}
