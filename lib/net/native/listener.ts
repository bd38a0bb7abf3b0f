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
  SO_RCVBUF,
  SO_RCVBUFFORCE,
  SO_REUSEADDR,
  SO_SNDBUF,
  SO_SNDBUFFORCE,
  SO_SNDTIMEO,
  SOCK_CLOEXEC,
  SOCK_DGRAM,
  SOCK_NONBLOCK,
  SOCK_STREAM,
  SOL_SOCKET,
  TCP_KEEPCNT,
  TCP_KEEPIDLE,
  TCP_KEEPINTVL,
  TCP_NODELAY,
  TCP_USER_TIMEOUT,
} from "./libc.ts";
import type { PassedSockets } from "./passed_sockets.ts";
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
  type UdpListen,
  type UnixListen,
} from "../transport.ts";

/** A socket for connections, or for datagrams. */
export interface NativeListener {
  readonly fd: number;
  /** The numeric address and the port that were bound. */
  readonly listen: Listen;
  /** For a datagram socket: the address that `startListening` binds it to. For a Unix socket: its name until then. */
  readonly address?: Uint8Array<ArrayBuffer>;
  /** Whether a service manager has bound it, and made its file. */
  readonly isPassed?: boolean;
  /** The inode of the socket's file; absent: it has not been made. */
  fileId?: bigint | undefined;
}

/**
 * Times after which the kernel drops a peer that vanished: two minutes, by keepalive (the first probe after one silent
 * minute, then one every ten seconds), or by unacknowledged data. The system's defaults are two hours and a quarter of
 * an hour.
 */
const KEEPALIVE_IDLE_SEC = 60;
const KEEPALIVE_INTERVAL_SEC = 10;
const KEEPALIVE_PROBES = 6;
const DEAD_PEER_SEC = KEEPALIVE_IDLE_SEC + KEEPALIVE_INTERVAL_SEC * KEEPALIVE_PROBES;

const AT_FDCWD = -100;
const AT_SYMLINK_NOFOLLOW = 0x100;
const STATX_TYPE = 1;
const STATX_INO = 0x100;
const STATX_BYTES = 256;
const STATX_MODE_BYTE = 28;
const STATX_INO_BYTE = 32;
const FILE_TYPE_MASK = 0o170000;
const FILE_TYPE_SOCKET = 0o140000;
/** Offset of the path in struct sockaddr_un. */
const SUN_PATH_BYTE = 2;
/** W_OK and X_OK of access: what creating a file in a folder needs. */
const WRITE_AND_SEARCH = 0o3;

/**
 * Room that a UDP socket asks for, in bytes: more than 10,000 short datagrams, each of which takes 768 bytes and more.
 * The system grants `net.core.rmem_max` at most, unless the process has CAP_NET_ADMIN.
 */
const UDP_BUFFER_BYTES = 8 * 1024 * 1024;
/** The longest wait for room in a UDP socket's send buffer, in microseconds: what does not fit then is dropped. */
const UDP_SEND_WAIT_US = 10_000n;

/**
 * Binds every address of a name.
 *
 * @param passed Has sockets that are bound already.
 * @throws {ListenError} When one of them is in use, or none can be bound.
 */
export function bindNetwork(
  libc: Libc,
  listen: TcpListen | UdpListen,
  passed: PassedSockets,
): NativeListener[] {
  const addresses = resolveAddresses(libc, listen.kind, listen.hostname, listen.port);
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
      const found = listen.kind === "tcp"
        ? bindTcp(libc, listen, address, passed)
        : reserveUdp(libc, listen, address);
      if (typeof found === "number") {
        if (found === EADDRINUSE || addresses.length === 1) throw failure(listen, found);
        continue;
      }
      listeners.push(found);
      port = (found.listen as TcpListen | UdpListen).port;
    }
    if (listeners.length === 0) throw failure(listen, libc.errno);
    return listeners;
  } catch (error) {
    for (const { fd } of listeners) libc.calls.close(fd);
    throw error;
  }
}

