import { JournalLoop } from "../../lib/journal/journal_loop.ts";
import { readJournal, TokenJournal } from "../../lib/journal/token_journal.ts";
import { TOKEN_RECORD as RECORD } from "../../store/memory/token_record.ts";
import type { Cache } from "../../store/cache.ts";
import { CrashingFiles } from "../support/crashing_files.ts";
import { queuedRecords } from "../support/queued_records.ts";

const NODE_ID = "00000000-0000-4000-8000-000000000000";
/** Writes nothing of what fails, keeps nothing that was not synced. */
const least = (): number => 0;
/** Keeps everything that was written. */
const most = (bound: number): number => bound - 1;

/** The journal of a cache's update tokens, on a disk in memory that outlives the cache. */
export class TokenDisk {
  readonly #files = new CrashingFiles();
  #journal: TokenJournal;
  #loop: JournalLoop;
  #cache: Cache;
  /** Ids that are found after a crash, whatever the disk keeps of the rest. */
  #durable: readonly number[] = [];
  #hasFailed = false;

  /** @param cache Empty. */
  constructor(cache: Cache) {
    this.#cache = cache;
    this.#journal = new TokenJournal(this.#files, null, NODE_ID);
    this.#loop = this.#start();
  }

  /** The process ends, and another one starts. @param keepsAll Bytes that were written and not synced are found. */
  restart(cache: Cache, keepsAll: boolean): void {
    this.#files.crash(keepsAll ? most : least);
    this.#cache = cache;
    this.#journal = new TokenJournal(this.#files, readJournal(this.#files), NODE_ID);
    this.#loop = this.#start();
  }

  get hasQueued(): boolean {
    return this.#cache.journal.queue.length > 0;
  }

  /** Whether a crash may lose something that was written. */
  get isUnsynced(): boolean {
    return this.#journal.isUnsynced;
  }

  /** Writes what is in the queue. @param fails The disk refuses. */
  write(fails: boolean): void {
    this.#files.failAfter(fails ? 0 : Infinity, least);
    this.#loop.writeQueued();
    this.#files.failAfter(Infinity);
    this.#hasFailed = fails;
    this.#noteDurable();
  }

  /** All ids that matter for what comes. */
  ids(): number[] {
    return [...this.#written(), ...this.#durable, ...this.#queued().map(({ id }) => id)];
  }

  /** The state of journal and queue. @param name Of an id. */
  text(name: (id: number) => string): string {
    const names = (ids: readonly number[]): string => ids.map(name).join(",");
    const queued = this.#queued().map(({ type, id }) => `${type}${name(id)}`).join(",");
    const marks = (this.isUnsynced ? "~" : "") + (this.#hasFailed ? "!" : "");
    return `${names(this.#written())}/${names(this.#durable)}/${queued}${marks}`;
  }

  #start(): JournalLoop {
    const loop = new JournalLoop(this.#cache, this.#journal, () => {});
    loop.restore();
    this.#hasFailed = false;
    this.#noteDurable();
    return loop;
  }

  #noteDurable(): void {
    if (!this.isUnsynced) this.#durable = this.#written();
  }

  #written(): number[] {
    return [...this.#journal.tokens.ids].sort((a, b) => a - b);
  }

  #queued(): { type: number; id: number }[] {
    const { bytes, view } = queuedRecords(this.#cache.journal.queue);
    const records = [];
    for (let at = 0; at < bytes.length;) {
      const id = Number(view.getBigUint64(at + RECORD.ID, true));
      records.push({ type: bytes[at + RECORD.TYPE]!, id });
      at += RECORD.DATA + bytes[at + RECORD.KEY_LENGTH]! + bytes[at + RECORD.OWNER_LENGTH]! +
        bytes[at + RECORD.PEER_LENGTH]!;
    }
    return records;
  }
}
