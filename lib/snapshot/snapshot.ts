import type { Cache } from "../../store/cache.ts";
import type { StoreOptions } from "../../store/limits.ts";
import { continuedOptions, TablesError } from "../../store/setup.ts";
import { syncFolder } from "../journal/state_folder.ts";
import { logProcess } from "../process/log.ts";
import { reasonOf } from "../process/reason.ts";
import { lock, requireOwn, resolvedPath, SUFFIX } from "./snapshot_files.ts";
import { DamageError, type SavedRows, SnapshotError } from "./snapshot_format.ts";
import { SnapshotReader } from "./snapshot_reader.ts";
import { createFile, writeStore } from "./snapshot_writer.ts";

/** `--snapshot`. */
export interface SnapshotOptions {
  readonly snapshotPath: string;
  /** Whether a file that cannot be loaded ends the start. */
  readonly snapshotRequired: boolean;
}

/** Time between two lines of progress. */
const PROGRESS_MS = 5000;
/** Work between two looks at signals. */
const SLICE_MS = 20;
const MIB = 1024 * 1024;
/** Each thread reads at least so much, which takes as long as its start. */
const THREAD_BYTES = 128 * MIB;

/** The file of `--snapshot`: read at the start, written at the stop. One server at a time has it. */
export class Snapshot {
  readonly #path: string;
  readonly #isRequired: boolean;
  readonly #onProgress: () => void;
  readonly #lock: Deno.FsFile;
  #reader: SnapshotReader | null = null;
  /** Whether there is a file that cannot be loaded. */
  #isRefused = false;
  #isLoaded = false;
  #isWriting = false;
  /** Whether this process has made the file that is being written. */
  #hasWriting = false;
  /** The store's clock at the start of the process, in milliseconds. */
  readonly clockMs: number = 0;

