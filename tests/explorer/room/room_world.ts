import { ByteRegion } from "../../../store/base/bytes.ts";
import { Cache, type RowSession } from "../../../store/cache.ts";
import { writeClock } from "../../../store/clock.ts";
import { DETACHED_SHARE_MAX, ROOM_WAIT_SEC } from "../../../store/limits.ts";
import { createSharedMemory, Memory } from "../../../store/memory/memory.ts";
import { REQUEST } from "../../../store/memory/request_layout.ts";
import { Operation, StoreMode } from "../../../store/operation.ts";
import { Outcome } from "../../../store/outcome.ts";
import { formatCache, type RowRequest } from "../../../store/row_cache.ts";
import { RequestState } from "../../../store/rows/row_requests.ts";
import { held, keyIn, storeOptions } from "../../support/store.ts";
import { KEY } from "../key_record.ts";
import { type Act, ActingWorld } from "../scenario_world.ts";
import { nameOf, type TraceWriter } from "../trace.ts";
import type { RoomScenario } from "./room_scenario.ts";

/** The memory of values is counted in these units. */
const UNIT_BYTES = 1024;

interface Writer {
  readonly name: string;
  readonly owner: number;
  readonly operation: Operation;
  state: "idle" | "parked" | "ended";
  session: RowSession | null;
  /** Whether the end of what it waits for has woken it. */
  isAwake: boolean;
}

/** Connections that write rows, over the real store, whose memory for values is short. */
export class RoomWorld extends ActingWorld<RoomScenario> {
  readonly #cache: Cache;
  #bytesMax: number;
  #writers: Writer[] = [];
  #taken: RowRequest[] = [];
  #nowSec = 0;
  #isLate = false;
  #wrong: string | undefined;

  constructor(scenario: RoomScenario) {
    super(scenario);
    const options = storeOptions({ rows: { prefixes: [""], expiry: "refuse" }, leaseEntries: 8 });
    const memory = new Memory(createSharedMemory(options));
    this.#bytesMax = scenario.bytesMax;
    const limitBytes = (): number => this.#bytesMax / DETACHED_SHARE_MAX;
    Object.defineProperty(memory, "limitBytes", { get: limitBytes });
    this.#cache = formatCache(memory);
    if (this.has("givesNothing")) this.#cache.leave = Cache.prototype.leave;
  }