/**
 * Opens a socket that is not bound yet: its file appears when the server listens. Removes the file of a server that has
 * ended.
 *
 * @throws {ListenError} When there is another file, or the file cannot be created.
 */
export function reserveUnix(
  libc: Libc,
  listen: UnixListen,
  passed: PassedSockets,
): NativeListener {
  const { calls } = libc;
  const { path } = listen;
  const address = unixAddress(path);
  const passedFd = passed.take(address.bytes);
  if (passedFd !== null) return { fd: passedFd, listen, isPassed: true };
  if (isStaleSocket(libc, address, path)) calls.unlink(cString(path));
  if (fileStatus(libc, path) !== null) throw failure(listen, EADDRINUSE);
  const folder = path.slice(0, path.lastIndexOf("/") + 1);
  if (calls.access(cString(folder || "."), WRITE_AND_SEARCH) !== 0) {
    throw failure(listen, libc.errno);
  }
  const fd = calls.socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) throw failure(listen, libc.errno);
  return { fd, listen, address: unixAddress(`${folder}.${Deno.pid}`).bytes };
}

/**
 * Lets the kernel take connections, or datagrams.
 *
 * @throws {ListenError}
 */
export function startListening(libc: Libc, listener: NativeListener, backlog: number): void {
  const { fd, listen, address } = listener;
  if (listen.kind === "unix" && listener.isPassed !== true) {
    const errno = listenUnix(libc, fd, listen, address!, backlog);
    if (errno !== 0) throw failure(listen, errno);
    listener.fileId = fileStatus(libc, listen.path)?.id;
    return;
  }
  const failed = address === undefined
    ? libc.calls.listen(fd, backlog)
    : libc.calls.bind(fd, address, address.length);
  if (failed !== 0) throw failure(listen, libc.errno);
}

/**
 * Binds a Unix socket to a name of its own. It gets its path when it listens: a client that finds the file can connect.
 *
 * @returns The errno; 0: done.
 */
function listenUnix(
  libc: Libc,
  fd: number,
  { path, mode }: UnixListen,
  address: Uint8Array<ArrayBuffer>,
  backlog: number,
): number {
  const { calls } = libc;
  const name = address.slice(SUN_PATH_BYTE);
  // The file never has more permission bits than asked for, not even between bind and chmod.
  const umask = calls.umask(~mode & 0o777);
  const isBound = calls.bind(fd, address, address.length) === 0;
  let { errno } = libc;
  calls.umask(umask);
  if (!isBound) return errno;
  const listens = calls.listen(fd, backlog) === 0 && calls.link(name, cString(path)) === 0;
  errno = listens ? 0 : libc.errno;
  calls.unlink(name);
  return errno;
}

/** Removes a socket file, unless it is another's. */
export function removeSocketFile(libc: Libc, { listen, fileId }: NativeListener): void {
  if (listen.kind !== "unix" || fileId === undefined) return;
  if (fileStatus(libc, listen.path)?.id === fileId) libc.calls.unlink(cString(listen.path));
}

/** Opens and binds a socket. @returns The listener, or the errno. */
function bindTcp(
  libc: Libc,
  listen: TcpListen,
  address: SocketAddress,
  passed: PassedSockets,
): NativeListener | number {
  const { calls } = libc;
  const passedFd = passed.take(address.bytes);
  if (passedFd !== null) {
    setTcpOptions(libc, passedFd);
    return { fd: passedFd, listen: { ...listen, ...readAddress(address.bytes) }, isPassed: true };
  }
  const fd = calls.socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return libc.errno;
  // The kernel gives a free port to one socket alone, unless both may reuse it and neither listens yet.
  if (listen.port !== 0) setOption(libc, fd, SOL_SOCKET, SO_REUSEADDR, 1);
  setTcpOptions(libc, fd);
  const name = bindSocket(libc, fd, address);
  return typeof name === "number" ? name : { fd, listen: { ...listen, ...readAddress(name) } };
}

