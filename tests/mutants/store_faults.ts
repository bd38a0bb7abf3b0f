import { type Fault, faults } from "./fault.ts";

const ELSEWHERE = "transcripts/conversation";

// deno-fmt-ignore
/** Faults in the store. */
export const STORE_FAULTS: readonly Fault[] = [
  // --- base
  ...faults("store/base/bytes.ts", "store/base/bytes", [
    ["copies of 8 to 1024 bytes lose their last 8 bytes",
      "toView.setBigInt64(toOffset + last, fromView.getBigInt64(fromOffset + last, true), true);", ""],
  ]),
  ...faults("store/base/bytes.ts", "store/base/bytes store/claims/leases", [
    ["equalBytes() ignores up to three bytes at the end", "for (; done < length; done++) if (aBytes", "for (; done < 0; done++) if (aBytes"],
  ]),
  ...faults("store/base/decimal.ts", "store/base/decimal", [
    ["numbers above 2^64 - 1 are read", "if (value > U64_MAX) return false;", ""],
    ["decr goes below 0", "Math.max(0, value - delta)", "value - delta"],
  ]),
  ...faults("store/base/u64.ts", "store/base/u64", [
    ["compareU64() takes the lower half as signed", "return aLow >>> 0 < bLow >>> 0 ? -1 : 1;", "return aLow < bLow ? -1 : 1;"],
  ]),
  ...faults("store/base/key_text.ts", "store/base/key_text", [
    ["keys in listings keep their blanks", "[\\x00-\\x20%\\x7f]", "[\\x00-\\x1f%\\x7f]"],
  ]),
  // --- memory
  ...faults("store/memory/chunk_runs.ts", "store/memory/chunk_runs", [
    ["a run of free chunks may cover a chunk in use", "end - start < wanted && ((runs >>> end) & 1) === 0", "end - start < wanted"],
  ]),
  ...faults("store/memory/ids.ts", "store/memory/ids", [
    ["the upper half of ids never grows", "if (low === 0) control[CONTROL.ID_HIGH]! += 1;", ""],
    ["a restarted server hands out old ids again", "Math.min(unixMs * IDS_PER_MS, TWO_53 / 2)", "2 ** 40"],
  ]),
  ...faults("store/memory/mutex.ts", "store/memory/mutex", [
    ["unlocking never wakes a sleeping thread", "Atomics.notify(this.#control, CONTROL.MUTEX, 1);", ""],
    ["locking does not exclude other threads", "if (Atomics.compareExchange(this.#control, CONTROL.MUTEX, FREE, HELD) !== FREE) {", "if (false) {"],
  ]),
  ...faults("store/memory/slabs.ts", "store/chaos store/space/page_mover", [
    ["a page whose last chunk is freed stays with its class", "if (used === 0) {\n      if (listed", "if (used < 0) {\n      if (listed"],
  ]),
  ...faults("store/memory/slabs.ts", "protocol/memory_limit store/space/page_mover", [
    ["the memory limit is not kept", "this.#control[CONTROL.PAGE_COUNT]! - free < this.#control[CONTROL.MEMORY_LIMIT_PAGES]!", "true"],
  ]),
  ...faults("store/memory/row_pool.ts", "store/memory/row_pool", [
    ["rows that are given back are lost", "words[ROW_POOL.FREE] = row;", ""],
    ["a pool hands out more rows than it has", "if (fresh > this.#rowsMax) return 0;", ""],
  ]),
  ...faults("store/clock.ts", "store/clock", [
    ["expiry times above 30 days are relative too", "if (exptime <= RELATIVE_SECONDS_MAX)", "if (exptime <= 2 ** 32)"],
  ]),
  // --- items
  ...faults("store/items/hash_index.ts", "hash_flooding", [
    ["the hash has a known seed", "this.#seed = memory.options.hashSeed;", "this.#seed = new Int32Array(2);"],
    ["the index does not grow", "splits < SPLITS_MAX", "splits < 0"],
    ["keys are compared without their last one to three bytes", "if ((rest & 0xff) !== bytes[at]) return false;", ""],
  ]),
  ...faults("store/items/item_links.ts", ELSEWHERE, [
    ["expired items stay visible for a second",
      "deadline !== 0 && deadline <= this.memory.control", "deadline !== 0 && deadline < this.memory.control", "expiry.txt"],
  ]),
  ...faults("store/items/item_links.ts", "store/claims/locks", [
    ["locked items expire",
      "(this.isExpired(item) || this.isFlushed(item)) &&\n      (this.items.state(item) & (STATE.LOCKED | STATE.ABSENT | STATE.VOID)) !== STATE.LOCKED", "(this.isExpired(item) || this.isFlushed(item))"],
  ]),
  ...faults("store/items/key_walk.ts", "store/items/key_walk", [
    ["a walk over the keys misses buckets that were split", "bucket < buckets; bucket += step", "bucket <= this.#bucket; bucket += step"],
  ]),
  ...faults("store/items/values.ts", "protocol/conversation store/items/long_values", [
    ["a pinned value is freed while it is sent", "items.setWord(item, word, items.word(item, word) + 1);", ""],
  ]),
  ...faults("store/items/values.ts", "store/items/long_values store/operations/long_copies", [
    ["long copies keep the mutex to their end", "if (copied === COPY_BYTES_MAX) {", "if (copied < 0) {"],
  ]),
  // --- space
  ...faults("store/space/eviction.ts", "store/space/eviction", [
    ["no item is promoted to the main queue", "if (!main && reads >= PROMOTION_READS) {", "if (false) {"],
    ["items of the main queue get no second chance", "if (main && reads > 0) {", "if (false) {"],
  ]),
  ...faults("store/space/eviction.ts", "store/space/eviction_quality", [
    ["the small queue has 95 % of a class", "const SMALL_PERCENT = 15;", "const SMALL_PERCENT = 95;"],
  ]),
  ...faults("store/space/eviction.ts", "differential/stats", [
    ["evicted_nonzero is never counted", "if (items.word(item, WORD.DEADLINE_SEC) !== 0) {", "if (false) {"],
    ["evicted_unfetched is never counted", "if (!(items.state(item) & STATE.FETCHED)) {", "if (false) {"],
  ]),
  ...faults("store/space/eviction.ts", "store/space/eviction", [
    ["expired items count as evicted when their memory is needed",
      "if (this.#links.isOver(item)) {\n        this.reclaimForRoom(item);", "if (false) {\n        this.reclaimForRoom(item);"],
  ]),
  ...faults("store/space/ghost.ts", "store/space/eviction", [
    ["the ghost remembers nothing", "words[at] = hash;", ""],
  ]),
  ...faults("store/space/expiry.ts", ELSEWHERE, [
    ["no dead item is swept",
      "if (this.#links.isOver(item)) {\n        this.#remove(item);", "if (false) {\n        this.#remove(item);", "expiry.txt"],
  ]),
  ...faults("store/space/flush.ts", ELSEWHERE, [
    ["flush_all 1 takes effect only with the next packet", "if (atSec <= this.#control[CONTROL.NOW_SEC]!) this.due();", "", "flush.txt"],
    ["flush_all hides nothing", "control[CONTROL.FLUSH_LOW] = idLow;", "", "flush.txt"],
  ]),
  ...faults("store/space/page_evacuator.ts", "store/space/page_mover", [
    ["items of a page that moves are evicted instead of copied", "const rescues = rescue && copies > 0;", "const rescues = false;"],
    ["an item that is locked while its page is emptied is moved", "if (!isMovableChunk(this.#links, chunk) || !this.#clear", "if (!this.#clear"],
  ]),
  ...faults("store/space/page_mover.ts", "store/space/page_mover", [
    ["pages never move after evictions", "classes[row + CLASS.EVICTIONS] = 0;\n    this.begin(classId);", ""],
  ]),
  ...faults("store/items/hits.ts", "store/items/hits", [
    ["a delayed hit is noted although its item is gone", "this.#index.has(item, delayed[at + HIT.HASH]!) &&", ""],
    ["a delayed hit is noted in the value that replaced its own", "this.#items.word(item, WORD.ID_LOW) === delayed[at + HIT.ID_LOW]", "true"],
  ]),
  ...faults("store/cache.ts", "store/items/hits", [
    ["a thread takes the mutex and leaves its delayed hits for later", "if (this.links.hits.hasDelayed) this.links.hits.apply();", ""],
  ]),
  ...faults("store/space/arriving_values.ts", "store/space/arriving_values", [
    ["values that arrive may take the whole memory",
      "while (this.#memory.sums[SUM.RESERVED_BYTES]! + bytes > bytesMax) {", "while (this.#memory.sums[SUM.RESERVED_BYTES]! + bytes > Infinity) {"],
    ["the newest value that arrives is dropped, not the oldest", "let row = words[HEADER.OLDEST]!;\n", "let row = words[HEADER.NEWEST]!;\n"],
    ["a value that arrives is dropped while its thread writes to it",
      "while (row !== NO_ROW && this.#isReceiving(row)) row =", "while (false) row ="],
  ]),
  ...faults("store/operations/reserved.ts", "store/space/arriving_values", [
    ["a set whose value was dropped leaves the old value",
      "const outcome = this.#reportRefused(operation, Outcome.NO_MEMORY);\n    operation.input = input;", "const outcome = Outcome.NO_MEMORY;\n    operation.input = input;"],
  ]),
  ...faults("store/space/allocator.ts", "model store/chaos", [
    ["with -M items are evicted all the same", "if (!this.memory.options.evictions) return mover.takeSpare(classId);", ""],
  ]),
  // --- claims
  ...faults("store/claims/leases.ts", "store/claims/leases", [
    ["a lease's deadline is never over", "if (whole !== 0) return whole < 0;", "if (whole !== 0) return false;"],
    ["a plain set leaves no doubt about the key", "this.#setWord(lease, WORD.DIRTY_UNTIL_SEC, until);", ""],
    ["renewing a lease keeps its id", "renew(lease: LeaseRef): void {\n    this.#assignId(lease);", "renew(_lease: LeaseRef): void {"],
  ]),
  ...faults("store/claims/leases.ts", ELSEWHERE, [
    ["flush_all leaves leases as they are", "if (high !== flushHigh) return high < flushHigh;", "return false;", "leases.txt"],
  ]),
  ...faults("store/claims/locks.ts", "store/claims/locks", [
    ["locks of a connection that ends stay", "let row = words[this.#owner(owner) + OWNER.FIRST]!;", "let row = NO_LOCK as number;"],
    ["anybody may unlock",
      "(this.#links.items.state(item) & STATE.LOCKED) !== 0 && owner !== 0 &&", "(this.#links.items.state(item) & STATE.LOCKED) !== 0 && owner !== 0 ||"],
    ["a connection may take any number of locks", "this.countOf(owner) < this.#limits.locksPerConnectionMax &&", ""],
  ]),
  ...faults("store/claims/lock_waiters.ts", "store/claims/locks", [
    ["nobody waits longer than asked for: waits never time out", "if (((nowMs - words[row + WAITER.DEADLINE_MS]!) | 0) < 0) continue;", "continue;"],
  ]),
  ...faults("store/claims/waiters.ts", "store/claims/locks lib/server/lock_kill", [
    ["a granted lock wakes no thread", "this.#wakes.add(thread);", ""],
  ]),
  ...faults("store/claims/write_guard.ts", "store/claims/locks", [
    ["a write passes another connection's lock",
      "if (this.#locks.isLockedBy(item, owner)) return false;\n    this.#stats", "return false;\n    this.#stats"],
  ]),
  ...faults("store/claims/write_guard.ts", "store/claims/leases explorer/explorer", [
    ["an old lease id fills the key", "if (this.leases.hasId(lease, operation.compareLow, operation.compareHigh)) {", "if (true) {"],
  ]),
  ...faults("store/claims/write_guard.ts", "store/claims/leases", [
    ["a dirty key does not shorten what is stored",
      "const capped = this.leases.capDeadline(this.#lease, deadlineSec);", "const capped = deadlineSec;"],
  ]),
  ...faults("store/claims/update_tokens.ts", "store/claims/update_tokens", [
    ["a key with an update token can be stored", "return this.isQuarantined || this.first(key) !== NO_TOKEN;", "return this.isQuarantined;"],
    ["quarantine lets keys be stored", "return this.isQuarantined || this.first(", "return this.first("],
    ["an owner that asks again gets another token",
      "if (this.#table.equals(token, length, keyLength, tagLength, input, tagOffset)) return token;", ""],
  ]),
  ...faults("store/claims/token_queue.ts", "store/claims/update_tokens", [
    ["a full queue overwrites records that the journal has not written", "if (used + length > TOKEN_RING_BYTES) return false;", ""],
  ]),
  ...faults("store/operations/token.ts", "store/claims/update_tokens transcripts/conversation", [
    ["releasing an unknown token leaves the key as it is",
      "this.#invalidate(operation);\n      this.#stats[STAT.token_release_unknown]", "this.#stats[STAT.token_release_unknown]", "token"],
  ]),
  ...faults("store/operations/journal.ts", "store/claims/update_tokens lib/journal/token_journal", [
    ["ids start again below those of restored tokens", "if (id <= this.lastId) return;", "return;"],
  ]),
  ...faults("store/base/prefixes.ts", ELSEWHERE, [
    ["--strict compares the first byte of a prefix only",
      "for (let at = 0; at < prefix.length; at++) if", "for (let at = 0; at < 1; at++) if", "leases_strict.txt"],
  ]),
  // --- operations
  ...faults("store/operations/arithmetic.ts", ELSEWHERE, [
    ["a number that became shorter keeps its old last digits", "if (digits === length) return;", "return;", "arithmetic.txt"],
  ]),
  ...faults("store/operations/lease.ts", "store/claims/leases", [
    ["a second asker gets the lease too",
      "if (this.#isHeld(lease)) {\n      this.#stats[STAT.lease_wait_hint]", "if (false) {\n      this.#stats[STAT.lease_wait_hint]"],
  ]),
  ...faults("store/operations/lock.ts", ELSEWHERE, [
    ["lock-and-get does not touch", "if (touch) {", "if (false) {", "locks"],
  ]),
  ...faults("store/operations/meta.ts", ELSEWHERE, [
    ["a value marked stale keeps its id", "else this.#storeOperations.assignId(operation, item);", "", "meta.txt"],
    ["md I leaves the token W given out", "this.#items.dropState(item, STATE.WON);", "", "meta.txt"],
  ]),
  ...faults("store/operations/store.ts", "store/space/eviction", [
    ["a new value loses what was known of the key's reads", "items.addState(item, state & (STATE.MAIN | FREQUENCY_MASK));", ""],
  ]),
  ...faults("store/operations/store.ts", "store/cache", [
    ["append puts its bytes one place too early", "const at = append ? oldLength : 0;", "const at = append ? oldLength - 1 : 0;"],
  ]),
  ...faults("store/operations/store.ts", "store/items/long_values", [
    ["an append that others overtook is stored all the same", "this.#current(operation) === item && ", ""],
  ]),
  ...faults("store/operations/store.ts", "protocol/conversation", [
    ["-I does not limit values", "this.memory.options.itemSizeMaxBytes;", "Infinity;"],
  ]),
  // --- watch and check
  ...faults("store/watch/watch_log.ts", "protocol/text/watch", [
    ["a full watcher's lost lines are not told", "words[row + WATCHER.SKIPPED]! += 1;", ""],
  ]),
  ...faults("store/watch/watch_log.ts", "store/watch/watch_log protocol/text/watch", [
    ["events nobody asked for go to every watcher",
      "if ((words[row + WATCHER.EVENTS]! & event) === 0) continue;", "if (words[row + WATCHER.EVENTS] === 0) continue;"],
  ]),
  ...faults("store/watch/item_watch.ts", "store/watch/watch_log protocol/text/watch", [
    ["watchers of evictions hear nothing", "if (!this.#log.wants(WatchEvent.EVICTIONS)) return;", "return;"],
  ]),
  ...faults("store/check/check.ts", "store/check/check", [
    ["the store check does not look at queues", "this.#checkQueues(linked);", ""],
  ]),
  ...faults("store/check/check_leases.ts", "store/check/check", [
    ["the store check does not count leases", "assert(held === control[CONTROL.LEASE_CURR], \"LEASE_CURR counts what is held\");", ""],
  ]),
  ...faults("store/check/check_locks.ts", "store/check/check", [
    ["the store check does not look at the locks of connections", "checkOwners(links, held);", ""],
  ]),
];
