import type { LibcCalls } from "./libc.ts";

/** Ends the epoll_wait of the threads of the native transport, from any thread. */
export class NativeWaker {
  readonly #calls: Pick<LibcCalls, "write">;
  readonly #wakeFds: readonly number[];
  readonly #increment = new BigUint64Array([1n]);

  /** @param wakeFds The eventfd of each thread. */
  constructor(calls: Pick<LibcCalls, "write">, wakeFds: readonly number[]) {
    this.#calls = calls;
    this.#wakeFds = wakeFds;
  }

  wake(threadIndex: number): void {
    this.#calls.write(this.#wakeFds[threadIndex]!, this.#increment, 8);
  }
}
