import { Client, type Dialogue } from "../generator.ts";

/** Bytes of the longest request. */
const LINE_BYTES = 64;
/** Offset of the id in the reply `TOKEN <id>`. */
const ID_AT = "TOKEN ".length;
const LF = 10;
const ENCODER = new TextEncoder();

class TokenClient extends Client {
  readonly get: Uint8Array;
  /** `token release <key> `, and room for the id that `token get` answers. */
  readonly release: Uint8Array = new Uint8Array(LINE_BYTES);
  readonly idAt: number;
  releaseLength = 0;
  isReleasing = false;

  constructor(fd: number, index: number) {
    super(fd, index);
    const key = `token:${fd}`;
    this.get = ENCODER.encode(`token get ${key}\r\n`);
    this.idAt = ENCODER.encodeInto(`token release ${key} `, this.release).written;
  }
}

/** Takes and releases an update token for each connection, again and again. */
export class Tokens implements Dialogue<TokenClient> {
  connect(fd: number, index: number): TokenClient {
    return new TokenClient(fd, index);
  }

  next(client: TokenClient): Uint8Array {
    return client.isReleasing ? client.release.subarray(0, client.releaseLength) : client.get;
  }

  /** Expects `TOKEN <id>` or `OK` in one piece. */
  take(client: TokenClient, input: Uint8Array, length: number): number {
    const first = String.fromCharCode(input[0]!);
    if (first !== (client.isReleasing ? "O" : "T") || input[length - 1] !== LF) {
      throw new Error(`unexpected ${new TextDecoder().decode(input.subarray(0, length))}`);
    }
    client.isReleasing = !client.isReleasing;
    if (client.isReleasing) {
      client.releaseLength = client.idAt + length - ID_AT;
      for (let at = ID_AT; at < length; at++) client.release[client.idAt + at - ID_AT] = input[at]!;
    }
    return 1;
  }
}
