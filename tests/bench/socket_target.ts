import type { Connections } from "./sockets.ts";
import type { ReplayTarget } from "./replay/replay.ts";

const RECEIVE_BYTES = 64 * 1024;
const STORED = "STORED\r\n";
const END = "END\r\n";
const CR = 0x0d;
const LF = 0x0a;
const V = "V".charCodeAt(0);

/** A server that a trace is replayed against, over several connections, which keys are spread over. */
export class SocketTarget implements ReplayTarget {
  readonly #connections: Connections<{ readonly fd: number }>;
  readonly #input = new Uint8Array(RECEIVE_BYTES);
  readonly #encoder = new TextEncoder();
  /** Bytes of `#input` that hold a reply. */
  #received = 0;

  constructor(connections: Connections<{ readonly fd: number }>) {
    this.#connections = connections;
  }

  get(key: number, keySize: number): boolean {
    const fd = this.#fdOf(key);
    this.#send(fd, `get ${keyText(key, keySize)}\r\n`);
    this.#received = 0;
    while (this.#received < END.length) this.#receive(fd);
    if (this.#input[0] !== V) return false;
    const head = this.#input.subarray(0, this.#input.indexOf(LF) + 1);
    const length = Number(/(\d+)\r\n$/.exec(String.fromCharCode(...head))?.[1]);
    const missing = head.length + length + 2 + END.length - this.#received;
    this.#skip(fd, missing);
    return true;
  }

  set(key: number, keySize: number, valueSize: number): boolean {
    return this.setMany(key, 1, keySize, valueSize);
  }

  /** Sets `count` consecutive keys over one connection. Returns false when one was refused. */
  setMany(first: number, count: number, keySize: number, valueSize: number): boolean {
    const fd = this.#fdOf(first / count);
    const value = "v".repeat(valueSize);
    let text = "";
    for (let key = first; key < first + count; key++) {
      text += `set ${keyText(key, keySize)} 0 0 ${valueSize}\r\n${value}\r\n`;
    }
    this.#send(fd, text);
    this.#received = 0;
    let lines = 0;
    for (let looked = 0; lines < count;) {
      this.#receive(fd);
      for (; looked < this.#received; looked++) if (this.#input[looked] === LF) lines++;
    }
    return this.#received === count * STORED.length && this.#input[this.#received - 2] === CR;
  }

  tick(): void {}

  close(): void {
    this.#connections.close();
  }

  #fdOf(key: number): number {
    const { all } = this.#connections;
    return all[Math.floor(key) % all.length]!.fd;
  }

  #send(fd: number, text: string): void {
    const bytes = this.#encoder.encode(text);
    const { calls } = this.#connections.libc;
    for (let sent = 0; sent < bytes.length;) {
      const count = calls.send(fd, bytes.subarray(sent), bytes.length - sent, 0);
      if (count <= 0) throw new Error("Cannot send a request");
      sent += count;
    }
  }

  /** Appends to the input. */
  #receive(fd: number): void {
    this.#received += this.#recv(fd, this.#input.subarray(this.#received));
  }

  #skip(fd: number, length: number): void {
    for (let left = length; left > 0;) {
      left -= this.#recv(fd, this.#input.subarray(0, Math.min(left, RECEIVE_BYTES)));
    }
  }

  #recv(fd: number, bytes: Uint8Array<ArrayBuffer>): number {
    const count = this.#connections.libc.calls.recv(fd, bytes, bytes.length, 0);
    if (count <= 0) throw new Error("Cannot receive a reply");
    return count;
  }
}

function keyText(key: number, keySize: number): string {
  return String(key).padStart(keySize, "k");
}
