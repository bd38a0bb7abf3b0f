import { putHeader } from "./replies.ts";
import type { Conversation } from "../conversation.ts";
import { versionText } from "../replies.ts";
import { Flow } from "../request.ts";
import { Status } from "../binary_status.ts";
import { flush as flushStore } from "../text/admin.ts";
import { done, refuse } from "./answer.ts";

/** Quit is answered, QuitQ not; then the connection is closed. */
export function quit(conversation: Conversation): Flow {
  done(conversation);
  return Flow.CLOSE;
}

/** Flush, with or without a delay. */
export function flush(conversation: Conversation): Flow {
  const { input, binary } = conversation.thread;
  const delay = binary.extrasLength > 0 ? input.view.getUint32(binary.extrasOffset) : 0;
  return flushStore(conversation, delay)
    ? done(conversation)
    : refuse(conversation, Status.REFUSED);
}

/** Version. */
export function version(conversation: Conversation): Flow {
  const { binary, reply, settings } = conversation.thread;
  const text = versionText(settings.version);
  putHeader(reply, binary, Status.OK, 0, 0, text.length, 0, 0);
  reply.text(text);
  return Flow.DONE;
}
