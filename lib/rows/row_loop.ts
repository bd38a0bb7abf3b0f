import type { Cache } from "../../store/cache.ts";
import { RowKind, type RowRequest } from "../../store/row_cache.ts";
import { Outcome } from "../../store/outcome.ts";
import type { Read } from "./flows/flows.ts";
import { RowWrite, type WriteReply } from "./flows/row_write.ts";
import { pause } from "../process/pause.ts";
import { oneLine, reasonOf } from "../process/reason.ts";
import { CommandLane, readsRows } from "./command_lane.ts";
import { RowEdit } from "./flows/row_edit.ts";
import type { RowSource } from "./row_source.ts";
import { WriteQueue } from "./write_queue.ts";

/** Requests taken under one hold of the mutex. */
const TAKE_MAX = 256;
/** Reads of the database at the same time; further ones gather, and go together. */
const READS_AT_ONCE = 3;
/** How long few writes wait for the groups in progress: a row that somebody else has locked keeps no other waiting. */
const WRITES_WAIT_MS = 50;
/** Longest sleep, in case a bell is missed. */
const SLEEP_MS = 1000;

/** Reads that go together. */
interface ReadLane {
  waiting: RowRequest[];
  /** Groups that are being read. */
  underWay: number;
}

/**
 * The loop of the database thread: takes the requests of connections, and answers them. Reads that arrive while others
 * are under way go together, and so do writes: those of one transaction are a group. A lone request waits for nothing.
 */
export class RowLoop {
  readonly #cache: Cache;
  readonly #source: RowSource;
  readonly #keepsExpiry: boolean;
  readonly #noteCached: (key: string, kind: RowKind) => void;
  readonly #reads: ReadLane = { waiting: [], underWay: 0 };
  /** Of keys whose queries may be slow. */
  readonly #slowReads: ReadLane = { waiting: [], underWay: 0 };
  /** Keys that are being read, with the requests for them that came meanwhile. */
  readonly #reading = new Map<string, RowRequest[]>();
  readonly #writes: WriteQueue;
  readonly #commands: CommandLane;
  /** Whether `#writeTogether` is about to run. */
  #isWriteDue = false;
  #overdueTimer: ReturnType<typeof setTimeout> | undefined;
  #isStopping = false;
  /** Bytes of values that are copied and not answered. */
  #copiedBytes = 0;
  /** Requests that are taken and not answered. */
  #underWay = 0;
  /** The database's last error; null: it has answered since. */
  problem: string | null = null;

