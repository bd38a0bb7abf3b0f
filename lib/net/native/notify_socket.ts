import {
  AF_UNIX,
  type Libc,
  MSG_DONTWAIT,
  MSG_NOSIGNAL,
  SOCK_CLOEXEC,
  SOCK_DGRAM,
} from "./libc.ts";
import { unixAddress } from "./socket_address.ts";

/** In a name of the abstract namespace a NUL stands for this. */
const ABSTRACT_PREFIX = "@";
/** Offset of the path in struct sockaddr_un. */
const SUN_PATH_BYTE = 2;

/** Returns the address of a Unix socket, whose name may be abstract: it then has no NUL at its end. */
function addressOf(name: string): Uint8Array<ArrayBuffer> {
  const { bytes } = unixAddress(name);
  if (!name.startsWith(ABSTRACT_PREFIX)) return bytes;
  bytes[SUN_PATH_BYTE] = 0;
  return bytes.slice(0, -1);
}

/**
 * Sends a datagram to a Unix socket, without waiting.
 *
 * @param name A path, or a name of the abstract namespace with an @ in front.
 * @returns Whether it was sent.
 * @throws {RangeError} When the name is longer than the kernel takes.
 */
export function sendDatagram({ calls }: Libc, name: string, text: string): boolean {
  const address = addressOf(name);
  const fd = calls.socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bytes = new TextEncoder().encode(text);
  const isSent = calls.connect(fd, address, address.length) === 0 &&
    calls.send(fd, bytes, bytes.length, MSG_DONTWAIT | MSG_NOSIGNAL) === bytes.length;
  calls.close(fd);
  return isSent;
}
