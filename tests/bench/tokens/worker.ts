/// <reference lib="deno.worker" />
// A thread with a core of its own: clients that take and release update tokens.
import { Connections, type LoadClient } from "../sockets.ts";
import { pinThread } from "../processes.ts";

/** The thread's job. It answers with requests a second. */
export interface TokenLoad {
  readonly port: number;
  readonly core: number;
  readonly connections: number;
  readonly seconds: number;
}

/** Bytes of the longest reply and request. */
const LINE_BYTES = 64;
/** Offset of the id in the reply `TOKEN <id>`. */
const ID_AT = 6;
const LF = 10;
const ENCODER = new TextEncoder();

self.onmessage = ({ data }: MessageEvent<TokenLoad>) => {
  pinThread(data.core);
  self.postMessage(takeAndRelease(data));
  self.close();
};

class Client implements LoadClient {
  readonly get: Uint8Array;
  /** `token release <key> `, and room for the id that `token get` answers. */
  readonly #release: Uint8Array;
  readonly #idAt: number;
  isReleasing = false;

  constructor(readonly fd: number) {
    const key = `token:${fd}`;
    this.get = ENCODER.encode(`token get ${key}\r\n`);
    const start = ENCODER.encode(`token release ${key} `);
    this.#release = new Uint8Array(LINE_BYTES);
    this.#release.set(start);
    this.#idAt = start.length;
  }

  /** @param reply `TOKEN <id>` and the line's end, `length` bytes long. */
  release(reply: Uint8Array, length: number): Uint8Array {
    const end = this.#idAt + length - ID_AT;
    for (let at = ID_AT; at < length; at++) this.#release[this.#idAt + at - ID_AT] = reply[at]!;
    return this.#release.subarray(0, end);
  }
}

/** Clients that take and release a token each, again and again. @returns Requests a second. */
function takeAndRelease({ port, connections: count, seconds }: TokenLoad): number {
  const connections = new Connections(port, count, (fd) => new Client(fd));
  const { epoll, all, input } = connections;
  const startMs = performance.now();
  const endMs = startMs + seconds * 1000;
  let replies = 0;
  for (const client of all) connections.send(client.fd, client.get);
  while (performance.now() < endMs) {
    const ready = epoll.wait(1000);
    for (let index = 0; index < ready; index++) {
      const client = connections.ready(index);
      const length = connections.receive(client.fd);
      if (length === 0) continue;
      const first = String.fromCharCode(input[0]!);
      if (first !== (client.isReleasing ? "O" : "T") || input[length - 1] !== LF) {
        throw new Error(`unexpected ${new TextDecoder().decode(input.subarray(0, length))}`);
      }
      replies++;
      client.isReleasing = !client.isReleasing;
      const next = client.isReleasing ? client.release(input, length) : client.get;
      connections.send(client.fd, next);
    }
  }
  const elapsedSec = (performance.now() - startMs) / 1000;
  connections.close();
  return replies / elapsedSec;
}
