import { type Fault, faults } from "./fault.ts";
import { READ_FAULTS } from "./planted_in_reads.ts";
import { ROW_FAULTS } from "./planted_in_rows.ts";

// deno-fmt-ignore
/**
 * Faults whose damage shows only when threads, connections, restarts or the kernel come in between. The orders of steps
 * that keep cached rows equal to committed ones have faults of their own, in `tests/explorer/`.
 */
const ORDER_FAULTS: readonly Fault[] = [
  ...faults("store/memory/mutex.ts", "store/memory/mutex", [
    ["unlocking never wakes a sleeping thread", "Atomics.notify(this.#control, CONTROL.MUTEX, 1);", ""],
    ["locking does not exclude other threads", "if (Atomics.compareExchange(this.#control, CONTROL.MUTEX, FREE, HELD) !== FREE) {", "if (false) {"],
  ]),
  ...faults("store/items/values.ts", "protocol/conversation store/items/long_values", [
    ["a pinned value is freed while it is sent", "items.setWord(item, word, items.word(item, word) + 1);", ""],
  ]),
  ...faults("store/space/page_evacuator.ts", "store/space/page_mover", [
    ["an item that is locked while its page is emptied is moved", "if (!isMovableChunk(this.#links, chunk) || !this.#clear", "if (!this.#clear"],
  ]),
  ...faults("store/items/hits.ts", "store/items/hits", [
    ["a delayed hit is noted although its item is gone", "this.#index.has(item, delayed[at + HIT.HASH]!) &&", ""],
    ["a delayed hit is noted in the value that replaced its own", "this.#items.word(item, WORD.ID_LOW) === delayed[at + HIT.ID_LOW]", "true"],
  ]),
  ...faults("store/cache.ts", "store/items/hits", [
    ["a thread takes the mutex and leaves its delayed hits for later", "if (this.links.hits.hasDelayed) this.links.hits.apply();", ""],
  ]),
  ...faults("store/space/arriving_values.ts", "store/space/arriving_values", [
    ["a value that arrives is dropped while its thread writes to it",
      "while (row !== NO_ROW && this.#isReceiving(row)) row =", "while (false) row ="],
  ]),
  ...faults("store/operations/reserved.ts", "store/space/arriving_values", [
    ["a set whose value was dropped leaves the old value",
      "const outcome = this.#reportRefused(operation, Outcome.NO_MEMORY);\n    operation.input = input;", "const outcome = Outcome.NO_MEMORY;\n    operation.input = input;"],
  ]),
  ...faults("store/claims/token_queue.ts", "store/claims/update_tokens", [
    ["a full queue overwrites records that the journal has not written", "if (used + length > TOKEN_RING_BYTES) return false;", ""],
  ]),
  ...faults("store/operations/journal.ts", "store/claims/update_tokens lib/journal/token_journal", [
    ["ids start again below those of restored tokens", "if (id <= this.lastId) return;", "return;"],
  ]),
  ...faults("store/operations/store.ts", "store/items/long_values", [
    ["an append that others overtook is stored all the same", "this.#current(operation) === item && ", ""],
  ]),
  ...faults("protocol/waits/wait.ts", "store/claims/locks transcripts/conversation", [
    ["a connection that ends stays in the queue for a lock", "this.waiters.remove(this.waiter);", "", "wait"],
  ]),
  ...faults("protocol/text/token.ts", "protocol/token_wait", [
    ["stores are allowed although nobody knows which keys have update tokens", "state === \"off\" && cache.journal.queue.isUnusable", "false"],
  ]),
  ...faults("protocol/waits/wait.ts", "protocol/token_wait", [
    ["a token counts as given before its record is on the disk",
      "return this.waiters.stateOf(this.waiter) !== WaiterState.WAITING;", "return true;"],
  ]),
  ...faults("store/operations/lease.ts", "transcripts/conversation", [
    ["getss gives a lease while an update token is out",
      "if (this.#guard.tokens.isUncacheable(operation)) {\n      this.#stats[STAT.lease_wait_hint]", "if (false) {\n      this.#stats[STAT.lease_wait_hint]", "tokens"],
  ]),
  ...faults("protocol/auth/password_checks.ts", "protocol/auth", [
    ["a verdict goes to the next connection with the same row",
      "Atomics.compareExchange(this.#words, row, owner, -1 - access) === owner", "Atomics.exchange(this.#words, row, -1 - access) === owner"],
  ]),
  ...faults("protocol/waits/auth_wait.ts", "protocol/auth", [
    ["a password is checked for a connection that is gone", "auth!.end(this.#owner);", "void auth;"],
  ]),
  ...faults("lib/admin/pages.ts", "lib/admin/http_server", [
    ["a request gets a page that was rendered before it", "    this.#rendering = null;\n", ""],
  ]),
  ...faults("lib/net/native/io_uring.ts", "lib/net/native/io_uring", [
    ["completions that do not fit the ring are not waited for",
      "for (let missing = begun - this.#collect(results); missing > 0;) {", "this.#collect(results);\n    for (let missing = 0; missing > 0;) {"],
  ]),
  ...faults("lib/net/native/round_io.ts", "lib/net/native/io_uring", [
    ["replies that the kernel has not begun to send are taken for sent",
      "outbox.connection(index);\n      results[index] = NOT_BEGUN;", "outbox.connection(index);\n      results[index] = outbox.length(index);"],
    ["an operation that the ring cancels closes its connection",
      "return result < 0 && result !== -EAGAIN", "return result < -4096 && result !== -EAGAIN"],
  ]),
  ...faults("lib/net/native/io_uring.ts", "lib/net/native/io_uring", [
    ["operations that the kernel has not taken are executed by a later run",
      "this.#next = (this.#next + begun) | 0;", "this.#next = (this.#next + this.#prepared) | 0;"],
    ["operations of a ring wait",
      "this.#prepare(index, IORING_OP_RECV, fd, region, at, length, MSG_DONTWAIT);", "this.#prepare(index, IORING_OP_RECV, fd, region, at, length, 0);"],
  ]),
  ...faults("lib/net/native/round_io.ts", "lib/net/native/io_uring", [
    ["a reset that the ring has reported is asked for again, and taken for an end", "result !== -ECONNRESET &&", ""],
  ]),
  ...faults("lib/net/native/waiting.ts", "lib/net/transport lib/server/lock_kill", [
    ["a connection that waits for a lock is not watched: its end is not noticed",
      "EPOLLERR | EPOLLHUP : EPOLLERR | EPOLLHUP | EPOLLRDHUP;", "0 : 0;", "native: "],
  ]),
  ...faults("lib/counters/conversation.ts", "lib/counters/conversation", [
    ["a connection that ends changes the interval before",
      "this.#counters.keepTime();\n    this.#counters.connectionCount--;", "this.#counters.connectionCount--;"],
  ]),
  ...faults("lib/journal/token_journal.ts", "lib/journal/token_journal", [
    ["a damaged frame is read as it is", "if (crc32(checked) !== view.getUint32(CHECKSUM_AT, true)) return null;", ""],
    ["damage in the middle passes for an interrupted write", "if (synced <= start) continue;", "continue;"],
    ["tokens count as out before they are on the disk", "if (sync) this.sync();", ""],
    ["the name of a rewritten journal is not synced",
      "this.#files.rename(NEW_JOURNAL_NAME, JOURNAL_NAME);\n      this.#files.sync();", "this.#files.rename(NEW_JOURNAL_NAME, JOURNAL_NAME);"],
  ]),
  ...faults("lib/journal/token_records.ts", "lib/journal/token_journal", [
    ["released tokens come back after a restart", "this.#records.delete(id);", ""],
  ]),
  ...faults("lib/journal/token_journal.ts", "lib/journal/journal_loop", [
    ["tokens are promised into a file that was removed", "if (!this.#file.isNamed(JOURNAL_NAME)) {", "if (false) {"],
  ]),
  ...faults("lib/journal/journal_loop.ts", "lib/journal/journal_loop", [
    ["a restart hands ids out again", "cache.journal.raiseId(tokens.highestId);", ""],
    ["releases that no get follows are never written", "this.#dueMs = Math.min(this.#dueMs, nowMs + LAZY_MS);", ""],
    ["one failed reservation of ids empties the cache", "const isOut = !isReserved && left <= ID_MARGIN;", "const isOut = !isReserved;"],
  ]),
  ...faults("lib/journal/token_records.ts", "lib/journal/journal_loop", [
    ["quarantine ends with a restart", "this.isQuarantined = type === TokenRecordType.QUARANTINE_ON;", ""],
  ]),
  ...faults("lib/net/native/tls/contexts.ts", "lib/net/tls", [
    ["new connections keep the certificates of before",
      "if (this.#context !== null && generation === this.#generation) return this.#context;", "if (this.#context !== null) return this.#context;"],
  ]),
];