  /**
   * @param keepsExpiry Whether the table has a column for expiry times.
   * @param noteCached Told of each row that may have been cached, and by what request.
   */
  constructor(
    cache: Cache,
    source: RowSource,
    keepsExpiry: boolean,
    noteCached: (key: string, kind: RowKind) => void = () => {},
  ) {
    this.#noteCached = noteCached;
    this.#cache = cache;
    this.#source = source;
    this.#writes = new WriteQueue(() => source.groupsMax);
    this.#keepsExpiry = keepsExpiry;
    this.#commands = new CommandLane(
      cache,
      (request, signal) => this.#execute(request, signal),
      (request, reason) => this.#answerCommand(request, null, reason),
    );
  }

  /** Serves requests until `stop`, and answers those that were taken. */
  async run(): Promise<void> {
    const cache = this.#cache;
    const { requests } = cache.rows!;
    for (;;) {
      const { bell } = requests;
      cache.enter();
      const taken = cache.rows!.take(TAKE_MAX, this.#copiedBytes);
      cache.leave();
      this.#commands.dropOrphans();
      for (const request of taken) this.#accept(request);
      this.#readTogether();
      this.#writeTogether();
      if (taken.length > 0) {
        // Lets the replies of sockets in: a queue that never empties must not starve them.
        if (taken.length === TAKE_MAX) await pause(0);
        continue;
      }
      if (this.#isStopping && this.#underWay === 0) return clearTimeout(this.#overdueTimer);
      await requests.waitForBell(bell, this.#isStopping ? 1 : SLEEP_MS);
    }
  }

  stop(): void {
    this.#isStopping = true;
    this.#source.stop();
    this.#cache.rows!.requests.ring();
  }

  #accept(request: RowRequest): void {
    const rows = this.#cache.rows!;
    this.#underWay++;
    switch (request.kind) {
      case RowKind.READ:
        return this.#queueRead(request);
      case RowKind.TOUCH:
        if (!this.#keepsExpiry) return this.#queueRead(request);
        return this.#queueWrite(request);
      case RowKind.COMMAND:
        return this.#commands.add(request, readsRows(rows.valueOf(request)));
      default:
        return this.#queueWrite(request);
    }
  }

  // --- reads -----------------------------------------------------------------------------------------

  /** Reads a key once at a time: later requests wait, then take the cached row or share the next read. */
  #queueRead(request: RowRequest): void {
    const meanwhile = this.#reading.get(request.key);
    if (meanwhile !== undefined) return void meanwhile.push(request);
    const lane = this.#source.isSlow(request.key) ? this.#slowReads : this.#reads;
    lane.waiting.push(request);
  }

  #readTogether(): void {
    for (const lane of [this.#reads, this.#slowReads]) {
      if (lane.waiting.length === 0 || lane.underWay === READS_AT_ONCE) continue;
      const requests = lane.waiting;
      lane.waiting = [];
      lane.underWay++;
      void this.#read(requests, lane);
    }
  }

  async #read(requests: readonly RowRequest[], lane: ReadLane): Promise<void> {
    const rows = this.#cache.rows!;
    const byKey = Map.groupBy(requests, ({ key }) => key);
    // A key that views have moved to the other lane may be read there still.
    for (const key of byKey.keys()) if (!this.#reading.has(key)) this.#reading.set(key, []);
    let reads: readonly Read[] = [];
    let reason: string | null = null;
    try {
      reads = await this.#source.read([...byKey.keys()]);
      this.problem = null;
    } catch (error) {
      reason = this.problem = reasonOf(error);
    }
    reason = this.#source.endText ?? reason;
    rows.together(() => {
      let index = 0;
      for (const asked of byKey.values()) {
        if (reason === null) this.#answerRead(asked, reads[index++]!);
        else rows.fail(asked, oneLine(reason));
      }
    });
    this.#underWay -= requests.length;
    this.#readNext([...byKey.keys()], reason, lane);
    lane.underWay--;
    this.#readTogether();
    this.#endIfStopping();
  }

  /** Goes on with the requests that came while keys were read. @param reason Why the read failed; null: it has not. */
  #readNext(keys: readonly string[], reason: string | null, lane: ReadLane): void {
    const rows = this.#cache.rows!;
    const waited = keys.flatMap((key) => this.#reading.get(key) ?? []);
    for (const key of keys) this.#reading.delete(key);
    if (waited.length === 0) return;
    let left: readonly RowRequest[] = [];
    // They would wait for the same failure once more.
    if (reason !== null) rows.fail(waited, oneLine(reason));
    else left = rows.takeAgain(waited);
    this.#underWay -= waited.length - left.length;
    lane.waiting.push(...left);
  }

  #answerRead(requests: readonly RowRequest[], { row, cacheable, problem }: Read): void {
    const rows = this.#cache.rows!;
    if (problem !== undefined) return rows.fail(requests, oneLine(problem));
    rows.answerRead(requests.filter(({ kind }) => kind === RowKind.READ), row, cacheable);
    if (cacheable) this.#noteCached(requests[0]!.key, RowKind.READ);
    for (const request of requests) {
      if (request.kind !== RowKind.TOUCH) continue;
      if (row === null) rows.answer(request, Outcome.NOT_FOUND);
      else rows.answer(request, Outcome.TOUCHED, { version: row.version, row });
    }
  }

  // --- writes ----------------------------------------------------------------------------------------

  #queueWrite(request: RowRequest): void {
    const rows = this.#cache.rows!;
    const data = request.kind === RowKind.STORE ? rows.valueOf(request) : undefined;
    const { key, owner } = request;
    const work = new RowEdit(
      request,
      data,
      (valueLength) => rows.fits(key.length, valueLength, request.flags),
    );
    this.#copiedBytes += request.valueLength;
    this.#addWrite(
      new RowWrite({
        key,
        edit: work.edit,
        connection: owner,
        bytes: request.valueLength,
        sinceMs: performance.now(),
        work,
        answer: (reply) => this.#answerWrite(request, work, reply),
      }),
    );
  }

  #answerWrite(request: RowRequest, work: RowEdit, reply: WriteReply): void {
    const rows = this.#cache.rows!;
    this.#underWay--;
    this.#copiedBytes -= request.valueLength;
    switch (reply.kind) {
      case "committed": {
        const { version } = reply;
        const row = work.row && { ...work.row, version };
        const result = { version, number: work.number };
        if (row !== null) this.#noteCached(request.key, request.kind);
        return rows.answer(request, work.outcome, row === null ? result : { ...result, row });
      }
      case "refused":
        return rows.answer(request, work.outcome, { version: reply.row?.version ?? 0 });
      case "locked":
        return rows.answer(request, Outcome.LOCKED);
      case "unknown":
        return rows.fail([request], oneLine(`outcome unknown: ${reply.reason}`));
      case "failed":
        return rows.fail([request], oneLine(reply.reason));
      default:
        return rows.fail([request], reply.kind);
    }
  }

  #addWrite(write: RowWrite): void {
    const reason = this.#source.refusalOf(write.key);
    if (reason !== null) return write.answer({ kind: "failed", reason });
    this.#writes.add(write);
    if (this.#isWriteDue) return;
    this.#isWriteDue = true;
    // A command may add one while the loop sleeps.
    queueMicrotask(() => this.#writeTogether());
  }

  #writeTogether(isOverdue = false): void {
    this.#isWriteDue = false;
    for (let group; (group = this.#writes.take(isOverdue)).length > 0;) void this.#write(group);
    if (!this.#writes.mayBegin || this.#overdueTimer !== undefined) return;
    this.#overdueTimer = setTimeout(() => {
      this.#overdueTimer = undefined;
      this.#writeTogether(true);
    }, WRITES_WAIT_MS);
  }

  /** Executes a group. The next ones gather meanwhile. */
  async #write(group: readonly RowWrite[]): Promise<void> {
    let replies: readonly WriteReply[];
    try {
      replies = await this.#source.write(group);
    } catch (error) {
      const reason = reasonOf(error);
      replies = group.map(() => ({ kind: "failed", reason }));
    }
    const postponed: RowWrite[] = [];
    this.#cache.rows!.together(() => {
      for (const [index, write] of group.entries()) {
        const reply = replies[index]!;
        if (reply.kind === "postponed") {
          postponed.push(write);
          continue;
        }
        if (reply.kind === "failed" || reply.kind === "unknown") this.problem = reply.reason;
        else if (reply.kind === "committed") this.problem = null;
        write.answer(reply);
      }
    });
    this.#writes.end(group, postponed);
    const { requests } = this.#cache.rows!;
    if (requests.queued > 0) requests.ring();
    this.#writeTogether();
    this.#endIfStopping();
  }

  // --- commands --------------------------------------------------------------------------------------

  async #execute(request: RowRequest, signal: AbortSignal): Promise<void> {
    const bytes = this.#cache.rows!.valueOf(request);
    try {
      const data = await this.#source.command(bytes, (write) => this.#addWrite(write), signal);
      this.#answerCommand(request, data);
    } catch (error) {
      this.#answerCommand(request, null, reasonOf(error));
    }
  }

  /** @param data The reply; null: the command has failed. */
  #answerCommand(request: RowRequest, data: Uint8Array<ArrayBuffer> | null, reason = ""): void {
    const rows = this.#cache.rows!;
    if (data === null) rows.fail([request], oneLine(reason));
    else rows.answer(request, Outcome.OK, { row: { flags: 0, version: 0, data } });
    this.#underWay--;
    this.#endIfStopping();
  }

  #endIfStopping(): void {
    if (this.#isStopping && this.#underWay === 0) this.#cache.rows!.requests.ring();
  }
}
