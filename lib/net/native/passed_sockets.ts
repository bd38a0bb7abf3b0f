import { AF_INET, AF_INET6, AF_UNIX, type Libc, SOCK_STREAM, SOL_SOCKET } from "./libc.ts";
import { ADDRESS_BYTES_MAX, readAddress } from "./socket_address.ts";
import { hostPortText } from "../transport.ts";

const SO_TYPE = 3;
const F_SETFD = 2;
const F_SETFL = 4;
const FD_CLOEXEC = 1;
const O_NONBLOCK = 0o4000;
const SUN_PATH_BYTE = 2;
/** Bytes of an IPv4 and an IPv6 address that two names of one socket have in common: without flow and scope. */
const NAME_BYTES = new Map([[AF_INET, 8], [AF_INET6, 24]]);

interface PassedSocket {
  readonly fd: number;
  readonly isStream: boolean;
  /** Its `struct sockaddr`. */
  readonly name: Uint8Array<ArrayBuffer>;
}

/** Sockets that a service manager has bound and passed to the process, so that clients wait while it restarts. */
export class PassedSockets {
  readonly #libc: Libc;
  readonly #left: PassedSocket[];

  /** @param fds Descriptors of sockets that are bound. */
  constructor(libc: Libc, fds: readonly number[]) {
    this.#libc = libc;
    this.#left = fds.map((fd) => {
      const type = new Int32Array(1);
      libc.calls.getsockopt(fd, SOL_SOCKET, SO_TYPE, type, new Int32Array([4]));
      const name = new Uint8Array(ADDRESS_BYTES_MAX);
      libc.calls.getsockname(fd, name, new Int32Array([ADDRESS_BYTES_MAX]));
      return { fd, isStream: type[0] === SOCK_STREAM, name };
    });
  }

  /**
   * Takes the socket for connections to an address.
   *
   * @param address A `struct sockaddr`.
   * @returns Its descriptor, or null if none was passed.
   */
  take(address: Uint8Array): number | null {
    const index = this.#left.findIndex(({ isStream, name }) => isStream && isSame(name, address));
    if (index < 0) return null;
    const [{ fd }] = this.#left.splice(index, 1) as [PassedSocket];
    this.#libc.calls.fcntl(fd, F_SETFD, FD_CLOEXEC);
    this.#libc.calls.fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
  }

  /** The addresses of the sockets that no listener has taken. */
  get unused(): string[] {
    return this.#left.map(({ fd, isStream, name }) => {
      if (familyOf(name) === AF_UNIX) return pathOf(name);
      const address = readAddress(name);
      if (address === undefined) return `descriptor ${fd}`;
      return (isStream ? "" : "udp ") + hostPortText(address.hostname, address.port);
    });
  }
}

function familyOf(name: Uint8Array): number {
  return name[0]! | (name[1]! << 8);
}

function pathOf(name: Uint8Array): string {
  const end = name.indexOf(0, SUN_PATH_BYTE);
  return new TextDecoder().decode(name.subarray(SUN_PATH_BYTE, end < 0 ? undefined : end));
}

function isSame(name: Uint8Array, address: Uint8Array): boolean {
  const family = familyOf(name);
  if (family !== familyOf(address)) return false;
  if (family === AF_UNIX) return pathOf(name) === pathOf(address);
  const length = NAME_BYTES.get(family) ?? 0;
  // The four bytes behind an IPv6 port are the flow.
  return name.subarray(0, length).every((byte, at) =>
    (family === AF_INET6 && at >= 4 && at < 8) || byte === address[at]
  );
}
