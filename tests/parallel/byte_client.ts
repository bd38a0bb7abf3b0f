import type { Bytes } from "./content.ts";
import { ConversationPeer } from "../support/sessions/conversation_side.ts";

const SHORT = 40;

/** Bytes that are appended to, and used over and over. */
export class GrowingBytes implements Bytes {
  bytes: Uint8Array<ArrayBuffer>;
  view: DataView;
  length = 0;

  constructor(capacity = 1 << 16) {
    this.bytes = new Uint8Array(capacity);
    this.view = new DataView(this.bytes.buffer);
  }

  /** Makes room for so many bytes more. */
  reserve(count: number): void {
    if (this.length + count <= this.bytes.length) return;
    const bytes = new Uint8Array(2 * (this.length + count));
    bytes.set(this.bytes.subarray(0, this.length));
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer);
  }

  append(bytes: Uint8Array): void {
    const { length } = bytes;
    this.reserve(length);
    // A call of set() costs as much as this many bytes.
    if (length > SHORT) this.bytes.set(bytes, this.length);
    else for (let at = 0; at < length; at++) this.bytes[this.length + at] = bytes[at]!;
    this.length += length;
  }

  /** Appends characters below 128. */
  text(text: string): void {
    this.reserve(text.length);
    for (let at = 0; at < text.length; at++) this.bytes[this.length++] = text.charCodeAt(at);
  }

  /** The text from `at` on, up to CR LF or the end. */
  lineAt(at: number): string {
    const end = this.bytes.indexOf(0x0d, at);
    const bytes = this.bytes.subarray(at, end < 0 || end > this.length ? this.length : end);
    return String.fromCharCode(...bytes.subarray(0, 300));
  }
}

/** A connection whose requests and replies are bytes. */
export class ByteClient extends ConversationPeer {
  /** To be sent. */
  readonly request = new GrowingBytes();
  /** Replies to the last requests. */
  readonly reply = new GrowingBytes();

  /** Sends the requests. */
  exchange(): void {
    this.reply.length = 0;
    this.feed(this.request.bytes.subarray(0, this.request.length));
    this.request.length = 0;
  }

  protected override received(bytes: Uint8Array): void {
    this.reply.append(bytes);
  }
}
