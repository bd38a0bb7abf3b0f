/** Text whose characters are below 256, as bytes. */
export function latin1Bytes(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

/** Characters that are made at once: a function takes no more arguments. */
const PIECE_LENGTH = 8192;

/** Bytes as characters below 256. */
export function latin1Text(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += PIECE_LENGTH) {
    text += String.fromCharCode(...bytes.subarray(at, at + PIECE_LENGTH));
  }
  return text;
}
