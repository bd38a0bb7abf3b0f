// Hot path: `receive`, `send` and `run` are called in every round of the event loop. No allocation.
import { IoUringError } from "../transport.ts";
import { addressOf } from "./iovec.ts";
import type { Libc, LibcCalls } from "./libc.ts";
import * as libcModule from "./libc.ts";

const { EACCES, EAGAIN, EINTR, EINVAL, ENOSYS, EPERM, errnoName } = libcModule;
const { AF_UNIX, MSG_DONTWAIT, MSG_NOSIGNAL, SOCK_CLOEXEC, SOCK_DGRAM } = libcModule;

// System calls; the same numbers on x86-64 and arm64.
const IO_URING_SETUP = 425;
const IO_URING_ENTER = 426;
const IO_URING_REGISTER = 427;

const IORING_OP_SEND = 26;
const IORING_OP_RECV = 27;
const OPERATIONS = { IORING_OP_SEND, IORING_OP_RECV } as const;
const IORING_ENTER_GETEVENTS = 1;
const IORING_REGISTER_PROBE = 8;
const IO_URING_OP_SUPPORTED = 1;
const IORING_SETUP_CQSIZE = 1 << 3;
/** A failed entry does not keep the kernel from taking those behind it. Linux 5.18. */
const IORING_SETUP_SUBMIT_ALL = 1 << 7;
/** Both rings are one mapping. */
const IORING_FEAT_SINGLE_MMAP = 1 << 0;
/** Completions that do not fit the ring wait in the kernel. */
const IORING_FEAT_NODROP = 1 << 1;
const FEATURES = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP;

const OFFSET_RINGS = 0;
const OFFSET_ENTRIES = 0x10000000;
const PROT_READ_WRITE = 3;
const MAP_SHARED = 1;
const MAP_POPULATE = 0x8000;
const MAP_FAILED = 2n ** 64n - 1n;

/*
 * In 32-bit words:
 *
 *   struct io_uring_params  0 entries  1 completions  2 flags  5 features  10 to 19 places in the submission ring
 *                           20 to 29 places in the completion ring
 *   places, in bytes        submission: 0 tail at 11, array at 16   completion: head at 20, tail at 21, entries at 25
 *   struct io_uring_sqe     0 opcode  1 fd  4 address  6 length  7 flags of recv(2) and send(2)  8 user data
 *   struct io_uring_cqe     0 user data  2 result  3 flags
 *   struct io_uring_probe   4 operations of 2 words: 0 opcode (a byte), flags (the upper half)
 */
const PARAM_WORDS = 30;
const PARAM_ENTRIES = 0;
const PARAM_COMPLETIONS = 1;
const PARAM_FLAGS = 2;
const PARAM_FEATURES = 5;
const PARAM_SQ_TAIL = 11;
const PARAM_SQ_ARRAY = 16;
const PARAM_CQ_HEAD = 20;
const PARAM_CQ_TAIL = 21;
const PARAM_CQ_ENTRIES = 25;
const SQE_WORDS = 16;
const SQE_FD = 1;
const SQE_ADDRESS = 4;
const SQE_LENGTH = 6;
const SQE_FLAGS = 7;
const SQE_USER_DATA = 8;
const CQE_WORDS = 4;
const CQE_RESULT = 2;
const PROBE_HEADER_WORDS = 4;
const PROBE_OPERATION_WORDS = 2;
const PROBE_FLAGS_SHIFT = 16;

const REGIONS_MAX = 4;
const WORD_BYTES = 4;
const TWO_32 = 2 ** 32;

/** An open ring: plain data, so that it can be posted to the thread that uses it. */
export interface OpenRing {
  readonly fd: number;
  /** The words of `struct io_uring_params`, as the kernel has filled them. */
  readonly params: readonly number[];
}

/**
 * Opens a ring.
 *
 * @param entries Operations that one `run` takes: a power of two.
 * @param completions Completions that fit the ring: a power of two, at least `entries`.
 * @throws IoUringError
 */
export function openRing(libc: Libc, entries: number, completions = 2 * entries): OpenRing {
  const params = new Uint32Array(PARAM_WORDS);
  params[PARAM_COMPLETIONS] = completions;
  params[PARAM_FLAGS] = IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL;
  const fd = libc.calls.io_uring_setup(IO_URING_SETUP, entries, params);
  if (fd < 0) throw new IoUringError(setupReason(libc.errno));
  const open = { fd, params: [...params] };
  try {
    requireFeatures(libc, fd, params[PARAM_FEATURES]!);
    requireNoWait(libc, open);
  } catch (error) {
    libc.calls.close(fd);
    throw error;
  }
  return open;
}

function setupReason(errno: number): string {
  const code = errnoName(errno);
  if (errno === ENOSYS) return `the kernel has none (${code})`;
  if (errno === EPERM || errno === EACCES) {
    return `this process may not use it (${code}): see the sysctl kernel.io_uring_disabled, and the seccomp ` +
      `filter of the container`;
  }
  if (errno === EINVAL) return `the kernel is older than Linux 5.18 (${code})`;
  return `io_uring_setup says ${code}`;
}

