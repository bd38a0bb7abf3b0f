import { ByteRegion, latin1Text } from "../base/bytes.ts";
import { u64ToNumber } from "../base/u64.ts";
import { TOKEN_RECORD_BYTES_MAX } from "../memory/token_layout.ts";
import type { TokenRef, UpdateTokens } from "./update_tokens.ts";

/** An update token, as lists, watchers and the log show it. */
export interface TokenView {
  /** Bytes as characters below 256; so `owner` and `peer`. */
  readonly key: string;
  readonly id: number;
  /** Whole seconds. */
  readonly ageSec: number;
  /** "": none. */
  readonly owner: string;
  readonly peer: string;
}

const data = new ByteRegion(new ArrayBuffer(TOKEN_RECORD_BYTES_MAX));

/** Returns what the table knows of a token. */
export function viewToken(tokens: UpdateTokens, token: TokenRef): TokenView {
  const length = tokens.copyData(token, data, 0);
  const ownerAt = tokens.keyLength(token);
  const peerAt = ownerAt + tokens.ownerLength(token);
  return {
    key: latin1Text(data.bytes, 0, ownerAt),
    id: u64ToNumber(tokens.idLow(token), tokens.idHigh(token)),
    ageSec: tokens.ageSec(token),
    owner: latin1Text(data.bytes, ownerAt, peerAt - ownerAt),
    peer: latin1Text(data.bytes, peerAt, length - peerAt),
  };
}
