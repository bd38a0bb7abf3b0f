// Hot path for long values: no allocation.
import type { LibcCalls } from "../libc.ts";
import * as libcModule from "../libc.ts";
import type { Vectors } from "../iovec.ts";
import * as iovecModule from "../iovec.ts";
import type { TlsStream } from "./stream.ts";

const { addressOf } = iovecModule;
const { toAddress } = libcModule;

/** The largest record of TLS. */
const RECORD_BYTES = 16 * 1024;

/** Writes pieces of memory as full records, one copy at most of each byte. */
export class TlsWriter {
  readonly #calls: LibcCalls;
  readonly #record = new Uint8Array(RECORD_BYTES);
  readonly #recordAddress = addressOf(this.#record);

  constructor(calls: LibcCalls) {
    this.#calls = calls;
  }

  /** @returns As `TlsStream.write`. */
  write(tls: TlsStream, vectors: Vectors): number {
    let taken = 0;
    let filled = 0;
    for (let index = 0; index < vectors.count; index++) {
      const address = vectors.address(index);
      const length = vectors.length(index);
      for (let at = 0; at < length;) {
        const isWhole = filled === 0 && length - at >= RECORD_BYTES;
        const piece = Math.min(length - at, RECORD_BYTES - filled);
        if (!isWhole) {
          const target = toAddress(this.#recordAddress + filled);
          this.#calls.memcpy(target, toAddress(address + at), piece);
        }
        filled += piece;
        if (filled === RECORD_BYTES) {
          const written = isWhole
            ? tls.writeFrom(address + at, RECORD_BYTES)
            : tls.write(this.#record, RECORD_BYTES);
          if (written !== RECORD_BYTES) return written < 0 ? written : taken + written;
          taken += RECORD_BYTES;
          filled = 0;
        }
        at += piece;
      }
    }
    if (filled === 0) return taken;
    const written = tls.write(this.#record, filled);
    return written < 0 ? written : taken + written;
  }
}
