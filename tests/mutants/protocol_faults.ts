import { type Fault, faults } from "./fault.ts";

const TRANSCRIPTS = "transcripts/conversation";

// deno-fmt-ignore
/** Faults in the protocols. */
export const PROTOCOL_FAULTS: readonly Fault[] = [
  // --- what all protocols share
  ...faults("protocol/conversation.ts", "protocol/feed_bytes differential/stats", [
    ["bytes that come again are counted again in bytes_read", "end - start - this.#leftLength;", "end - start;"],
  ]),
  ...faults("protocol/conversation.ts", TRANSCRIPTS, [
    ["a connection that ends keeps its locks", "if (this.owner !== NO_OWNER) this.thread.cache.releaseOwner(this.owner);", "", "locks.txt"],
  ]),
  ...faults("protocol/numbers.ts", "protocol/numbers", [
    ["lengths wrap at 2^32", "if (value > (negative ? INT32_MAX + 1 : INT32_MAX)) return false;", ""],
  ]),
  ...faults("protocol/store_block.ts", "protocol/conversation", [
    ["a data block without its end marker is stored", "input.view.getInt16(end - trailerLength, true) !== CRLF", "false"],
  ]),
  ...faults("protocol/tasks.ts", "protocol/conversation", [
    ["a refused data block is read as commands",
      "this.#left -= length;\n    if (this.#left === 0) conversation.task = null;", "if (start >= 0) conversation.task = null;"],
  ]),
  ...faults("protocol/prefix_counts.ts", "protocol/prefix_counts", [
    ["stats detail counts no hits", "if (hit) this.#counts[prefix * COUNTS_EACH + HIT]! += 1;", ""],
  ]),
  // --- text
  ...faults("protocol/text/parser.ts", "protocol/conversation", [
    ["a line without end is kept for ever", "return end - start > LINE_LENGTH_MAX ? Flow.CLOSE_ERROR : Flow.INCOMPLETE;", "return Flow.INCOMPLETE;"],
  ]),
  ...faults("protocol/text/parser.ts", TRANSCRIPTS, [
    ["keys of 251 bytes are stored",
      "if (keyLength === 0 || keyLength > KEY_LENGTH_MAX) return false;", "if (keyLength === 0) return false;", "errors.txt"],
  ]),
  ...faults("protocol/text/parser.ts", "protocol/conversation", [
    ["HTTP requests are answered", "if (request.wordCount > 1 && this.#lastWordStartsWith(HTTP)) return Flow.CLOSE_ERROR;", ""],
  ]),
  ...faults("protocol/text/parser.ts", TRANSCRIPTS, [
    ["noreply is not heeded", "request.noreply = row.noreply && this.#lastWordIs(NOREPLY);", "", "noreply.txt"],
  ]),
  ...faults("protocol/text/read.ts", TRANSCRIPTS, [
    ["an over-long key in a get line leaves the values before it", "reply.truncate(thread.cache, replyStart);", "", "read.txt"],
    ["gets has no ids",
      "WRITERS: Readonly<Record<MultigetKind, ValueWriter>> = [\n  WITHOUT_ID,\n  WITH_ID,", "WRITERS: Readonly<Record<MultigetKind, ValueWriter>> = [\n  WITHOUT_ID,\n  WITHOUT_ID,", "cas.txt"],
  ]),
  ...faults("protocol/text/write.ts", TRANSCRIPTS, [
    ["cas stores whatever the id",
      "operation.compare = mode === StoreMode.CAS;", "operation.compare = false;\n  operation.mode = mode === StoreMode.CAS ? StoreMode.SET : mode;", "cas.txt"],
  ]),
  ...faults("protocol/waits/wait.ts", "store/claims/locks transcripts/conversation", [
    ["a connection that ends stays in the queue for a lock", "this.waiters.remove(this.waiter);", "", "wait"],
  ]),
  ...faults("protocol/text/lease.ts", "transcripts/conversation lib/net/transport", [
    ["leases are given over UDP", "if (conversation.udp) return REFUSAL.NOT_OVER_UDP;", "", "/udp|UDP/"],
  ]),
  ...faults("protocol/text/lease.ts", TRANSCRIPTS, [
    ["deletess makes a lease that is over", "return instant > clockSec(memory) ? instant : 0;", "return instant;", "leases.txt"],
  ]),
  // --- update tokens
  ...faults("protocol/binary/token.ts", TRANSCRIPTS, [
    ["TokenGet takes its owner for the next request", "request.next = valueEnd;", "", "tokens_binary.txt"],
  ]),
  ...faults("protocol/binary/write.ts", TRANSCRIPTS, [
    ["a Replace that an update token refuses says that the key is missing",
      "if (operation.isRefused) return Status.NOT_STORED;", "", "tokens_binary.txt"],
  ]),
  ...faults("protocol/text/token.ts", "protocol/token_wait", [
    ["stores are allowed although nobody knows which keys have update tokens", "state === \"off\" && cache.journal.queue.isUnusable", "false"],
  ]),
  ...faults("protocol/waits/wait.ts", "protocol/token_wait", [
    ["a token counts as given before its record is on the disk",
      "return this.waiters.stateOf(this.waiter) !== WaiterState.WAITING;", "return true;"],
  ]),
  ...faults("protocol/text/token.ts", "lib/server/token_drops", [
    ["an operator's drop is not logged", "hooks.tokensDropped({ token, count: 1, by })", "undefined"],
  ]),
  ...faults("store/operations/lease.ts", TRANSCRIPTS, [
    ["getss gives a lease while an update token is out",
      "if (this.#guard.tokens.isUncacheable(operation)) {\n      this.#stats[STAT.lease_wait_hint]", "if (false) {\n      this.#stats[STAT.lease_wait_hint]", "tokens"],
  ]),
  // --- meta
  ...faults("protocol/meta/get.ts", TRANSCRIPTS, [
    ["two clients are told to fetch a stale value", "cache.meta.markWon(found.item);", "", "meta.txt"],
    ["mg q answers misses", "if (meta.quiet) return;\n  reply.put(META.EN);", "reply.put(META.EN);", "meta.txt"],
    ["mg N makes a placeholder beside a lease", "if (cache.findLease(operation)) return answerLease(meta);", "", "meta_leases.txt"],
  ]),
  ...faults("protocol/meta/set.ts", TRANSCRIPTS, [
    ["ms with E0 gives the id 0", "if ((meta.explicitLow | meta.explicitHigh) === 0) operation.explicit = false;", "", "meta.txt"],
    ["ms I replaces newer values",
      "operation.allowOlder = meta.stale && operation.mode === StoreMode.CAS;", "operation.allowOlder = operation.mode === StoreMode.CAS;", "meta.txt"],
  ]),
  ...faults("protocol/meta/request.ts", TRANSCRIPTS, [
    ["keys in base64 are taken as they stand", "this.keyOffset = KEY_SCRATCH_OFFSET;\n    this.keyLength = length;", "", "meta.txt"],
  ]),
  // --- binary
  ...faults("protocol/binary/parser.ts", "protocol/binary/parser", [
    ["a byte that begins no request closes nothing", "if (bytes[start] !== REQUEST_MAGIC) return Flow.CLOSE_ERROR;", ""],
  ]),
  ...faults("protocol/binary/parser.ts", "protocol/binary/parser transcripts/conversation", [
    ["a body shorter than its key is read", "if (valueLength < 0) return this.#refuse(Status.UNKNOWN_COMMAND);", "", "/binary|body|key/"],
  ]),
  ...faults("protocol/binary/read.ts", TRANSCRIPTS, [
    ["quiet gets answer misses", "if (binary.quiet) return true;", "", "binary.txt"],
  ]),
  ...faults("protocol/binary/read.ts", "lib/net/transport transcripts/conversation", [
    ["lock-and-get over UDP takes a lock that nobody frees", "if (conversation.udp) {", "if (false) {", "/udp|UDP/"],
  ]),
  ...faults("protocol/binary/write.ts", TRANSCRIPTS, [
    ["Incr makes a number although it was told not to", "operation.vivify = exptime !== MAKE_NOTHING;", "operation.vivify = true;", "binary.txt"],
  ]),
  ...faults("protocol/binary/replies.ts", "protocol/binary/parser transcripts/conversation", [
    ["replies have no opaque", "view.setInt32(at + 12, request.opaque);", "view.setInt32(at + 12, 0);", "/binary|opaque/"],
  ]),
  // --- stats
  ...faults("store/base/counter_rows.ts", "store/base/counter_rows", [
    ["stats reset leaves what the last thread has counted",
      "this.#all.copyWithin(half, 0, half);", "this.#all.copyWithin(half, 0, half - this.#rowDoubles);"],
  ]),
  ...faults("protocol/stats/general.ts", "differential/stats", [
    ["stats shows hits of touch as hits of get", "summed(\"get_hits\"),", "summed(\"get_hits\", \"touch_hits\"),"],
  ]),
  ...faults("protocol/stats/classes.ts", "differential/stats", [
    ["stats items shows no class's expired items", "counted(\"evicted_nonzero\"),", "[\"evicted_nonzero\", never],"],
  ]),
  ...faults("store/items/item_walk.ts", "transcripts/conversation store/inspector", [
    ["metadump lists dead items",
      "(items.state(item) & STATE.LINKED) !== 0 && !links.isDead(item)) {", "(items.state(item) & STATE.LINKED) !== 0) {", "/stats|dump|tuning/"],
  ]),
];
