import {
  AF_INET,
  AF_INET6,
  AF_UNIX,
  AF_UNSPEC,
  cString,
  type Libc,
  SOCK_DGRAM,
  SOCK_STREAM,
} from "./libc.ts";

/** Room for any address of the families used here. */
export const ADDRESS_BYTES_MAX = 128;
const UNIX_PATH_BYTES_MAX = 107;
const AI_PASSIVE = 1;

/*
 * struct addrinfo on 64-bit glibc:
 *
 *     0 flags  4 family  8 socktype  12 protocol  16 addrlen  24 *addr  32 *canonname  40 *next
 */
const ADDRINFO_FAMILY_BYTE = 4;
const ADDRINFO_ADDRLEN_BYTE = 16;
const ADDRINFO_ADDR_BYTE = 24;
const ADDRINFO_NEXT_BYTE = 40;
const ADDRINFO_BYTES = 48;

/** A `struct sockaddr` as the kernel takes it. */
export interface SocketAddress {
  readonly family: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/**
 * Resolves a name or a numeric address.
 *
 * @param port 0..65535.
 * @returns The addresses; an empty list if the name cannot be resolved.
 */
export function resolveAddresses(
  libc: Libc,
  kind: "tcp" | "udp",
  hostname: string,
  port: number,
): SocketAddress[] {
  const hints = new Int32Array(ADDRINFO_BYTES / 4);
  hints[0] = AI_PASSIVE;
  hints[1] = AF_UNSPEC;
  hints[2] = kind === "tcp" ? SOCK_STREAM : SOCK_DGRAM;
  const found = new BigUint64Array(1);
  const failed = libc.calls.getaddrinfo(cString(hostname), cString(String(port)), hints, found);
  if (failed !== 0) return [];
  const addresses: SocketAddress[] = [];
  const list = Deno.UnsafePointer.create(found[0]!);
  let row = list;
  while (row !== null) {
    const view: Deno.UnsafePointerView = new Deno.UnsafePointerView(row);
    const length = view.getUint32(ADDRINFO_ADDRLEN_BYTE);
    const address = view.getPointer(ADDRINFO_ADDR_BYTE);
    if (address !== null && length <= ADDRESS_BYTES_MAX) {
      const bytes = new Uint8Array(length);
      new Deno.UnsafePointerView(address).copyInto(bytes);
      addresses.push({ family: view.getInt32(ADDRINFO_FAMILY_BYTE), bytes });
    }
    row = view.getPointer(ADDRINFO_NEXT_BYTE);
  }
  libc.calls.freeaddrinfo(list);
  return addresses;
}

/** @throws {RangeError} When the path is longer than the kernel takes. */
export function unixAddress(path: string): SocketAddress {
  const text = new TextEncoder().encode(path);
  if (text.length > UNIX_PATH_BYTES_MAX) {
    throw new RangeError(
      `Cannot use socket path ${path}: longer than ${UNIX_PATH_BYTES_MAX} bytes`,
    );
  }
  const bytes = new Uint8Array(2 + text.length + 1);
  new DataView(bytes.buffer).setUint16(0, AF_UNIX, true);
  bytes.set(text, 2);
  return { family: AF_UNIX, bytes };
}

/** Reads a `struct sockaddr`. Returns undefined for families other than IPv4 and IPv6. */
export function readAddress(bytes: Uint8Array): { hostname: string; port: number } | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const family = view.getUint16(0, true);
  const port = view.getUint16(2, false);
  if (family === AF_INET) return { hostname: bytes.subarray(4, 8).join("."), port };
  if (family === AF_INET6) return { hostname: ipv6Text(view), port };
  return undefined;
}

/** Writes an IPv6 address as RFC 5952 says: without the longest run of zero groups. */
function ipv6Text(view: DataView): string {
  const groups: number[] = [];
  for (let index = 0; index < 8; index++) groups.push(view.getUint16(8 + 2 * index, false));
  const mapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
  if (mapped) {
    const bytes = new Uint8Array(view.buffer, view.byteOffset + 20, 4);
    return `::ffff:${bytes.join(".")}`;
  }
  let runStart = -1;
  let runLength = 1; // a single zero group is written out
  for (let start = 0; start < 8; start++) {
    let length = 0;
    while (start + length < 8 && groups[start + length] === 0) length++;
    if (length > runLength) [runStart, runLength] = [start, length];
  }
  const hex = (part: number[]): string => part.map((group) => group.toString(16)).join(":");
  if (runStart < 0) return hex(groups);
  return `${hex(groups.slice(0, runStart))}::${hex(groups.slice(runStart + runLength))}`;
}
