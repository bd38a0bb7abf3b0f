import { LF, SPACE } from "../../store/base/bytes.ts";
import type { Cache } from "../../store/cache.ts";
import type { RowRequest } from "../../store/row_cache.ts";
import { ROOM_WAIT_SEC } from "../../store/limits.ts";

/** Commands that read rows, executed at the same time. Further ones wait, the oldest first. */
const AT_ONCE = 3;
/** Pause before the memory of replies is looked at again. */
const RETRY_MS = 20;
/** Length of `node command `, the longest beginning of a line that is compared. */
const HEAD_LENGTH = 13;
const GONE = "the client has gone";
const NO_ROOM = "no memory for the reply: other clients have not received theirs";
const READS = /^(?:uget|uread|node read) /;
const FORWARDS = "node command ";

/**
 * Returns whether a command reads rows: its reply may be long, and takes the database's time.
 *
 * @param request `RowSource.command`
 */
export function readsRows(request: Uint8Array): boolean {
  const head = headOf(request);
  if (head !== FORWARDS) return READS.test(head);
  return READS.test(headOf(request.subarray(request.indexOf(LF) + 1)));
}

/** Returns the beginning of a line, with one blank for several: a line may begin with any number of them. */
function headOf(line: Uint8Array): string {
  let head = "";
  for (const byte of line) {
    if (byte === LF || head.length === HEAD_LENGTH) break;
    if (byte === SPACE && (head === "" || head.endsWith(" "))) continue;
    head += String.fromCharCode(byte);
  }
  return head;
}

interface Waiting {
  readonly request: RowRequest;
  readonly sinceMs: number;
}

/**
 * Commands in progress. A command ends with its connection. Commands that read rows wait in a lane: at most AT_ONCE are
 * executed at the same time, and none begins while replies that clients have not received take too much memory.
 */
export class CommandLane {
  readonly #cache: Cache;
  readonly #run: (request: RowRequest, signal: AbortSignal) => Promise<void>;
  readonly #fail: (request: RowRequest, reason: string) => void;
  #waiting: Waiting[] = [];
  readonly #controllers = new Map<RowRequest, AbortController>();
  #reading = 0;
  #retryTimer: ReturnType<typeof setTimeout> | undefined;
  #orphans = 0;

  /**
   * @param run Executes a command and answers it.
   * @param fail Answers a command that is not executed.
   */
  constructor(
    cache: Cache,
    run: (request: RowRequest, signal: AbortSignal) => Promise<void>,
    fail: (request: RowRequest, reason: string) => void,
  ) {
    this.#cache = cache;
    this.#run = run;
    this.#fail = fail;
  }

  /** Executes a command, at once unless it reads rows; those wait for the commands before them. */
  add(request: RowRequest, isRead: boolean): void {
    const controller = new AbortController();
    this.#controllers.set(request, controller);
    // Its connection may have ended since it was taken.
    if (this.#cache.rows!.requests.isOrphan(request.slot)) controller.abort();
    if (!isRead) return void this.#execute(request);
    this.#waiting.push({ request, sinceMs: performance.now() });
    this.#next();
  }

  /** Ends the commands whose connections have ended. Cheap when there are none. */
  dropOrphans(): void {
    const { requests } = this.#cache.rows!;
    const { orphans } = requests;
    if (orphans === this.#orphans) return;
    this.#orphans = orphans;
    for (const [request, controller] of this.#controllers) {
      if (requests.isOrphan(request.slot)) controller.abort();
    }
    for (const { request } of this.#waiting.filter(({ request }) => this.#isOver(request))) {
      this.#drop(request, GONE);
    }
  }

  #isOver(request: RowRequest): boolean {
    return this.#controllers.get(request)!.signal.aborted;
  }

  async #execute(request: RowRequest): Promise<void> {
    await this.#run(request, this.#controllers.get(request)!.signal);
    this.#controllers.delete(request);
  }

  async #read(request: RowRequest): Promise<void> {
    this.#reading++;
    await this.#execute(request);
    this.#reading--;
    this.#next();
  }

  #next(): void {
    while (this.#waiting.length > 0 && this.#reading < AT_ONCE) {
      const { request, sinceMs } = this.#waiting[0]!;
      if (this.#isOver(request)) {
        this.#drop(request, GONE);
      } else if (this.#cache.rows!.hasRoomForReplies) {
        this.#waiting.shift();
        void this.#read(request);
      } else if (performance.now() - sinceMs < ROOM_WAIT_SEC * 1000) {
        return this.#retryLater();
      } else {
        this.#drop(request, NO_ROOM);
      }
    }
  }

  /** Answers a waiting command that is not executed. */
  #drop(request: RowRequest, reason: string): void {
    this.#waiting = this.#waiting.filter((waiting) => waiting.request !== request);
    this.#controllers.delete(request);
    this.#fail(request, reason);
  }

  #retryLater(): void {
    this.#retryTimer ??= setTimeout(() => {
      this.#retryTimer = undefined;
      this.#next();
    }, RETRY_MS);
  }
}
