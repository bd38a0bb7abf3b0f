import { ConversationState } from "../../protocol/conversation.ts";
import type { ReplyBuffer } from "../../protocol/reply/reply_buffer.ts";
import { WORK, type WorkBudget } from "../../protocol/work_budget.ts";
import { ByteRegion, latin1Text } from "../../store/base/bytes.ts";
import { Activity, type ConnectionId } from "../../store/connections.ts";
import type { ServedConversation } from "../net/service.ts";
import { type AcquiredResources, CounterOutcome, Counters, type CounterView } from "./counters.ts";

/**
 * yrmcds's counter protocol, numbers in network order:
 *
 *   0 magic 0x90, in replies 0x91   1 opcode   2 flags, in replies the status   3 reserved
 *   4 length of the body (4)   8 opaque (4), given back   12 the body
 *
 * Flags, reserved and bytes of the body behind its fields are ignored.
 */
const REQUEST_MAGIC = 0x90;
const REPLY_MAGIC = 0x91;
const HEADER_LENGTH = 12;
const BODY_LENGTH_AT = 4;
const NUMBER_LENGTH = 4;
const NAME_LENGTH_LENGTH = 2;
const NAME_LENGTH_MAX = 0xffff;
/** The longest fields of a request. Bytes behind them are not kept. */
const FIELDS_LENGTH_MAX = 2 * NUMBER_LENGTH + NAME_LENGTH_LENGTH + NAME_LENGTH_MAX;
/** A longer body is no request: yrmcds reads no more either. */
const BODY_LENGTH_MAX = 30 * 1024 * 1024;
/** The opcode of replies to commands that are unknown. */
const UNKNOWN_OPCODE = 0x12;

/** The first allocation for a request that is not complete. */
const KEPT_BYTES_LEAST = 512;
const REQUEST_BYTES_MAX = HEADER_LENGTH + FIELDS_LENGTH_MAX;
/** The slice ends when the replies have this many bytes. One more reply fits REPLY_BYTES. */
const REPLIES_BYTES_MAX = 64 * 1024;
/** Bytes of a name that cost one unit of work. */
const NAME_BYTES_PER_UNIT = 64;

/** Statuses of the counter protocol. */
const CounterStatus = {
  OK: 0x00,
  NOT_FOUND: 0x01,
  INVALID: 0x04,
  UNAVAILABLE: 0x21,
  NOT_ACQUIRED: 0x22,
  UNKNOWN_COMMAND: 0x81,
  NO_MEMORY: 0x82,
} as const;

type CounterStatus = typeof CounterStatus[keyof typeof CounterStatus];

/** The text that a reply carries with each status. */
const COUNTER_STATUS_TEXT: Record<CounterStatus, string> = {
  [CounterStatus.OK]: "",
  [CounterStatus.NOT_FOUND]: "Not found",
  [CounterStatus.INVALID]: "Invalid arguments",
  [CounterStatus.UNAVAILABLE]: "Resource not available",
  [CounterStatus.NOT_ACQUIRED]: "Not acquired",
  [CounterStatus.UNKNOWN_COMMAND]: "Unknown command",
  [CounterStatus.NO_MEMORY]: "Out of memory",
};

const OUTCOME_STATUS: Record<CounterOutcome, CounterStatus> = {
  [CounterOutcome.OK]: CounterStatus.OK,
  [CounterOutcome.NOT_FOUND]: CounterStatus.NOT_FOUND,
  [CounterOutcome.UNAVAILABLE]: CounterStatus.UNAVAILABLE,
  [CounterOutcome.NOT_ACQUIRED]: CounterStatus.NOT_ACQUIRED,
  [CounterOutcome.NO_MEMORY]: CounterStatus.NO_MEMORY,
};

type Row = readonly [
  /** As Stats has it. */
  name: string,
  opcode: number,
  /** Length of the numbers in front of the name; null: no field is looked at. */
  numbersLength: number | null,
  /** Answers. A status other than OK becomes an error. */
  handler: (conversation: CounterConversation) => CounterStatus,
];

// deno-fmt-ignore
const ROWS: readonly Row[] = [
  ["noop",    0x00, null,              (conversation) => conversation.done()],
  ["get",     0x01, 0,                 (conversation) => conversation.get()],
  ["acquire", 0x02, 2 * NUMBER_LENGTH, (conversation) => conversation.acquire()],
  ["release", 0x03, NUMBER_LENGTH,     (conversation) => conversation.release()],
  ["stats",   0x10, null,              (conversation) => conversation.stats()],
  ["dump",    0x11, null,              (conversation) => conversation.dump()],
];

/** Idle counters that one call drops. */
const DROPS_MAX = 1000;
const NOTHING = new ByteRegion(new ArrayBuffer(0));