/** Sets what the sockets that are accepted inherit. */
function setTcpOptions(libc: Libc, fd: number): void {
  setOption(libc, fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  setOption(libc, fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_SEC);
  setOption(libc, fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_SEC);
  setOption(libc, fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
  setOption(libc, fd, IPPROTO_TCP, TCP_USER_TIMEOUT, DEAD_PEER_SEC * 1000);
  setOption(libc, fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

/**
 * Checks that the address is free, and opens a socket that is not bound yet: clients are refused until the server can
 * reply, as over TCP.
 *
 * @returns The listener, or the errno.
 */
function reserveUdp(
  libc: Libc,
  listen: UdpListen,
  address: SocketAddress,
): NativeListener | number {
  const { calls } = libc;
  const trial = calls.socket(address.family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (trial < 0) return libc.errno;
  const name = bindSocket(libc, trial, address);
  if (typeof name === "number") return name;
  calls.close(trial);
  const fd = calls.socket(address.family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return libc.errno;
  setFamilyOptions(libc, fd, address);
  setBufferSize(libc, fd, SO_RCVBUFFORCE, SO_RCVBUF);
  setBufferSize(libc, fd, SO_SNDBUFFORCE, SO_SNDBUF);
  calls.setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, new BigInt64Array([0n, UDP_SEND_WAIT_US]), 16);
  const bound = { ...listen, ...readAddress(name) };
  return { fd, listen: bound, address: name.slice(0, address.bytes.length) };
}

function setBufferSize(libc: Libc, fd: number, forced: number, granted: number): void {
  const size = new Int32Array([UDP_BUFFER_BYTES]);
  if (libc.calls.setsockopt(fd, SOL_SOCKET, forced, size, 4) === 0) return;
  libc.calls.setsockopt(fd, SOL_SOCKET, granted, size, 4);
}

function setFamilyOptions(libc: Libc, fd: number, { family }: SocketAddress): void {
  if (family === AF_INET6) setOption(libc, fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
}

function setOption(libc: Libc, fd: number, level: number, name: number, value: number): void {
  libc.calls.setsockopt(fd, level, name, new Int32Array([value]), 4);
}

/** Returns the name of the bound socket. After an error closes the socket and returns the errno. */
function bindSocket(
  libc: Libc,
  fd: number,
  address: SocketAddress,
): Uint8Array<ArrayBuffer> | number {
  const { calls } = libc;
  setFamilyOptions(libc, fd, address);
  if (calls.bind(fd, address.bytes, address.bytes.length) !== 0) {
    const { errno } = libc;
    calls.close(fd);
    return errno;
  }
  const name = new Uint8Array(ADDRESS_BYTES_MAX);
  calls.getsockname(fd, name, new Int32Array([ADDRESS_BYTES_MAX]));
  return name;
}

/** Whether the path is a socket that refuses connections. */
function isStaleSocket(libc: Libc, address: SocketAddress, path: string): boolean {
  if (!fileStatus(libc, path)?.isSocket) return false;
  const { calls } = libc;
  const fd = calls.socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const refused = calls.connect(fd, address.bytes, address.bytes.length) !== 0 &&
    libc.errno === ECONNREFUSED;
  calls.close(fd);
  return refused;
}

/** Returns what a path names, without following a link, and the number of the file; null: nothing, or it is hidden. */
function fileStatus(libc: Libc, path: string): { isSocket: boolean; id: bigint } | null {
  const status = new Uint8Array(STATX_BYTES);
  const fields = STATX_TYPE | STATX_INO;
  if (libc.calls.statx(AT_FDCWD, cString(path), AT_SYMLINK_NOFOLLOW, fields, status) !== 0) {
    return null;
  }
  const view = new DataView(status.buffer);
  const mode = view.getUint16(STATX_MODE_BYTE, true);
  return {
    isSocket: (mode & FILE_TYPE_MASK) === FILE_TYPE_SOCKET,
    id: view.getBigUint64(STATX_INO_BYTE, true),
  };
}

function failure(listen: Listen, errno: number): ListenError {
  const code = errnoName(errno);
  return new ListenError(listen, code, `cannot listen on ${listenText(listen)}: ${code}`);
}
