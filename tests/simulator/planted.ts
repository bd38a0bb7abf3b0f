import { type Fault, faults } from "../mutate/fault.ts";

/** The simulator finds them; it is no test file. */
const NO_TESTS = "";

// deno-fmt-ignore
/** Faults that the simulator finds: `deno task simulate --planted`. */
export const PLANTED: readonly Fault[] = [
  ...faults("lib/rows/flows/node_flows.ts", NO_TESTS, [
    ["a node counts its time from the answer", "this.#right.renew(sentMs + due.grantedMs);", "this.#right.renew(0 * sentMs + this.#right.nowMs() + due.grantedMs);"],
    ["a node joins with its rows", "yield* step({ kind: \"delete\", ...EVERY_ROW });\n    const sentMs", "const sentMs"],
    ["a node confirms what it has not deleted", 'if (seq !== 0) yield* step({ kind: "delete", keys, prefixes });', ""],
  ]),
  ...faults("lib/rows/flows/node_list.ts", NO_TESTS, [
    ["an origin goes on without a node before its time is over", "nowMs + waitFor(grantedMs, this.#driftShare)", "nowMs + grantedMs"],
    ["a confirmation counts for later deletions, too", "each.seq > seq", "each.seq > seq + 1000"],
    ["a node is over as soon as it has renewed", "!node.isLost && nowMs >= node.untilMs", "!node.isLost && nowMs >= node.renewedMs + 1"],
  ]),
  ...faults("lib/rows/flows/node_service.ts", NO_TESTS, [
    ["the database does not know the nodes", "if (!this.#isNoted) {", "if (this.#isNoted) {"],
  ]),
  ...faults("lib/rows/nodes/node_server.ts", NO_TESTS, [
    ["a write does not wait for nodes", "if (this.#nodes.isDone(deletion, this.#nowMs)) return undefined;", "return undefined;"],
  ]),
  ...faults("lib/rows/nodes/origin_client.ts", NO_TESTS, [
    ["a write without a reply has failed", "return error instanceof PeerError || isMalformed(error);", "return error instanceof PeerError && isMalformed(error);"],
  ]),
  ...faults("lib/rows/flows/takeover.ts", NO_TESTS, [
    ["a takeover does not wait for nodes", "yield* sleepFor(waitFor(Math.max(servedMs, nodesMs), driftShare), isLocked);", ""],
  ]),
  ...faults("lib/databases/sqlite/backend.ts", NO_TESTS, [
    ["an origin needs no lock", "return this.#isLocked ||= this.#lockFile.tryLockSync(true);", "return this.#isLocked = true;"],
    ["a group is committed without its last write", "const results = writes.map((write) => this.#writeOne(write));", "const results = writes.map((write, at) => at > 0 && at === writes.length - 1 ? { kind: \"committed\", version: 1 } as const : this.#writeOne(write));"],
  ]),
  ...faults("lib/databases/sqlite/changes.ts", NO_TESTS, [
    ["a change of the schema is not noticed", "if (this.#schemaNow === this.#schemaVersion) return;\n    this.#checkTriggers();", "if (this.#schemaVersion >= 0) return;\n    this.#checkTriggers();"],
    ["changes behind a full read are left out", "for (const { key } of rows) addKey", "for (const { key } of rows.slice(0, 1)) addKey"],
  ]),
  ...faults("lib/databases/sqlite/triggers.ts", NO_TESTS, [
    ["a change of a table concerns its first view only", "noted.keys.map(({ view, of }) => ({ view, sql: `${NOTE} VALUES (${of(row)});` }))", "noted.keys.slice(0, 1).map(({ view, of }) => ({ view, sql: `${NOTE} VALUES (${of(row)});` }))"],
  ]),
  ...faults("lib/databases/sqlite/views.ts", NO_TESTS, [
    ["a view whose triggers are missing is kept", "return broken === undefined ? found : { ...found, isKept: false };", "return found;"],
  ]),
  ...faults("lib/rows/flows/flows.ts", NO_TESTS, [
    ["a read looks at the tokens after the database", "const cacheable = areCacheable[index]! && isReadable", "const cacheable = (areCacheable[index] || true) && this.states.isCacheable(keys[index]!) && isReadable"],
    ["the right to serve begins with the answer", "right.renew(askedMs + rightMs);", "right.renew(0 * askedMs + right.nowMs() + rightMs);"],
    ["an origin that was replaced renews its right", "if (this.isDeposed || this.#isEnding) right.end();", "if (this.#isEnding) right.end();"],
    ["a write without an outcome gives its token up", "this.states.endPut(each.key, each.tokenId, { kind: \"unknown\" });", "this.states.endPut(each.key, each.tokenId, { kind: \"failed\" });"],
    ["a fenced write counts as made", "        this.#fail(each, this.#deposedReply);\n        continue;", "        this.#settle(each, { kind: \"committed\", version: 1 });\n        continue;"],
    ["a key with a token is cacheable", "const areCacheable = keys.map((key) => this.states.isCacheable(key));", "const areCacheable = keys.map(() => true);"],
  ]),
  ...faults("lib/rows/flows/row_edit.ts", NO_TESTS, [
    ["a condition of a write is not looked at", "return compare === null || compare === version;", "return true;"],
  ]),
  ...faults("lib/peers/peer_pool.ts", NO_TESTS, [
    ["a connection with half a reply is used again", "isWhole = peer.isRead;\n      return reply;\n    } finally {\n      if (isWhole &&", "isWhole = peer.isRead;\n      return reply;\n    } finally {\n      if ((isWhole || true) &&"],
  ]),
  ...faults("store/operations/row_removal.ts", NO_TESTS, [
    ["a write leaves the row's lease to its reader", "if (lease !== NO_LEASE && (endsClientLease || !leases.isHeldByClient(lease))) {", "if (false) {"],
  ]),
  ...faults("store/operations/row.ts", NO_TESTS, [
    ["a row is filled whatever has become of its lease", "const isFilled = this.#isHeld(leaseId);", "const isFilled = leaseId !== 0;"],
  ]),
  ...faults("protocol/thread_context.ts", NO_TESTS, [
    ["reads without the mutex serve rows without the right to", "(parking.session !== null || !parking.mayServe)", "parking.session !== null"],
  ]),
  ...faults("store/row_cache.ts", NO_TESTS, [
    ["get serves a row without the right to", "if (parking.isBarred(operation)) {\n      return parking.read(operation, operation.owner);\n    }\n    return super.get(", "return super.get("],
  ]),
  ...faults("lib/rows/flows/log_flow.ts", NO_TESTS, [
    ["a followed change is not deleted", "    yield* expel(changes);", ""],
    ["a change counts as followed before it is deleted everywhere", '    yield* expel(changes);\n    yield* step({ kind: "confirm", position: changes.position });', '    yield* step({ kind: "confirm", position: changes.position });\n    yield* expel(changes);'],
    ["a gap in the log leaves caches as they are", "if (!isWhole) {", "if (!isWhole && isWhole) {"],
  ]),
  ...faults("lib/rows/nodes/node_server.ts", NO_TESTS, [
    ["a followed change is not deleted in nodes", "this.#deleteInNodes({ keys: freedKeys, prefixes })", "this.#deleteInNodes({ keys: writers ? freedKeys : [], prefixes })"],
    ["a followed change is deleted in nodes only", "own.expel(rows) : undefined", "undefined : undefined"],
  ]),
  ...faults("lib/rows/follow/follower.ts", NO_TESTS, [
    ["a wait for a change ends between two logs", "if (!this.#isBetweenLogs && position <= this.#position) return true;", "if (this.#isBetweenLogs || position <= this.#position) return true;"],
  ]),
  ...faults("lib/databases/postgres/change_stream.ts", NO_TESTS, [
    ["changes count as followed before reads see them", "await this.#waitUntilVisible(xids);", ""],
    ["a transaction takes the place of the one before", "this.#changed.merge(commit.changed);", "this.#changed = commit.changed;"],
    ["DDL in the log is not looked at", "if (concernsCatalog) await this.#checkCatalog();", ""],
  ]),
  ...faults("lib/databases/postgres/slot.ts", NO_TESTS, [
    ["a slot that has lost changes is read on", 'if (state["wal_status"] === "lost") {', 'if (state["wal_status"] === "never") {'],
    ["a slot that is made anew has no gap", 'BigInt(made!["confirmed"] as string);\n    return { ...before, place, gap, confirmed };', 'BigInt(made!["confirmed"] as string);\n    return { ...before, place, gap: null, confirmed };'],
  ]),
  ...faults("lib/client/flows/put.ts", NO_TESTS, [
    ["put does not invalidate after its commit", "return { result, unfinished: yield* invalidateFlow(keys, limitMs) };", "return { result, unfinished: undefined };"],
    ["an invalidation that failed is not repeated", "items = [...failed.keys()];\n    const pause", "if (keys.length > 0) return undefined;\n    items = [...failed.keys()];\n    const pause"],
    ["a commit without an outcome releases its tokens", "if (!proves(isRolledBack, error)) throw", "if (proves(isRolledBack, error) === null) throw"],
  ]),
  ...faults("lib/client/run.ts", NO_TESTS, [
    ["a value is stored without the id of its lease", "requests.store(key, encoded, expiry, { cas })", "requests.store(key, encoded, expiry, {})"],
  ]),
  ...faults("lib/client/lanes.ts", NO_TESTS, [
    ["a caller joins a load that has asked the cache", "      lane.next = undefined;\n      return begin", "      return begin"],
  ]),
  ...faults("store/claims/write_guard.ts", NO_TESTS, [
    ["every id is the item's", "return this.#casEnabled && items.idLow(item) === operation.compareLow &&\n      items.idHigh(item) === operation.compareHigh;", "return this.#casEnabled && items.idHigh(item) === operation.compareHigh;"],
  ]),
  ...faults("store/claims/update_tokens.ts", NO_TESTS, [
    ["a key with an update token is cacheable", "return this.isQuarantined || this.first(key) !== NO_TOKEN;", "return this.isQuarantined;"],
    ["a quarantine keeps nothing out", "return this.isQuarantined || this.first(key) !== NO_TOKEN;", "return this.first(key) !== NO_TOKEN;"],
  ]),
  ...faults("store/claims/locks.ts", NO_TESTS, [
    ["every connection has the lock", "this.#words[this.#row(this.rowOf(item)) + LOCK.OWNER] === owner;", "this.#words[this.#row(this.rowOf(item)) + LOCK.OWNER] !== 0;"],
  ]),
  ...faults("lib/journal/token_journal.ts", NO_TESTS, [
    ["tokens count as out before they are on the disk", "if (sync) this.sync();", ""],
    ["a damaged frame is read as it is", "if (crc32(checked) !== view.getUint32(CHECKSUM_AT, true)) return null;", ""],
  ]),
  ...faults("lib/journal/journal_loop.ts", NO_TESTS, [
    ["no token comes back after a restart", "const isRestored = out.every(", "const isRestored = out.slice(out.length).every("],
    ["a token whose record was not written counts as given", "SETTLE_SLICE, isWritten);", "SETTLE_SLICE, true);"],
  ]),
  ...faults("lib/journal/token_records.ts", NO_TESTS, [
    ["released tokens come back after a restart", "this.#records.delete(id);", ""],
  ]),
  ...faults("store/snapshot/snapshot_header.ts", NO_TESTS, [
    ["ids of a restored store start below those of its items", "Math.max(options.firstId, header.lastId + 1)", "options.firstId"],
    ["a restored store takes pages in use for free ones", "control[CONTROL.PAGE_COUNT]! - header.pagesInUse;", "control[CONTROL.PAGE_COUNT]!;"],
  ]),
  ...faults("store/memory/ids.ts", NO_TESTS, [
    ["ids of a process repeat those before", "return Math.min(unixMs * IDS_PER_MS, TWO_53 / 2);", "return 2 ** 50;"],
  ]),
];
