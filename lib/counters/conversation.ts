import { latin1Text } from "../../store/base/bytes.ts";
import { type AcquiredResources, CounterOutcome, Counters, type CounterView } from "./counters.ts";
import { COUNTER_STATUS_TEXT, CounterStatus } from "./status.ts";

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
const NUMBER_LENGTH = 4;
const NAME_LENGTH_LENGTH = 2;
const NAME_LENGTH_MAX = 0xffff;
/** The most that a request's fields take. Bytes behind them are not kept. */
const FIELDS_LENGTH_MAX = 2 * NUMBER_LENGTH + NAME_LENGTH_LENGTH + NAME_LENGTH_MAX;
/** A longer body is no request: yrmcds reads no more either. */
const BODY_LENGTH_MAX = 30 * 1024 * 1024;
/** The opcode of replies to commands that are unknown. */
const UNKNOWN_OPCODE = 0x12;

const INPUT_BYTES_LEAST = 512;
const INPUT_BYTES_MOST = HEADER_LENGTH + FIELDS_LENGTH_MAX;
/** No request is executed while this many bytes of replies are unsent. */
const REPLIES_BYTES_MAX = 64 * 1024;
const REPLY_BYTES_MAX = HEADER_LENGTH + 2 * NUMBER_LENGTH + NAME_LENGTH_LENGTH + NAME_LENGTH_MAX;

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

/** State that all conversations with the counter server share. */
export class CounterService {
  readonly counters: Counters;
  /** Well-formed requests of each command in the table. */
  readonly commandCounts: number[] = ROWS.map(() => 0);
  connectionCount = 0;
  connectionsEver = 0;
  gcCount = 0;
  gcMicroseconds = 0;
  gcMicrosecondsEver = 0;
  /** The buffer in which replies are made. */
  readonly replies = new DataView(new ArrayBuffer(REPLIES_BYTES_MAX + REPLY_BYTES_MAX));

  /** @param bytesMax The memory limit of all counters, in bytes. */
  constructor(bytesMax: number) {
    this.counters = new Counters(bytesMax);
  }

  /** Returns the rows of Stats, in yrmcds's order. */
  stats(): [name: string, value: number][] {
    return [
      ["objects", this.counters.count],
      ["total_objects", this.counters.madeCount],
      ["used_memory", this.counters.usedBytes],
      ["conflicts", 0], // what it means, a table of fixed size, there is not
      ["gc_count", this.gcCount],
      ["last_gc_elapsed", this.gcMicroseconds],
      ["total_gc_elapsed", this.gcMicrosecondsEver],
      ["curr_connections", this.connectionCount],
      ["total_connections", this.connectionsEver],
      ...ROWS.map(([name], index): [string, number] => [
        `command:${name}`,
        this.commandCounts[index]!,
      ]),
    ];
  }
}

/**
 * One connection to the counter server: bytes in, replies out. The caller reads into `readBuffer()`,
 * tells `received()` how much came, and sends what `replies()` gives until that is null. It keeps
 * at most one request, and makes at most one load of replies ahead.
 */
export class CounterConversation {
  /** The peer cannot be understood: nothing more is read; close when the replies are sent. */
  closing = false;
  readonly #service: CounterService;
  readonly #acquired: AcquiredResources = new Map();
  /** Bytes received and not executed: [start, end) of the buffer. */
  #input = new DataView(new ArrayBuffer(INPUT_BYTES_LEAST));
  #start = 0;
  #end = 0;
  /** The last read filled the buffer, so more bytes are waiting. */
  #readWasFull = false;
  /** Bytes of a body that are still to be received and ignored. */
  #bytesToSkip = 0;
  /** Offset and length of the request's name in the input. */
  #nameOffset = 0;
  #nameLength = 0;
  /** A Dump under way: it answers to the last request. */
  #dump: Iterator<CounterView> | null = null;
  #length = 0;
  #opcode = 0;
  #opaque = 0;

  constructor(service: CounterService) {
    this.#service = service;
    service.connectionCount++;
    service.connectionsEver++;
  }

