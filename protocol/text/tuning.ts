import { CLASSES_MAX, MoveResult, type PageMove } from "../../store/cache.ts";
import type { RequestConversation } from "../conversation.ts";
import { Numbers } from "../numbers.ts";
import { REFUSAL, REPLY } from "../reply/replies.ts";
import type { Flow } from "../request.ts";
import { metadump, mgdump } from "../stats/item_walk.ts";
import type { RequestThread } from "../thread_context.ts";
import type { Work } from "../work_task.ts";
import { answer, argumentCount, beginWork, readInt32, sendText, wordText } from "./answer.ts";

/**
 * slabs, lru and lru_crawler. memcached tunes its page mover, its queues and its crawler with them.
 * The store here needs no tuning, so most of them only keep what they are told, for `stats
 * settings`; dumps and page moves are real.
 */

const WINDOW_MIN = 3;
const WINDOW_MAX = 1800;
const QUEUE_PERCENT_SUM_MAX = 80;
const SLEEP_MICROSECONDS_MAX = 1_000_000;
const AUTOMOVE_MAX = 2;
/** More words than a line can have. */
const MANY = Infinity;

type SubCommand = (conversation: RequestConversation) => Flow;

type SubCommandRow = readonly [
  name: string,
  /** How many words stand behind it. */
  argumentsMin: number,
  argumentsMax: number,
  handler: SubCommand,
];

/**
 * Calls the first sub-command that begins with the line's second word and takes so many words
 * behind it (memcached compares no further than what was sent); otherwise: ERROR.
 */
function dispatch(conversation: RequestConversation, subCommands: readonly SubCommandRow[]): Flow {
  const word = wordText(conversation, 1);
  const count = argumentCount(conversation.thread.request, 2);
  for (const [name, argumentsMin, argumentsMax, handler] of subCommands) {
    const takes = count >= argumentsMin && count <= argumentsMax;
    if (word !== "" && takes && name.startsWith(word)) return handler(conversation);
  }
  return answer(conversation, REPLY.ERROR);
}

function real(conversation: RequestConversation, index: number): number {
  const { request, input } = conversation.thread;
  return Numbers.real(input, request.wordStart[index]!, request.wordEnd[index]!);
}

// --- slabs ---------------------------------------------------------------------------------------

// deno-fmt-ignore
const SLABS: readonly SubCommandRow[] = [
  ["reassign", 2, 2,    reassign],
  ["automove", 1, MANY, automove],
];

/** `slabs reassign <source> <target>`, `slabs automove …` */
export function slabs(conversation: RequestConversation): Flow {
  return dispatch(conversation, SLABS);
}

/** Moves a page at once: pages are small, so no background mover is needed. */
function reassign(conversation: RequestConversation): Flow {
  const { numbers, cache, request } = conversation.thread;
  if (!readInt32(conversation, 2)) return answer(conversation, REFUSAL.BAD_FORMAT);
  const source = numbers.value;
  if (!readInt32(conversation, 3)) return answer(conversation, REFUSAL.BAD_FORMAT);
  return beginWork(
    conversation,
    new Reassign(cache.movePage(source, numbers.value), request.noreply),
  );
}

/** A chunk that is looked at is copied, and an item may be evicted for it. */
const UNITS_PER_CHUNK = 8;

class Reassign implements Work {
  readonly #move: PageMove;
  readonly #noreply: boolean;

  constructor(move: PageMove, noreply: boolean) {
    this.#move = move;
    this.#noreply = noreply;
  }

