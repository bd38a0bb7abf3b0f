import { BINARY_COMMANDS } from "../../../protocol/binary/table.ts";
import type { Part } from "./transcript.ts";

/**
 * Requests and replies of the binary protocol in transcripts: packets with `|` between them, each
 * an opcode by its name (or as two hexadecimal digits) and fields:
 *
 *     A> !Set key=k flags=5 exptime=0 value=one\stwo opaque=7      A< !Set opaque=7 cas={id}
 *     A> !Get key=no | Noop                                         A< !Get error=01 | Noop
 *
 * `key`, `value`: text with the escapes of transcripts. `flags`, `exptime` (4 bytes), `delta`,
 * `initial` (8): extras, in the order given; `extras`: the same in hexadecimal digits. `number`: a
 * value of 8 bytes. `cas`, `opaque`: 0 unless given; a cas id may be a hole. `token={hole}`: extras of 8 bytes, the id
 * of an update token. In replies `status`:
 * two hexadecimal digits; `error`: a status with its text as the value. The lengths in the header
 * follow from the fields; `keylength`, `extraslength` and `bodylength` put others in their place,
 * `magic` another first byte.
 */
export function parseBinary(
  text: string,
  kind: "send" | "reply",
  unescape: (text: string) => Part[],
): Part[] {
  return text.split(/ ?(?<!\\)\| ?/).flatMap((packet) => new Packet(packet, unescape).parts(kind));
}

/** The texts of refusals, by status. */
const ERROR_TEXT: Readonly<Record<string, string>> = {
  "01": "Not found",
  "02": "Data exists for key.",
  "03": "Too large.",
  "04": "Invalid arguments",
  "05": "Not stored.",
  "06": "Non-numeric server-side value for incr or decr",
  "10": "Locked",
  "85": "Locked",
  "11": "Not locked",
  "13": "Uncacheable",
  "20": "Auth failure.",
  "81": "Unknown command",
  "82": "Out of memory",
  "83": "Update tokens need a state directory",
};

const EXTRAS_LENGTH: Readonly<Record<string, number>> = {
  flags: 4,
  exptime: 4,
  delta: 8,
  initial: 8,
};

/** Fields of a packet. Each character of a text stands for one byte. */
export interface PacketFields {
  /** 0x80, a request's, unless given. */
  readonly magic?: number;
  readonly opcode: number;
  readonly status?: number;
  readonly opaque?: number | undefined;
  /** Digits, none for 0; or what was learned under a name. */
  readonly cas?: string | { readonly hole: string };
  readonly extras?: string;
  /** 8 bytes in front of `extras`: what was learned under a name. */
  readonly token?: string | undefined;
  readonly key?: string;
  readonly value?: string;
  /** Lengths that the header claims, instead of the true ones. */
  readonly keyLength?: number | undefined;
  readonly extrasLength?: number | undefined;
  readonly bodyLength?: number | undefined;
}

/** A packet of the binary protocol. */
export function packetParts(fields: PacketFields): Part[] {
  const { magic = 0x80, opcode, status = 0, opaque = 0, cas = "" } = fields;
  const { extras = "", key = "", value = "" } = fields;
  const tokenLength = fields.token === undefined ? 0 : 8;
  const body = extras + key + value;
  const start = numberBytes(magic, 1) + numberBytes(opcode, 1) +
    numberBytes(fields.keyLength ?? key.length, 2) +
    numberBytes(fields.extrasLength ?? tokenLength + extras.length, 1) + "\0" +
    numberBytes(status, 2) +
    numberBytes(fields.bodyLength ?? tokenLength + body.length, 4) + numberBytes(opaque, 4);
  const parts: Part[] = typeof cas === "string"
    ? [start + numberBytes(BigInt(cas), 8)]
    : [start, { hole: cas.hole, binary: true }];
  if (fields.token !== undefined) parts.push({ hole: fields.token, binary: true });
  return [...parts, body];
}

/** The same as one string, for those without holes. */
export function packetText(fields: PacketFields): string {
  return packetParts(fields).join("");
}

class Packet {
  readonly #opcode: number;
  readonly #fields = new Map<string, string>();
  readonly #unescape: (text: string) => Part[];

  constructor(text: string, unescape: (text: string) => Part[]) {
    this.#unescape = unescape;
    const [name, ...fields] = text.trim().split(/\s+/);
    this.#opcode = opcodeOf(name!);
    for (const field of fields) {
      const [, key, value] = /^(\w+)=(.*)$/.exec(field) ?? [];
      if (key === undefined) throw new SyntaxError(`"${field}" is no field`);
      this.#fields.set(key, value!);
    }
  }

  parts(kind: "send" | "reply"): Part[] {
    const error = this.#fields.get("error");
    if (error !== undefined) {
      if (!(error in ERROR_TEXT)) throw new SyntaxError(`status "${error}" has no text`);
      this.#fields.set("status", error);
    }
    const number = this.#fields.get("number");
    const value = error !== undefined
      ? ERROR_TEXT[error]!
      : number !== undefined
      ? numberBytes(BigInt(number), 8)
      : this.#text("value");
    const cas = this.#fields.get("cas") ?? "";
    const hole = holeIn(cas);
    return packetParts({
      magic: this.#number("magic") ?? (kind === "send" ? 0x80 : 0x81),
      opcode: this.#opcode,
      status: parseInt(this.#fields.get("status") ?? "0", 16),
      opaque: this.#number("opaque"),
      cas: hole === undefined ? cas : { hole },
      extras: this.#extras(),
      token: holeIn(this.#fields.get("token") ?? ""),
      key: this.#text("key"),
      value,
      keyLength: this.#number("keylength"),
      extrasLength: this.#number("extraslength"),
      bodyLength: this.#number("bodylength"),
    });
  }

  #number(field: string): number | undefined {
    const text = this.#fields.get(field);
    return text === undefined ? undefined : Number(text);
  }

  #text(field: string): string {
    const parts = this.#unescape(this.#fields.get(field) ?? "");
    if (parts.some((part) => typeof part !== "string")) throw new SyntaxError("no holes here");
    return parts.join("");
  }

  #extras(): string {
    let extras = "";
    for (const [field, value] of this.#fields) {
      const length = EXTRAS_LENGTH[field];
      if (length !== undefined) extras += numberBytes(BigInt(value), length);
      if (field !== "extras") continue;
      for (const [digits] of value.matchAll(/../g)) {
        extras += String.fromCharCode(parseInt(digits, 16));
      }
    }
    return extras;
  }
}

/** The name in `{name}`; undefined: it is no hole. */
function holeIn(text: string): string | undefined {
  return /^\{([a-z]\w*)\}$/.exec(text)?.[1];
}

/** The number of a command: by its name, or as two hexadecimal digits. @throws SyntaxError when there is none. */
export function opcodeOf(name: string): number {
  if (/^[0-9a-f]{2}$/.test(name)) return parseInt(name, 16);
  const command = BINARY_COMMANDS.find((row) => row.name === name);
  if (command === undefined) throw new SyntaxError(`"${name}" is no command`);
  return command.opcode;
}

/** A number in network order, one character a byte. */
export function numberBytes(number: bigint | number, length: number): string {
  let text = "";
  for (let left = BigInt(number); text.length < length; left >>= 8n) {
    text = String.fromCharCode(Number(left & 0xffn)) + text;
  }
  return text;
}

/** The number that some bytes in network order are. */
export function numberOf(bytes: string): bigint {
  let number = 0n;
  for (let at = 0; at < bytes.length; at++) number = number << 8n | BigInt(bytes.charCodeAt(at));
  return number;
}
