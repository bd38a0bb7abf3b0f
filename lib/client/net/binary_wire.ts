import { Buffer } from "node:buffer";
import type { Login } from "./address.ts";
import {
  type Packet,
  ReceivedBytes,
  Reply,
  type ReplyLine,
  type Request,
  type Shape,
  textOf,
  VALUE_LENGTH_MAX,
  type Wire,
} from "./wire.ts";

// The binary protocol, which SASL is a part of. Its replies become what the meta commands of the same requests answer.
// https://docs.memcached.org/protocols/binary/

const REQUEST_MAGIC = 0x80;
const REPLY_MAGIC = 0x81;
const HEADER_LENGTH = 24;

/** Opcodes of the requests that the library has. */
export const Opcode = {
  GET: 0x00,
  SET: 0x01,
  ADD: 0x02,
  REPLACE: 0x03,
  DELETE: 0x04,
  INCREMENT: 0x05,
  DECREMENT: 0x06,
  APPEND: 0x0e,
  PREPEND: 0x0f,
  STAT: 0x10,
  TOUCH: 0x1c,
  GET_AND_TOUCH: 0x1d,
  SASL_AUTH: 0x21,
} as const;

/** The expiry time of a counter that is not to be made. */
export const NEVER_MADE = 0xffff_ffff;

const Status = {
  OK: 0x00,
  NOT_FOUND: 0x01,
  EXISTS: 0x02,
  INVALID: 0x04,
  NOT_STORED: 0x05,
  NOT_NUMERIC: 0x06,
  // Of leased, for locks and update tokens.
  LOCKED: 0x10,
  UNCACHEABLE: 0x13,
  AUTH_FAILED: 0x20,
  UNKNOWN_COMMAND: 0x81,
  BUSY: 0x85,
} as const;

/** Longest text of an error that is shown, in bytes. */
const TEXT_LENGTH_MAX = 200;
/** The client's fault; all others are the server's. */
const CLIENT_FAULTS: readonly number[] = [Status.INVALID, Status.NOT_NUMERIC, Status.AUTH_FAILED];

/** Statuses of meta commands by those of the binary protocol. */
type Meanings = Readonly<Record<number, string>>;

const REFUSED: Meanings = {
  [Status.NOT_STORED]: "NS",
  [Status.LOCKED]: "NS",
  [Status.UNCACHEABLE]: "NS",
  [Status.BUSY]: "NS",
};
const LOOKUP: Meanings = { [Status.OK]: "VA", [Status.NOT_FOUND]: "EN" };
const CHANGE: Meanings = { ...REFUSED, [Status.OK]: "HD", [Status.NOT_FOUND]: "NF" };
const CONDITIONAL: Meanings = { ...CHANGE, [Status.EXISTS]: "EX" };
const EXTENSION: Meanings = { ...CHANGE, [Status.NOT_FOUND]: "NS" };
const ARITHMETIC: Meanings = { ...CHANGE, [Status.OK]: "VA" };

/** The length of the extras of a success in bytes (undefined: any), and what statuses mean, by opcode. */
const REPLIES: Readonly<Record<number, readonly [number | undefined, Meanings]>> = {
  [Opcode.GET]: [4, LOOKUP],
  [Opcode.GET_AND_TOUCH]: [4, LOOKUP],
  [Opcode.SET]: [0, CONDITIONAL],
  [Opcode.ADD]: [0, { ...CHANGE, [Status.EXISTS]: "NS" }],
  [Opcode.REPLACE]: [0, EXTENSION],
  [Opcode.APPEND]: [0, EXTENSION],
  [Opcode.PREPEND]: [0, EXTENSION],
  [Opcode.DELETE]: [0, CONDITIONAL],
  [Opcode.INCREMENT]: [0, ARITHMETIC],
  [Opcode.DECREMENT]: [0, ARITHMETIC],
  // memcached sends the flags, which its documents do not say.
  [Opcode.TOUCH]: [undefined, { ...CHANGE, [Status.LOCKED]: "NF", [Status.UNCACHEABLE]: "NF" }],
  [Opcode.STAT]: [0, { [Status.OK]: "END" }],
  [Opcode.SASL_AUTH]: [0, { [Status.OK]: "HD" }],
};

/** The binary protocol. */
export class BinaryWire extends ReceivedBytes implements Wire {
  readonly valueEnd = "";
  #lines: ReplyLine[] = [];

  headOf({ packet, key, value }: Request<unknown>, opaque: number): string | undefined {
    if (packet === undefined) return undefined;
    return headText(packet, packet.key ?? key, value?.length ?? 0, opaque);
  }

  loginOf({ user, password }: Login, answered: (refusal?: string) => void): Request<void> {
    return {
      line: "sasl_auth",
      packet: { opcode: Opcode.SASL_AUTH, key: "PLAIN" },
      value: Buffer.from(`\0${user}\0${password}`),
      shape: "meta",
      key: "",
      read: () => answered(),
    };
  }

