import { Buffer } from "node:buffer";
import type { Codec, Encoded } from "./codecs.ts";
import { after, type Awaitable } from "./awaitable.ts";
import { look } from "../requests.ts";
import type { Entry, KeyState } from "../flows/steps.ts";
import type { Request } from "../net/wire.ts";

/** Client flag of an item that has no value: the row is absent. */
const ABSENT_FLAG = 0x2_0000;
/** Client flag of an item with a trailer: a line end, the grace in seconds, then `tag=version` for each tag. */
const TRAILER_FLAG = 0x4_0000;
/** Plain reads do not see items with one of these flags: their trailer may forbid to serve them. */
export const FLOW_FLAGS = ABSENT_FLAG | TRAILER_FLAG;
const NEW_LINE = 10;
const EMPTY = new Uint8Array(0);
/** Tags are bytes, one character a byte: `\S` would refuse A0, as of "à". */
const TRAILER = /^\d{1,10}(?: [^ ]+=\d+)*$/;
/** No tags have these versions, so the item is loaded anew: another program has used the flag. */
const FOREIGN: Entry<never> = {
  value: undefined as never,
  graceSec: 0,
  versions: { "no tag": "0" },
};

/** An item that exists only to be locked: nobody takes it for a row, or for its absence. */
export const LOCK_PLACEHOLDER: Encoded = {
  bytes: Buffer.from("\n0 lock=0"),
  flags: ABSENT_FLAG | TRAILER_FLAG,
};

/** Encodes a value with what decides whether it may be served. */
export function encodeEntry<Value>(
  encode: (value: Value) => Awaitable<Encoded>,
  { value, graceSec, versions }: Entry<Value>,
): Awaitable<Encoded> {
  const encoded = value === undefined ? { bytes: EMPTY, flags: ABSENT_FLAG } : encode(value);
  return after(encoded, (plain) => withTrailer(plain, graceSec, versions));
}

/** Returns a value with its trailer, if it needs one. */
export function withTrailer(
  encoded: Encoded,
  graceSec: number,
  versions: Readonly<Record<string, string>>,
): Encoded {
  const tags = Object.entries(versions).map(([tag, version]) => ` ${tag}=${version}`);
  if (graceSec === 0 && tags.length === 0) return encoded;
  const trailer = Buffer.from(`\n${graceSec}${tags.join("")}`);
  return {
    bytes: Buffer.concat([encoded.bytes, trailer]),
    flags: encoded.flags | TRAILER_FLAG,
  };
}

/** Where the trailer of an item begins: the value ends there. */
export function trailerAt({ bytes, flags }: Encoded): number {
  return (flags & TRAILER_FLAG) === 0 ? bytes.length : bytes.lastIndexOf(NEW_LINE);
}

/** What a look finds. */
type Found<Value> = Omit<KeyState<Value> & { readonly state: "value" }, "state" | "cas">;

/** Decodes an item. @throws What the codec throws. */
export function decodeEntry<Value>(
  codec: Codec<Value>,
  { bytes, flags }: Encoded,
): Awaitable<Entry<Value>> {
  const end = trailerAt({ bytes, flags });
  let graceSec = 0;
  const versions: Record<string, string> = Object.create(null);
  if ((flags & TRAILER_FLAG) !== 0) {
    const trailer = Buffer.from(bytes.subarray(end + 1)).toString();
    if (end < 0 || !TRAILER.test(trailer)) return FOREIGN;
    const [grace, ...tags] = trailer.split(" ");
    graceSec = Number(grace);
    for (const tag of tags) {
      const at = tag.lastIndexOf("=");
      versions[tag.slice(0, at)] = tag.slice(at + 1);
    }
  }
  const value = (flags & ABSENT_FLAG) === 0
    ? codec.decode(bytes.subarray(0, end), flags & ~FLOW_FLAGS)
    : undefined;
  return after(value, (decoded) => ({ value: decoded, graceSec, versions }));
}

/** Reads a key, or takes the lease for it, as a flow's step `look` does. @param key As `keyBytes` returns it. */
export function lookFor<Value>(
  key: string,
  leaseSec: number,
  codec: Codec<Value>,
): Request<KeyState<Value>> {
  const request = look(key, leaseSec, (item): Awaitable<Found<Value>> => {
    const { leftSec } = item;
    const undecodable = (): Found<Value> => ({ entry: FOREIGN, leftSec, isUndecodable: true });
    try {
      const entry = decodeEntry(codec, item);
      if (entry instanceof Promise) {
        return entry.then((decoded) => ({ entry: decoded, leftSec }), undecodable);
      }
      return { entry, leftSec };
    } catch {
      return undecodable();
    }
  });
  return {
    ...request,
    read: (reply) => {
      const seen = request.read(reply);
      if (seen.state !== "value") return seen;
      const { cas } = seen;
      return after(seen.found, (found) => ({ ...found, state: "value", cas }));
    },
  };
}
