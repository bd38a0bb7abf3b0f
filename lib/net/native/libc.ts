// Hot path: the calls below are made once or twice a request.

/**
 * The C library's sockets. Every parameter is a number or a buffer, because only those stay on V8's
 * fast calls (about 5 ns beside the system call); sizes are `u32` for the same reason, which fills
 * `size_t` on every 64-bit ABI that Deno runs on.
 */
const SYMBOLS = {
  socket: { parameters: ["i32", "i32", "i32"], result: "i32" },
  bind: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  connect: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  listen: { parameters: ["i32", "i32"], result: "i32" },
  accept4: { parameters: ["i32", "buffer", "buffer", "i32"], result: "i32" },
  getsockname: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
  getpeername: { parameters: ["i32", "buffer", "buffer"], result: "i32" },
  setsockopt: { parameters: ["i32", "i32", "i32", "buffer", "u32"], result: "i32" },
  getsockopt: { parameters: ["i32", "i32", "i32", "buffer", "buffer"], result: "i32" },
  shutdown: { parameters: ["i32", "i32"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
  fcntl: { parameters: ["i32", "i32", "i32"], result: "i32" },
  recv: { parameters: ["i32", "buffer", "u32", "i32"], result: "i32" },
  send: { parameters: ["i32", "buffer", "u32", "i32"], result: "i32" },
  recvmsg: { parameters: ["i32", "buffer", "i32"], result: "i32" },
  sendmsg: { parameters: ["i32", "buffer", "i32"], result: "i32" },
  recvmmsg: { parameters: ["i32", "buffer", "u32", "i32", "buffer"], result: "i32" },
  sendmmsg: { parameters: ["i32", "buffer", "u32", "i32"], result: "i32" },
  open: { parameters: ["buffer", "i32"], result: "i32" },
  read: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  write: { parameters: ["i32", "buffer", "u32"], result: "i32" },
  epoll_create1: { parameters: ["i32"], result: "i32" },
  epoll_ctl: { parameters: ["i32", "i32", "i32", "buffer"], result: "i32" },
  epoll_wait: { parameters: ["i32", "buffer", "i32", "i32"], result: "i32" },
  eventfd: { parameters: ["u32", "i32"], result: "i32" },
  io_uring_setup: { name: "syscall", parameters: ["i32", "u32", "buffer"], result: "i32" },
  io_uring_enter: {
    name: "syscall",
    parameters: ["i32", "i32", "u32", "u32", "u32", "buffer", "u32"],
    result: "i32",
  },
  io_uring_register: {
    name: "syscall",
    parameters: ["i32", "i32", "u32", "buffer", "u32"],
    result: "i32",
  },
  mmap: { parameters: ["buffer", "u32", "i32", "i32", "i32", "u32"], result: "pointer" },
  munmap: { parameters: ["pointer", "u32"], result: "i32" },
  madvise: { parameters: ["buffer", "u32", "i32"], result: "i32" },
  /** Between two addresses. */
  memcpy: { parameters: ["u64", "u64", "u32"], result: "void" },
  malloc_trim: { parameters: ["u32"], result: "i32" },
  clock_gettime: { parameters: ["i32", "buffer"], result: "i32" },
  umask: { parameters: ["u32"], result: "u32" },
  statx: { parameters: ["i32", "buffer", "i32", "u32", "buffer"], result: "i32" },
  access: { parameters: ["buffer", "i32"], result: "i32" },
  link: { parameters: ["buffer", "buffer"], result: "i32" },
  unlink: { parameters: ["buffer"], result: "i32" },
  getaddrinfo: { parameters: ["buffer", "buffer", "buffer", "buffer"], result: "i32" },
  freeaddrinfo: { parameters: ["pointer"], result: "void" },
  __errno_location: { parameters: [], result: "pointer" },
} as const;

// Linux's numbers; the same on x86-64 and arm64.
export const AF_UNSPEC = 0;
export const AF_UNIX = 1;
export const AF_INET = 2;
export const AF_INET6 = 10;
export const SOCK_STREAM = 1;
export const SOCK_DGRAM = 2;
export const SOCK_NONBLOCK = 0o4000;
export const SOCK_CLOEXEC = 0o2000000;
export const SOL_SOCKET = 1;
export const SO_REUSEADDR = 2;
export const SO_SNDBUF = 7;
export const SO_RCVBUF = 8;
export const SO_KEEPALIVE = 9;
export const SO_SNDTIMEO = 21;
export const SO_SNDBUFFORCE = 32;
export const SO_RCVBUFFORCE = 33;
export const SO_MEMINFO = 55;
export const IPPROTO_TCP = 6;
export const TCP_NODELAY = 1;
export const TCP_KEEPIDLE = 4;
export const TCP_KEEPINTVL = 5;
export const TCP_KEEPCNT = 6;
export const TCP_USER_TIMEOUT = 18;
export const IPPROTO_IPV6 = 41;
export const IPV6_V6ONLY = 26;
export const MSG_DONTWAIT = 0x40;
export const MSG_NOSIGNAL = 0x4000;
export const SHUT_WR = 1;
export const EFD_NONBLOCK = 0o4000;
export const EFD_CLOEXEC = 0o2000000;

/** Names of the expected error numbers. */
const ERRNO = {
  EPERM: 1,
  ENOENT: 2,
  EINTR: 4,
  EBADF: 9,
  EAGAIN: 11,
  ENOMEM: 12,
  EACCES: 13,
  EFAULT: 14,
  EEXIST: 17,
  ENOTDIR: 20,
  EINVAL: 22,
  ENFILE: 23,
  EMFILE: 24,
  EROFS: 30,
  EPIPE: 32,
  ENAMETOOLONG: 36,
  ENOSYS: 38,
  EPROTO: 71,
  EAFNOSUPPORT: 97,
  EADDRINUSE: 98,
  EADDRNOTAVAIL: 99,
  ECONNABORTED: 103,
  ECONNRESET: 104,
  ENOBUFS: 105,
  ETIMEDOUT: 110,
  ECONNREFUSED: 111,
  ECANCELED: 125,
} as const;

export const {
  EPERM,
  EINTR,
  EBADF,
  EAGAIN,
  EFAULT,
  ENOMEM,
  EACCES,
  EINVAL,
  ENFILE,
  EMFILE,
  EPIPE,
  ENOSYS,
} = ERRNO;
export const { EADDRINUSE, ECANCELED, ECONNRESET, ENOBUFS, EPROTO, ETIMEDOUT, ECONNREFUSED } =
  ERRNO;

const ERRNO_NAME = new Map<number, string>(
  Object.entries(ERRNO).map(([name, errno]) => [errno, name]),
);

/** The functions that `Libc` calls. */
export type LibcCalls = Deno.DynamicLibrary<typeof SYMBOLS>["symbols"];

/** One thread's handle on the C library. Threads must not share it: `errno` belongs to the thread. */
export class Libc implements Disposable {
  readonly calls: LibcCalls;
  readonly #library: Deno.DynamicLibrary<typeof SYMBOLS>;
  /** One word: errno of this thread's last failed call. Valid only right after the call. */
  readonly #errno: Int32Array;

  /** @throws When the library cannot be opened or `--allow-ffi` is missing. */
  constructor() {
    this.#library = Deno.dlopen("libc.so.6", SYMBOLS);
    this.calls = this.#library.symbols;
    const location = this.calls.__errno_location();
    if (location === null) throw new TypeError("Cannot find errno: null pointer");
    this.#errno = new Int32Array(Deno.UnsafePointerView.getArrayBuffer(location, 4));
  }

  get errno(): number {
    return this.#errno[0]!;
  }

  set errno(errno: number) {
    this.#errno[0] = errno;
  }

  /** Returns what a call has returned, or the negative error number of one that has just failed, as io_uring does. */
  resultOf(returned: number): number {
    return returned < 0 ? -this.#errno[0]! : returned;
  }

  /** Closes the library. No call may follow. */
  [Symbol.dispose](): void {
    this.#library.close();
  }
}

/** Returns an error number's name, like `ECONNRESET`; `errno 200` if it has none here. */
export function errnoName(errno: number): string {
  return ERRNO_NAME.get(errno) ?? `errno ${errno}`;
}

const CLOCK_MONOTONIC = 1;
const CLOCK_BOOTTIME = 7;

/** Returns a clock in milliseconds that runs while the process is stopped, and while the machine is suspended. */
export function bootClock(calls: LibcCalls): () => number {
  // Two numbers of 64 bits, of which the low halves count: seconds for 136 years, and nanoseconds.
  const time = new Uint32Array(4);
  return () => {
    calls.clock_gettime(CLOCK_BOOTTIME, time);
    return time[0]! * 1000 + time[2]! / 1_000_000;
  };
}

/** Returns a function that writes a monotonic clock, in microseconds, into `clockUs[0]`: about 30 ns. */
export function microsecondClock(calls: LibcCalls, clockUs: Float64Array): () => void {
  // As in `bootClock`.
  const time = new Uint32Array(4);
  return () => {
    calls.clock_gettime(CLOCK_MONOTONIC, time);
    clockUs[0] = time[0]! * 1_000_000 + time[2]! / 1000;
  };
}

/** Whether this process may and can call the C library. Never prompts. */
export function libcAvailable(): boolean {
  if (Deno.build.os !== "linux" || !Deno.build.target.endsWith("-gnu")) return false;
  if (Deno.permissions.querySync({ name: "ffi" }).state !== "granted") return false;
  try {
    new Libc()[Symbol.dispose]();
    return true;
  } catch {
    return false;
  }
}

const TWO_32 = 2 ** 32;
const addressWords = new Uint32Array(2);
const addressBigint = new BigUint64Array(addressWords.buffer);

/**
 * Makes an address an argument of the kind `u64`. Optimised code passes it in a register, without a bigint on the heap.
 * A number would do too, but makes V8 give up the code of its caller again and again.
 */
export function toAddress(address: number): bigint {
  addressWords[0] = address;
  addressWords[1] = address / TWO_32;
  return addressBigint[0]!;
}

/** Returns a path or name as a C string. */
export function cString(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text + "\0");
}
