import { assert } from "@std/assert";
import { randomFrom } from "../support/random.ts";
import type { VirtualDisk } from "./machine.ts";

/** Wall clock of every machine at the start, in Unix milliseconds. */
const STARTED_UNIX_MS = 1_800_000_000_000;
/** What a look at the clock costs, in milliseconds: loops that wait for a time to pass end. */
const LOOK_MS = 0.0005;

/** Something that happens at an instant. */
export interface Event {
  /** In milliseconds of virtual time. */
  atMs: number;
  order: number;
  /** The process in which it happens; it happens only while the process lives. */
  readonly process: Process;
  act: () => void;
  isCancelled: boolean;
}

/**
 * A process of the simulated system: a name, a clock, and events that happen only while it lives. A stopped process
 * keeps its events until it goes on.
 */
export class Process {
  readonly name: string;
  /** How fast its clock runs beside virtual time. */
  readonly rate: number;
  isAlive = true;
  isStopped = false;
  /** Added to the wall clock, in milliseconds. */
  wallShiftMs = 0;
  /** Events whose time came while it was stopped. */
  readonly held: Event[] = [];
  /** What the kernel does when the process ends. */
  readonly atEnd = new Set<() => void>();
  readonly #world: World;
  /** Its clock at virtual time 0: the boot of its machine. */
  readonly #bootMs: number;

  constructor(world: World, name: string, rate: number, bootMs: number) {
    this.#world = world;
    this.name = name;
    this.rate = rate;
    this.#bootMs = bootMs;
  }

  /** A clock that is never set, in milliseconds. */
  get nowMs(): number {
    return this.#bootMs + this.#world.nowMs * this.rate;
  }

  get unixMs(): number {
    return Math.floor(STARTED_UNIX_MS + this.#world.nowMs * this.rate + this.wallShiftMs);
  }
}

/** A heap of events, the earliest first; those of one instant in the order in which they were added. */
class EventHeap {
  readonly #events: Event[] = [];

  get first(): Event | undefined {
    return this.#events[0];
  }

  add(event: Event): void {
    const events = this.#events;
    let at = events.length;
    events.push(event);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(event, events[parent]!)) break;
      events[at] = events[parent]!;
      at = parent;
    }
    events[at] = event;
  }

  take(): Event | undefined {
    const events = this.#events;
    const first = events[0];
    const last = events.pop();
    if (first === undefined || last === undefined || events.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= events.length) break;
      if (child + 1 < events.length && isBefore(events[child + 1]!, events[child]!)) child++;
      if (!isBefore(events[child]!, last)) break;
      events[at] = events[child]!;
      at = child;
    }
    events[at] = last;
    return first;
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.atMs < b.atMs || a.atMs === b.atMs && a.order < b.order;
}

/** Returns a function that runs what waits for nothing: all that follows from the last event. */
function microtasksOfRuntime(): () => void {
  // A turn of the event loop would do the same, and let real time in.
  // deno-lint-ignore no-explicit-any
  const { core } = (Deno as any)[(Deno as any).internal];
  return () => core.runMicrotasks();
}

/**
 * Virtual time: a queue of events, each with all that follows from it without waiting. One thread, one seed: the same
 * seed gives the same order of events.
 */
export class World {
  /** Milliseconds since the start. */
  nowMs = 0;
  /** Events that have happened. */
  events = 0;
  /** Why the run must end as a failure, beside what its history shows. */
  readonly faults: string[] = [];
  /** Disks with snapshots, by the names of their hosts. */
  readonly disks = new Map<string, VirtualDisk>();
  /** Values that servers have found wrong. */
  readonly wrong: string[] = [];
  /** The process whose code runs. */
  current: Process;
  /** What no process does: the kernel, the network, the plan. */
  readonly nobody: Process;
  /** Names of faults, replies and events that have happened: see coverage.ts. */
  readonly met = new Set<string>();
  /** Lines of the transcript; null: none is kept. */
  readonly transcript: string[] | null;
  readonly random: () => number;
  readonly #heap = new EventHeap();
  readonly #runMicrotasks = microtasksOfRuntime();
  #order = 0;
  /** Of the order and the content of all that was noted. */
  hash = 0x811c9dc5;

  constructor(seed: number, keepsTranscript: boolean) {
    this.random = randomFrom(seed);
    this.transcript = keepsTranscript ? [] : null;
    this.nobody = new Process(this, "", 1, 0);
    this.current = this.nobody;
  }

  /** Returns a whole number from 0 to below `count`. */
  choose(count: number): number {
    return Math.floor(this.random() * count);
  }

  /** Adds what happened to the hash of the run, and to the transcript. */
  note(who: string, what: string): void {
    const text = `${who} ${what}`;
    let { hash } = this;
    for (let at = 0; at < text.length; at++) {
      hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
    }
    this.hash = Math.imul(hash ^ Math.round(this.nowMs * 1000), 0x01000193);
    if (this.transcript === null) return;
    this.transcript.push(`${this.nowMs.toFixed(3).padStart(11)} ${who.padEnd(10)} ${what}`);
  }

  /** Has something happen after some milliseconds of virtual time. */
  after(delayMs: number, process: Process, act: () => void): Event {
    return this.at(this.nowMs + Math.max(0, delayMs), process, act);
  }

  /** Has something happen at an instant of virtual time, which may be now. */
  at(atMs: number, process: Process, act: () => void): Event {
    const event = { atMs, order: this.#order++, process, act, isCancelled: false };
    this.#heap.add(event);
    return event;
  }

  /** Has something happen after some milliseconds on the clock of the process. */
  timer(delayMs: number, process: Process, act: () => void): Event {
    return this.after(Math.max(delayMs, 0) / process.rate, process, act);
  }

  /** Lets events happen until `isOver`. @param limitMs Most milliseconds of virtual time. @returns Whether it was. */
  run(isOver: () => boolean, limitMs: number): boolean {
    const endMs = this.nowMs + limitMs;
    while (!isOver()) {
      const event = this.#heap.first;
      if (event === undefined || event.atMs > endMs) {
        this.nowMs = endMs;
        return isOver();
      }
      this.#heap.take();
      this.nowMs = Math.max(this.nowMs, event.atMs);
      this.#happen(event);
      if (this.faults.length > 0) return false;
    }
    return true;
  }

  #happen(event: Event): void {
    const { process } = event;
    if (event.isCancelled || !process.isAlive) return;
    if (process.isStopped) return void process.held.push(event);
    this.events++;
    this.current = process;
    try {
      event.act();
      this.#runMicrotasks();
    } catch (error) {
      this.faults.push(`${process.name}: ${error instanceof Error ? error.stack : error}`);
    }
    this.current = this.nobody;
  }

  /** Time passes while a process runs. */
  look(): number {
    this.nowMs += LOOK_MS;
    return this.current.nowMs;
  }

  stop(process: Process): void {
    assert(process.isAlive, "a process that is stopped lives");
    process.isStopped = true;
  }

  /** Lets a stopped process go on: what it has missed happens now, in the order of time. */
  resume(process: Process): void {
    process.isStopped = false;
    for (const event of process.held.splice(0)) {
      event.atMs = this.nowMs;
      event.order = this.#order++;
      this.#heap.add(event);
    }
  }

  /** Ends a process at once. The kernel closes what it had open. */
  kill(process: Process): void {
    process.isAlive = false;
    process.held.length = 0;
    for (const act of process.atEnd) act();
    process.atEnd.clear();
  }
}
