import { CLASS, CLASSES_MAX, CONTROL } from "../../store/memory.ts";
import type { Conversation } from "../conversation.ts";
import { Numbers } from "../numbers.ts";
import { REFUSAL, REPLY } from "../replies.ts";
import type { Flow } from "../request.ts";
import { metadump, mgdump } from "../stats/item_walk.ts";
import { answer, argumentCount, readInt32, wordText } from "./answer.ts";
import { sendText } from "./stats.ts";

/**
 * slabs, lru and lru_crawler. memcached tunes its page mover, its queues and its crawler with them. The store here needs no
 * tuning, so most of them only keep what they are told, for `stats settings`; the dumps are real.
 */

const WINDOW_MIN = 3;
const WINDOW_MAX = 1800;
const QUEUE_PERCENT_SUM_MAX = 80;
const SLEEP_MICROSECONDS_MAX = 1_000_000;
const AUTOMOVE_MAX = 2;

type SubCommand = (conversation: Conversation) => Flow;

/** Calls the sub-command that the line's second word names; with fewer words than it needs, or another name: ERROR. */
function dispatch(
  conversation: Conversation,
  subCommands: Readonly<Record<string, readonly [argumentsMin: number, handler: SubCommand]>>,
): Flow {
  const word = wordText(conversation, 1);
  if (!Object.hasOwn(subCommands, word)) return answer(conversation, REPLY.ERROR);
  const [argumentsMin, handler] = subCommands[word]!;
  if (argumentCount(conversation.thread.request, 2) < argumentsMin) {
    return answer(conversation, REPLY.ERROR);
  }
  return handler(conversation);
}

function real(conversation: Conversation, index: number): number {
  const { request, input } = conversation.thread;
  return Numbers.real(input, request.wordStart[index]!, request.wordEnd[index]!);
}

// --- slabs ---------------------------------------------------------------------------------------

const SLABS = { reassign: [2, reassign], automove: [1, automove] } as const;

export function slabs(conversation: Conversation): Flow {
  return dispatch(conversation, SLABS);
}

/** Pages go by themselves to the class that evicts: what is well formed is answered as under memcached's `no_slab_reassign`. */
function reassign(conversation: Conversation): Flow {
  const { numbers, cache, memory } = conversation.thread;
  if (!readInt32(conversation, 2)) return answer(conversation, REFUSAL.BAD_FORMAT);
  const source = numbers.value;
  if (!readInt32(conversation, 3)) return answer(conversation, REFUSAL.BAD_FORMAT);
  const target = numbers.value;
  const { classCount } = cache.links.slabs;
  if (source === target) return answer(conversation, REFUSAL.SAME_CLASS);
  if (source < -1 || source > classCount || target < 0 || target > classCount) {
    return answer(conversation, REFUSAL.BAD_REASSIGN_CLASS);
  }
  if (source > 0 && memory.classes[source * CLASS.WORDS + CLASS.PAGES]! < 2) {
    return answer(conversation, REFUSAL.NO_SPARE_PAGES);
  }
  return answer(conversation, REFUSAL.REASSIGN_DISABLED);
}

function automove(conversation: Conversation): Flow {
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

const LRU = { tune: [4, tune], mode: [1, mode], temp_ttl: [1, temporaryTtl] } as const;

export function lru(conversation: Conversation): Flow {
  return dispatch(conversation, LRU);
}

function tune(conversation: Conversation): Flow {
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

function mode(conversation: Conversation): Flow {
  const word = wordText(conversation, 2);
  if (word !== "flat" && word !== "segmented") return answer(conversation, REPLY.ERROR);
  conversation.thread.tunables.set("lru_segmented", word === "segmented" ? 1 : 0);
  return answer(conversation, REPLY.OK);
}

function temporaryTtl(conversation: Conversation): Flow {
  const { tunables, numbers } = conversation.thread;
  if (!readInt32(conversation, 2)) return answer(conversation, REPLY.ERROR);
  tunables.set("temp_lru", numbers.value < 0 ? 0 : 1);
  if (numbers.value >= 0) tunables.set("temporary_ttl", numbers.value);
  return answer(conversation, REPLY.OK);
}

// --- lru_crawler ---------------------------------------------------------------------------------

const CRAWLER = {
  enable: [0, (c: Conversation): Flow => enableCrawler(c, true)],
  disable: [0, (c: Conversation): Flow => enableCrawler(c, false)],
  sleep: [1, crawlerSleep],
  tocrawl: [1, crawlerTocrawl],
  crawl: [1, crawl],
  metadump: [1, (c: Conversation): Flow => dump(c, false)],
  mgdump: [1, (c: Conversation): Flow => dump(c, true)],
} as const;

export function crawler(conversation: Conversation): Flow {
  return dispatch(conversation, CRAWLER);
}

function enableCrawler(conversation: Conversation, enable: boolean): Flow {
  const { tunables } = conversation.thread;
  const enabled = tunables.get("lru_crawler") !== 0;
  if (enabled === enable) {
    return answer(
      conversation,
      enable ? REFUSAL.CRAWLER_NOT_STARTED : REFUSAL.CRAWLER_NOT_STOPPED,
    );
  }
  tunables.set("lru_crawler", enable ? 1 : 0);
  return answer(conversation, REPLY.OK);
}

function crawlerSleep(conversation: Conversation): Flow {
  const { tunables, numbers } = conversation.thread;
  if (!readInt32(conversation, 2) || numbers.value < 0) {
    return answer(conversation, REFUSAL.BAD_FORMAT);
  }
  if (numbers.value > SLEEP_MICROSECONDS_MAX) return answer(conversation, REFUSAL.SLEEP_RANGE);
  tunables.set("lru_crawler_sleep", numbers.value);
  return answer(conversation, REPLY.OK);
}

function crawlerTocrawl(conversation: Conversation): Flow {
  const { tunables, numbers } = conversation.thread;
  if (!readInt32(conversation, 2) || numbers.value < 0) {
    return answer(conversation, REFUSAL.BAD_FORMAT);
  }
  tunables.set("lru_crawler_tocrawl", numbers.value);
  return answer(conversation, REPLY.OK);
}

/** Maintenance removes what has expired anyhow, within a second or two. */
function crawl(conversation: Conversation): Flow {
  const { control } = conversation.thread.memory;
  if (readClasses(conversation, 2) === undefined) {
    return answer(conversation, REFUSAL.BAD_CRAWL_CLASS);
  }
  return answer(conversation, control[CONTROL.ITEM_COUNT] === 0 ? REFUSAL.NOT_STARTED : REPLY.OK);
}

function dump(conversation: Conversation, short: boolean): Flow {
  const { thread } = conversation;
  if (!thread.settings.dumpEnabled) {
    return answer(conversation, short ? REFUSAL.MGDUMP_NOT_ALLOWED : REFUSAL.METADUMP_NOT_ALLOWED);
  }
  const classes = wordText(conversation, 2) === "hash" ? null : readClasses(conversation, 2);
  if (classes === undefined) return answer(conversation, REFUSAL.BAD_CRAWL_CLASS);
  return sendText(conversation, short ? mgdump(thread, classes) : metadump(thread, classes));
}

/**
 * Reads `all`, or class numbers between commas.
 *
 * @returns Null for all; undefined when a class does not exist.
 */
function readClasses(
  conversation: Conversation,
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
