// Hot path: `wait`, `events` and `fd` run once per ready connection.
import { EBADF, EFAULT, EINVAL, errnoName, type Libc, type LibcCalls } from "./libc.ts";

// Events.
export const EPOLLIN = 0x1;
export const EPOLLOUT = 0x4;
/** Both directions are closed, or the connection was reset. Always reported. */
export const EPOLLERR = 0x8;
export const EPOLLHUP = 0x10;
export const EPOLLRDHUP = 0x2000;
/** Wakes one or some of the threads that wait for the same listener, not all. */
export const EPOLLEXCLUSIVE = 1 << 28;

const EPOLL_CTL_ADD = 1;
const EPOLL_CTL_DEL = 2;
const EPOLL_CTL_MOD = 3;
const EPOLL_CLOEXEC = 0o2000000;

/*
 * struct epoll_event, in 32-bit words. Packed on x86-64 only:
 *
 *     x86-64   | events | data low | data high |            12 bytes
 *     arm64    | events | unused   | data low  | data high | 16 bytes
 *
 * `data low` holds the descriptor, `data high` a tag that the caller of `add` chooses.
 */
const PACKED = Deno.build.arch === "x86_64";
const EVENT_WORDS = PACKED ? 3 : 4;
const FD_WORD = PACKED ? 1 : 2;
const TAG_WORD = FD_WORD + 1;

/** Opens an epoll instance. @returns Its descriptor; below 0 after an error. */
export function createEpoll(libc: Libc): number {
  return libc.calls.epoll_create1(EPOLL_CLOEXEC);
}

/** A descriptor of an epoll instance that knows the events reported for it. */
export interface WatchedDescriptor {
  readonly fd: number;
  readonly tag: number;
  watched: number;
}

/** One thread's view of an epoll instance. Another thread may add descriptors to the same instance. */
export class Epoll {
  readonly #libc: Libc;
  readonly #calls: LibcCalls;
  readonly #operation: Int32Array = new Int32Array(EVENT_WORDS);
  readonly #ready: Int32Array;
  readonly #readyBytes: Uint8Array;
  readonly #readyMax: number;

  /** @param readyMax Most descriptors that one `wait` reports. */
  constructor(libc: Libc, readonly epollFd: number, readyMax: number) {
    this.#libc = libc;
    this.#calls = libc.calls;
    this.#ready = new Int32Array(EVENT_WORDS * readyMax);
    this.#readyBytes = new Uint8Array(this.#ready.buffer);
    this.#readyMax = readyMax;
  }

  add(fd: number, events: number, tag: number): boolean {
    return this.#control(this.epollFd, EPOLL_CTL_ADD, fd, events, tag);
  }

  /** Gives `fd` to the epoll instance of another thread. */
  addTo(epollFd: number, fd: number, events: number, tag: number): boolean {
    return this.#control(epollFd, EPOLL_CTL_ADD, fd, events, tag);
  }

  modify(fd: number, events: number, tag: number): boolean {
    return this.#control(this.epollFd, EPOLL_CTL_MOD, fd, events, tag);
  }

  /** Reports other events of a descriptor from now on. Does nothing when these are reported already. */
  watch(descriptor: WatchedDescriptor, events: number): void {
    if (descriptor.watched === events) return;
    descriptor.watched = events;
    this.modify(descriptor.fd, events, descriptor.tag);
  }

  remove(fd: number): boolean {
    return this.#control(this.epollFd, EPOLL_CTL_DEL, fd, 0, 0);
  }

  /**
   * Waits until something is ready.
   *
   * @param timeoutMs -1: for ever; 0: not at all.
   * @returns Number of ready descriptors; 0 after the time-out or a signal.
   * @throws Error Not an epoll instance.
   */
  wait(timeoutMs: number): number {
    const count = this.#calls.epoll_wait(
      this.epollFd,
      this.#readyBytes,
      this.#readyMax,
      timeoutMs,
    );
    if (count >= 0) return count;
    const { errno } = this.#libc;
    // Else it was a signal, also when its handler, as that of a profiler, has left an errno of its own.
    if (errno !== EBADF && errno !== EFAULT && errno !== EINVAL) return 0;
    throw new Error(`Cannot wait for sockets: epoll_wait says ${errnoName(errno)}`);
  }

  /** The events of the ready descriptor number `index`. */
  events(index: number): number {
    return this.#ready[index * EVENT_WORDS]!;
  }

  fd(index: number): number {
    return this.#ready[index * EVENT_WORDS + FD_WORD]!;
  }

  tag(index: number): number {
    return this.#ready[index * EVENT_WORDS + TAG_WORD]!;
  }

  #control(epollFd: number, operation: number, fd: number, events: number, tag: number): boolean {
    this.#operation[0] = events;
    this.#operation[FD_WORD] = fd;
    this.#operation[TAG_WORD] = tag;
    return this.#calls.epoll_ctl(epollFd, operation, fd, this.#operation) === 0;
  }
}
