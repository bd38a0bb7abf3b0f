import type { ExploredWorld, Move } from "../explore.ts";
import type { TraceWriter } from "../trace.ts";
import { INITIAL, Key, newMemory, type Value } from "./bucket_memory.ts";
import { type Announcement, type Change, Writer } from "./changes.ts";
import { type Load, type ReaderFaults, readKey } from "./reader.ts";

/** One writer and readers without the mutex, over the words of a few buckets. */
export interface BucketScenario {
  readonly name: string;
  /** The writer's changes, one after the other. */
  readonly changes: (writer: Writer) => readonly Change[];
  /** The keys of each reader. */
  readonly reads: readonly Key[];
  readonly announcement?: Announcement;
  readonly faults?: ReaderFaults;
  /** Steps of the shortest way to a wrong read; left out: none is wrong. */
  readonly wrongAfter?: number;
}

const WRITER: Move = 0;

interface ReadInProgress {
  readonly key: Key;
  readonly load: Load;
  /** The word that it loads next; undefined: it has ended. */
  at: number | undefined;
  readonly loaded: number[];
  /** Values that the key has had since the read began. */
  readonly allowed: Set<Value>;
}

/** Each move is one store of the writer or one load of a reader. */
export class BucketWorld implements ExploredWorld {
  readonly canBePlayed = false;
  readonly servers = 0;
  readonly #scenario: BucketScenario;
  #words: number[] = [];
  #change: Change = nothing();
  #stores = 0;
  #writerHasEnded = false;
  #readers: ReadInProgress[] = [];
  /** The values that a read of each key, begun now, may find. */
  #current = new Map<Key, Set<Value>>();
  #wrong: string | undefined;
  #trace: TraceWriter | undefined;

  constructor(scenario: BucketScenario) {
    this.#scenario = scenario;
  }

  get name(): string {
    return this.#scenario.name;
  }

  start(trace?: TraceWriter): void {
    const { changes, reads, announcement } = this.#scenario;
    this.#trace = trace;
    this.#words = newMemory();
    this.#change = oneByOne(changes(new Writer(this.#words, announcement ?? {})));
    this.#stores = 0;
    this.#writerHasEnded = false;
    this.#wrong = undefined;
    this.#current = new Map(INITIAL.map(([key, value]) => [key, new Set([value])]));
    this.#readers = reads.map((key) => this.#begin(key));
    trace?.begin(["writer", ...reads.map((key) => `reader of ${nameOf(key)}`)]);
  }

  moves(): Move[] {
    const readers = this.#readers.flatMap(({ at }, index) => at === undefined ? [] : [index + 1]);
    return this.#writerHasEnded ? readers : [WRITER, ...readers];
  }

  move(move: Move): void {
    if (move === WRITER) this.#store();
    else this.#load(this.#readers[move - 1]!, move);
  }

  stateText(): string {
    const readers = this.#readers.map(({ at, loaded, allowed }) =>
      // A read that has begun is a function of what it has loaded; one that has not is none yet.
      at === undefined ? "." : `${loaded.join(",")}|${[...allowed].sort().join(",")}`
    );
    return `${this.#stores};${this.#words.join(" ")};${readers.join(";")};${this.#wrong ?? ""}`;
  }

  wrong(): string | undefined {
    return this.#wrong;
  }

  wrongToClients(): string | undefined {
    return this.#wrong;
  }

  look(): void {}

  /** The writer's next store or note. */
  #store(): void {
    const { value, done } = this.#change.next();
    if (done === true) {
      this.#writerHasEnded = true;
      return;
    }
    this.#stores++;
    if ("at" in value) {
      this.#words[value.at] = value.word;
      this.#trace?.note(`writer: word ${value.at} = ${value.word}`);
      return;
    }
    this.#trace?.note(`writer: ${value.text}`);
    const [key, text] = (value.begins ?? value.ends)!;
    if (value.begins !== undefined) {
      this.#current.get(key)!.add(text);
      for (const read of this.#readers) if (read.key === key) read.allowed.add(text);
    } else {
      this.#current.set(key, new Set([text]));
    }
  }

  #begin(key: Key): ReadInProgress {
    const load = readKey(key, this.#words.length, this.#scenario.faults ?? {});
    const at = load.next().value as number;
    return { key, load, at, loaded: [], allowed: new Set() };
  }

  #load(read: ReadInProgress, move: Move): void {
    const at = read.at!;
    // A reader loads the words that it keeps from earlier requests before the read begins.
    const kept = this.#scenario.faults?.flushIsOld === true ? 1 : 0;
    if (read.loaded.length === kept) {
      for (const value of this.#current.get(read.key)!) read.allowed.add(value);
    }
    const word = this.#words[at];
    this.#trace?.note(`reader ${move}: word ${at} is ${word}`);
    if (word === undefined) {
      this.#wrong = `a reader loads word ${at}, behind the memory`;
      read.at = undefined;
      return;
    }
    read.loaded.push(word);
    const { value, done } = read.load.next(word);
    if (done !== true) {
      read.at = value;
      return;
    }
    read.at = undefined;
    this.#trace?.note(`reader ${move}: ${value === undefined ? "takes the mutex" : `"${value}"`}`);
    if (value !== undefined && !read.allowed.has(value)) {
      const allowed = [...read.allowed].map((one) => `"${one}"`).join(" or ");
      this.#wrong = `${nameOf(read.key)} was ${allowed}, and the reader took "${value}"`;
    }
  }
}

function* oneByOne(changes: readonly Change[]): Change {
  for (const change of changes) yield* change;
}

function* nothing(): Change {}

function nameOf(key: Key): string {
  return Object.entries(Key).find(([, number]) => number === key)![0];
}