/** @throws IoUringError */
function requireFeatures(libc: Libc, fd: number, features: number): void {
  if ((features & FEATURES) !== FEATURES) {
    throw new IoUringError(`the kernel lacks features: it has 0x${features.toString(16)}`);
  }
  // A seccomp filter may forbid each call on its own.
  if (libc.calls.io_uring_enter(IO_URING_ENTER, fd, 0, 0, 0, null, 0) < 0) {
    throw new IoUringError(`io_uring_enter says ${errnoName(libc.errno)}`);
  }
  const count = Math.max(...Object.values(OPERATIONS)) + 1;
  const probe = new Uint32Array(PROBE_HEADER_WORDS + count * PROBE_OPERATION_WORDS);
  const failed = libc.calls.io_uring_register(
    IO_URING_REGISTER,
    fd,
    IORING_REGISTER_PROBE,
    probe,
    count,
  );
  if (failed < 0) throw new IoUringError(`io_uring_register says ${errnoName(libc.errno)}`);
  for (const [name, opcode] of Object.entries(OPERATIONS)) {
    const flags = probe[PROBE_HEADER_WORDS + opcode * PROBE_OPERATION_WORDS]! >>> PROBE_FLAGS_SHIFT;
    if ((flags & IO_URING_OP_SUPPORTED) === 0) {
      throw new IoUringError(`the kernel lacks ${name}`);
    }
  }
}

/**
 * Tries a receive that finds nothing: if it waited, so would the thread.
 *
 * @throws IoUringError
 */
function requireNoWait(libc: Libc, open: OpenRing): void {
  const fd = libc.calls.socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) throw new IoUringError(`it cannot be tried: socket says ${errnoName(libc.errno)}`);
  try {
    using ring = new IoUring(libc, open);
    if (!ring.receivesWithoutWaiting(fd)) {
      throw new IoUringError("the kernel does not heed MSG_DONTWAIT");
    }
  } finally {
    libc.calls.close(fd);
  }
}

/** A part of a ring, mapped into this process. */
interface Mapping {
  readonly at: Deno.PointerObject;
  readonly bytes: number;
}

/**
 * A ring of one thread, for receives and sends that never wait. Each operation has completed when `run` returns, so
 * the kernel holds no buffer between two calls.
 */
export class IoUring implements Disposable {
  readonly #libc: Libc;
  readonly #calls: LibcCalls;
  readonly #fd: number;
  /** Both rings. */
  readonly #words: Int32Array;
  readonly #submissions: Int32Array;
  readonly #submissionMask: number;
  readonly #completionMask: number;
  /** Places in `#words`. */
  readonly #submissionTailAt: number;
  readonly #completionHeadAt: number;
  readonly #completionTailAt: number;
  readonly #completionsAt: number;
  readonly #mappings: Mapping[] = [];
  readonly #regions: Uint8Array[] = [];
  /** Of the regions. Their numbers are passed on, because the engine would allocate an object for an address. */
  readonly #addresses = new Float64Array(REGIONS_MAX);
  /** Number of the next submission: a counter that wraps at 32 bits. */
  #next: number;
  /** Operations prepared since the last `run`. */
  #prepared = 0;
  /** Number of the next completion, as `#next`. */
  #completed: number;

  /** @throws IoUringError When the ring cannot be mapped. */
  constructor(libc: Libc, { fd, params }: OpenRing) {
    const param = (word: number): number => params[word]!;
    this.#libc = libc;
    this.#calls = libc.calls;
    this.#fd = fd;
    const entries = param(PARAM_ENTRIES);
    const completions = param(PARAM_COMPLETIONS);
    const bytes = Math.max(
      param(PARAM_SQ_ARRAY) + entries * WORD_BYTES,
      param(PARAM_CQ_ENTRIES) + completions * CQE_WORDS * WORD_BYTES,
    );
    this.#words = this.#map(OFFSET_RINGS, bytes);
    this.#submissions = this.#map(OFFSET_ENTRIES, entries * SQE_WORDS * WORD_BYTES);
    this.#submissionMask = entries - 1;
    this.#completionMask = completions - 1;
    this.#submissionTailAt = param(PARAM_SQ_TAIL) / WORD_BYTES;
    this.#completionHeadAt = param(PARAM_CQ_HEAD) / WORD_BYTES;
    this.#completionTailAt = param(PARAM_CQ_TAIL) / WORD_BYTES;
    this.#completionsAt = param(PARAM_CQ_ENTRIES) / WORD_BYTES;
    this.#next = this.#words[this.#submissionTailAt]!;
    this.#completed = this.#words[this.#completionHeadAt]!;
    // The kernel takes the entries in the order in which this array names them: always the same.
    const arrayAt = param(PARAM_SQ_ARRAY) / WORD_BYTES;
    for (let index = 0; index < entries; index++) this.#words[arrayAt + index] = index;
  }