/**
 * Faults of READ_FAULTS, by their descriptions, that threads over one store notice too: a scenario of
 * tests/parallel/scenario.ts for each. The others make a difference that lasts for one store of a word, or is
 * none to clients: the upper half of an id or of a flush, the mark of a stale value.
 */
const NOTICED: readonly (readonly [fault: string, scenario: string])[] = [
  ["an item leaves a bucket without a change of the version", "evicting"],
  ["a bucket is split without a change of the version", "splitting"],
  ["a key has no item for a moment while it is stored anew", "replacing"],
  ["a value is overwritten without a change of the version", "overwriting"],
  ["the version changes before a value is overwritten, not meanwhile", "overwriting"],
  ["a value grows in its chunk without a change of the version", "growing values"],
  ["a number changes in its chunk without a change of the version", "counting"],
  ["a read begins under an odd version", "overwriting"],
  ["what changed since a key was found is not noticed", "overwriting"],
  ["a dead item is read without the mutex", "expiring"],
  ["a flushed item is read without the mutex", "flushing"],
];

/** Faults that the parallel test notices. */
const PARALLEL_FAULTS: readonly Fault[] = NOTICED.map(([description, scenario]) => {
  const fault = READ_FAULTS.find((one) => one.fault === description);
  if (fault === undefined) throw new Error(`There is no fault "${description}"`);
  return {
    ...fault,
    fault: `${description}, in parallel`,
    tests: "parallel/parallel",
    filter: scenario,
  };
});

/** The faults that `deno task mutate --planted` plants. */
export const FAULTS: readonly Fault[] = [
  ...READ_FAULTS,
  ...PARALLEL_FAULTS,
  ...ORDER_FAULTS,
  ...ROW_FAULTS,
];
