/** Returns text as bytes; every character must be below 256. */
export function latin1Bytes(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

/** Characters converted by one call: the number of a function's arguments is limited. */
const PIECE_LENGTH = 8192;

/** Returns bytes as text, one character below 256 for each. */
export function latin1Text(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += PIECE_LENGTH) {
    text += String.fromCharCode(...bytes.subarray(at, at + PIECE_LENGTH));
  }
  return text;
}
