import type { KeySet } from "../../databases/views/key_set.ts";
import type { Follower } from "./follower.ts";

/** Pause before the database is asked again, and the longest wait for the log, in milliseconds. */
const RETRY_MS = 1000;

/** The log of changes, as far as it can be waited for. */
interface Log {
  /** Where the log ends now. @throws The database's error. */
  endOfLog(): Promise<bigint>;
  readonly follower: Pick<Follower, "wait">;
}

/** Deletes all keys of views that are replaced, however long the database is away. */
export class PrefixExpulsion {
  readonly #expel: (rows: KeySet) => Promise<void>;
  readonly #log: Log;
  readonly #sleep: (ms: number) => Promise<void>;
  #isStopping = false;
  /** The deletions that have begun; it never rejects. */
  #expelled: Promise<void> = Promise.resolve();

  /** @param expel Deletes rows, everywhere. */
  constructor(
    expel: (rows: KeySet) => Promise<void>,
    log: Log,
    sleep: (ms: number) => Promise<void>,
  ) {
    this.#expel = expel;
    this.#log = log;
    this.#sleep = sleep;
  }

  /** Ends the repetitions. */
  stop(): void {
    this.#isStopping = true;
  }

  /** Deletes the keys of views that have just been replaced. */
  expelReplaced(prefixes: readonly string[]): Promise<void> {
    const end = this.#expelTwice(prefixes);
    this.#expelled = Promise.allSettled([this.#expelled, end]).then(() => {});
    return end;
  }

  /**
   * Waits until every change is applied that was committed by now, and the keys of replaced views are deleted.
   *
   * @returns Whether that was within `ms`, and before the signal.
   * @throws The database's error.
   */
  async waitForNow(ms: number, signal?: AbortSignal): Promise<boolean> {
    const limitMs = performance.now() + ms;
    const end = await this.#log.endOfLog();
    if (!await isWithin(this.#expelled, ms, signal)) return false;
    const leftMs = Math.max(0, limitMs - performance.now());
    return await this.#log.follower.wait(end, leftMs, signal);
  }

  async #expelTwice(prefixes: readonly string[]): Promise<void> {
    const rows = { keys: [], prefixes };
    await this.#expel(rows);
    // A change that the log had under the views before may not have been visible to reads since.
    await this.#untilApplied();
    await this.#expel(rows);
  }

  /** Waits until all changes are applied that the log has now, however long the database is away. */
  async #untilApplied(): Promise<void> {
    for (let end: bigint | null = null; !this.#isStopping;) {
      try {
        end ??= await this.#log.endOfLog();
        if (await this.#log.follower.wait(end, RETRY_MS)) return;
      } catch {
        // The follower reports why the database does not answer.
      }
      await this.#sleep(RETRY_MS);
    }
  }
}

/** Whether a promise is resolved within `ms`, and before the signal. */
async function isWithin(done: Promise<void>, ms: number, signal?: AbortSignal): Promise<boolean> {
  const { promise: given, resolve: giveUp } = Promise.withResolvers<boolean>();
  const abort = (): void => giveUp(false);
  const timer = setTimeout(abort, ms);
  if (signal?.aborted) abort();
  signal?.addEventListener("abort", abort);
  const isDone = await Promise.race([done.then(() => true), given]);
  clearTimeout(timer);
  signal?.removeEventListener("abort", abort);
  return isDone;
}
