import { putHeader } from "./replies.ts";
import type { BinaryRequest } from "./request.ts";
import type { RequestConversation } from "../conversation.ts";
import { versionText } from "../reply/replies.ts";
import { Flow } from "../request.ts";
import { Status } from "../reply/binary_status.ts";
import { flush as flushStore } from "../text/admin.ts";
import { done, refuse } from "./answer.ts";

/** Quit is answered, QuitQ not; then the connection is closed. */
export function quit(conversation: RequestConversation, binary: BinaryRequest): Flow {
  done(conversation, binary);
  return Flow.CLOSE;
}

/** Flush, with or without a delay. */
export function flush(conversation: RequestConversation, binary: BinaryRequest): Flow {
  const { input } = conversation.thread;
  const delay = binary.extrasLength > 0 ? input.view.getUint32(binary.extrasOffset) : 0;
  return flushStore(conversation, delay)
    ? done(conversation, binary)
    : refuse(conversation, binary, Status.REFUSED);
}

/** Version. */
export function version(conversation: RequestConversation, binary: BinaryRequest): Flow {
  const { reply, settings } = conversation.thread;
  const text = versionText(settings.version);
  putHeader(reply, binary, Status.OK, 0, 0, text.length, 0, 0);
  reply.text(text);
  return Flow.DONE;
}
