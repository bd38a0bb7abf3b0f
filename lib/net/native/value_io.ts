// Hot path for long values: no allocation, except where a peer does not take its replies.
import type { FillTask } from "../../../protocol/tasks.ts";
import type { TransportThread } from "../worker_transport.ts";
import type { ItemRef } from "../../../store/cache.ts";
import type { NativeConnection } from "./connection.ts";
import type { Libc } from "./libc.ts";
import * as libcModule from "./libc.ts";
import { addressOf, Vectors } from "./iovec.ts";
import type { TlsStream } from "./tls/stream.ts";
import { TlsWriter } from "./tls/writer.ts";

const { MSG_DONTWAIT, MSG_NOSIGNAL } = libcModule;

/** Sends long values from the store's memory, and receives them into it, without copies. */
export class ValueIo {
  readonly #thread: TransportThread;
  readonly #libc: Libc;
  readonly #vectors: Vectors;
  readonly #segmentAddresses: number[];
  readonly #replyAddress: number;
  readonly #inputAddress: number;
  readonly #tlsWriter: TlsWriter;

  constructor(thread: TransportThread, libc: Libc) {
    this.#thread = thread;
    this.#libc = libc;
    this.#vectors = new Vectors(libc.calls);
    this.#tlsWriter = new TlsWriter(libc.calls);
    this.#segmentAddresses = thread.memory.segments.map(({ bytes }) => addressOf(bytes));
    this.#replyAddress = addressOf(thread.reply.region.bytes);
    this.#inputAddress = addressOf(thread.input.bytes);
  }

  /** Sends a batch's replies with their value segments. @returns A result of `RoundIo`. */
  sendReply({ fd, tls }: NativeConnection): number {
    this.#gatherReply();
    if (tls !== null) return this.#tlsWriter.write(tls, this.#vectors);
    return this.#libc.resultOf(this.#vectors.send(fd, MSG_DONTWAIT | MSG_NOSIGNAL));
  }

  #gatherReply(): void {
    const vectors = this.#vectors;
    const { reply } = this.#thread;
    const { valueSegments } = reply;
    vectors.clear();
    let at = reply.start;
    for (let index = 0; index < valueSegments.count; index++) {
      vectors.add(this.#replyAddress + at, valueSegments.at(index) - at);
      at = valueSegments.at(index);
      this.#addValue(
        valueSegments.item(index),
        valueSegments.start(index),
        valueSegments.length(index),
      );
    }
    vectors.add(this.#replyAddress + at, reply.length - at);
  }

  /** Copies the unsent bytes of a batch's replies and their value segments. */
  unsentReply(sent: number): Uint8Array {
    const { reply, cache, memory } = this.#thread;
    const { values } = cache;
    const { valueSegments } = reply;
    const rest = new Uint8Array(reply.totalLength - reply.start - sent);
    // Offset of the next piece in `rest`; negative while sent pieces are skipped.
    let to = -sent;
    const put = (bytes: Uint8Array, from: number, length: number): void => {
      const skipped = Math.min(length, Math.max(0, -to));
      to += skipped;
      rest.set(bytes.subarray(from + skipped, from + length), Math.max(0, to));
      to += length - skipped;
    };
    let at = reply.start;
    for (let index = 0; index < valueSegments.count; index++) {
      put(reply.region.bytes, at, valueSegments.at(index) - at);
      at = valueSegments.at(index);
      const end = valueSegments.start(index) + valueSegments.length(index);
      for (let valueAt = valueSegments.start(index); valueAt < end;) {
        const length = Math.min(values.locate(valueSegments.item(index), valueAt), end - valueAt);
        put(memory.segments[values.pieceSegment]!.bytes, values.pieceOffset, length);
        valueAt += length;
      }
    }
    put(reply.region.bytes, at, reply.length - at);
    return rest;
  }

  /**
   * Receives missing bytes of a value into its item, after `task.beginReceiving`. Bytes behind the value go to the
   * thread's input; from the TLS layer none are read.
   *
   * @param inputOffset Their offset in the input.
   * @param inputLength Most bytes to receive there.
   * @returns A result of `RoundIo`. Tells the task the number of bytes that went into the item.
   */
  receiveValue(
    { fd, tls }: NativeConnection,
    task: FillTask,
    inputOffset: number,
    inputLength: number,
  ): number {
    if (tls !== null) return this.#readValue(tls, task);
    const vectors = this.#vectors;
    vectors.clear();
    const length = task.room;
    this.#addValue(task.item, task.filled, length);
    if (length === task.missing) vectors.add(this.#inputAddress + inputOffset, inputLength);
    const received = this.#libc.resultOf(vectors.receive(fd, MSG_DONTWAIT));
    task.endReceiving(this.#thread.cache, Math.max(0, Math.min(received, length)));
    return received;
  }

  /** As `receiveValue`, through the TLS layer: the bytes of one record. */
  #readValue(tls: TlsStream, task: FillTask): number {
    const { cache } = this.#thread;
    const { values } = cache;
    const { item, filled, room } = task;
    let received = 0;
    let result: number;
    do {
      const piece = Math.min(values.locate(item, filled + received), room - received);
      const address = this.#segmentAddresses[values.pieceSegment]! + values.pieceOffset;
      result = tls.readInto(address, piece);
      if (result > 0) received += result;
    } while (received < room && tls.hasDecrypted);
    task.endReceiving(cache, received);
    return received > 0 ? received : result;
  }

  #addValue(item: ItemRef, start: number, length: number): void {
    const { values } = this.#thread.cache;
    const end = start + length;
    for (let at = start; at < end;) {
      const piece = Math.min(values.locate(item, at), end - at);
      this.#vectors.add(this.#segmentAddresses[values.pieceSegment]! + values.pieceOffset, piece);
      at += piece;
    }
  }
}
