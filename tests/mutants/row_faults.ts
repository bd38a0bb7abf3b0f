import { type Fault, faults } from "./fault.ts";

const TESTS = "protocol/rows store/operations/row";

/** Faults in the serving side of rows: the requests of connections, and the store's share. */
// deno-fmt-ignore
export const ROW_FAULTS: readonly Fault[] = [
  ...faults("store/operations/row.ts", TESTS, [
    ["a write leaves the row's lease to its reader", "if (lease !== NO_LEASE) this.#guard.leases.drop(lease, hash);", ""],
    ["a write does not ask whether another connection has locked the row", "if (this.#guard.isLockedByOther(item, owner)) return false;", ""],
    ["the old value of a locked row stays visible", "items.setWord(item, WORD.DEADLINE_SEC, ABSENT_DEADLINE_SEC);", ""],
    ["a row is read from the database although the cache has it by now", "if (this.#answerFromCache(slot)) continue;", ""],
    ["a value that no request needs any more stays detached", "if (isDetached) this.detached.release(item);", ""],
    ["a result for a connection that has ended stays", "if (item === NO_ITEM || this.requests.isOrphan(slot)) this.#fail(slot, TOO_LARGE);", "if (item === NO_ITEM) this.#fail(slot, TOO_LARGE);"],
  ]),
  ...faults("store/operations/row_parking.ts", TESTS, [
    ["a connection has any number of writes in progress", "if (this.isAhead && (!session.isWriting || isFull)) return this.#refuse(Outcome.PARKED);", ""],
    ["a queued write of a connection that has ended is made", "if (this.requests.stateOf(slot) === RequestState.TAKEN) this.requests.orphan(slot);\n      else this.free(slot);", "if (this.requests.stateOf(slot) !== RequestState.DONE) this.requests.orphan(slot);\n      else this.free(slot);"],
    ["RowParking takes an expiry time that it must refuse", "if (this.#expiry === \"refuse\" && operation.deadlineSec !== 0 && hasTime) {", "if (false) {"],
    ["values on their way to the database have no bound", "return this.detached.bytes + bytes <= this.#links.memory.limitBytes * DETACHED_SHARE_MAX;", "return true;"],
    ["a store under the lease of an absent row is a cas", "requests.setWord(slot, REQUEST.MODE, isFill ? StoreMode.ADD : operation.mode);", "requests.setWord(slot, REQUEST.MODE, operation.mode);"],
  ]),
  ...faults("protocol/conversation.ts", TESTS, [
    ["a write is given up when its bytes come again in pieces", "if (session === null || session.isWriting || !isOver) return;", "if (session === null || !isOver) return;"],
  ]),
  ...faults("protocol/row_wait.ts", TESTS, [
    ["replies of requests that failed ahead of their turn are sent", "    reply.length = length;", ""],
  ]),
  ...faults("store/operations/lookup.ts", TESTS, [
    ["an absent row is asked for again", "return item !== NO_ITEM && (!this.#links.isDead(item) || this.#links.isAbsent(item));", "return item !== NO_ITEM && !this.#links.isDead(item);"],
  ]),
];
