import * as others from "../actors/others.ts";
import * as readers from "../actors/readers.ts";
import * as writers from "../actors/writers.ts";
import type { Row } from "../scenario.ts";
import type { MakeActor } from "../steps.ts";
import { EXPIRY_AND_EVICTION, other, plainSetters, reader, writer } from "./roles.ts";

// Scenarios with leases alone.

/** Scenarios that keep the rules and are safe, and scenarios that break a rule and are not. */
// deno-fmt-ignore
export const FLOWS: readonly Row[] = [
  { name: "commit, deletess; three readers, expiry, eviction",
    roles: [reader(3), writer(1)], environment: EXPIRY_AND_EVICTION },
  { name: "two writers that commit, then deletess", roles: [reader(3), writer(2)], environment: EXPIRY_AND_EVICTION },
  { name: "a value is there when two writers commit, then deletess",
    roles: [reader(2), writer(2)], environment: EXPIRY_AND_EVICTION, filled: true },
  { name: "commit, plain delete",
    roles: [reader(3), writer(1, writers.deletingWriter)], environment: EXPIRY_AND_EVICTION },
  { name: "two restarts, ids never repeat",
    roles: [reader(2), writer(1)], environment: { time: 1, evict: 1, restart: 2 } },
  { name: "a reader uses a lease it did not make; writers invalidate after their commit",
    roles: [reader(1), reader(2, readers.borrowingReader), writer(1)] },
  { name: "the writer may crash between commit and deletess",
    roles: [reader(2), writer(1)], environment: { crash: 1 }, wrongAfter: 5 },
  { name: "ids begin anew after a restart",
    roles: [reader(2), writer(1)], environment: { restart: 1 }, repeatsIds: true, ignores: ["S3"], wrongAfter: 6 },
  { name: "a plain setter beside it",
    roles: [reader(1), other("plain setter", others.plainSetter), writer(1)], wrongAfter: 5 },
  { name: "a plain setter under --strict",
    roles: [reader(2), other("plain setter", others.plainSetter), writer(1)], environment: EXPIRY_AND_EVICTION,
    options: ["--strict", "*"] },
  { name: "deletess, commit, cas; nothing else happens", roles: [reader(2), writer(1, writers.deleteFirstWriter)] },
  { name: "deletess, commit, cas; the lease may end",
    roles: [reader(2), writer(1, writers.deleteFirstWriter)], environment: { time: 1 }, wrongAfter: 7 },
  { name: "deletess, commit, cas; the lease may be dropped",
    roles: [reader(2), writer(1, writers.deleteFirstWriter)], environment: { evict: 1 }, wrongAfter: 7 },
  { name: "deletess, commit, cas; a reader uses a lease it did not make",
    roles: [reader(1, readers.borrowingReader), writer(1, writers.deleteFirstWriter)], wrongAfter: 6 },
  { name: "deletess, commit, cas; two writers",
    roles: [reader(1), writer(2, writers.deleteFirstWriter)], wrongAfter: 6 },
  { name: "deletess, commit, cas; two writers that deletess again when their cas fails",
    roles: [reader(2), writer(2, writers.carefulDeleteFirstWriter)] },
  { name: "commit, deletess, cas of one's own value; two writers",
    roles: [reader(1), writer(2, writers.selfFillingWriter)], wrongAfter: 5 },
  { name: "commit, deletess, a fresh read, cas; two writers",
    roles: [reader(1), writer(2, writers.warmingWriter)], environment: EXPIRY_AND_EVICTION },
  { name: "the reader reads first, then takes the lease",
    roles: [reader(1, readers.hastyReader), writer(1, writers.deletingWriter)], wrongAfter: 5 },
  { name: "delete inside the transaction",
    roles: [reader(1), writer(1, writers.inTransactionWriter)], wrongAfter: 6 },
  { name: "incr on a lease renews it",
    roles: [reader(2), writer(1, writers.countingWriter)], environment: EXPIRY_AND_EVICTION },
];

/** Scenarios that mix leases with other writes to the same key. */
// deno-fmt-ignore
export const MEETINGS: readonly Row[] = [
  { name: "lease-get and getss mixed",
    roles: [reader(1), reader(1, readers.mcrouterReader), writer(2)], environment: EXPIRY_AND_EVICTION },
  { name: "text and binary mixed",
    roles: [reader(1), reader(2, readers.binaryReader), writer(1), writer(1, writers.binaryWriter)],
    environment: { time: 1 } },
  { name: "mg N and getss mixed",
    roles: [reader(1), reader(2, readers.metaReader), writer(1)], environment: EXPIRY_AND_EVICTION },
  { name: "mg N and getss mixed, plain delete",
    roles: [reader(1), reader(2, readers.metaReader), writer(2, writers.deletingWriter)], environment: { time: 1 } },
  { name: "md I between, a value is there",
    roles: [reader(1), reader(2, readers.metaReader), writer(1, writers.stalingWriter)],
    environment: EXPIRY_AND_EVICTION, filled: true },
  { name: "md I between, nothing is there",
    roles: [reader(2), reader(1, readers.metaReader), writer(2, writers.stalingWriter)], environment: { time: 1 } },
  { name: "flush_all as the invalidation",
    roles: [reader(2), writer(2, writers.flushingWriter)], environment: { time: 1 } },
  { name: "flush_all with a delay between getss and cas",
    roles: [reader(2), writer(1), other("flusher", others.lateFlusher)], environment: { time: 2 } },
  { name: "values that arrive in pieces",
    roles: [reader(1), reader(2, readers.slowReader), writer(1)], environment: { time: 1 } },
  { name: "a lease is given back while another asks",
    roles: [reader(1), reader(1, readers.abandoningReader), writer(1)], environment: EXPIRY_AND_EVICTION },
];

/**
 * Plain writes on a lease: they must be gone when the lease's time is over. Until then they may be
 * stale, so no actor commits here.
 */
// deno-fmt-ignore
export const DIRTY_WINDOWS: readonly Row[] = [
  { name: "two plain setters and a touch in the dirty window",
    roles: [reader(1), plainSetters(2), other("toucher", others.toucher)], environment: { time: 2 } },
  { name: "the dirty value is evicted",
    roles: [reader(1), plainSetters(2), other("toucher", others.toucher)], environment: { time: 2, evict: 1 } },
  { name: "a lock's holder deletes, another takes the lease, the holder sets",
    roles: [reader(1), other("lock holder", others.lockingSetter, 2)], environment: { time: 2, disconnect: 1 },
    filled: true },
  { name: "a writer meets a lock whose holder may be lost",
    roles: [reader(2), other("lock holder", others.lockingReader), writer(1)],
    environment: { time: 1, disconnect: 1 }, filled: true },
];

const FILLERS: readonly (readonly [name: string, act: MakeActor, steps: number])[] = [
  ["reader", readers.reader, 5],
  ["reader whose value comes in pieces", readers.slowReader, 6],
  ["reader by lease-get", readers.mcrouterReader, 5],
  ["reader by mg N", readers.metaReader, 5],
  ["reader in the binary protocol", readers.binaryReader, 5],
  ["plain setter", others.plainSetter, 5],
];

/** Proves that readers fill at all: a crashed writer leaves their values, which become stale. */
export const FILLS: readonly Row[] = FILLERS.map(([name, act, steps]) => ({
  name: `what a ${name} fills is seen when the writer crashes`,
  roles: [other(name, act), writer(1)],
  environment: { crash: 1 },
  wrongAfter: steps,
}));