  step({ cache, work }: RequestThread): boolean {
    if (this.#move.result !== MoveResult.MOVING) return false;
    work.spent += cache.continueMove(this.#move) * UNITS_PER_CHUNK;
    return true;
  }

  end({ reply }: RequestThread): void {
    if (!this.#noreply) reply.put(REASSIGN_REPLY[this.#move.result]);
  }
}

const REASSIGN_REPLY: Record<MoveResult, Uint8Array> = {
  // It is over when it is answered.
  [MoveResult.MOVING]: REPLY.OK,
  [MoveResult.MOVED]: REPLY.OK,
  [MoveResult.BUSY]: REFUSAL.REASSIGN_BUSY,
  [MoveResult.BAD_CLASS]: REFUSAL.BAD_REASSIGN_CLASS,
  [MoveResult.NO_SPARE]: REFUSAL.NO_SPARE_PAGES,
  [MoveResult.SAME_CLASS]: REFUSAL.SAME_CLASS,
};

function automove(conversation: RequestConversation): Flow {
  const { tunables, numbers, request } = conversation.thread;
  const word = wordText(conversation, 2);
  if (word === "ratio" || word === "freeratio") {
    if (argumentCount(request, 2) < 2) return answer(conversation, REPLY.ERROR);
    const ratio = real(conversation, 3);
    if (Number.isNaN(ratio)) return answer(conversation, REPLY.ERROR);
    tunables.set(word === "ratio" ? "slab_automove_ratio" : "slab_automove_freeratio", ratio);
    return answer(conversation, REPLY.OK);
  }
  if (word === "window") {
    if (argumentCount(request, 2) < 2) return answer(conversation, REPLY.ERROR);
    if (!readInt32(conversation, 3)) return answer(conversation, REFUSAL.BAD_FORMAT);
    if (numbers.value < WINDOW_MIN || numbers.value > WINDOW_MAX) {
      return answer(conversation, REFUSAL.WINDOW_RANGE);
    }
    tunables.set("slab_automove_window", numbers.value);
    return answer(conversation, REPLY.OK);
  }
  if (!readInt32(conversation, 2) || numbers.value < 0) {
    return answer(conversation, REFUSAL.BAD_FORMAT);
  }
  if (numbers.value > AUTOMOVE_MAX) return answer(conversation, REPLY.ERROR);
  tunables.set("slab_automove", numbers.value);
  return answer(conversation, REPLY.OK);
}

// --- lru -----------------------------------------------------------------------------------------

// deno-fmt-ignore
const LRU: readonly SubCommandRow[] = [
  ["tune",     4, MANY, tune],
  ["mode",     1, MANY, mode],
  ["temp_ttl", 1, MANY, temporaryTtl],
];

/** `lru tune|mode|temp_ttl …` */
export function lru(conversation: RequestConversation): Flow {
  return dispatch(conversation, LRU);
}

function tune(conversation: RequestConversation): Flow {
  const { tunables, numbers } = conversation.thread;
  if (!readInt32(conversation, 2) || numbers.value < 0) return answer(conversation, REPLY.ERROR);
  const hotPercent = numbers.value;
  if (!readInt32(conversation, 3) || numbers.value < 0) return answer(conversation, REPLY.ERROR);
  const warmPercent = numbers.value;
  const hotFactor = real(conversation, 4);
  const warmFactor = real(conversation, 5);
  if (Number.isNaN(hotFactor) || Number.isNaN(warmFactor)) {
    return answer(conversation, REPLY.ERROR);
  }
  if (hotPercent + warmPercent > QUEUE_PERCENT_SUM_MAX) {
    return answer(conversation, REFUSAL.LRU_PERCENTS);
  }
  if (hotFactor <= 0 || warmFactor <= 0) return answer(conversation, REFUSAL.LRU_FACTORS);
  tunables.set("hot_lru_pct", hotPercent);
  tunables.set("warm_lru_pct", warmPercent);
  tunables.set("hot_max_factor", hotFactor);
  tunables.set("warm_max_factor", warmFactor);
  return answer(conversation, REPLY.OK);
}

function mode(conversation: RequestConversation): Flow {
  const word = wordText(conversation, 2);
  if (word !== "flat" && word !== "segmented") return answer(conversation, REPLY.ERROR);
  conversation.thread.tunables.set("lru_segmented", word === "segmented" ? 1 : 0);
  return answer(conversation, REPLY.OK);
}

function temporaryTtl(conversation: RequestConversation): Flow {
  const { tunables, numbers } = conversation.thread;
  if (!readInt32(conversation, 2)) return answer(conversation, REPLY.ERROR);
  tunables.set("temp_lru", numbers.value < 0 ? 0 : 1);
  if (numbers.value >= 0) tunables.set("temporary_ttl", numbers.value);
  return answer(conversation, REPLY.OK);
}

// --- lru_crawler ---------------------------------------------------------------------------------

// deno-fmt-ignore
const CRAWLER: readonly SubCommandRow[] = [
  ["crawl",    1, 1, crawl],
  ["metadump", 1, 1, (c) => dump(c, METADUMP)],
  ["mgdump",   1, 1, (c) => dump(c, MGDUMP)],
  ["tocrawl",  1, 1, crawlerTocrawl],
  ["sleep",    1, 1, crawlerSleep],
  ["enable",   0, 0, (c) => enableCrawler(c, true)],
  ["disable",  0, 0, (c) => enableCrawler(c, false)],
];

/** The two dumps of lru_crawler. */
interface Dump {
  readonly lines: typeof metadump;
  readonly notAllowed: Uint8Array;
  readonly notAlone: Uint8Array;
}

const METADUMP: Dump = {
  lines: metadump,
  notAllowed: REFUSAL.METADUMP_NOT_ALLOWED,
  notAlone: REFUSAL.METADUMP_NOT_ALONE,
};
const MGDUMP: Dump = {
  lines: mgdump,
  notAllowed: REFUSAL.MGDUMP_NOT_ALLOWED,
  notAlone: REFUSAL.MGDUMP_NOT_ALONE,
};

/** `lru_crawler …` */
export function crawler(conversation: RequestConversation): Flow {
  return dispatch(conversation, CRAWLER);
}

function enableCrawler(conversation: RequestConversation, enable: boolean): Flow {
  const { tunables } = conversation.thread;
  const enabled = isCrawlerEnabled(conversation);
  if (enable && enabled) return answer(conversation, REFUSAL.CRAWLER_NOT_STARTED);
  tunables.set("lru_crawler", enable ? 1 : 0);
  return answer(conversation, REPLY.OK);
}

function isCrawlerEnabled(conversation: RequestConversation): boolean {
  return conversation.thread.tunables.get("lru_crawler") !== 0;
}

function crawlerSleep(conversation: RequestConversation): Flow {
  const { tunables, numbers } = conversation.thread;
  if (!readInt32(conversation, 2) || numbers.value < 0) {
    return answer(conversation, REFUSAL.BAD_FORMAT);
  }
  if (numbers.value > SLEEP_MICROSECONDS_MAX) return answer(conversation, REFUSAL.SLEEP_RANGE);
  tunables.set("lru_crawler_sleep", numbers.value);
  return answer(conversation, REPLY.OK);
}

function crawlerTocrawl(conversation: RequestConversation): Flow {
  const { tunables, numbers } = conversation.thread;
  if (!readInt32(conversation, 2) || numbers.value < 0) {
    return answer(conversation, REFUSAL.BAD_FORMAT);
  }
  tunables.set("lru_crawler_tocrawl", numbers.value);
  return answer(conversation, REPLY.OK);
}

/** Maintenance removes what has expired anyhow, within a second or two. */
function crawl(conversation: RequestConversation): Flow {
  const { inspector } = conversation.thread.cache;
  if (!isCrawlerEnabled(conversation)) return answer(conversation, REFUSAL.CRAWLER_DISABLED);
  if (wordText(conversation, 2) === "hash") return answer(conversation, REFUSAL.CRAWLER_UNKNOWN);
  if (readClasses(conversation, 2) === undefined) {
    return answer(conversation, REFUSAL.BAD_CRAWL_CLASS);
  }
  return answer(
    conversation,
    inspector.control("ITEM_COUNT") === 0 ? REFUSAL.NOT_STARTED : REPLY.OK,
  );
}

/**
 * A dump begins when nothing else is left to send, as in memcached, where another thread writes the dump.
 */
function dump(conversation: RequestConversation, kind: Dump): Flow {
  const { thread } = conversation;
  if (!isCrawlerEnabled(conversation)) return answer(conversation, REFUSAL.CRAWLER_DISABLED);
  if (thread.settings.disableDumping) return answer(conversation, kind.notAllowed);
  if (conversation.udp) return answer(conversation, REFUSAL.NOT_OVER_UDP);
  if (!conversation.isAlone) return answer(conversation, kind.notAlone);
  const classes = wordText(conversation, 2) === "hash" ? null : readClasses(conversation, 2);
  if (classes === undefined) return answer(conversation, REFUSAL.BAD_CRAWL_CLASS);
  thread.reply.put(REPLY.OK);
  return sendText(conversation, kind.lines(thread, classes));
}

/**
 * Reads `all`, or class numbers between commas.
 *
 * @returns Null for all; undefined when a class does not exist.
 */
function readClasses(
  conversation: RequestConversation,
  index: number,
): ReadonlySet<number> | null | undefined {
  const word = wordText(conversation, index);
  if (word === "all") return null;
  const classes = new Set<number>();
  for (const part of word.split(",")) {
    const classId = /^\d{1,3}$/.test(part) ? Number(part) : 0;
    if (classId < 1 || classId >= CLASSES_MAX) return undefined;
    classes.add(classId);
  }
  return classes;
}
