import { Activity, NO_OWNER } from "../../store/connections.ts";
import { WatchEvent } from "../../store/cache.ts";
import { ConversationState, type RequestConversation, type Task } from "../conversation.ts";
import { REFUSAL, REPLY } from "../reply/replies.ts";
import { Flow } from "../request.ts";
import type { RequestThread } from "../thread_context.ts";
import { answer, wordText } from "./answer.ts";

/** The streams of `watch`. A prefix of a name is enough; the first match wins. */
// deno-fmt-ignore
const EVENTS: readonly (readonly [word: string, events: number])[] = [
  // Those of 0 are accepted, and never tell anything: so does memcached with the first, and without
  // a proxy with the others.
  ["rawcmds",     0],
  ["evictions",   WatchEvent.EVICTIONS],
  ["fetchers",    WatchEvent.FETCHERS],
  ["mutations",   WatchEvent.MUTATIONS],
  ["sysevents",   WatchEvent.SYSTEM],
  ["connevents",  WatchEvent.CONNECTIONS],
  ["proxyreqs",   0],
  ["proxyevents", 0],
  ["proxyuser",   0],
  ["deletions",   WatchEvent.DELETIONS],
  ["tokens",      WatchEvent.TOKENS],
];

/** Of a watcher that asked for nothing there is: it counts as one all the same. */
const NO_EVENTS = 1 << 30;

/** `watch [<what>…]`: from here on the connection gets lines, and its commands are not read any more. */
export function watch(conversation: RequestConversation): Flow {
  const { thread, owner } = conversation;
  const { reply, request, settings, cache, connections } = thread;
  if (settings.disableWatch) return answer(conversation, REFUSAL.WATCH_NOT_ALLOWED);
  if (!conversation.isAlone) return answer(conversation, REFUSAL.WATCH_NOT_ALONE);
  let events = request.wordCount === 1 ? WatchEvent.FETCHERS : NO_EVENTS;
  for (let index = 1; index < request.wordCount; index++) {
    const word = wordText(conversation, index);
    const row = EVENTS.find(([name]) => name.startsWith(word));
    if (row === undefined) return answer(conversation, REPLY.ERROR);
    events |= row[1];
  }
  if (owner === NO_OWNER) return answer(conversation, REFUSAL.WATCHER_FAILED);
  const watcher = cache.watchLog.open(events, connections.threadOf(owner), owner);
  if (watcher < 0) return answer(conversation, REFUSAL.TOO_MANY_WATCHERS);
  reply.put(REPLY.OK);
  conversation.task = new WatchTask(watcher);
  return Flow.UNDER_WAY;
}

/** Sends what there is to tell, whenever there is something. */
class WatchTask implements Task {
  readonly activity = Activity.WATCHING;
  readonly #watcher: number;

  constructor(watcher: number) {
    this.#watcher = watcher;
  }

  run(conversation: RequestConversation, _start: number, end: number): number {
    const { cache, reply } = conversation.thread;
    const { watchLog } = cache;
    for (;;) {
      if (reply.room === 0) {
        conversation.pause(ConversationState.UNFINISHED);
        return end;
      }
      const length = watchLog.take(this.#watcher, reply.region, reply.length, reply.room);
      if (length === 0) break;
      reply.length += length;
    }
    conversation.pause(ConversationState.WAITING);
    return end;
  }

  abandon(thread: RequestThread): void {
    thread.cache.watchLog.close(this.#watcher);
  }
}
