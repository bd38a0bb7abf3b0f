import type { TransportEvent } from "../../lib/net/transport.ts";
import { JournalLoop } from "../../lib/journal/journal_loop.ts";
import { readJournal, TokenJournal } from "../../lib/journal/token_journal.ts";
import { Cache } from "../../store/cache.ts";
import { TOKEN_QUEUE } from "../../store/memory/token_layout.ts";
import { journalRow, Memory, type SharedMemory } from "../../store/setup.ts";
import type { CrashingFiles } from "../support/crashing_files.ts";
import type { Process, World } from "./world.ts";

/** Longest time that the disk takes for a sync, in milliseconds. */
const SYNC_MS = 2;

/** The loop would sleep now: its thread waits in another way. */
class Asleep extends Error {
  readonly bell: number;
  readonly ms: number;

  constructor(bell: number, ms: number) {
    super("the journal's thread sleeps");
    this.bell = bell;
    this.ms = ms;
  }
}

/** The thread of the journal: the real loop, over a disk in memory. */
export class JournalThread {
  readonly #world: World;
  readonly #process: Process;
  readonly #loop: JournalLoop;
  readonly #cache: Cache;
  readonly #words: Int32Array<SharedArrayBuffer>;
  #hasEnded = false;

  /**
   * Restores the tokens of the journal.
   *
   * @param report Gets the events.
   * @throws JournalError: the journal cannot be read.
   */
  constructor(
    world: World,
    process: Process,
    shared: SharedMemory,
    disk: CrashingFiles,
    wake: (threadIndex: number) => void,
    report: (event: TransportEvent) => void,
  ) {
    this.#world = world;
    this.#process = process;
    this.#cache = new Cache(new Memory(shared, journalRow(shared.options)));
    this.#cache.onReady = wake;
    this.#words = new Int32Array(shared.tokenQueue, 0, TOKEN_QUEUE.WORDS);
    const journal = new TokenJournal(disk, readJournal(disk), crypto.randomUUID());
    this.#loop = new JournalLoop(this.#cache, journal, report);
    this.#loop.restore();
    this.#cache.journal.queue.wait = (bell, ms) => {
      throw new Asleep(bell, ms);
    };
  }

  /** Writes until the process ends. */
  async run(): Promise<void> {
    for (;;) {
      const asleep = this.#write();
      if (asleep === null) return;
      const { bell, ms } = asleep;
      const { async, value } = Atomics.waitAsync(this.#words, TOKEN_QUEUE.BELL, bell, ms);
      if (async) await value;
      await this.#disk();
      if (this.#hasEnded) return;
    }
  }

  /** Writes what is left, and ends. */
  stop(): void {
    this.#cache.journal.queue.stop();
    this.#write();
    this.#hasEnded = true;
    this.#loop.close();
  }

  /** Runs the loop until it sleeps. @returns Null: it has ended. */
  #write(): Asleep | null {
    try {
      this.#loop.run(() => performance.now());
      return null;
    } catch (error) {
      if (error instanceof Asleep) return error;
      throw error;
    }
  }

  /** The disk takes its time. */
  #disk(): Promise<void> {
    const world = this.#world;
    const { promise, resolve } = Promise.withResolvers<void>();
    world.after(SYNC_MS * world.random(), this.#process, resolve);
    return promise;
  }
}
