import type { TokenDrop } from "../../protocol/thread_context.ts";
import { oneWord } from "../../store/base/key_text.ts";
import type { TransportEvent } from "../net/transport.ts";

/** `token drop` and `token drop_all`: what the log says. */
export function tokensDropped({ token, count, by }: TokenDrop): TransportEvent {
  const level = "warning";
  const event = "token_dropped";
  if (token === null) {
    return {
      level,
      event,
      message: `${by} dropped all ${count} update tokens; their owners may still write`,
      fields: { count, by },
    };
  }
  const { id, ageSec } = token;
  const key = oneWord(token.key);
  const owner = token.owner || "-";
  const peer = oneWord(token.peer) || "-";
  return {
    level,
    event,
    message: `${by} dropped the update token ${id} of key ${key}, owner ${owner}, got by ${peer} ` +
      `${ageSec} s ago; its owner may still write`,
    fields: { key, id, owner, peer, age: ageSec, by },
  };
}
