import { type Fault, faults } from "./fault.ts";

// deno-fmt-ignore
/** Faults in reads without the mutex, and in the versions that writers change for them. */
export const READ_FAULTS: readonly Fault[] = [
  ...faults("store/items/hash_index.ts", "store/items/optimistic_read versions", [
    ["an item leaves a bucket without a change of the version",
      "const begun = this.#versions.begin(hash);\n    this.#replace(", "const begun = -1;\n    this.#replace("],
  ]),
  ...faults("store/items/hash_index.ts", "store/items/optimistic_read", [
    ["a bucket is split without a change of the version", "const begun = this.#versions.begin(from);", "const begun = -1;"],
  ]),
  ...faults("store/operations/store.ts", "versions", [
    ["a key has no item for a moment while it is stored anew",
      "const begun = this.memory.versions.begin(hash);\n    if (old !== NO_ITEM) {", "const begun = -1;\n    if (old !== NO_ITEM) {"],
  ]),
  ...faults("store/operations/store.ts", "store/items/optimistic_read versions", [
    ["a value is overwritten without a change of the version",
      "const begun = this.memory.versions.begin(operation.hash);\n    this.items.setValueLength(", "const begun = -1;\n    this.items.setValueLength("],
  ]),
  ...faults("store/operations/store.ts", "versions", [
    ["the version changes before a value is overwritten, not meanwhile",
      "const begun = this.memory.versions.begin(operation.hash);\n    this.items.setValueLength(", "const begun = -1;\n    this.memory.versions.end(this.memory.versions.begin(operation.hash));\n    this.items.setValueLength("],
  ]),
  ...faults("store/operations/store.ts", "store/items/optimistic_read versions", [
    ["a value grows in its chunk without a change of the version",
      "const begun = this.memory.versions.begin(operation.hash);\n    this.#values.write(", "const begun = -1;\n    this.#values.write("],
  ]),
  ...faults("store/operations/arithmetic.ts", "store/items/optimistic_read versions", [
    ["a number changes in its chunk without a change of the version", "const begun = memory.versions.begin(operation.hash);", "const begun = -1;"],
  ]),
  ...faults("store/operations/arithmetic.ts", "versions", [
    ["a number is written after its item was linked",
      "this.#putDigits(other, digits, length);\n    this.#storeOperations.replace(operation, other);", "this.#storeOperations.replace(operation, other);\n    this.#putDigits(other, digits, length);"],
  ]),
  ...faults("store/operations/meta.ts", "store/items/optimistic_read versions", [
    ["a value is marked stale without a change of the version",
      "const begun = isChained ? NO_GROUP : this.#versions.begin(operation.hash);", "const begun = NO_GROUP;"],
  ]),
  ...faults("store/operations/meta.ts", "versions", [
    ["a value is emptied in two changes",
      "const begun = this.#versions.begin(operation.hash);\n    this.#storeOperations.replace(", "const begun = NO_GROUP;\n    this.#storeOperations.replace("],
  ]),
  ...faults("store/operations/meta.ts", "store/items/optimistic_read", [
    ["a stale value is won without a change of the version",
      "versions.isOn ? versions.begin(this.#links.index.hashOf(item)) : NO_GROUP;", "NO_GROUP;"],
  ]),
  ...faults("store/space/flush.ts", "store/items/optimistic_read", [
    ["a flush changes no version",
      "versions.beginAll();\n    control[CONTROL.FLUSH_LOW] = idLow;\n    control[CONTROL.FLUSH_HIGH] = idHigh;\n    versions.endAll();", "control[CONTROL.FLUSH_LOW] = idLow;\n    control[CONTROL.FLUSH_HIGH] = idHigh;"],
  ]),
  ...faults("store/memory/versions.ts", "store/items/optimistic_read", [
    ["an inner change ends the outer one's", "if ((version & 1) !== 0) return NO_GROUP;", "if ((version & 1) !== 0) return group;"],
    ["a version becomes even too early", "this.words[group] = version + 1;", "this.words[group] = version + 2;"],
  ]),
  ...faults("store/items/optimistic_read.ts", "store/items/optimistic_read", [
    ["a read begins under an odd version", "if ((version & 1) === 0) {", "{"],
    ["what changed since a key was found is not noticed", "if (this.#versionsAgain[this.#group] === this.#version) return true;", "return true;"],
    ["a torn chain is walked for ever", " || step === STEPS_MAX", ""],
    ["a torn value may end behind its segment", "valueOffset + valueLength > words.length << 2 ||", ""],
    ["a torn reference may point behind its segment", "word + HEADER_WORDS > words.length || ", ""],
    ["a dead item is read without the mutex", "(deadlineSec !== 0 && deadlineSec <= this.#control[CONTROL.NOW_SEC]!) ||", ""],
    ["a flushed item is read without the mutex", ") ||\n      this.#isFlushed(found.ownIdLow, found.ownIdHigh)", ")"],
    ["a placeholder is read without the mutex", " | STATE.STUB;", ";"],
    ["reads go without the mutex while somebody watches",
      "(this.#control[CONTROL.WATCHED]! | this.#control[CONTROL.FLUSH_AT_SEC]!)", "this.#control[CONTROL.FLUSH_AT_SEC]!"],
    ["reads go without the mutex though a flush is due",
      "(this.#control[CONTROL.WATCHED]! | this.#control[CONTROL.FLUSH_AT_SEC]!)", "this.#control[CONTROL.WATCHED]!"],
  ]),
  ...faults("store/items/optimistic_read.ts", "transcripts/conversation", [
    ["hits of reads without the mutex are not noted", "hits.delay(found", "hits.delay.bind(found"],
  ]),
  ...faults("protocol/text/parser.ts", "transcripts/conversation", [
    ["text commands that write do without the mutex",
      "if ((word & THREE_BYTES) !== MG_SPACE && word !== MN_CRLF) this.#thread.hold();", "", "reads without the mutex"],
  ]),
  ...faults("protocol/binary/parser.ts", "transcripts/conversation", [
    ["binary commands that write do without the mutex", "if (command.needsMutex) this.#thread.hold();", "", "reads without the mutex"],
  ]),
  ...faults("protocol/conversation.ts", "transcripts/conversation", [
    ["values that arrive in pieces are stored without the mutex", "if (next.isOptimistic !== true) thread.hold();", "", "reads without the mutex"],
  ]),
  ...faults("protocol/meta/get.ts", "transcripts/conversation", [
    ["mg with flags that change the item does without the mutex", "if (!needsMutex(meta)) {", "{", "reads without the mutex"],
  ]),
  ...faults("protocol/meta/get.ts", "transcripts/conversation", [
    ["a stale item is read without being won", "if (found.isStale || found.isWon) return false;", "", "reads without the mutex"],
  ]),
  ...faults("protocol/thread_context.ts", "transcripts/conversation", [
    ["reads go without the mutex though stats detail counts them",
      "return this.cache.optimistic.isAllowed && !this.tunables.detailEnabled;", "return this.cache.optimistic.isAllowed;", "reads without the mutex"],
  ]),
  ...faults("store/items/optimistic_read.ts", "parallel/parallel", [
    ["what changed while a value was copied is answered", "if (this.confirm()) {", "if (this.confirm() || true) {"],
  ]),
];