  /** Returns the buffer for the next read; never empty. Call it when `replies()` is null. */
  readBuffer(): Uint8Array<ArrayBuffer> {
    const pending = this.#end - this.#start;
    let size = this.#input.byteLength;
    if (this.#readWasFull) size = Math.min(2 * size, INPUT_BYTES_MOST);
    else if (pending === 0) size = INPUT_BYTES_LEAST;
    const bytes = bytesOf(this.#input).subarray(this.#start, this.#end);
    if (size !== this.#input.byteLength) this.#input = new DataView(new ArrayBuffer(size));
    bytesOf(this.#input).set(bytes);
    this.#start = 0;
    this.#end = pending;
    return bytesOf(this.#input).subarray(pending);
  }

  /** Notes that bytes have arrived in `readBuffer`. */
  received(length: number): void {
    this.#end += length;
    this.#readWasFull = this.#end === this.#input.byteLength;
  }

  /**
   * Executes what has come, until much is to be sent.
   *
   * @returns What is to be sent now; null: nothing before more is received.
   */
  replies(): Uint8Array<ArrayBuffer> | null {
    this.#length = 0;
    while (this.#length < REPLIES_BYTES_MAX && !this.closing) {
      if (this.#dump !== null) this.#continueDump(this.#dump);
      else if (!this.#execute()) break;
    }
    return this.#length === 0 ? null : bytesOf(this.#service.replies).slice(0, this.#length);
  }

  /** The connection is gone, for whatever reason: gives back what it holds. To be called once. */
  end(): void {
    this.#service.connectionCount--;
    this.#service.counters.releaseAll(this.#acquired);
  }

  // --- requests ----------------------------------------------------------------------------------

  /** @returns False when the next request is not here yet. */
  #execute(): boolean {
    const skipped = Math.min(this.#bytesToSkip, this.#end - this.#start);
    this.#bytesToSkip -= skipped;
    this.#start += skipped;
    const input = this.#input;
    const start = this.#start;
    if (this.#end - start < HEADER_LENGTH) return false;
    const bodyLength = input.getUint32(start + 4);
    const keptLength = Math.min(bodyLength, FIELDS_LENGTH_MAX);
    const isLegal = bodyLength <= BODY_LENGTH_MAX;
    if (isLegal && this.#end - start < HEADER_LENGTH + keptLength) return false;
    this.#opcode = input.getUint8(start + 1);
    this.#opaque = input.getUint32(start + 8);
    this.closing = !isLegal;
    const status = input.getUint8(start) === REQUEST_MAGIC && isLegal
      ? this.#command(start + HEADER_LENGTH, keptLength)
      : CounterStatus.INVALID;
    if (status !== CounterStatus.OK) this.#refuse(status);
    this.#start = start + HEADER_LENGTH + keptLength;
    this.#bytesToSkip = bodyLength - keptLength;
    return true;
  }

  #command(bodyOffset: number, bodyLength: number): CounterStatus {
    const index = ROWS.findIndex(([, opcode]) => opcode === this.#opcode);
    if (index < 0) return CounterStatus.UNKNOWN_COMMAND;
    const [, , numbersLength, handler] = ROWS[index]!;
    if (numbersLength !== null) {
      const nameAt = numbersLength + NAME_LENGTH_LENGTH;
      if (bodyLength < nameAt) return CounterStatus.INVALID;
      this.#nameOffset = bodyOffset + nameAt;
      this.#nameLength = this.#input.getUint16(bodyOffset + numbersLength);
      if (this.#nameLength === 0 || this.#nameLength > bodyLength - nameAt) {
        return CounterStatus.INVALID;
      }
    }
    const status = handler(this);
    if (status !== CounterStatus.INVALID) this.#service.commandCounts[index]! += 1;
    return status;
  }

  // --- commands, for the table above -------------------------------------------------------------

  done(): CounterStatus {
    this.#putHeader(CounterStatus.OK, 0);
    return CounterStatus.OK;
  }

  get(): CounterStatus {
    const counter = this.#service.counters.get(this.#name());
    if (counter === undefined) return CounterStatus.NOT_FOUND;
    this.#putHeader(CounterStatus.OK, NUMBER_LENGTH);
    this.#putNumber(counter.consumption);
    return CounterStatus.OK;
  }

  acquire(): CounterStatus {
    const { counters } = this.#service;
    const resources = this.#input.getUint32(this.#start + HEADER_LENGTH);
    const maximum = this.#input.getUint32(this.#start + HEADER_LENGTH + NUMBER_LENGTH);
    if (resources === 0 || maximum < resources) return CounterStatus.INVALID;
    const outcome = counters.acquire(this.#acquired, this.#name(), resources, maximum);
    if (outcome === CounterOutcome.OK) {
      this.#putHeader(CounterStatus.OK, NUMBER_LENGTH);
      this.#putNumber(resources);
    }
    return OUTCOME_STATUS[outcome];
  }

  release(): CounterStatus {
    const resources = this.#input.getUint32(this.#start + HEADER_LENGTH);
    const outcome = this.#service.counters.release(this.#acquired, this.#name(), resources);
    return outcome === CounterOutcome.OK ? this.done() : OUTCOME_STATUS[outcome];
  }

  stats(): CounterStatus {
    const entries = this.#service.stats().map(([name, value]) => [name, String(value)] as const);
    const lengths = entries.map(([name, text]) =>
      2 * NAME_LENGTH_LENGTH + name.length + text.length
    );
    this.#putHeader(CounterStatus.OK, lengths.reduce((sum, length) => sum + length));
    for (const [name, text] of entries) {
      this.#putNameLength(name);
      this.#putNameLength(text);
      this.#putText(name);
      this.#putText(text);
    }
    return CounterStatus.OK;
  }

  dump(): CounterStatus {
    this.#dump = this.#service.counters.all();
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
    this.#putNumber(this.#service.counters.highest(counter));
    this.#putNameLength(name);
    this.#putText(name);
  }

  #refuse(status: CounterStatus): void {
    if (status === CounterStatus.UNKNOWN_COMMAND) this.#opcode = UNKNOWN_OPCODE;
    const text = COUNTER_STATUS_TEXT[status];
    this.#putHeader(status, text.length);
    this.#putText(text);
  }

  #putHeader(status: CounterStatus, bodyLength: number): void {
    const { replies } = this.#service;
    const at = this.#length;
    replies.setUint8(at, REPLY_MAGIC);
    replies.setUint8(at + 1, this.#opcode);
    replies.setUint8(at + 2, status);
    replies.setUint8(at + 3, 0);
    replies.setUint32(at + 4, bodyLength);
    replies.setUint32(at + 8, this.#opaque);
    this.#length = at + HEADER_LENGTH;
  }

  #putNumber(value: number): void {
    this.#service.replies.setUint32(this.#length, value);
    this.#length += NUMBER_LENGTH;
  }

  #putNameLength(name: string): void {
    this.#service.replies.setUint16(this.#length, name.length);
    this.#length += NAME_LENGTH_LENGTH;
  }

  #putText(text: string): void {
    const { replies } = this.#service;
    for (let index = 0; index < text.length; index++) {
      replies.setUint8(this.#length++, text.charCodeAt(index));
    }
  }

  /** The request's name: its bytes as characters below 256. */
  #name(): string {
    return latin1Text(bytesOf(this.#input), this.#nameOffset, this.#nameLength);
  }
}

function bytesOf(view: DataView<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return new Uint8Array(view.buffer);
}