/** The part of their thread that conversations use. */
export interface CounterThread {
  readonly input: ByteRegion;
  readonly reply: ReplyBuffer;
  readonly work: WorkBudget;
  /** Returns seconds on a clock that never goes back. */
  nowSec(): number;
}

/** The parts that all conversations share: the counters, and the regions and budget of their thread. */
export class CounterState {
  readonly counters: Counters;
  /** Well-formed requests of each command in the table. */
  readonly commandCounts: number[] = ROWS.map(() => 0);
  connectionCount = 0;
  connectionsEver = 0;
  readonly #intervalSec: number;
  #intervalEndSec: number;
  /** Whether counters may be left that no client has held since before the interval. */
  #hasIdle = false;
  #intervals = 0;
  #dropMicroseconds = 0;
  #dropMicrosecondsEver = 0;

  /**
   * @param bytesMax The memory limit of all counters, in bytes.
   * @param intervalSec How often idle counters are dropped and the highest consumptions reset.
   */
  constructor(readonly thread: CounterThread, bytesMax: number, intervalSec: number) {
    this.counters = new Counters(bytesMax);
    this.#intervalSec = intervalSec;
    this.#intervalEndSec = thread.nowSec() + intervalSec;
  }

  /** Begins the intervals that are due, and drops some idle counters. Call it before counters are read or changed. */
  keepTime(): void {
    const lateSec = this.thread.nowSec() - this.#intervalEndSec;
    if (lateSec >= 0) {
      const passed = 1 + Math.floor(lateSec / this.#intervalSec);
      this.#intervalEndSec += passed * this.#intervalSec;
      this.#intervals += passed;
      this.#dropMicroseconds = 0;
      this.counters.beginInterval();
      this.#hasIdle = true;
    }
    if (!this.#hasIdle) return;
    const startMs = performance.now();
    this.#hasIdle = this.counters.dropIdle(DROPS_MAX);
    const microseconds = Math.round((performance.now() - startMs) * 1000);
    this.#dropMicroseconds += microseconds;
    this.#dropMicrosecondsEver += microseconds;
  }

  /** Returns the rows of Stats, in yrmcds's order. */
  stats(): [name: string, value: number][] {
    return [
      ["objects", this.counters.count],
      ["total_objects", this.counters.madeCount],
      ["used_memory", this.counters.usedBytes],
      ["conflicts", 0], // Collisions in a table of fixed size, which this server does not have.
      ["gc_count", this.#intervals],
      ["last_gc_elapsed", this.#dropMicroseconds],
      ["total_gc_elapsed", this.#dropMicrosecondsEver],
      ["curr_connections", this.connectionCount],
      ["total_connections", this.connectionsEver],
      ...ROWS.map(([name], index): [string, number] => [
        `command:${name}`,
        this.commandCounts[index]!,
      ]),
    ];
  }
}

/** One connection that speaks the counter protocol. It keeps one request at most that is not complete. */
export class CounterConversation implements ServedConversation {
  state: ConversationState = ConversationState.NEEDS_INPUT;
  readonly closeReason = "normal";
  readonly task = null;
  readonly idle = true;
  readonly awaitsServer = false;
  readonly waitActivity: Activity = Activity.WAITING;
  readonly inputActivity: Activity = Activity.READING;
  readonly unauthenticatedSinceSec = 0;
  readonly #counters: CounterState;
  readonly #acquired: AcquiredResources = new Map();
  /** The start of a request whose end has not arrived: `#keptLength` bytes. */
  #kept = NOTHING;
  #keptLength = 0;
  /** Bytes of a body that are still to be received and ignored. */
  #bytesToSkip = 0;
  /** The request that is executed, and its offset. */
  #request = NOTHING;
  #start = 0;
  /** Offset and length of its name. */
  #nameOffset = 0;
  #nameLength = 0;
  /** A Dump in progress, the reply to the last request. */
  #dump: Iterator<CounterView> | null = null;
  #opcode = 0;
  #opaque = 0;

  constructor(counters: CounterState, readonly owner: ConnectionId) {
    this.#counters = counters;
    counters.connectionCount++;
    counters.connectionsEver++;
  }

  /** Bytes of memory for a request that is not complete. */
  get keptCapacity(): number {
    return this.#kept.bytes.length;
  }

  /** As `ServedConversation`. Leaves input in state UNFINISHED only. */
  feed(start: number, end: number): number {
    const { reply, work } = this.#counters.thread;
    this.#counters.keepTime();
    work.begin();
    let at = start;
    this.state = ConversationState.UNFINISHED;
    while (!work.isSpent && reply.length - reply.start < REPLIES_BYTES_MAX) {
      if (this.#dump !== null) {
        this.#continueDump(this.#dump);
        continue;
      }
      const next = this.#takeRequest(at, end);
      if (this.state !== ConversationState.UNFINISHED) return end;
      at = next;
    }
    return at;
  }

  /** As `ServedConversation`: releases what the connection holds. Call it once. */
  end(): void {
    this.#counters.keepTime();
    this.#counters.connectionCount--;
    this.#counters.counters.releaseAll(this.#acquired);
  }

  // --- requests ----------------------------------------------------------------------------------

  /**
   * Executes the next request of the input [start, end). Returns where it ends. Sets `state` if no request is complete.
   */
  #takeRequest(start: number, end: number): number {
    const { input } = this.#counters.thread;
    const skipped = Math.min(this.#bytesToSkip, end - start);
    this.#bytesToSkip -= skipped;
    let at = start + skipped;
    if (this.#keptLength === 0) {
      const length = requestLength(input, at, end - at);
      if (end - at >= length) {
        this.#execute(input, at);
        return at + length;
      }
    }
    for (
      let length = requestLength(this.#kept, 0, this.#keptLength);
      this.#keptLength < length;
    ) {
      const taken = Math.min(length - this.#keptLength, end - at);
      this.#keep(input.bytes.subarray(at, at + taken));
      at += taken;
      length = requestLength(this.#kept, 0, this.#keptLength);
      if (at === end && this.#keptLength < length) {
        this.state = ConversationState.NEEDS_INPUT;
        return end;
      }
    }
    this.#execute(this.#kept, 0);
    this.#kept = NOTHING;
    this.#keptLength = 0;
    return at;
  }

  #keep(bytes: Uint8Array): void {
    const length = this.#keptLength + bytes.length;
    if (length > this.#kept.bytes.length) {
      const capacity = Math.max(KEPT_BYTES_LEAST, length, 2 * this.#kept.bytes.length);
      const kept = new ByteRegion(new ArrayBuffer(Math.min(capacity, REQUEST_BYTES_MAX)));
      kept.bytes.set(this.#kept.bytes.subarray(0, this.#keptLength));
      this.#kept = kept;
    }
    this.#kept.bytes.set(bytes, this.#keptLength);
    this.#keptLength = length;
  }

  /** Executes the complete request at `start`. */
  #execute(request: ByteRegion, start: number): void {
    const { view } = request;
    const bodyLength = view.getUint32(start + BODY_LENGTH_AT);
    const keptLength = Math.min(bodyLength, FIELDS_LENGTH_MAX);
    this.#request = request;
    this.#start = start;
    this.#opcode = view.getUint8(start + 1);
    this.#opaque = view.getUint32(start + 8);
    this.#counters.thread.work.spent += WORK.REQUEST;
    const isLegal = bodyLength <= BODY_LENGTH_MAX;
    const status = view.getUint8(start) === REQUEST_MAGIC && isLegal
      ? this.#command(start + HEADER_LENGTH, keptLength)
      : CounterStatus.INVALID;
    if (status !== CounterStatus.OK) this.#refuse(status);
    // A connection between two requests keeps no long name.
    this.#request = NOTHING;
    this.#bytesToSkip = bodyLength - keptLength;
    if (!isLegal) this.state = ConversationState.CLOSING;
  }

  #command(bodyOffset: number, bodyLength: number): CounterStatus {
    const index = ROWS.findIndex(([, opcode]) => opcode === this.#opcode);
    if (index < 0) return CounterStatus.UNKNOWN_COMMAND;
    const [, , numbersLength, handler] = ROWS[index]!;
    if (numbersLength !== null) {
      const nameAt = numbersLength + NAME_LENGTH_LENGTH;
      if (bodyLength < nameAt) return CounterStatus.INVALID;
      this.#nameOffset = bodyOffset + nameAt;
      this.#nameLength = this.#request.view.getUint16(bodyOffset + numbersLength);
      if (this.#nameLength === 0 || this.#nameLength > bodyLength - nameAt) {
        return CounterStatus.INVALID;
      }
    }
    const status = handler(this);
    if (status !== CounterStatus.INVALID) this.#counters.commandCounts[index]! += 1;
    return status;
  }

  // --- commands, for the table above -------------------------------------------------------------

  done(): CounterStatus {
    this.#putHeader(CounterStatus.OK, 0);
    return CounterStatus.OK;
  }

  get(): CounterStatus {
    const counter = this.#counters.counters.get(this.#name());
    if (counter === undefined) return CounterStatus.NOT_FOUND;
    this.#putHeader(CounterStatus.OK, NUMBER_LENGTH);
    this.#putNumber(counter.consumption);
    return CounterStatus.OK;
  }

  acquire(): CounterStatus {
    const { counters } = this.#counters;
    const resources = this.#request.view.getUint32(this.#start + HEADER_LENGTH);
    const maximum = this.#request.view.getUint32(this.#start + HEADER_LENGTH + NUMBER_LENGTH);
    if (resources === 0 || maximum < resources) return CounterStatus.INVALID;
    const outcome = counters.acquire(this.#acquired, this.#name(), resources, maximum);
    if (outcome === CounterOutcome.OK) {
      this.#putHeader(CounterStatus.OK, NUMBER_LENGTH);
      this.#putNumber(resources);
    }
    return OUTCOME_STATUS[outcome];
  }

  release(): CounterStatus {
    const resources = this.#request.view.getUint32(this.#start + HEADER_LENGTH);
    const outcome = this.#counters.counters.release(this.#acquired, this.#name(), resources);
    return outcome === CounterOutcome.OK ? this.done() : OUTCOME_STATUS[outcome];
  }

  stats(): CounterStatus {
    const entries = this.#counters.stats().map(([name, value]) => [name, String(value)] as const);
    const lengths = entries.map(([name, text]) =>
      2 * NAME_LENGTH_LENGTH + name.length + text.length
    );
    this.#putHeader(CounterStatus.OK, lengths.reduce((sum, length) => sum + length));
    for (const [name, text] of entries) {
      this.#putNameLength(name);
      this.#putNameLength(text);
      this.#reply.text(name);
      this.#reply.text(text);
    }
    this.#counters.thread.work.spent += WORK.CLAIM_LINE;
    return CounterStatus.OK;
  }

  dump(): CounterStatus {
    this.#dump = this.#counters.counters.all();
    return CounterStatus.OK;
  }

  // --- replies -----------------------------------------------------------------------------------

  /** One counter of a Dump, or its end. */
  #continueDump(dump: Iterator<CounterView>): void {
    const { value, done } = dump.next();
    if (done) {
      this.#dump = null;
      this.#putHeader(CounterStatus.OK, 0);
      return;
    }
    const counter = value as CounterView;
    const { name, consumption } = counter;
    this.#putHeader(CounterStatus.OK, 2 * NUMBER_LENGTH + NAME_LENGTH_LENGTH + name.length);
    this.#putNumber(consumption);
    this.#putNumber(this.#counters.counters.highest(counter));
    this.#putNameLength(name);
    this.#reply.text(name);
    this.#chargeName(name.length);
  }

  #refuse(status: CounterStatus): void {
    if (status === CounterStatus.UNKNOWN_COMMAND) this.#opcode = UNKNOWN_OPCODE;
    const text = COUNTER_STATUS_TEXT[status];
    this.#putHeader(status, text.length);
    this.#reply.text(text);
  }

  get #reply(): ReplyBuffer {
    return this.#counters.thread.reply;
  }

  #putHeader(status: CounterStatus, bodyLength: number): void {
    const reply = this.#reply;
    const { view } = reply.region;
    const at = reply.length;
    view.setUint8(at, REPLY_MAGIC);
    view.setUint8(at + 1, this.#opcode);
    view.setUint8(at + 2, status);
    view.setUint8(at + 3, 0);
    view.setUint32(at + BODY_LENGTH_AT, bodyLength);
    view.setUint32(at + 8, this.#opaque);
    reply.length = at + HEADER_LENGTH;
  }

  #putNumber(value: number): void {
    const reply = this.#reply;
    reply.region.view.setUint32(reply.length, value);
    reply.length += NUMBER_LENGTH;
  }

  #putNameLength(name: string): void {
    const reply = this.#reply;
    reply.region.view.setUint16(reply.length, name.length);
    reply.length += NAME_LENGTH_LENGTH;
  }

  /** The request's name: its bytes as characters below 256. */
  #name(): string {
    this.#chargeName(this.#nameLength);
    return latin1Text(this.#request.bytes, this.#nameOffset, this.#nameLength);
  }

  #chargeName(length: number): void {
    this.#counters.thread.work.spent += Math.ceil(length / NAME_BYTES_PER_UNIT);
  }
}

/** Returns the length of a request without ignored bytes, as far as its first `available` bytes tell. */
function requestLength({ view }: ByteRegion, start: number, available: number): number {
  if (available < HEADER_LENGTH) return HEADER_LENGTH;
  const bodyLength = view.getUint32(start + BODY_LENGTH_AT);
  if (bodyLength > BODY_LENGTH_MAX) return HEADER_LENGTH;
  return HEADER_LENGTH + Math.min(bodyLength, FIELDS_LENGTH_MAX);
}
