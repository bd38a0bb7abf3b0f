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

const ERRORS = [EAGAIN, EINTR, ECANCELED, ENOBUFS, ENOMEM, EINVAL];
/** Parts of all operations. */
const ERROR_SHARE = 0.1;
const SHORT_SHARE = 0.2;
/** Part of all runs in which the kernel does not take every operation. */
const CUT_SHARE = 0.1;

/** A prepared operation. */
interface Prepared {
  readonly kind: "receive" | "send";
  readonly index: number;
  readonly fd: number;
  readonly region: number;
  readonly at: number;
  readonly length: number;
}

/** A ring with the faults that a kernel may show: operations that fail, move few bytes, or are not begun. */
export class FaultyRing extends IoUring {
  /** Injected faults, by name. */
  readonly counts = { errors: 0, short: 0, cut: 0 };
  readonly #random: () => number;
  readonly #prepared: Prepared[] = [];

  /** @param random Numbers in 0..1. */
  constructor(libc: Libc, ring: OpenRing, random: () => number) {
    super(libc, ring);
    this.#random = random;
  }

  override receive(index: number, fd: number, region: number, at: number, length: number): void {
    this.#prepared.push({ kind: "receive", index, fd, region, at, length });
  }

  override send(index: number, fd: number, region: number, at: number, length: number): void {
    this.#prepared.push({ kind: "send", index, fd, region, at, length });
  }

  override run(results: Int32Array): number {
    const all = this.#prepared.splice(0);
    let begun = all.length;
    if (this.#random() < CUT_SHARE) {
      begun = Math.floor(this.#random() * all.length);
      this.counts.cut++;
    }
    for (const { kind, index, fd, region, at, length } of all.slice(0, begun)) {
      const chance = this.#random();
      if (chance < ERROR_SHARE) {
        results[index] = -ERRORS[Math.floor(this.#random() * ERRORS.length)]!;
        this.counts.errors++;
      } else if (chance < ERROR_SHARE + SHORT_SHARE) {
        super[kind](index, fd, region, at, Math.ceil(this.#random() * length));
        this.counts.short++;
      } else {
        super[kind](index, fd, region, at, length);
      }
    }
    super.run(results);
    return begun;
  }
}
