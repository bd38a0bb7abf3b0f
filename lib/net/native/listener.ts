import {
  AF_INET6,
  cString,
  EADDRINUSE,
  ECONNREFUSED,
  errnoName,
  IPPROTO_IPV6,
  IPPROTO_TCP,
  IPV6_V6ONLY,
  type Libc,
  SO_KEEPALIVE,
  SO_REUSEADDR,
  SOCK_CLOEXEC,
  SOCK_NONBLOCK,
  SOCK_STREAM,
  SOL_SOCKET,
  TCP_KEEPCNT,
  TCP_KEEPIDLE,
  TCP_KEEPINTVL,
  TCP_NODELAY,
  TCP_USER_TIMEOUT,
} from "./libc.ts";
import {
  ADDRESS_BYTES_MAX,
  readAddress,
  resolveAddresses,
  type SocketAddress,
  unixAddress,
} from "./socket_address.ts";
import {
  type Listen,
  ListenError,
  listenText,
  type TcpListen,
  type UnixListen,
} from "../transport.ts";

/** A bound socket, for connections. */
export interface NativeListener {
  readonly fd: number;
  /** With the numeric address and the port that were really bound. */
  readonly listen: Listen;
}

/**
 * A peer that vanishes without a word is given up after two minutes, with whatever it holds: asked for a sign of life
 * after one of silence and then every ten seconds, or not having taken for two what was sent to it. The system's own
 * times are two hours and a quarter of one.
 */
const KEEPALIVE_IDLE_SEC = 60;
const KEEPALIVE_INTERVAL_SEC = 10;
const KEEPALIVE_PROBES = 6;
const DEAD_PEER_SEC = KEEPALIVE_IDLE_SEC + KEEPALIVE_INTERVAL_SEC * KEEPALIVE_PROBES;

const AT_FDCWD = -100;
const AT_SYMLINK_NOFOLLOW = 0x100;
const STATX_TYPE = 1;
const STATX_BYTES = 256;
const STATX_MODE_BYTE = 28;
const FILE_TYPE_MASK = 0o170000;
const FILE_TYPE_SOCKET = 0o140000;

/**
 * Binds every address that the name stands for.
 *
 * @throws {ListenError} When one of them is taken, or none can be had.
 */
export function bindTcp(libc: Libc, listen: TcpListen): NativeListener[] {
  const addresses = resolveAddresses(libc, "tcp", listen.hostname, listen.port);
  if (addresses.length === 0) {
    throw new ListenError(
      listen,
      "ENOENT",
      `cannot listen on ${listenText(listen)}: no such address`,
    );
  }
  const listeners: NativeListener[] = [];
  let port = listen.port;
  try {
    for (const address of addresses) {
      // All addresses of one name get the port that the first was given.
      new DataView(address.bytes.buffer).setUint16(2, port, false);
      const found = bindAddress(libc, listen, address);
      if (typeof found === "number") {
        if (found === EADDRINUSE || addresses.length === 1) throw failure(listen, found);
        continue;
      }
      listeners.push(found);
      port = (found.listen as TcpListen).port;
    }
    if (listeners.length === 0) throw failure(listen, libc.errno);
    return listeners;
  } catch (error) {
    for (const { fd } of listeners) libc.calls.close(fd);
    throw error;
  }
}

/**
 * Makes the socket file with its mode. A socket file that nobody listens on any more is replaced.
 *
 * @throws {ListenError}
 */
export function bindUnix(libc: Libc, listen: UnixListen): NativeListener {
  const { calls } = libc;
  const address = unixAddress(listen.path);
  if (isStaleSocket(libc, address, listen.path)) calls.unlink(cString(listen.path));
  const fd = calls.socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  // The file never has more rights than it shall have, not even between bind and chmod.
  const umask = calls.umask(~listen.mode & 0o777);
  const bound = calls.bind(fd, address.bytes, address.bytes.length) === 0;
  const errno = libc.errno;
  calls.umask(umask);
  if (fd >= 0 && bound) return { fd, listen };
  if (fd >= 0) calls.close(fd);
  throw failure(listen, errno);
}

/**
 * Lets the kernel take connections for a bound socket.
 *
 * @throws {ListenError}
 */
export function startListening(libc: Libc, { fd, listen }: NativeListener, backlog: number): void {
  if (libc.calls.listen(fd, backlog) !== 0) throw failure(listen, libc.errno);
}

export function removeSocketFile(libc: Libc, path: string): void {
  libc.calls.unlink(cString(path));
}

/** @returns The listener, or what errno said. */
function bindAddress(
  libc: Libc,
  listen: TcpListen,
  address: SocketAddress,
): NativeListener | number {
  const { calls } = libc;
  const fd = calls.socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return libc.errno;
  const set = (level: number, name: number, value: number): void => {
    calls.setsockopt(fd, level, name, new Int32Array([value]), 4);
  };
  set(SOL_SOCKET, SO_REUSEADDR, 1);
  // The sockets that are accepted inherit these.
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_SEC);
  set(IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_SEC);
  set(IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, DEAD_PEER_SEC * 1000);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  if (address.family === AF_INET6) set(IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (calls.bind(fd, address.bytes, address.bytes.length) !== 0) {
    const { errno } = libc;
    calls.close(fd);
    return errno;
  }
  const name = new Uint8Array(ADDRESS_BYTES_MAX);
  calls.getsockname(fd, name, new Int32Array([ADDRESS_BYTES_MAX]));
  return { fd, listen: { ...listen, ...readAddress(name) } };
}

/** Whether the path is a socket that refuses connections. */
function isStaleSocket(libc: Libc, address: SocketAddress, path: string): boolean {
  const { calls } = libc;
  const status = new Uint8Array(STATX_BYTES);
  if (calls.statx(AT_FDCWD, cString(path), AT_SYMLINK_NOFOLLOW, STATX_TYPE, status) !== 0) {
    return false;
  }
  const mode = new DataView(status.buffer).getUint16(STATX_MODE_BYTE, true);
  if ((mode & FILE_TYPE_MASK) !== FILE_TYPE_SOCKET) return false;
  const fd = calls.socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const refused = calls.connect(fd, address.bytes, address.bytes.length) !== 0 &&
    libc.errno === ECONNREFUSED;
  calls.close(fd);
  return refused;
}

function failure(listen: Listen, errno: number): ListenError {
  const code = errnoName(errno);
  return new ListenError(listen, code, `cannot listen on ${listenText(listen)}: ${code}`);
}
