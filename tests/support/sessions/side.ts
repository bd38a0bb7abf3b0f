/** A server, or a stand-in for one, that transcripts are played to. */
export interface Side {
  /** Stands in the names of tests. */
  readonly name: string;
  open(): Promise<Peer>;
  /** The most time that a case may let pass here. */
  readonly secondsMax: number;
  /** Advances the server's clock by `seconds`. */
  advance(seconds: number): Promise<void>;
  /** Counters that maintenance, which goes on by itself here, changes at times of its own. */
  readonly unsteadyStats: ReadonlySet<string>;
  /** Waits until the server has noticed that the connections of earlier cases are closed. */
  settle(): Promise<void>;
  /** The counters of `stats`. */
  stats(): Promise<Map<string, number>>;
  close(): Promise<void>;
}

/** A client's end of one connection. Bytes are strings of characters below 256. */
export interface Peer {
  send(bytes: string): Promise<void>;
  /**
   * Waits until something was received beyond `known` bytes, or the connection ended, or nothing
   * more is to be expected.
   *
   * @returns All that was received so far and not taken.
   */
  receive(known: number): Promise<string>;
  /** Removes and returns the first `length` received bytes. */
  take(length: number): void;
  /** Waits a while for the server to close the connection. Returns whether it did. */
  isClosed(): Promise<boolean>;
  disconnect(): void;
}

export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

export function textOf(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) {
    text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  }
  return text;
}

/** The numbers in the reply to `stats`. */
export function parseStats(reply: string): Map<string, number> {
  const stats = new Map<string, number>();
  for (const line of reply.split("\r\n")) {
    const [, name, value] = /^STAT (\S+) (.*)$/.exec(line) ?? [];
    if (name !== undefined) stats.set(name, Number(value));
  }
  return stats;
}