  override start(trace?: TraceWriter): void {
    this.trace = trace;
    for (const writer of this.#writers) this.#abandon(writer, false);
    this.#taken.push(...this.#take());
    while (this.#taken.length > 0) this.#answer(this.#taken.shift()!);
    this.#nowSec = 0;
    writeClock(this.#cache.memory, 0);
    this.#isLate = false;
    this.#wrong = undefined;
    this.refill();
    this.#writers = this.scenario.lengths.map((length, index) => ({
      name: nameOf(index),
      owner: index + 1,
      operation: this.#operation(length, index + 1),
      state: "idle",
      session: null,
      isAwake: false,
    }));
    trace?.begin(this.#writers.map(() => "writer"));
  }

  #operation(length: number, owner: number): Operation {
    const key = new TextEncoder().encode(KEY);
    const input = new ByteRegion(new ArrayBuffer(key.length + length));
    input.bytes.set(key);
    const operation = new Operation(input);
    operation.setKey(0, key.length, keyIn(this.#cache, input, key.length).hash);
    operation.valueOffset = key.length;
    operation.valueLength = length;
    operation.mode = StoreMode.SET;
    operation.owner = owner;
    return operation;
  }

  // --- moves -------------------------------------------------------------------------------------

  protected override acts(): Act[] {
    const acts: Act[] = [];
    for (const writer of this.#writers) {
      if (writer.state === "idle" || writer.isAwake) acts.push(() => this.#write(writer));
      if (writer.state === "parked" && this.may("leave")) {
        acts.push(() => {
          this.spend("leave", `the connection of ${writer.name} ends`);
          this.#abandon(writer);
        });
      }
    }
    if (this.#cache.rows!.requests.queued > 0) {
      acts.push(() => {
        this.note("the database thread takes what is queued");
        this.#taken.push(...this.#take());
      });
    }
    for (const [index, request] of this.#taken.entries()) {
      acts.push(() => {
        this.#taken.splice(index, 1);
        this.note(`the write of ${nameOf(request.owner - 1)} is answered`);
        this.#answer(request);
      });
    }
    if (this.may("time")) acts.push(() => this.#letTimePass());
    return acts;
  }

  /** Executes a write, or what has been parked once more, as a connection does. */
  #write(writer: Writer): void {
    const cache = this.#cache;
    const parking = cache.parking!;
    const { requests } = cache.rows!;
    const isNew = writer.state === "idle";
    const isNext = isNew && this.#waiting.length > 0;
    if (isNew && this.has("overtakes")) {
      Object.defineProperty(requests, "isRoomAwaited", { value: false, configurable: true });
    }
    if (!isNew && this.has("looksOnce")) this.#bytesMax = Infinity;
    cache.enter();
    parking.begin(writer.session);
    writer.isAwake = false;
    const outcome = cache.store(writer.operation);
    writer.session = parking.session;
    parking.session = null;
    // Its answer may be there by now.
    if (outcome === Outcome.PARKED) writer.isAwake = parking.isAnswered(parking.awaited);
    this.#bytesMax = this.scenario.bytesMax;
    Reflect.deleteProperty(requests, "isRoomAwaited");
    cache.leave();
    writer.state = outcome === Outcome.PARKED ? "parked" : "ended";
    this.note(`${writer.name} writes: ${this.#stateOf(writer)}, outcome ${outcome}`);
    if (outcome === Outcome.NO_MEMORY && !this.#isLate) {
      this.#wrong ??= `${writer.name} gets no memory before its time is over`;
    }
    if (isNext && writer.session?.awaitsRoom !== true && outcome === Outcome.PARKED) {
      this.#wrong ??= `${writer.name} is in front of writes that wait`;
    }
    this.#wake();
  }

  #abandon(writer: Writer, mayKeepWait = this.has("keepsWait")): void {
    const { session } = writer;
    writer.state = "ended";
    writer.isAwake = false;
    if (session === null || (session.awaitsRoom && mayKeepWait)) return;
    writer.session = null;
    held(this.#cache, () => this.#cache.parking!.abandon(session));
    this.#wake();
  }

  #take(): RowRequest[] {
    return held(this.#cache, () => this.#cache.rows!.take(100));
  }

  #answer(request: RowRequest): void {
    const cache = this.#cache;
    cache.rows!.together(() => cache.rows!.answer(request, Outcome.STORED, { version: 1 }));
    this.#wake();
  }

  #letTimePass(): void {
    this.spend("time", "the time for which a write may wait is over");
    this.#isLate = true;
    this.#nowSec += ROOM_WAIT_SEC;
    writeClock(this.#cache.memory, this.#nowSec * 1000);
    // The server's maintenance.
    this.#cache.enter();
    this.#cache.leave();
    this.#wake();
  }

  /** Wakes the connections that the store names. */
  #wake(): void {
    for (let owner; (owner = this.#cache.takeReady(0)) !== 0;) {
      this.#writers[owner - 1]!.isAwake = true;
    }
  }

  // --- what there is -----------------------------------------------------------------------------

  /** Those that wait for memory, and have not been told to go on. */
  get #waiting(): readonly Writer[] {
    return this.#writers.filter((writer) => this.#slotState(writer) === RequestState.AWAITS_ROOM);
  }

  #slotState({ session, state }: Writer): RequestState | undefined {
    const slot = session?.slots[0];
    if (slot === undefined || state === "ended") return undefined;
    return this.#cache.rows!.requests.stateOf(slot);
  }

  #stateOf(writer: Writer): string {
    const { state, session, isAwake } = writer;
    const isAwaiting = session?.awaitsRoom ? "room" : "";
    return `${state}${isAwaiting}${this.#slotState(writer) ?? ""}${isAwake ? "!" : ""}`;
  }

  override stateText(): string {
    const { requests, detached } = this.#cache.rows!;
    const texts = this.#writers.map((writer) => {
      const [slot] = writer.session?.slots ?? [];
      if (slot === undefined || !writer.session!.awaitsRoom) return this.#stateOf(writer);
      const leftSec = requests.word(slot, REQUEST.DEADLINE_SEC) - this.#nowSec;
      const next = this.#writers.find(({ session }) =>
        session?.slots[0] === requests.word(slot, REQUEST.NEXT)
      );
      return `${this.#stateOf(writer)}${leftSec}>${next?.name ?? ""}`;
    });
    const queue: number[] = [];
    for (let slot = 0; (slot = requests.queuedBehind(slot)) !== 0;) {
      queue.push(requests.word(slot, REQUEST.OWNER));
    }
    const taken = this.#taken.map(({ owner }) => owner);
    return `${texts} q${queue} t${taken} ${detached.bytes} ${requests.inUse} ${this.budget}`;
  }

  override wrong(): string | undefined {
    const { requests, detached } = this.#cache.rows!;
    if (detached.bytes > this.scenario.bytesMax + UNIT_BYTES) {
      this.#wrong ??= `values take ${detached.bytes} bytes of ${this.scenario.bytesMax}`;
    }
    if (this.acts().length === 0) {
      const waiting = this.#writers.find(({ state }) => state === "parked");
      if (waiting !== undefined) this.#wrong ??= `${waiting.name} waits for ever`;
      if (requests.inUse > 0 || detached.count > 0) {
        this.#wrong ??= "all clients have ended, and a request or its value is left";
      }
    }
    return this.#wrong;
  }

  override wrongToClients(): string | undefined {
    return this.wrong();
  }

  override look(): void {
    this.note(`values take ${this.#cache.rows!.detached.bytes} bytes`);
  }
}
