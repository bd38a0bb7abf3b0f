const BLOCK_BYTES = 64 * 1024;

/** Buffers of one size that are lent out. A thread has its own pools. */
export class BufferPool {
  readonly bufferBytes: number;
  readonly #free: Uint8Array<ArrayBuffer>[] = [];
  readonly #freeMax: number;
  readonly #lentMax: number;
  #lentCount = 0;

  /**
   * @param freeMax How many are kept for later.
   * @param lentMax How many may be out at the same time.
   */
  constructor(bufferBytes: number, freeMax: number, lentMax = Infinity) {
    this.bufferBytes = bufferBytes;
    this.#freeMax = freeMax;
    this.#lentMax = lentMax;
  }

  /** A buffer with any content, or null when too many are out. */
  take(): Uint8Array<ArrayBuffer> | null {
    if (this.#lentCount >= this.#lentMax) return null;
    this.#lentCount++;
    return this.#free.pop() ?? this.#make();
  }

  /** Small buffers are cut from larger blocks: a block of its own costs the runtime some 300 bytes more. */
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
