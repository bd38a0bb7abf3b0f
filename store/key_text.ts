import type { ByteRegion } from "./bytes.ts";

/** A key's bytes as characters below 256. For reports. */
export function keyText(region: ByteRegion, offset: number, length: number): string {
  let text = "";
  for (let at = offset; at < offset + length; at++) text += String.fromCharCode(region.bytes[at]!);
  return text;
}

/** As memcached writes keys into lines that are split at blanks. */
export function percentEncoded(key: string): string {
  return key.replace(
    /[^A-Za-z0-9\-._~]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`,
  );
}
