import { IoUring, type OpenRing } from "../../../lib/net/native/io_uring.ts";
import {
  EAGAIN,
  ECANCELED,
  EINTR,
  EINVAL,
  ENOBUFS,
  ENOMEM,
  type Libc,
} from "../../../lib/net/native/libc.ts";
import { failWith, type LibcErrors, replaceCalls } from "./replaced_calls.ts";

const ERRORS = [EAGAIN, EINTR, ECANCELED, ENOBUFS, ENOMEM, EINVAL];
const EBUSY = 16;
/** Of io_uring_enter(2) when it takes no operation. */
const REFUSALS = [EAGAIN, EBUSY, EINTR, ENOMEM];
/** Parts of all operations. */
const ERROR_SHARE = 0.1;
const SHORT_SHARE = 0.2;
/** Part of all runs in which the kernel finds the ring full, if it looks: that is when it has used all places once. */
const OVERFLOW_SHARE = 0.5;
/** Parts of all submissions: not every operation is taken, or none. */
const CUT_SHARE = 0.1;
const REFUSED_SHARE = 0.1;
/** Part of all waits for completions. */
const INTERRUPTED_SHARE = 0.5;

/** Random numbers in 0..1. */
type Random = () => number;

function pick(list: readonly number[], random: Random): number {
  return list[Math.floor(random() * list.length)]!;
}

/** A ring with operations that fail or move few bytes, and completions that do not fit. */
export class FaultyRing extends IoUring {
  /** Injected faults, by name. */
  readonly counts = { errors: 0, short: 0, overflows: 0 };
  readonly #random: Random;
  readonly #completions: CompletionRing;
  readonly #failed: (readonly [index: number, errno: number])[] = [];

  constructor(libc: Libc, ring: OpenRing, random: Random) {
    super(libc, ring);
    this.#random = random;
    this.#completions = new CompletionRing(libc, ring);
  }

  override receive(index: number, fd: number, region: number, at: number, length: number): void {
    if (!this.#fails(index)) super.receive(index, fd, region, at, this.#cut(length));
  }

  override send(index: number, fd: number, region: number, at: number, length: number): void {
    if (!this.#fails(index)) super.send(index, fd, region, at, this.#cut(length));
  }

  override run(results: Int32Array): number {
    for (const [index, errno] of this.#failed.splice(0)) results[index] = -errno;
    if (this.#random() < OVERFLOW_SHARE) {
      this.#completions.leaveRoom(Math.floor(this.#random() * 3));
      this.counts.overflows++;
    }
    return super.run(results);
  }

  #fails(index: number): boolean {
    if (this.#random() >= ERROR_SHARE) return false;
    this.#failed.push([index, pick(ERRORS, this.#random)]);
    this.counts.errors++;
    return true;
  }

  #cut(length: number): number {
    if (this.#random() >= SHORT_SHARE) return length;
    this.counts.short++;
    return Math.ceil(this.#random() * length);
  }
}

/** The completion ring as the kernel sees it. */
export class CompletionRing {
  readonly #words: Int32Array;
  /** Places in `#words`. */
  readonly #head: number;
  readonly #tail: number;
  readonly #size: number;

  constructor(libc: Libc, { fd, params }: OpenRing) {
    // Words of struct io_uring_params: completions, and the places of head, tail and entries.
    const [size, head, tail, entriesAt] = [params[1]!, params[20]!, params[21]!, params[25]!];
    const [readAndWrite, shared] = [3, 1];
    const mapped = libc.calls.mmap(null, entriesAt, readAndWrite, shared, fd, 0);
    this.#words = new Int32Array(Deno.UnsafePointerView.getArrayBuffer(mapped!, entriesAt));
    this.#head = head / 4;
    this.#tail = tail / 4;
    this.#size = size;
  }

  /** Makes the kernel find room for so many completions, until the ring's reader next takes some. */
  leaveRoom(count: number): void {
    this.#words[this.#head] = this.#words[this.#tail]! - this.#size + count;
  }
}

/** io_uring_enter(2) */
export type Enter = (
  number: number,
  fd: number,
  submit: number,
  complete: number,
  flags: number,
  sigset: null,
  size: number,
) => number;

/**
 * Lets io_uring_enter(2) take few operations or none, and interrupts its waits, in every library that this thread opens
 * until it is disposed.
 */
export class FaultyKernel implements Disposable {
  /** Injected faults, by name. */
  readonly counts = { cut: 0, refused: 0, interrupted: 0 };
  readonly #replaced: Disposable;

  constructor(random: Random) {
    const { counts } = this;
    this.#replaced = replaceCalls<LibcErrors & { io_uring_enter: Enter }>((calls) => ({
      ...calls,
      io_uring_enter: (number, fd, submit, complete, ...rest) => {
        const chance = random();
        if (submit === 0 && complete > 0 && chance < INTERRUPTED_SHARE) {
          counts.interrupted++;
          return failWith(calls, EINTR);
        }
        if (submit > 0 && chance < REFUSED_SHARE) {
          counts.refused++;
          return failWith(calls, pick(REFUSALS, random));
        }
        if (submit > 1 && chance < REFUSED_SHARE + CUT_SHARE) {
          counts.cut++;
          submit = Math.ceil(random() * (submit - 1));
        }
        return calls.io_uring_enter(number, fd, submit, complete, ...rest);
      },
    }));
  }

  [Symbol.dispose](): void {
    this.#replaced[Symbol.dispose]();
  }
}
