import { Buffer } from "node:buffer";
import type { Codec, Encoded } from "./codecs.ts";
import { type Item, look } from "./requests.ts";
import type { Entry, KeyState } from "./flows/steps.ts";
import type { Request } from "./wire.ts";

/** Client flag of an item that has no value: the row is absent, or the item exists only to be locked. */
export const ABSENT_FLAG = 0x2_0000;
/** Client flag of an item with a trailer: a line end, the grace in seconds, then `tag=version` for each tag. */
const TRAILER_FLAG = 0x4_0000;
/** Plain reads do not see items with one of these flags: their trailer may forbid to serve them. */
export const FLOW_FLAGS = ABSENT_FLAG | TRAILER_FLAG;
const NEW_LINE = 10;
const EMPTY = new Uint8Array(0);
const TRAILER = /^\d{1,10}(?: \S+=\d+)*$/;
/** No tags have these versions, so the item is loaded anew: another program has used the flag. */
const FOREIGN: Entry<never> = {
  value: undefined as never,
  graceSec: 0,
  versions: { "no tag": "0" },
};

/** Encodes a value with what decides whether it may be served. */
export function encodeEntry<Value>(
  encode: (value: Value) => Encoded,
  { value, graceSec, versions }: Entry<Value>,
): Encoded {
  const { bytes, flags } = value === undefined
    ? { bytes: EMPTY, flags: ABSENT_FLAG }
    : encode(value);
  const tags = Object.entries(versions).map(([tag, version]) => ` ${tag}=${version}`);
  if (graceSec === 0 && tags.length === 0) return { bytes, flags };
  const trailer = Buffer.from(`\n${graceSec}${tags.join("")}`);
  return { bytes: Buffer.concat([bytes, trailer]), flags: flags | TRAILER_FLAG };
}

function decodeEntry<Value>(codec: Codec<Value>, { bytes, flags }: Item): Entry<Value> {
  let end = bytes.length;
  let graceSec = 0;
  const versions: Record<string, string> = Object.create(null);
  if ((flags & TRAILER_FLAG) !== 0) {
    end = bytes.lastIndexOf(NEW_LINE);
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
  return { value, graceSec, versions };
}

/** Reads a key, or takes the lease for it, as a flow's step `look` does. @param key As `keyBytes` returns it. */
export function lookFor<Value>(
  key: string,
  leaseSec: number,
  codec: Codec<Value>,
): Request<KeyState<Value>> {
  const request = look(key, leaseSec, (item) => {
    try {
      return { entry: decodeEntry(codec, item), leftSec: item.leftSec };
    } catch {
      return { entry: FOREIGN, leftSec: item.leftSec, isUndecodable: true };
    }
  });
  return {
    ...request,
    read: (reply) => {
      const seen = request.read(reply);
      return seen.state === "value" ? { ...seen.found, state: "value", cas: seen.cas } : seen;
    },
  };
}
