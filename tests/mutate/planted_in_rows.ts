import { type Fault, faults } from "./fault.ts";

const TESTS = "protocol/rows store/operations/row";

/**
 * Faults in what serves rows, and in `leased audit`. The orders of steps that keep cached values equal to committed
 * ones have faults of their own, in `tests/explorer/`.
 */
// deno-fmt-ignore
export const ROW_FAULTS: readonly Fault[] = [
  ...faults("store/operations/row_removal.ts", TESTS, [
    ["rows are removed, and the leases under which they are read stay", "yield* this.#dropLeases(covered);", ""],
    ["a write leaves the row's lease to its reader", "if (lease !== NO_LEASE && (endsClientLease || !leases.isHeldByClient(lease))) {", "if (false) {"],
    ["a write does not ask whether another connection has locked the row", "if (item !== NO_ITEM && this.#guard.isLockedByOther(item, owner)) return false;", ""],
    ["the old value of a locked row stays visible", "items.setWord(item, WORD.DEADLINE_SEC, ABSENT_DEADLINE_SEC);", ""],
  ]),
  ...faults("store/operations/row.ts", TESTS, [
    ["a row is read from the database although the cache has it by now", "if (mayServe && this.#answerFromCache(slot)) return;", ""],
    ["a queued read is answered from the cache after the end of the right", "if (mayServe && this.#answerFromCache(slot)) return;", "if (this.#answerFromCache(slot)) return;"],
    ["a value that no request needs any more stays detached", "if (isDetached) this.detached.release(item);", ""],
    ["a result for a connection that has ended stays", "if (item === NO_ITEM || this.requests.isOrphan(slot)) this.#fail(slot, TOO_LARGE);", "if (item === NO_ITEM) this.#fail(slot, TOO_LARGE);"],
  ]),
  ...faults("store/operations/row_parking.ts", "transcripts/rows", [
    ["append with the id 0 compares it with the row's version", "operation.compare && !namesNoId(operation)", "operation.compare"],
  ]),
  ...faults("store/operations/row_parking.ts", TESTS, [
    ["a connection has any number of writes in progress", "if (this.isAhead && (!session.isWriting || !this.#mayAskMore)) {", "if (this.isAhead && !session.isWriting) {"],
    ["a queued write of a connection that has ended is made", "if (this.requests.stateOf(slot) === RequestState.TAKEN) this.requests.orphan(slot);\n      else this.#rows.free(slot);", "if (this.requests.stateOf(slot) !== RequestState.DONE) this.requests.orphan(slot);\n      else this.#rows.free(slot);"],
    ["RowParking takes an expiry time that it must refuse", "if (this.#expiry === \"refuse\" && operation.deadlineSec !== 0) {", "if (false) {"],
    ["values on their way to the database have no bound", "if (mayPass && valueLength <= this.#room) return Outcome.OK;", "return Outcome.OK;"],
    ["a store under the lease of an absent row is a cas", "requests.setWord(slot, REQUEST.MODE, isFill ? StoreMode.ADD : operation.mode);", "requests.setWord(slot, REQUEST.MODE, operation.mode);"],
  ]),
  ...faults("store/row_cache.ts", TESTS, [
    ["get serves a row without the right to", "if (parking.isBarred(operation)) {\n      return parking.read(operation, operation.owner);\n    }\n    return super.get(", "return super.get("],
    ["mg serves a row without the right to", "if (parking.isBarred(operation)) {\n      return parking.read(operation, operation.owner);\n    }\n    const item = this.meta", "const item = this.meta"],
    ["lock serves a row without the right to", "parking.isBarred(operation) ||\n        ", ""],
  ]),
  ...faults("protocol/thread_context.ts", TESTS, [
    ["reads without the mutex serve rows without the right to", "(parking.session !== null || !parking.mayServe)", "parking.session !== null"],
  ]),
  ...faults("lib/rows/flows/flows.ts", "explorer/explorer", [
    ["the right to serve begins with the answer", "right.renew(askedMs + rightMs);", "right.renew(0 * askedMs + right.nowMs() + rightMs);", "right:"],
    ["the right to serve is renewed in another's epoch", "if (this.isDeposed || this.#isEnding) right.end();", "if (this.#isEnding) right.end();", "right:"],
    ["a renewal that is under way renews a right that was given up", "if (this.isDeposed || this.#isEnding) right.end();", "if (this.isDeposed) right.end();", "right:"],
    ["an origin notes its end before it gives its right up", "    right.end();\n    yield* step({ kind: \"noteEnd\", epoch: this.states.epoch });", "    yield* step({ kind: \"noteEnd\", epoch: this.states.epoch });\n    right.end();", "right:"],
  ]),
  ...faults("lib/rows/flows/takeover.ts", "explorer/explorer", [
    ["a takeover does not wait for the drift of clocks", "rightMs * (1 + driftShare) + TIMER_MS", "rightMs", "right:"],
    ["a takeover does not wait for the origin before", "yield* sleepFor(waitFor(Math.max(servedMs, nodesMs), driftShare), isLocked);", "", "right:"],
  ]),
  ...faults("lib/rows/flows/marks.ts", "lib/rows/saved_rows explorer/explorer", [
    ["rows of a snapshot come back after a killed origin", "mark === noted && mark.startsWith(`${epoch - 1} `)", "mark === noted", "SQLite: rows do not come back after another"],
    ["rows of a snapshot come back before a restored database", "mark === noted && mark", "mark", "restored"],
  ]),
  ...faults("lib/rows/origin/origin_thread.ts", "lib/rows/saved_rows", [
    ["rows of a snapshot are served before the log was applied", "if (await follower.wait(end, CATCH_UP_MS)) return null;", "return null;", "SQLite: rows are removed when"],
  ]),
  ...faults("lib/server/row_keeping.ts", "lib/rows/saved_rows", [
    ["items of other options become rows", "found?.options === this.#options ? found : null", "found", "SQLite: rows of other options"],
    ["rows are saved without a mark", 'return mark === "" ? this.#prefixes : [];', "return [];", "SQLite: rows are not saved when"],
  ]),
  ...faults("lib/databases/sqlite/statements.ts", "lib/databases/backend", [
    ["SQLite: an origin that was replaced notes a mark", "UPDATE leased_mark SET mark = ? FROM leased_proxy AS origin WHERE origin.epoch = ? RETURNING mark", "UPDATE leased_mark SET mark = ? WHERE ? >= 0 RETURNING mark", "SQLite: a takeover learns the mark"],
  ]),
  ...faults("lib/databases/postgres/backend.ts", "lib/databases/backend", [
    ["PostgreSQL: an origin that was replaced notes a mark", "SET mark = $1 WHERE epoch = $2 RETURNING mark", "SET mark = $1 WHERE epoch >= $2 RETURNING mark", "PostgreSQL: a takeover learns the mark"],
  ]),
  ...faults("lib/rows/flows/node_flows.ts", "explorer/explorer", [
    ["a node counts its time from the answer", "this.#right.renew(sentMs + due.grantedMs);", "this.#right.renew(0 * sentMs + this.#right.nowMs() + due.grantedMs);", "node:"],
    ["a node joins with its rows", "yield* step({ kind: \"delete\", ...EVERY_ROW });\n    const sentMs", "const sentMs", "node:"],
    ["a node confirms what it has not deleted", 'if (seq !== 0) yield* step({ kind: "delete", keys, prefixes });', "", "node:"],
  ]),
  ...faults("lib/rows/nodes/node_server.ts", "lib/rows/follow/direct_writers", [
    ["a followed change is not deleted in nodes", "this.#deleteInNodes({ keys: freedKeys, prefixes })", "this.#deleteInNodes({ keys: writers ? freedKeys : [], prefixes })", "two nodes"],
    ["a flood of changes leaves rows in nodes", "this.#deleteInNodes({ keys: freedKeys, prefixes })", "this.#deleteInNodes({ keys: freedKeys, prefixes: [] })", "flood"],
    ["a change of another writer is deleted in nodes only", "own.expel(rows) : undefined", "undefined : undefined", "two nodes"],
  ]),
  ...faults("lib/rows/flows/node_service.ts", "explorer/explorer", [
    ["a node gets more time than its origin has", "return isTimed || deadlineMs < 0 ?", "return !isTimed && deadlineMs < 0 ?", "node:"],
    ["the database does not know the nodes", "if (!this.#isNoted) {", "if (this.#isNoted) {", "node:"],
  ]),
  ...faults("lib/rows/flows/node_list.ts", "explorer/explorer", [
    ["an origin goes on without a node before its time is over", "nowMs + waitFor(grantedMs, this.#driftShare)", "nowMs + grantedMs", "node:"],
  ]),
  ...faults("lib/rows/flows/log_flow.ts", "explorer/explorer", [
    ["a position of the log is confirmed before the deletions", "    yield* expel(changes);", '    yield* step({ kind: "confirm", position: changes.position });\n    yield* expel(changes);', "follow:"],
    ["a gap in the log empties nothing", "yield* expel(EVERY_ROW);", "", "follow:"],
  ]),
  ...faults("lib/databases/sqlite/backend.ts", "lib/rows/takeover", [
    ["SQLite: an origin needs no lock", "return this.#isLocked ||= this.#lockFile.tryLockSync(true);", "return this.#isLocked = true;", "SQLite"],
  ]),
  ...faults("lib/databases/postgres/backend.ts", "lib/databases/postgres", [
    ["PostgreSQL: a takeover does not learn how long the origin before may serve", "RETURNING epoch, (SELECT serves_ms FROM leased_proxy) AS served_ms", "RETURNING epoch, 0 AS served_ms", "how long"],
    ["PostgreSQL: an origin that ends early shortens the wait for the one before", "greatest(serves_ms, $1::bigint)", "$1::bigint", "how long"],
    ["PostgreSQL: an old origin notes the end of its successor", "SET serves_ms = 0 WHERE epoch = $1", "SET serves_ms = 0 * $1", "how long"],
  ]),
  ...faults("protocol/conversation.ts", TESTS, [
    ["a write is given up when its bytes come again in pieces", "if (session === null || session.isWriting || !isOver) return;", "if (session === null || !isOver) return;"],
  ]),
  ...faults("protocol/row_wait.ts", TESTS, [
    ["a parked request keeps what it replied, and those behind it that failed ahead of their turn", "  reply.length = replyStart;", ""],
    ["a connection waits for the next operation, too", "    cache.parking!.hasParked = false;", ""],
  ]),
  ...faults("store/operations/lookup.ts", TESTS, [
    ["an absent row is asked for again", "return item !== NO_ITEM && (!this.#links.isDead(item) || this.#links.isAbsent(item));", "return item !== NO_ITEM && !this.#links.isDead(item);"],
  ]),
  ...faults("lib/rows/flows/row_edit.ts", "lib/rows/row_loop", [
    ["a condition of a write is not looked at", "return compare === null || compare === version;", "return true;"],
    ["prepend and append change places", "isAppend ? [row.data, this.#data] : [this.#data, row.data]", "isAppend ? [this.#data, row.data] : [row.data, this.#data]"],
    ["a row may be larger than an item", "this.#fits(change.data.length)) return change;", "true) return change;"],
  ]),
  ...faults("lib/databases/sqlite/backend.ts", "lib/databases/backend", [
    ["SQLite: a write that fails leaves half of it", 'if (this.#database.isTransaction) this.#database.exec("ROLLBACK");\n      if (isBusy', "if (isBusy"],
  ]),
  ...faults("lib/operator/audit/audit.ts", "lib/operator/audit/audit", [
    ["a value that changes during the audit is a difference",
      "if (now!.id === cached.id && now!.sha256 === cached.sha256) {", "if (now !== null) {"],
    ["the audit does not compare values", "cached.bytes === value.bytes &&\n    cached.sha256 === value.sha256;", "cached.bytes === value.bytes;"],
    ["the audit leaves out the last keys", "if (batch.length > 0) await audit.compare(batch);", ""],
  ]),
  ...faults("lib/operator/audit/run.ts", "lib/operator/audit/audit", [
    ["an audit that could not reach a cache ends with 0", "failed++;", ""],
  ]),
  ...faults("lib/databases/postgres/writes.ts", "lib/databases/postgres_writes", [
    ["PostgreSQL: the time of a write begins with its transaction", "writes.map(({ sinceMs = nowMs }) => sinceMs)", "writes.map(() => nowMs)", "begins with"],
  ]),
  ...faults("lib/databases/postgres/statements.ts", "lib/databases/backend", [
    ["PostgreSQL: a deposed origin overwrites rows", "WHERE epoch = $1 FOR SHARE\"", "WHERE epoch >= 0 * $1 FOR SHARE\"", "fenced"],
  ]),
];
