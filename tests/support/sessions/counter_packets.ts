/** Packets of the counter protocol, as strings of characters below 256. */

export const COUNTER_HEADER_LENGTH = 12;

export interface PacketFields {
  readonly magic?: number;
  readonly flags?: number;
  readonly opaque?: number;
  /** Wrong header fields to send. */
  readonly bodyLength?: number;
}

const OPAQUE = 0x01020384;

export function counterRequest(opcode: number, body = "", fields: PacketFields = {}): string {
  const { magic = 0x90, flags = 0, opaque = OPAQUE, bodyLength = body.length } = fields;
  return String.fromCharCode(magic, opcode, flags, 0) + u32(bodyLength) + u32(opaque) + body;
}

/** A reply to a request made with the default opaque. */
export function counterReply(opcode: number, status = 0, body = ""): string {
  return counterRequest(opcode, body, { magic: 0x91, flags: status });
}

export const noop = (): string => counterRequest(0x00);
export const getCounter = (name: string): string => counterRequest(0x01, named(name));
export const acquire = (resources: number, maximum: number, name: string): string =>
  counterRequest(0x02, u32(resources) + u32(maximum) + named(name));
export const release = (resources: number, name: string): string =>
  counterRequest(0x03, u32(resources) + named(name));
export const counterStats = (): string => counterRequest(0x10);
export const dump = (): string => counterRequest(0x11);

/** A name behind its length. */
export function named(name: string): string {
  return u16(name.length) + name;
}

export function u32(value: number): string {
  return u16(value >>> 16) + u16(value & 0xffff);
}

function u16(value: number): string {
  return String.fromCharCode(value >>> 8, value & 0xff);
}

/** Length of the packet at the start of `text`; NaN when its header is incomplete. */
export function packetLength(text: string): number {
  let length = 0;
  for (let at = 4; at < 8; at++) length = length * 256 + text.charCodeAt(at);
  return COUNTER_HEADER_LENGTH + length;
}

/** Parses the reply of Stats: value by name. */
export function readCounterStats(body: string): Map<string, string> {
  const stats = new Map<string, string>();
  const lengthAt = (at: number): number => body.charCodeAt(at) * 256 + body.charCodeAt(at + 1);
  for (let at = 0; at < body.length;) {
    const nameEnd = at + 4 + lengthAt(at);
    const end = nameEnd + lengthAt(at + 2);
    stats.set(body.slice(at + 4, nameEnd), body.slice(nameEnd, end));
    at = end;
  }
  return stats;
}