  isReplyTo(_: Shape, opaque: number, reply: Reply): boolean {
    return reply.opaque === opaque;
  }

  next(shape: Shape): Reply | undefined {
    if (!this.join()) return undefined;
    for (;;) {
      const packet = this.#nextPacket();
      if (packet === undefined) return undefined;
      const { opcode, status, key, value } = packet;
      // The last statistic has no name.
      const isStatistic = opcode === Opcode.STAT && status === Status.OK && key !== "";
      if (!isStatistic) {
        const reply = replyOf(packet);
        reply.lines = this.#lines;
        if (this.#lines.length > 0) this.#lines = [];
        return reply;
      }
      if (shape !== "lines") throw new Error("a statistic that no request asked for");
      this.#lines.push({ words: ["STAT", key, textOf(value)], value: undefined });
    }
  }

  #nextPacket(): ReplyPacket | undefined {
    const { bytes, at } = this;
    const bodyAt = at + HEADER_LENGTH;
    if (bytes.length < bodyAt) return this.waitFor(bodyAt - bytes.length);
    if (bytes[at] !== REPLY_MAGIC) throw new Error(`a packet that begins with byte ${bytes[at]}`);
    const keyAt = bodyAt + bytes[at + 4]!;
    const valueAt = keyAt + bytes.readUInt16BE(at + 2);
    const length = bytes.readUInt32BE(at + 8);
    const end = bodyAt + length;
    if (valueAt > end || end - valueAt > VALUE_LENGTH_MAX) {
      throw new Error(`a packet with a body of ${length} bytes`);
    }
    if (bytes.length < end) return this.waitFor(end - bytes.length);
    this.at = end;
    return {
      opcode: bytes[at + 1]!,
      status: bytes.readUInt16BE(at + 6),
      opaque: bytes.readUInt32BE(at + 12),
      cas: `${bytes.readBigUInt64BE(at + 16)}`,
      extras: bytes.subarray(bodyAt, keyAt),
      key: bytes.toString("latin1", keyAt, valueAt),
      value: bytes.subarray(valueAt, end),
    };
  }
}

/** A packet of a server. Its bytes are valid only until it has been read. */
interface ReplyPacket {
  readonly opcode: number;
  readonly status: number;
  readonly opaque: number;
  readonly cas: string;
  readonly extras: Buffer;
  readonly key: string;
  readonly value: Buffer;
}

/** Returns the request's bytes as text, one character a byte, up to its value. */
function headText(
  { opcode, extras = [], cas = "0" }: Packet,
  key: string,
  valueLength: number,
  opaque: number,
): string {
  const bytes = Buffer.alloc(HEADER_LENGTH + 4 * extras.length);
  bytes[0] = REQUEST_MAGIC;
  bytes[1] = opcode;
  bytes.writeUInt16BE(key.length, 2);
  bytes[4] = 4 * extras.length;
  bytes.writeUInt32BE(4 * extras.length + key.length + valueLength, 8);
  bytes.writeUInt32BE(opaque, 12);
  bytes.writeBigUInt64BE(BigInt(cas), 16);
  extras.forEach((word, index) => bytes.writeUInt32BE(word, HEADER_LENGTH + 4 * index));
  return textOf(bytes) + key;
}

/** Returns the reply that a meta command would get. @throws What is wrong with the packet. */
function replyOf({ opcode, status, opaque, cas, extras, key, value }: ReplyPacket): Reply {
  const reply = new Reply();
  reply.opaque = opaque;
  const [extrasLength = extras.length, meanings = {}] = REPLIES[opcode] ?? [];
  if (!Object.hasOwn(meanings, status)) {
    reply.line = errorLine(status, value);
    reply.status = reply.line.split(" ", 1)[0]!;
    return reply;
  }
  reply.status = meanings[status]!;
  if (status !== Status.OK) return reply;
  if (extras.length !== extrasLength || key !== "") {
    const parts = `${extras.length} bytes of extras and ${key.length} of a key`;
    throw new Error(`a reply to opcode ${opcode} with ${parts}`);
  }
  reply.cas = cas;
  if (meanings === LOOKUP) {
    reply.flags = extras.readUInt32BE();
    // The protocol does not tell it.
    reply.ttlSec = -1;
    reply.value = value;
  } else if (meanings === ARITHMETIC) {
    if (value.length !== 8) throw new Error(`a number of ${value.length} bytes`);
    reply.value = Buffer.from(`${value.readBigUInt64BE()}`);
  } else reply.line = reply.status;
  return reply;
}

/** Returns the line that the text protocol has for an error; it has no reason for a command that is unknown. */
function errorLine(status: number, text: Buffer): string {
  const isUnknown = status === Status.UNKNOWN_COMMAND;
  const side = isUnknown ? "" : CLIENT_FAULTS.includes(status) ? "CLIENT_" : "SERVER_";
  const reason = text.length === 0 ? `status ${status}` : textOf(text.subarray(0, TEXT_LENGTH_MAX));
  return `${side}ERROR${isUnknown ? "" : ` ${reason}`}`;
}
