import { Access } from "../../../protocol/auth/access.ts";
import { PLAIN_MESSAGE_BYTES_MAX } from "../../../protocol/auth/sasl_plain.ts";
import { OPCODES } from "../../../protocol/binary_opcodes.ts";
import { Status } from "../../../protocol/binary_status.ts";
import { STATUS_TEXT } from "../../../protocol/replies.ts";
import { reasonOf } from "../../reason.ts";
import { latin1Text } from "../../rows/bytes.ts";
import type { Proxy } from "../proxy.ts";
import type { LineReader } from "../../rows/caches/line_reader.ts";
import type { PeerAccess } from "../peer_access.ts";
import {
  BINARY_COMMANDS,
  type BinaryCommand,
  BinaryRefusal,
  type BinaryRequest,
  type BinarySession,
} from "./commands.ts";
import {
  type Header,
  HEADER_LENGTH,
  readHeader,
  replyFrame,
  type ReplyParts,
  REQUEST_MAGIC,
} from "./frames.ts";
import { SaslExchange } from "./sasl.ts";

const [QUIT, QUIET_QUIT] = OPCODES.Quit;
/** Matches the keys that a cache's text protocol takes. */
const KEY = /^[^\0-\x20\x7f]{1,250}$/;
/** More than any extras and key have. */
const HEAD_LENGTH_MAX = 1024;
const ENCODER = new TextEncoder();

/** Executes requests of the binary protocol, one after the other. */
export class BinaryRequests {
  readonly #proxy: Proxy;
  readonly #version: string;
  readonly #reader: LineReader;
  readonly #access: PeerAccess;
  readonly #sasl: SaslExchange;
  readonly #append: (bytes: Uint8Array) => void;

  /**
   * @param access What the client may do; the text protocol shares it.
   * @param append Appends bytes to the replies of the connection.
   */
  constructor(
    proxy: Proxy,
    version: string,
    reader: LineReader,
    access: PeerAccess,
    append: (bytes: Uint8Array) => void,
  ) {
    this.#proxy = proxy;
    this.#version = version;
    this.#reader = reader;
    this.#access = access;
    this.#sasl = new SaslExchange(access);
    this.#append = append;
  }

  /** Reads and executes the next request. @returns False when the connection ends. */
  async next(): Promise<boolean> {
    const bytes = await this.#reader.block(HEADER_LENGTH);
    if (bytes === null || bytes[0] !== REQUEST_MAGIC) return false;
    const header = readHeader(bytes);
    const { opcode, bodyLength, keyLength, extrasLength } = header;
    const command = BINARY_COMMANDS.get(opcode);
    if (this.#access.level === Access.NONE && !isOpen(command, bodyLength)) {
      this.#refuse(header, Status.REFUSED);
      return false;
    }
    if (bodyLength > this.#proxy.valueLengthMax + HEAD_LENGTH_MAX) {
      if (!await this.#reader.skip(bodyLength)) return false;
      this.#refuse(header, Status.TOO_LARGE);
      return true;
    }
    const body = await this.#reader.block(bodyLength);
    if (body === null) return false;
    if (opcode === QUIT) this.#append(replyFrame(header, {}));
    if (opcode === QUIT || opcode === QUIET_QUIT) return false;
    if (command === undefined) {
      this.#refuse(header, Status.UNKNOWN_COMMAND);
      return true;
    }
    if (keyLength + extrasLength > bodyLength) {
      this.#refuse(header, Status.INVALID);
      return false;
    }
    const value = body.subarray(extrasLength + keyLength);
    await this.#execute(command, {
      header,
      extras: new DataView(body.buffer, body.byteOffset, extrasLength),
      key: latin1Text(body.subarray(extrasLength, extrasLength + keyLength)),
      value,
    });
    return true;
  }

  async #execute(command: BinaryCommand, request: BinaryRequest): Promise<void> {
    const { header, key, value } = request;
    const isWellFormed = header.extrasLength === command.extrasLength &&
      (command.hasKey ? KEY.test(key) : key === "") && (command.hasValue || value.length === 0);
    if (!isWellFormed) return this.#refuse(header, Status.INVALID);
    if (value.length > this.#proxy.valueLengthMax) return this.#refuse(header, Status.TOO_LARGE);
    if (command.access > this.#access.level) return this.#refuse(header, Status.REFUSED);
    if (this.#proxy.isDeposed) {
      return this.#refuse(header, Status.TEMPORARY_FAILURE, this.#proxy.deposedText);
    }
    const session: BinarySession = {
      proxy: this.#proxy,
      version: this.#version,
      sasl: this.#sasl,
      reply: (parts) => this.#reply(command, header, parts),
    };
    try {
      await command.handler(session, request);
    } catch (error) {
      if (error instanceof BinaryRefusal) this.#refuse(header, error.status, error.message);
      else this.#refuse(header, Status.TEMPORARY_FAILURE, reasonOf(error));
    }
  }

  #reply({ quiet, quietStatus }: BinaryCommand, header: Header, parts: ReplyParts): void {
    if (quiet && (parts.status ?? Status.OK) === quietStatus) return;
    this.#append(replyFrame(header, parts));
  }

  /** Replies with an error. Quiet requests get it, too. */
  #refuse(header: Header, status: Status, text = ""): void {
    const value = text === "" ? STATUS_TEXT[status] : ENCODER.encode(text.slice(0, 200));
    this.#append(replyFrame(header, { status, value }));
  }
}

/** Whether a client that has not authenticated may send such a request. */
function isOpen(command: BinaryCommand | undefined, bodyLength: number): boolean {
  return command?.access === Access.NONE && bodyLength <= HEAD_LENGTH_MAX + PLAIN_MESSAGE_BYTES_MAX;
}