  /**
   * Names memory that operations read or write, and keeps it alive. At most REGIONS_MAX.
   *
   * @returns The number of the region.
   */
  addRegion(bytes: Uint8Array<ArrayBufferLike>): number {
    this.#addresses[this.#regions.length] = addressOf(bytes);
    return this.#regions.push(bytes) - 1;
  }

  /**
   * Prepares a recv(2) as operation number `index` of the next `run`.
   *
   * @param at Where the bytes go: an offset in the region.
   */
  receive(index: number, fd: number, region: number, at: number, length: number): void {
    this.#prepare(index, IORING_OP_RECV, fd, region, at, length, MSG_DONTWAIT);
  }

  /** Prepares a send(2), as `receive`. */
  send(index: number, fd: number, region: number, at: number, length: number): void {
    this.#prepare(index, IORING_OP_SEND, fd, region, at, length, MSG_DONTWAIT | MSG_NOSIGNAL);
  }

  /**
   * Executes the prepared operations, and returns when each that was begun has completed.
   *
   * @param results Gets the result of each operation: a number of bytes, or a negative error number.
   * @returns How many were begun, in the order of their preparation. The kernel has not touched the others.
   */
  run(results: Int32Array): number {
    if (this.#prepared === 0) return 0;
    const begun = this.#submit();
    for (let missing = begun - this.#collect(results); missing > 0;) {
      // Completions did not fit the ring, or an operation is under way, against its flags.
      const failed = this.#enter(0, missing, IORING_ENTER_GETEVENTS) < 0;
      if (failed && this.#libc.errno !== EINTR) {
        const code = errnoName(this.#libc.errno);
        throw new IoUringError(`completions are missing: io_uring_enter says ${code}`);
      }
      missing -= this.#collect(results);
    }
    return begun;
  }

  /**
   * Whether a receive completes at once if there is nothing to receive. If not, it is still under way: close the ring.
   *
   * @param fd A socket that has received nothing.
   */
  receivesWithoutWaiting(fd: number): boolean {
    const results = new Int32Array(1);
    this.receive(0, fd, this.addRegion(new Uint8Array(1)), 0, 1);
    return this.#submit() === 1 && this.#collect(results) === 1 && results[0] === -EAGAIN;
  }

  /** Unmaps the ring. It stays open for others. */
  [Symbol.dispose](): void {
    for (const { at, bytes } of this.#mappings.splice(0)) this.#calls.munmap(at, bytes);
  }

  /** @returns How many of the prepared operations were begun. */
  #submit(): number {
    Atomics.store(this.#words, this.#submissionTailAt, (this.#next + this.#prepared) | 0);
    // On an error the kernel has taken no entry: for example when it lacks memory.
    const begun = Math.max(0, this.#enter(this.#prepared, 0, 0));
    this.#next = (this.#next + begun) | 0;
    this.#prepared = 0;
    return begun;
  }

  /** @param flags Of recv(2) and send(2). With MSG_DONTWAIT the operation completes at once. */
  #prepare(
    index: number,
    opcode: number,
    fd: number,
    region: number,
    offset: number,
    length: number,
    flags: number,
  ): void {
    const address = this.#addresses[region]! + offset;
    const at = ((this.#next + this.#prepared++) & this.#submissionMask) * SQE_WORDS;
    const words = this.#submissions;
    // Words that are not written here are 0 for ever.
    words[at] = opcode;
    words[at + SQE_FD] = fd;
    words[at + SQE_ADDRESS] = address;
    words[at + SQE_ADDRESS + 1] = address / TWO_32;
    words[at + SQE_LENGTH] = length;
    words[at + SQE_FLAGS] = flags;
    words[at + SQE_USER_DATA] = index;
  }

  /** Takes the completions from the ring. @returns Their number. */
  #collect(results: Int32Array): number {
    const words = this.#words;
    const tail = Atomics.load(words, this.#completionTailAt);
    const count = (tail - this.#completed) | 0;
    for (let left = count; left > 0; left--) {
      const at = this.#completionsAt + (this.#completed & this.#completionMask) * CQE_WORDS;
      results[words[at]!] = words[at + CQE_RESULT]!;
      this.#completed = (this.#completed + 1) | 0;
    }
    Atomics.store(words, this.#completionHeadAt, tail);
    return count;
  }

  /** @returns As io_uring_enter(2). */
  #enter(submit: number, complete: number, flags: number): number {
    return this.#calls.io_uring_enter(
      IO_URING_ENTER,
      this.#fd,
      submit,
      complete,
      flags,
      null,
      0,
    );
  }

  /** Maps a part of the ring. */
  #map(offset: number, bytes: number): Int32Array {
    const flags = MAP_SHARED | MAP_POPULATE;
    const at = this.#calls.mmap(null, bytes, PROT_READ_WRITE, flags, this.#fd, offset);
    if (at === null || Deno.UnsafePointer.value(at) === MAP_FAILED) {
      throw new IoUringError(`mmap says ${errnoName(this.#libc.errno)}`);
    }
    this.#mappings.push({ at, bytes });
    return new Int32Array(Deno.UnsafePointerView.getArrayBuffer(at, bytes));
  }
}
