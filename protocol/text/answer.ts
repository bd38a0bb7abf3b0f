import { ByteRegion, latin1Text } from "../../store/base/bytes.ts";
import { KEY_LENGTH_MAX } from "../../store/limits.ts";
import { Outcome } from "../../store/outcome.ts";
import type { RequestConversation } from "../conversation.ts";
import { OUTCOME_LINE } from "../reply/replies.ts";
import { Flow, type Request } from "../request.ts";
import { TextWork, type Work, WorkTask } from "../work_task.ts";

/** Answers with a fixed line, unless the request asked for silence. */
export function answer(conversation: RequestConversation, line: Uint8Array): Flow {
  const { request, reply } = conversation.thread;
  if (!request.noreply) reply.put(line);
  return Flow.DONE;
}

/** Answers with the line of an outcome. */
export function answerOutcome(conversation: RequestConversation, outcome: Outcome): Flow {
  return answer(conversation, OUTCOME_LINE[outcome]);
}

/** Answers with text that is made while it is sent, of characters below 256. */
export function sendText(conversation: RequestConversation, pieces: Iterable<string>): Flow {
  return beginWork(conversation, new TextWork(pieces));
}

/** Answers with what long work writes. */
export function beginWork(conversation: RequestConversation, work: Work): Flow {
  conversation.task = new WorkTask(work);
  return Flow.UNDER_WAY;
}

/** How many words stand behind the first `leading` ones, `noreply` not counted. */
export function argumentCount(request: Request, leading: number): number {
  return request.wordCount - leading - (request.noreply ? 1 : 0);
}

/** A word as a string, for commands where speed does not matter. "" when there is no such word. */
export function wordText(conversation: RequestConversation, index: number): string {
  const { request, input } = conversation.thread;
  if (index >= request.wordCount) return "";
  return latin1Text(input.bytes, request.wordStart[index]!, request.wordLength(index));
}

/** Whether there is word `index`, and it has these bytes. */
export function wordEquals(
  conversation: RequestConversation,
  index: number,
  bytes: Uint8Array,
): boolean {
  const { request, input } = conversation.thread;
  if (index >= request.wordCount || request.wordLength(index) !== bytes.length) return false;
  const start = request.wordStart[index]!;
  for (let at = 0; at < bytes.length; at++) {
    if (input.bytes[start + at] !== bytes[at]) return false;
  }
  return true;
}

/** A word's bytes, or none when there is no such word: what listed keys must begin with. */
export function prefixOf(conversation: RequestConversation, index: number): ByteRegion {
  const { request, input } = conversation.thread;
  if (index >= request.wordCount) return new ByteRegion(new ArrayBuffer(0));
  const start = request.wordStart[index]!;
  // No key begins with more than this.
  const end = Math.min(request.wordEnd[index]!, start + KEY_LENGTH_MAX + 1);
  return new ByteRegion(input.bytes.slice(start, end).buffer);
}

/** Reads word `index` as a whole number of int32 into `numbers.value`. */
export function readInt32(conversation: RequestConversation, index: number): boolean {
  const { request, numbers, input } = conversation.thread;
  return index < request.wordCount &&
    numbers.int32(input, request.wordStart[index]!, request.wordEnd[index]!);
}
