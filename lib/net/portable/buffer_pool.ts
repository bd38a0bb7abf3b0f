const BLOCK_BYTES = 64 * 1024;

/** Lends buffers of one size. Every thread has pools of its own. */
export class BufferPool {
  readonly bufferBytes: number;
  readonly #free: Uint8Array<ArrayBuffer>[] = [];
  readonly #freeMax: number;
  readonly #lentMax: number;
  #lentCount = 0;

  /**
   * @param freeMax The most free buffers that are kept.
   * @param lentMax The most buffers that are lent at a time.
   */
  constructor(bufferBytes: number, freeMax: number, lentMax = Infinity) {
    this.bufferBytes = bufferBytes;
    this.#freeMax = freeMax;
    this.#lentMax = lentMax;
  }

  /** Returns a buffer with any content, or null if `lentMax` are lent. */
  take(): Uint8Array<ArrayBuffer> | null {
    if (this.#lentCount >= this.#lentMax) return null;
    this.#lentCount++;
    return this.#free.pop() ?? this.#make();
  }

  /** Cuts small buffers from larger blocks: an ArrayBuffer of its own costs 300 bytes more. */
  #make(): Uint8Array<ArrayBuffer> {
    const { bufferBytes } = this;
    if (bufferBytes * 2 > BLOCK_BYTES) return new Uint8Array(bufferBytes);
    const block = new ArrayBuffer(BLOCK_BYTES);
    for (let at = bufferBytes; at + bufferBytes <= BLOCK_BYTES; at += bufferBytes) {
      this.#free.push(new Uint8Array(block, at, bufferBytes));
    }
    return new Uint8Array(block, 0, bufferBytes);
  }

  /** Gives back what `take` lent. */
  give(buffer: Uint8Array<ArrayBuffer>): void {
    this.#lentCount--;
    if (this.#free.length < this.#freeMax) this.#free.push(buffer);
  }
}
