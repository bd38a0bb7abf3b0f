import { numberOf, opcodeOf, packetText } from "../../support/sessions/binary_text.ts";
import type { Ask } from "../steps.ts";

// Steps in the binary protocol. In a packet's header, offsets are in bytes.

const STATUS_OFFSET = 6;
const CAS_OFFSET = 16;
const ID_BYTES = 8;
const HEADER_BYTES = 24;

/** Statuses of replies. */
export const STATUS = { OK: 0, LOCKED: 0x10, LEASED: 0x12, UNCACHEABLE: 0x13 } as const;

export interface BinaryFields {
  readonly value?: string;
  readonly cas?: string;
}

export function askBinary(
  name: string,
  extras: string,
  read: Ask["read"] = () => undefined,
  more: BinaryFields = {},
): Ask {
  const request = packetText({ opcode: opcodeOf(name), key: "k", extras, ...more });
  return { kind: "ask", cache: 0, request, read };
}

export function statusOf(reply: string): number {
  return Number(numberOf(reply.slice(STATUS_OFFSET, STATUS_OFFSET + 2)));
}

/** The cas id in a reply's header. */
export function casIn(reply: string): number {
  return Number(numberOf(reply.slice(CAS_OFFSET, CAS_OFFSET + ID_BYTES)));
}

/** A number in a reply's extras. @param at Its place there, in bytes. */
export function extraIn(reply: string, at: number, bytes: number): number {
  return Number(numberOf(reply.slice(HEADER_BYTES + at, HEADER_BYTES + at + bytes)));
}
