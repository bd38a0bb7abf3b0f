import { assertEquals } from "@std/assert";
import { addressOf, Vectors } from "../../../../lib/net/native/iovec.ts";
import { ECONNRESET, type LibcCalls } from "../../../../lib/net/native/libc.ts";
import type { TlsStream } from "../../../../lib/net/native/tls/stream.ts";
import { TlsWriter } from "../../../../lib/net/native/tls/writer.ts";
import { memoryAt } from "../../../support/servers/memory_at.ts";

const RECORD = 16 * 1024;
/** Lengths of pieces of memory that are sent together. */
const PIECES: readonly (readonly number[])[] = [
  ...[[1], [RECORD], [RECORD + 1], [2 * RECORD], [5, RECORD - 5], [5, RECORD, RECORD - 5]],
  ...[[0, 0], [], [RECORD, 7, RECORD], [1, 3 * RECORD + 2, 1], [RECORD - 1, 1, RECORD, 0]],
];

/** A TLS layer that takes `room` bytes, then what `full` says of the whole of a record that does not fit. */
class Layer {
  readonly records: number[] = [];
  readonly taken: number[] = [];

  constructor(private left: number, private readonly isBroken: boolean) {}

  get stream(): TlsStream {
    return {
      write: (bytes: Uint8Array, length: number) => this.#take(bytes.subarray(0, length)),
      writeFrom: (address: number, length: number) => this.#take(memoryAt(address, length)),
    } as unknown as TlsStream;
  }

  #take(bytes: Uint8Array): number {
    this.records.push(bytes.length);
    if (this.isBroken && bytes.length > this.left) return -ECONNRESET;
    const taken = bytes.subarray(0, this.left);
    this.left -= taken.length;
    for (const byte of taken) this.taken.push(byte);
    return taken.length;
  }
}

Deno.test("pieces of memory become full records and a rest, whatever the layer takes of them", () => {
  const calls = {
    memcpy: (to: bigint, from: bigint, length: number) =>
      memoryAt(to, length).set(memoryAt(from, length)),
  } as unknown as LibcCalls;
  const vectors = new Vectors(calls);
  const writer = new TlsWriter(calls);
  for (const lengths of PIECES) {
    const total = lengths.reduce((sum, length) => sum + length, 0);
    const memory = new Uint8Array(total + 1).map((_, at) => at % 253);
    vectors.clear();
    let at = 0;
    for (const length of lengths) {
      vectors.add(addressOf(memory) + at, length);
      at += length;
    }
    assertEquals(vectors.count, lengths.filter((length) => length > 0).length);
    const ends = [0, 1, RECORD, total - 1, total].filter((end) => end >= 0 && end <= total);
    for (const room of ends) {
      for (const isBroken of [false, true]) {
        const layer = new Layer(room, isBroken);
        const expected = isBroken && room < total ? -ECONNRESET : room;
        const name = `${room} of ${lengths}${isBroken ? ", broken" : ""}`;
        assertEquals(writer.write(layer.stream, vectors), expected, name);
        if (!isBroken) assertEquals(layer.taken, [...memory.subarray(0, room)], name);
        if (room < total) continue;
        const full = Array.from({ length: Math.floor(total / RECORD) }, () => RECORD);
        const rest = total % RECORD;
        assertEquals(layer.records, rest === 0 ? full : [...full, rest], name);
      }
    }
  }
});
