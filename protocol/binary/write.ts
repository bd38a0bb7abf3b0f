import { StoreMode } from "../../store/operation.ts";
import { deadlineSec } from "../../store/clock.ts";
import { Outcome } from "../../store/outcome.ts";
import { OUTCOME_STATUS, putDone, putError, putHeader } from "./replies.ts";
import type { BinaryRequest } from "./request.ts";
import type { Conversation } from "../conversation.ts";
import { Flow } from "../request.ts";
import { Status } from "../binary_status.ts";
import type { StoreReply } from "../tasks.ts";
import { removeKey, storeBlock } from "../text/write.ts";

// Hot path: no allocation.

const NUMBER_LENGTH = 8;
/** Incr and Decr with this expiry time make nothing. */
const MAKE_NOTHING = 0xffffffff;

// Where the numbers stand in the extras.
const FLAGS_OFFSET = 0;
const EXPTIME_OFFSET = 4;
const DELTA_OFFSET = 0;
const INITIAL_OFFSET = 8;
const NUMBER_EXPTIME_OFFSET = 16;

/** Answers a store: at once with the thread's request, later with one that was kept. */
class BinaryStoreReply implements StoreReply {
  readonly #kept: BinaryRequest | null;

  constructor(kept: BinaryRequest | null) {
    this.#kept = kept;
  }

  stored(conversation: Conversation, outcome: Outcome): void {
    const { binary, operation, reply } = conversation.thread;
    const request = this.#kept ?? binary;
    const status = storeStatus(conversation, outcome);
    if (status !== Status.OK) putError(reply, request, status);
    else if (!request.quiet) putDone(reply, request, operation.idLow, operation.idHigh);
  }

  kept(conversation: Conversation): StoreReply {
    return new BinaryStoreReply(conversation.thread.binary.copy());
  }

  badChunk(): void {
    // Nothing follows a value.
  }
}

const REPLY_NOW = new BinaryStoreReply(null);

/** memcached says what was wrong rather than that nothing was stored. */
function storeStatus(conversation: Conversation, outcome: Outcome): Status {
  if (outcome !== Outcome.NOT_STORED) return OUTCOME_STATUS[outcome];
  const { operation, settings } = conversation.thread;
  if (operation.isStrict) return Status.NOT_STORED;
  switch (operation.mode) {
    case StoreMode.ADD:
      return Status.EXISTS;
    case StoreMode.REPLACE:
      return Status.NOT_FOUND;
    case StoreMode.APPEND:
    case StoreMode.PREPEND:
      return settings.compat === "yrmcds" ? Status.NOT_FOUND : Status.NOT_STORED;
    default:
      return Status.NOT_STORED;
  }
}

/** Set, Add and Replace: with a cas id each is a cas. */
export function store(conversation: Conversation, mode: StoreMode): Flow {
  const { operation } = conversation.thread;
  readFlagsAndDeadline(conversation);
  operation.refusalRemoves = mode === StoreMode.SET;
  operation.mode = operation.compare ? StoreMode.CAS : mode;
  const flow = storeBlock(conversation, REPLY_NOW);
  operation.refusalRemoves = false;
  return flow;
}

/** Append and Prepend. */
export function extend(conversation: Conversation, mode: StoreMode): Flow {
  const { operation } = conversation.thread;
  operation.mode = mode;
  operation.clientFlags = 0;
  operation.deadlineSec = 0;
  return storeBlock(conversation, REPLY_NOW);
}

/** RaU: replaces an item whose lock the connection holds, and unlocks it. */
export function replaceAndUnlock(conversation: Conversation): Flow {
  const { operation } = conversation.thread;
  readFlagsAndDeadline(conversation);
  operation.mode = StoreMode.REPLACE;
  operation.unlock = true;
  const flow = storeBlock(conversation, REPLY_NOW);
  operation.unlock = false;
  return flow;
}

function readFlagsAndDeadline(conversation: Conversation): void {
  const { input, binary, operation, memory } = conversation.thread;
  operation.clientFlags = input.view.getInt32(binary.extrasOffset + FLAGS_OFFSET);
  const exptime = input.view.getUint32(binary.extrasOffset + EXPTIME_OFFSET);
  operation.deadlineSec = deadlineSec(memory, exptime);
}

/** Delete. */
export function remove(conversation: Conversation): Flow {
  const { binary, reply, settings } = conversation.thread;
  const outcome = removeKey(conversation);
  if (outcome === Outcome.DELETED) {
    if (!binary.quiet) putDone(reply, binary, 0, 0);
  } else if (
    outcome !== Outcome.NOT_FOUND || !binary.quiet || settings.compat !== "yrmcds"
  ) {
    putError(reply, binary, OUTCOME_STATUS[outcome]);
  }
  return Flow.DONE;
}

/** Incr and Decr: what is missing is made, unless the expiry time says not to. */
export function arithmetic(conversation: Conversation, increment: boolean): Flow {
  const { input, binary, operation, cache, memory, reply } = conversation.thread;
  const { view } = input;
  const extras = binary.extrasOffset;
  operation.deltaHigh = view.getInt32(extras + DELTA_OFFSET);
  operation.deltaLow = view.getInt32(extras + DELTA_OFFSET + 4);
  operation.initialHigh = view.getInt32(extras + INITIAL_OFFSET);
  operation.initialLow = view.getInt32(extras + INITIAL_OFFSET + 4);
  const exptime = view.getUint32(extras + NUMBER_EXPTIME_OFFSET);
  operation.vivify = exptime !== MAKE_NOTHING;
  operation.deadlineSec = deadlineSec(memory, exptime);
  operation.clientFlags = 0;
  const outcome = cache.incrDecr(operation, increment);
  operation.vivify = false;
  const status = OUTCOME_STATUS[outcome];
  if (status !== Status.OK) {
    putError(reply, binary, status);
  } else if (!binary.quiet) {
    putHeader(reply, binary, Status.OK, 0, 0, NUMBER_LENGTH, operation.idLow, operation.idHigh);
    reply.region.view.setInt32(reply.length, operation.resultHigh);
    reply.region.view.setInt32(reply.length + 4, operation.resultLow);
    reply.length += NUMBER_LENGTH;
  }
  return Flow.DONE;
}
