import { Buffer } from "node:buffer";
import { deflateRawSync, inflateRawSync } from "node:zlib";
import { checkBytes, checkFunction, checkNumber, checkText, shown } from "./checks.ts";

/** A value's bytes, and the item's client flags. */
export interface Encoded {
  readonly bytes: Uint8Array;
  /** Bits 0 to 15 belong to the codec, the others to this library. */
  readonly flags: number;
}

/** Turns values into bytes and back. */
export interface Codec<Value> {
  encode(value: Value): Encoded;
  /** @param bytes Valid only until the function returns: copy what you keep. */
  decode(bytes: Uint8Array, flags: number): Value;
}

/** Set for values that `compressed` has made smaller. */
const COMPRESSED_FLAG = 0x1_0000;
const MIN_BYTES_DEFAULT = 512;
/** Longest value of a server. */
const BYTES_LIMIT = 2 ** 30;

/**
 * Values are bytes.
 *
 * @example
 * ```ts
 * const files = new Client<Uint8Array>("127.0.0.1:11211", { codec: bytesCodec });
 * await files.set("file", Uint8Array.of(1, 2)); // true
 * await files.get("file"); // Uint8Array.of(1, 2)
 * ```
 */
export const bytesCodec: Codec<Uint8Array> = {
  encode: (bytes) => {
    checkBytes("value", bytes);
    return { bytes, flags: 0 };
  },
  decode: (bytes) => new Uint8Array(bytes),
};

/**
 * Values are texts, stored as UTF-8. A text with half a surrogate pair is a RangeError.
 *
 * @example
 * ```ts
 * const texts = new Client<string>("127.0.0.1:11211", { codec: textCodec });
 * await texts.set("text", "€ 3"); // true
 * await texts.get("text"); // "€ 3"
 * ```
 */
export const textCodec: Codec<string> = {
  encode: (text) => {
    checkText("value", text);
    if (!text.isWellFormed()) throw new RangeError("value: half a surrogate pair is not allowed");
    return { bytes: Buffer.from(text), flags: 0 };
  },
  decode: (bytes) => textOf(bytes),
};

/**
 * Values are whatever JSON can hold; the default. A value that JSON cannot hold is a TypeError.
 *
 * @example
 * ```ts
 * jsonCodec.encode({ a: 1 }).bytes.length; // 7
 * jsonCodec.encode(undefined); // throws TypeError
 * ```
 */
// deno-lint-ignore no-explicit-any
export const jsonCodec: Codec<any> = {
  encode: (value) => {
    const text = JSON.stringify(value);
    if (text === undefined) throw new TypeError(`JSON cannot hold ${shown(value)}`);
    return { bytes: Buffer.from(text), flags: 0 };
  },
  decode: (bytes) => JSON.parse(textOf(bytes)),
};

/**
 * Compresses the values of another codec by `node:zlib` if that makes them smaller.
 *
 * @param minBytes Shorter values are not tried. Default 512.
 * @param maxBytes Longest value that is decompressed; a longer one is an error. Default 64 MiB.
 * @example
 * ```ts
 * const pages = new Client("127.0.0.1:11211", { codec: compressed(jsonCodec, { minBytes: 100 }) });
 * await pages.set("page", "x".repeat(10_000)); // true
 * (await pages.get("page")).length; // 10_000
 * ```
 */
export function compressed<Value>(
  codec: Codec<Value>,
  { minBytes = MIN_BYTES_DEFAULT, maxBytes = 1 << 26 } = {},
): Codec<Value> {
  checkCodec(codec);
  checkNumber("minBytes", minBytes, 0, Number.MAX_SAFE_INTEGER);
  checkNumber("maxBytes", maxBytes, 1, BYTES_LIMIT);
  return {
    encode: (value) => {
      const plain = codec.encode(value);
      // A codec that compresses already: one flag cannot say that it was done twice.
      const isCompressed = (plain.flags & COMPRESSED_FLAG) !== 0;
      if (plain.bytes.length < minBytes || isCompressed) return plain;
      const bytes = deflateRawSync(plain.bytes);
      if (bytes.length >= plain.bytes.length) return plain;
      return { bytes, flags: plain.flags | COMPRESSED_FLAG };
    },
    decode: (bytes, flags) => {
      if ((flags & COMPRESSED_FLAG) === 0) return codec.decode(bytes, flags);
      const plain = inflateRawSync(bytes, { maxOutputLength: maxBytes });
      return codec.decode(plain, flags & ~COMPRESSED_FLAG);
    },
  };
}

/** @throws TypeError It is no codec. */
export function checkCodec(codec: Codec<unknown>): void {
  checkFunction("encode of the codec", codec?.encode);
  checkFunction("decode of the codec", codec.decode);
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString();
}