  /**
   * Opens the snapshot, if there is one.
   *
   * @param onProgress Called often while the file is read or written.
   * @throws SnapshotError when another server has it, when a file of another program is in its place, or when it is
   *   required and cannot be loaded.
   */
  constructor({ snapshotPath, snapshotRequired }: SnapshotOptions, onProgress: () => void) {
    this.#path = resolvedPath(snapshotPath);
    this.#onProgress = onProgress;
    this.#isRequired = snapshotRequired;
    // Before there is a lock file beside the file of another program.
    requireOwn(this.#path, false);
    this.#lock = lock(this.#path);
    try {
      this.#reader = this.#open();
    } catch (error) {
      this.#lock.close();
      throw error;
    }
    if (this.#reader !== null) {
      const { writtenUnixMs, store } = this.#reader.description;
      this.clockMs = store.clockMs + Math.max(0, Date.now() - writtenUnixMs);
    }
  }

  /** @throws SnapshotError when the server must not start. */
  #open(): SnapshotReader | null {
    for (const suffix of [SUFFIX.WRITING, SUFFIX.LOADED, SUFFIX.REFUSED]) {
      requireOwn(this.#path + suffix, true);
    }
    // A process that was killed has left it.
    remove(this.#path + SUFFIX.WRITING);
    try {
      return SnapshotReader.open(this.#path);
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      if (this.#isRequired) throw new SnapshotError(`cannot load the snapshot ${error.message}`);
      this.#refuse(error);
      return null;
    }
  }

  /** Whether the store has the items of the file. */
  get isLoaded(): boolean {
    return this.#isLoaded;
  }

  /** The rows in the file that is not loaded yet; null: none. */
  get rows(): SavedRows | null {
    return this.#reader?.description.rows ?? null;
  }

  /** Returns the options of a store that continues the snapshot's. */
  storeOptions(options: StoreOptions): StoreOptions {
    return this.#reader === null
      ? options
      : continuedOptions(options, this.#reader.store, this.clockMs);
  }

  /**
   * Loads the snapshot into an empty store that was made with `storeOptions`.
   *
   * @param removed Prefixes of keys whose items are left out: those that are rows here, or were.
   * @throws SnapshotError when it is damaged and required, or cannot be read.
   */
  async load(cache: Cache, removed: readonly string[]): Promise<void> {
    const reader = this.#reader;
    if (reader === null) return;
    const startMs = performance.now();
    try {
      const dropped = cache.snapshots.takesPages(reader.store)
        ? await this.#loadPages(reader, cache, removed)
        : await this.#loadItems(reader, cache, removed);
      logLoaded(this.#path, reader, cache, dropped, performance.now() - startMs);
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      if (this.#isRequired) throw new SnapshotError(`cannot load the snapshot ${error.message}`);
      this.#refuse(error);
    } finally {
      reader.close();
      this.#reader = null;
      this.#isLoaded = !this.#isRefused;
    }
  }

  async #loadPages(
    reader: SnapshotReader,
    { snapshots }: Cache,
    removed: readonly string[],
  ): Promise<number> {
    const pieces = snapshots.pieces(reader.store, reader.tables);
    const progress = new Progress("read", reader.pagesBytes, this.#onProgress);
    try {
      await reader.readPieces(
        pieces,
        (piece) => snapshots.bytesOf(piece),
        Math.min(navigator.hardwareConcurrency, Math.floor(reader.pagesBytes / THREAD_BYTES)),
        (bytes) => progress.add(bytes),
      );
      const [first = 0, second = 0] = crypto.getRandomValues(new Int32Array(2));
      const verifying = snapshots.verify(reader.store, reader.tables, [first, second]);
      const fault = await inSlices(verifying, this.#onProgress);
      if (fault !== null) throw new DamageError(`${this.#path}: ${fault}`);
    } catch (error) {
      snapshots.discardPages();
      throw error;
    }
    snapshots.restorePages(reader.store, reader.tables);
    if (removed.length > 0) await inSlices(snapshots.prepare(removed), this.#onProgress);
    return 0;
  }

  /** Verifies the pages, then stores their items as new ones. @returns The number of items left out. */
  async #loadItems(
    reader: SnapshotReader,
    cache: Cache,
    removed: readonly string[],
  ): Promise<number> {
    const { snapshots } = cache;
    const { store, tables } = reader;
    const pieces = snapshots.pieces(store, tables);
    const scratch = new Uint8Array(Math.max(0, ...pieces.map(({ bytes }) => bytes)));
    const progress = new Progress("verified", reader.pagesBytes, this.#onProgress);
    await reader.readPieces(
      pieces,
      ({ bytes }) => scratch.subarray(0, bytes),
      1,
      (bytes) => progress.add(bytes),
    );
    const read = (at: number, to: Uint8Array): void => reader.readPages(at, to);
    const readmission = snapshots.readmit(store, tables, read, removed);
    try {
      await inSlices(readmission.run(), this.#onProgress);
    } catch (error) {
      cache.flushAll(0);
      throw error instanceof TablesError
        ? new DamageError(`${this.#path}: ${error.message}`)
        : error;
    }
    return readmission.dropped;
  }

  /**
   * Renames the file that was loaded, or refused, so that no later process loads it. To be called before the first
   * client is served.
   *
   * @throws SnapshotError when it cannot be renamed.
   */
  retire(): void {
    if (!this.#isLoaded && !this.#isRefused) return;
    const name = this.#path + (this.#isLoaded ? SUFFIX.LOADED : SUFFIX.REFUSED);
    requireOwn(name, true);
    try {
      Deno.renameSync(this.#path, name);
      syncFolderOf(this.#path);
    } catch (error) {
      throw new SnapshotError(
        `cannot rename the snapshot ${this.#path} to ${name}: ${reasonOf(error)}; ` +
          "a later start would load it again",
      );
    }
  }

  /**
   * Writes the store, which no other thread uses any more. Logs why if that fails.
   *
   * @param rows The rows that the file keeps; null: none.
   * @param removed Prefixes of keys whose items are left out.
   */
  async save(
    cache: Cache,
    version: string,
    rows: SavedRows | null,
    removed: readonly string[],
  ): Promise<void> {
    const startMs = performance.now();
    const writing = this.#path + SUFFIX.WRITING;
    this.#isWriting = true;
    try {
      requireOwn(this.#path, false);
      requireOwn(this.#path + SUFFIX.LOADED, true);
      await inSlices(cache.snapshots.prepare(removed), this.#onProgress);
      let progress: Progress | null = null;
      const file = createFile(writing);
      this.#hasWriting = true;
      const onWritten = (bytes: number, allBytes: number): Promise<void> => {
        progress ??= new Progress("written", allBytes, this.#onProgress);
        return progress.add(bytes);
      };
      const fileBytes = await writeStore(cache, file, writing, version, rows, onWritten);
      // Another program may have made a file meanwhile.
      requireOwn(this.#path, false);
      requireOwn(this.#path + SUFFIX.LOADED, true);
      Deno.renameSync(writing, this.#path);
      this.#hasWriting = false;
      syncFolderOf(this.#path);
      remove(this.#path + SUFFIX.LOADED);
      logSaved(this.#path, fileBytes, cache, performance.now() - startMs);
    } catch (error) {
      this.#removeWriting();
      this.#reportFailure(reasonOf(error));
    }
    this.#isWriting = false;
  }

  /** Logs that there is no snapshot, because a thread did not end. */
  reportUnfinished(): void {
    this.#reportFailure("a thread did not end in time, and may still change items");
  }

  #reportFailure(reason: string): void {
    const message = `snapshot ${this.#path} not written, the next start is with an empty cache: ` +
      reason;
    logProcess("error", "snapshot_failed", message, { path: this.#path, reason });
  }

  /** Releases the file. If it is being written, gives it up. */
  close(): void {
    this.#reader?.close();
    if (this.#isWriting) {
      this.#removeWriting();
      const message = `snapshot ${this.#path} given up, the next start is with an empty cache`;
      logProcess("warning", "snapshot_given_up", message, { path: this.#path });
    }
    this.#lock.close();
  }

  #removeWriting(): void {
    if (this.#hasWriting) remove(this.#path + SUFFIX.WRITING);
    this.#hasWriting = false;
  }

  #refuse({ message: reason }: Error): void {
    this.#isRefused = true;
    const kept = this.#path + SUFFIX.REFUSED;
    const message = `snapshot not loaded, the cache starts empty: ${reason}; kept as ${kept}`;
    logProcess("error", "snapshot_refused", message, { path: this.#path, reason, kept });
  }
}

/** Lets signals be handled during a long work. */
class Turns {
  #endMs = performance.now() + SLICE_MS;

  /** Resolves after a turn of the event loop, if the last one is long ago. */
  async take(): Promise<void> {
    if (performance.now() < this.#endMs) return;
    await new Promise((resolve) => setTimeout(resolve));
    this.#endMs = performance.now() + SLICE_MS;
  }
}

/** Lines of the log that show how far a long work is. */
class Progress {
  readonly #verb: string;
  readonly #allBytes: number;
  readonly #onProgress: () => void;
  #bytes = 0;
  #nextMs = performance.now() + PROGRESS_MS;
  readonly #turns = new Turns();

  constructor(verb: string, allBytes: number, onProgress: () => void) {
    this.#verb = verb;
    this.#allBytes = allBytes;
    this.#onProgress = onProgress;
  }

  /** Notes bytes, and lets signals be handled. */
  async add(bytes: number): Promise<void> {
    this.#bytes += bytes;
    this.#onProgress();
    await this.#turns.take();
    if (performance.now() < this.#nextMs) return;
    this.#nextMs += PROGRESS_MS;
    const [done, all] = [mebibytes(this.#bytes), mebibytes(this.#allBytes)];
    logProcess("info", "snapshot_progress", `snapshot: ${done} of ${all} MiB ${this.#verb}`, {
      bytes: this.#bytes,
      allBytes: this.#allBytes,
    });
  }
}

/** Runs a generator to its end; signals are handled between its steps. @returns Its result. */
async function inSlices<Result>(
  work: Generator<void, Result>,
  onProgress: () => void,
): Promise<Result> {
  const turns = new Turns();
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
    onProgress();
    await turns.take();
  }
}

function logLoaded(
  path: string,
  { description: { writtenBy, writtenUnixMs }, pagesBytes }: SnapshotReader,
  cache: Cache,
  dropped: number,
  ms: number,
): void {
  const items = cache.inspector.control("ITEM_COUNT");
  const ageSec = Math.max(0, Math.round((Date.now() - writtenUnixMs) / 1000));
  const left = dropped === 0 ? "" : `, ${dropped} items left out: no room for them`;
  const message = `snapshot ${path} loaded: ${items} items, ${mebibytes(pagesBytes)} MiB, ` +
    `written ${ageSec} s ago by leased ${writtenBy}${left}; ${seconds(ms)} s`;
  logProcess("info", "snapshot_loaded", message, {
    path,
    items,
    dropped,
    bytes: pagesBytes,
    ageSec,
  });
}

function logSaved(path: string, bytes: number, cache: Cache, ms: number): void {
  const items = cache.inspector.control("ITEM_COUNT");
  const message = `snapshot ${path} written: ${items} items, ${mebibytes(bytes)} MiB, ` +
    `${seconds(ms)} s`;
  logProcess("info", "snapshot_written", message, { path, items, bytes });
}

function mebibytes(bytes: number): number {
  return Math.round(bytes / MIB);
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(1);
}

function remove(path: string): void {
  try {
    Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) {
      logProcess("warning", "file_not_removed", `cannot remove ${path}: ${reasonOf(error)}`, {
        path,
      });
    }
  }
}

/** Makes the names in the snapshot's folder survive a power cut. */
function syncFolderOf(path: string): void {
  syncFolder(path.replace(/[^/]+$/, "") || ".");
}
