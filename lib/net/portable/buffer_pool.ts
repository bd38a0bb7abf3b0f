const BLOCK_BYTES = 64 * 1024;
/** Larger buffers have a block of their own. */
const CUT_BYTES_MAX = 4096;

/** Lends buffers of one size. Every thread has pools of its own. */
export class BufferPool {
  readonly #free: Uint8Array<ArrayBuffer>[] = [];
  readonly #freeMax: number;
  readonly #lentMax: number;
  #lentCount = 0;
  #keptCount = 0;

  /**
   * @param freeMax Most free buffers to keep.
   * @param lentMax Most buffers lent at the same time.
   */
  constructor(readonly bufferBytes: number, freeMax: number, lentMax = Infinity) {
    this.#freeMax = freeMax;
    this.#lentMax = lentMax;
  }

  /** Returns a buffer with any content, or null if `lentMax` are lent. */
  take(): Uint8Array<ArrayBuffer> | null {
    if (this.#lentCount >= this.#lentMax) return null;
    this.#lentCount++;
    return this.#free.pop() ?? this.#make();
  }

  /** Buffers that have memory: lent and free ones. */
  get memoryCount(): number {
    return this.#keptCount;
  }

  /** Cuts small buffers from larger blocks: an ArrayBuffer of its own costs 300 bytes more. */
  #make(): Uint8Array<ArrayBuffer> {
    const { bufferBytes } = this;
    if (!this.#isCut) {
      this.#keptCount++;
      return new Uint8Array(bufferBytes);
    }
    const block = new ArrayBuffer(BLOCK_BYTES);
    this.#keptCount += Math.floor(BLOCK_BYTES / bufferBytes);
    for (let at = bufferBytes; at + bufferBytes <= BLOCK_BYTES; at += bufferBytes) {
      this.#free.push(new Uint8Array(block, at, bufferBytes));
    }
    return new Uint8Array(block, 0, bufferBytes);
  }

  get #isCut(): boolean {
    return this.bufferBytes <= CUT_BYTES_MAX;
  }

  /** Returns a buffer of `take`. Frees a buffer that is not kept at once, without waiting for a garbage collection. */
  give(buffer: Uint8Array<ArrayBuffer>): void {
    this.#lentCount--;
    if (this.#free.length < this.#freeMax) {
      this.#free.push(buffer);
      return;
    }
    this.#keptCount--;
    if (!this.#isCut) buffer.buffer.transfer(0);
  }

  /** Returns a buffer that the runtime may still use: the garbage collector frees it. */
  forget(): void {
    this.#lentCount--;
    this.#keptCount--;
  }
}
