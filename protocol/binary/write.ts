import { type Operation, StoreMode } from "../../store/operation.ts";
import { deadlineSec } from "../../store/clock.ts";
import { Outcome } from "../../store/outcome.ts";
import { OUTCOME_STATUS, putDone, putError, putHeader } from "./replies.ts";
import type { BinaryRequest } from "./request.ts";
import type { RequestConversation } from "../conversation.ts";
import { Flow } from "../request.ts";
import { Status } from "../reply/binary_status.ts";
import { afterBlock, Block, fillBlock, storeBlock } from "../store_block.ts";
import type { StoreReply } from "../tasks.ts";
import type { RequestThread } from "../thread_context.ts";
import { removeKey } from "../text/write.ts";

// Hot path: no allocation.

const NUMBER_LENGTH = 8;
/** Incr and Decr with this expiry time make nothing. */
const MAKE_NOTHING = 0xffffffff;

// Offsets of the numbers in the extras.
const FLAGS_OFFSET = 0;
const EXPTIME_OFFSET = 4;
const DELTA_OFFSET = 0;
const INITIAL_OFFSET = 8;
const NUMBER_EXPTIME_OFFSET = 16;

/** Answers a store whose value arrived in pieces. */
class LateReply implements StoreReply {
  readonly #request: BinaryRequest;

  constructor(request: BinaryRequest) {
    this.#request = request;
  }

  put(thread: RequestThread, operation: Operation, outcome: Outcome): void {
    putStored(thread, this.#request, operation, outcome);
  }
}

/** Stores the value as `operation` says, and answers. */
function storeAndAnswer(conversation: RequestConversation, binary: BinaryRequest): Flow {
  const { thread } = conversation;
  const outcome = storeBlock(conversation);
  if (outcome === Block.INCOMPLETE) return Flow.INCOMPLETE;
  if (outcome === Block.ARRIVING) {
    return fillBlock(conversation, new LateReply(binary.copy()));
  }
  putStored(thread, binary, thread.operation, outcome);
  return afterBlock(conversation);
}

function putStored(
  { reply, settings }: RequestThread,
  request: BinaryRequest,
  operation: Operation,
  outcome: Outcome,
): void {
  const status = storeStatus(operation, outcome, settings.compat === "yrmcds");
  if (status !== Status.OK) putError(reply, request, status);
  else if (!request.quiet) putDone(reply, request, operation.idLow, operation.idHigh);
}

/** Returns the status of a store: as memcached's, it tells why nothing was stored. */
function storeStatus(operation: Operation, outcome: Outcome, likeYrmcds: boolean): Status {
  if (outcome !== Outcome.NOT_STORED) return OUTCOME_STATUS[outcome];
  if (operation.isRefused) return Status.NOT_STORED;
  switch (operation.mode) {
    case StoreMode.ADD:
      return Status.EXISTS;
    case StoreMode.REPLACE:
      return Status.NOT_FOUND;
    case StoreMode.APPEND:
    case StoreMode.PREPEND:
      return likeYrmcds ? Status.NOT_FOUND : Status.NOT_STORED;
    default:
      return Status.NOT_STORED;
  }
}

/** Set, Add and Replace: with a cas id each is a cas. */
export function store(
  conversation: RequestConversation,
  binary: BinaryRequest,
  mode: StoreMode,
): Flow {
  const { operation } = conversation.thread;
  readFlagsAndDeadline(conversation, binary);
  operation.refusalRemoves = mode === StoreMode.SET;
  operation.mode = operation.compare ? StoreMode.CAS : mode;
  return storeAndAnswer(conversation, binary);
}

/** Append and Prepend. */
export function extend(
  conversation: RequestConversation,
  binary: BinaryRequest,
  mode: StoreMode,
): Flow {
  const { operation } = conversation.thread;
  operation.mode = mode;
  return storeAndAnswer(conversation, binary);
}

/** RaU: replaces an item whose lock the connection holds, and unlocks it. */
export function replaceAndUnlock(conversation: RequestConversation, binary: BinaryRequest): Flow {
  const { operation } = conversation.thread;
  readFlagsAndDeadline(conversation, binary);
  operation.mode = StoreMode.REPLACE;
  operation.unlock = true;
  return storeAndAnswer(conversation, binary);
}

function readFlagsAndDeadline(conversation: RequestConversation, binary: BinaryRequest): void {
  const { input, operation, memory } = conversation.thread;
  operation.clientFlags = input.view.getInt32(binary.extrasOffset + FLAGS_OFFSET);
  const exptime = input.view.getUint32(binary.extrasOffset + EXPTIME_OFFSET);
  operation.deadlineSec = deadlineSec(memory, exptime);
}

/** Delete. */
export function remove(conversation: RequestConversation, binary: BinaryRequest): Flow {
  const { reply, settings } = conversation.thread;
  const outcome = removeKey(conversation, null);
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
export function arithmetic(
  conversation: RequestConversation,
  binary: BinaryRequest,
  increment: boolean,
): Flow {
  const { input, operation, cache, memory, reply } = conversation.thread;
  const { view } = input;
  const extras = binary.extrasOffset;
  operation.deltaHigh = view.getInt32(extras + DELTA_OFFSET);
  operation.deltaLow = view.getInt32(extras + DELTA_OFFSET + 4);
  operation.initialHigh = view.getInt32(extras + INITIAL_OFFSET);
  operation.initialLow = view.getInt32(extras + INITIAL_OFFSET + 4);
  const exptime = view.getUint32(extras + NUMBER_EXPTIME_OFFSET);
  operation.vivify = exptime !== MAKE_NOTHING;
  operation.deadlineSec = operation.vivify ? deadlineSec(memory, exptime) : 0;
  const outcome = cache.incrDecr(operation, increment);
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
