import { Buffer } from "node:buffer";
import { promisify } from "node:util";
import { deserialize, serialize } from "node:v8";
import { deflateRaw, deflateRawSync, inflateRaw, inflateRawSync } from "node:zlib";
import { after, type Awaitable } from "./awaitable.ts";
import { checkBytes, checkFunction, checkNumber, checkText, shown } from "../checks.ts";

/** A value's bytes, and the item's client flags. */
export interface Encoded {
  readonly bytes: Uint8Array;
  /** Bits 0 to 15 belong to the codec, the others to this library. */
  readonly flags: number;
}

/** Turns values into bytes and back; a promise, too, will do. */
export interface Codec<Value> {
  /** After a promise, later requests may overtake this one. */
  encode(value: Value): Encoded | Promise<Encoded>;
  /** @param bytes Valid only until the function returns: copy what you keep. */
  decode(bytes: Uint8Array, flags: number): Value | Promise<Value>;
}

/** A codec that needs no promises. */
export interface SyncCodec<Value> extends Codec<Value> {
  encode(value: Value): Encoded;
  decode(bytes: Uint8Array, flags: number): Value;
}

/** Set for values that `compressed` has made smaller. */
const COMPRESSED_FLAG = 0x1_0000;
const MIN_BYTES_DEFAULT = 512;
const ASYNC_BYTES_DEFAULT = 1 << 16;
const deflateAsync = promisify(deflateRaw);
const inflateAsync: (bytes: Uint8Array, options: object) => Promise<Uint8Array> = promisify(
  inflateRaw,
);
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
export const bytesCodec: SyncCodec<Uint8Array> = {
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
export const textCodec: SyncCodec<string> = {
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
export const jsonCodec: SyncCodec<any> = {
  encode: (value) => {
    const text = JSON.stringify(value);
    if (text === undefined) throw new TypeError(`JSON cannot hold ${shown(value)}`);
    return { bytes: Buffer.from(text), flags: 0 };
  },
  decode: (bytes) => JSON.parse(textOf(bytes)),
};

/**
 * Values are whatever `structuredClone` takes, as Date, Map, Set, bytes and bigint, by `node:v8`: for Deno and Node,
 * not for clients in other languages. A value that it cannot hold, as a function, is an error.
 *
 * @example
 * ```ts
 * const carts = new Client("127.0.0.1:11211", { codec: structuredCodec });
 * await carts.set("cart", new Map([["ball", 2]])); // true
 * await carts.get("cart"); // new Map([["ball", 2]])
 * ```
 */
// deno-lint-ignore no-explicit-any
export const structuredCodec: SyncCodec<any> = {
  encode: (value) => ({ bytes: serialize(value), flags: 0 }),
  decode: (bytes) => deserialize(new Uint8Array(bytes)),
};

/** A schema of Zod, Valibot, ArkType and others, as https://standardschema.dev has it. */
export interface StandardSchema<Value> {
  readonly "~standard": {
    validate(value: unknown): Awaitable<SchemaResult<Value>>;
  };
}

/** What a schema says of a value. */
export type SchemaResult<Value> =
  | { readonly value: Value; readonly issues?: undefined }
  | { readonly issues: readonly { readonly message: string }[] };

/**
 * Values are what a schema makes of those of another codec. One that does not fit, as of an older release of the
 * application, cannot be decoded: `getOrLoad` loads it anew, and `get` throws.
 *
 * @example
 * ```ts
 * const isText = (value: unknown) => typeof value === "string";
 * const validate = (value: unknown) => isText(value) ? { value } : { issues: [{ message: "no text" }] };
 * const names = validated(jsonCodec, { "~standard": { validate } });
 * names.decode(jsonCodec.encode("anna").bytes, 0); // "anna"
 * names.decode(jsonCodec.encode(5).bytes, 0); // throws TypeError
 * ```
 */
export function validated<Value>(
  codec: Codec<unknown>,
  schema: StandardSchema<Value>,
): Codec<Value> {
  checkCodec(codec);
  const standard = schema?.["~standard"];
  checkFunction("validate of the schema", standard?.validate);
  return {
    encode: (value) => codec.encode(value),
    decode: (bytes, flags) =>
      after(codec.decode(bytes, flags), (value) => after(standard.validate(value), valueOf)),
  };
}

/** @throws TypeError The value does not fit. */
function valueOf<Value>(result: SchemaResult<Value>): Value {
  if (result.issues === undefined) return result.value;
  const reasons = result.issues.map(({ message }) => message).join("; ");
  throw new TypeError(`the value does not fit the schema: ${reasons}`);
}

/** Options of `compressed`. */
export interface CompressionOptions {
  /** Shorter values are not tried. Default 512. */
  readonly minBytes?: number;
  /** Longest value that is decompressed; a longer one is an error. Default 64 MiB. */
  readonly maxBytes?: number;
  /** Values from this length on are compressed and decompressed on another thread. Default 64 KiB. */
  readonly asyncBytes?: number;
}

/**
 * Compresses the values of another codec by `node:zlib` if that makes them smaller.
 *
 * @example
 * ```ts
 * const pages = new Client("127.0.0.1:11211", { codec: compressed(jsonCodec, { minBytes: 100 }) });
 * await pages.set("page", "x".repeat(10_000)); // true
 * (await pages.get("page")).length; // 10_000
 * ```
 */
export function compressed<Value>(
  codec: Codec<Value>,
  { minBytes = MIN_BYTES_DEFAULT, maxBytes = 1 << 26, asyncBytes = ASYNC_BYTES_DEFAULT }:
    CompressionOptions = {},
): Codec<Value> {
  checkCodec(codec);
  checkNumber("minBytes", minBytes, 0, Number.MAX_SAFE_INTEGER);
  checkNumber("maxBytes", maxBytes, 1, BYTES_LIMIT);
  checkNumber("asyncBytes", asyncBytes, 0, Number.MAX_SAFE_INTEGER);
  const limit = { maxOutputLength: maxBytes };
  const deflate = (bytes: Uint8Array): Awaitable<Uint8Array> =>
    bytes.length < asyncBytes ? deflateRawSync(bytes) : deflateAsync(bytes);
  const inflate = (bytes: Uint8Array): Awaitable<Uint8Array> =>
    bytes.length < asyncBytes
      ? inflateRawSync(bytes, limit)
      : inflateAsync(new Uint8Array(bytes), limit);
  return {
    encode: (value) =>
      after(codec.encode(value), (plain) => {
        // A codec that compresses already: one flag cannot say that it was done twice.
        const isCompressed = (plain.flags & COMPRESSED_FLAG) !== 0;
        if (plain.bytes.length < minBytes || isCompressed) return plain;
        return after(deflate(plain.bytes), (bytes) => {
          if (bytes.length >= plain.bytes.length) return plain;
          return { bytes, flags: plain.flags | COMPRESSED_FLAG };
        });
      }),
    decode: (bytes, flags) => {
      if ((flags & COMPRESSED_FLAG) === 0) return codec.decode(bytes, flags);
      return after(inflate(bytes), (plain) => codec.decode(plain, flags & ~COMPRESSED_FLAG));
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
