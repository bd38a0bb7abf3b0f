import { after, type Awaitable } from "./awaitable.ts";
import { checkBytes, checkNumber, shown } from "../checks.ts";
import { checkCodec, type Codec, type Encoded } from "./codecs.ts";
import { ValueTooLargeError } from "../errors.ts";

const VALUE_BYTES_MAX = 2 ** 20 - 100;
/** memcached's largest `-I`. */
const VALUE_BYTES_LIMIT = 2 ** 30;
/** Bits of the flags that codecs may use. */
const CODEC_FLAGS = 0x1_ffff;

/** Encodes values, and checks what the codec makes of them. */
export class Encoder<Value> {
  readonly #codec: Codec<Value>;
  readonly #valueBytesMax: number;

  /** @throws RangeError, TypeError: the codec is none, or the number is wrong. */
  constructor(codec: Codec<Value>, valueBytesMax: number = VALUE_BYTES_MAX) {
    checkCodec(codec);
    checkNumber("valueBytesMax", valueBytesMax, 1, VALUE_BYTES_LIMIT);
    this.#codec = codec;
    this.#valueBytesMax = valueBytesMax;
  }

  /** @throws ValueTooLargeError, TypeError, or what the codec throws. */
  encode(key: string, value: Value): Awaitable<Encoded> {
    return after(this.#codec.encode(value), (encoded) => {
      this.check(key, encoded.bytes);
      const { flags } = encoded;
      if ((flags & CODEC_FLAGS) !== flags) {
        throw new RangeError(
          `flags ${shown(flags)} of the codec: expected a whole number from 0 to ${CODEC_FLAGS}`,
        );
      }
      return encoded;
    });
  }

  /** @throws ValueTooLargeError, TypeError: the value cannot be sent. */
  check(key: string, bytes: Uint8Array): void {
    checkBytes("value", bytes);
    const { length } = bytes;
    if (length <= this.#valueBytesMax) return;
    throw new ValueTooLargeError(
      `value of ${key}: ${length} bytes, valueBytesMax is ${this.#valueBytesMax}`,
    );
  }
}
