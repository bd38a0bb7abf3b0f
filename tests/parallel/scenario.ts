import { Kind, type Range } from "./content.ts";

/** An owner's action on one of its keys. */
export type Change =
  /** Stores a whole value, in text or meta. */
  | "set"
  /** Stores a whole value by gets and cas. */
  | "cas"
  /** Appends, prepends or counts, by the key's kind. */
  | "grow"
  | "delete"
  /** Another deadline. */
  | "touch"
  /** Marks the value stale, which stays readable. */
  | "stale"
  /** Locks, stores and unlocks. */
  | "lock"
  /** Deletes, takes the lease and fills. */
  | "lease"
  /** Takes an update token and releases it. */
  | "token";

/** An event in the store beside the clients. */
export type Event =
  /** The clock moves on by a second. */
  | "second"
  /** A page moves to another class. */
  | "reassign"
  /** The memory limit changes. */
  | "limit"
  | "flush"
  /** A flush that falls due in the next second. */
  | "flush later"
  /** One slice of maintenance. */
  | "maintain";

export interface Scenario {
  readonly name: string;
  /** Of the server, beside those of every scenario. */
  readonly options: readonly string[];
  readonly keys: number;
  /** The kinds of keys, in turn. */
  readonly kinds: readonly Kind[];
  /** Lengths of values, or of their first parts. */
  readonly lengths: readonly Range[];
  /** Longest time to live in seconds; 0: no value expires. */
  readonly ttlSecMax: number;
  /** Keys are padded to at most this many bytes. */
  readonly keyLengthMax: number;
  /** Relative frequencies. */
  readonly changes: Readonly<Partial<Record<Change, number>>>;
  readonly events: Readonly<Partial<Record<Event, number>>>;
  /** The part of a thread's turns that are changes: 0..1. */
  readonly changeShare: number;
  /** Nothing is evicted or flushed: a key that has a value is not missing. */
  readonly isSteady: boolean;
  /** Keys read in the test. */
  readonly testReads?: number;
  /** Reads go to keys whose buckets are about to be split. */
  readonly followsSplits?: boolean;
}

/** Of every scenario. */
export const OPTIONS = ["-z", "3333", "--tokens=volatile", "-c", "64", "-I", "1m"];

const ALL_KINDS = [Kind.PLAIN, Kind.APPENDED, Kind.COUNTER, Kind.PREPENDED, Kind.EXPLICIT];
const PLAIN = [Kind.PLAIN];
const SHORT: readonly Range[] = [[0, 0], [1, 24], [100, 100], [200, 700]];
const WIDE: readonly Range[] = [...SHORT, [0, 20], [30, 60], [80, 120], [1000, 4000], [
  8000,
  30_000,
]];
const LARGE: readonly Range[] = [[30_000, 70_000], [100_000, 300_000]];

/** Values of one class, and of other classes. */
const SAME: readonly Range[] = [[1000, 1000]];
const OTHERS: readonly Range[] = [[10, 10], [200, 200], [600, 600]];
/** Values that take long to copy. */
const LONG: readonly Range[] = [[4000, 12_000]];

const STEADY = {
  options: ["-m", "64"],
  kinds: ALL_KINDS,
  lengths: SHORT,
  ttlSecMax: 0,
  keyLengthMax: 40,
  events: { maintain: 1 },
  changeShare: 0.75,
  isSteady: true,
};

const UNSTEADY = { changes: { set: 4, delete: 1, grow: 1 }, isSteady: false, changeShare: 0.4 };

/** All that can happen at once, then one kind of change at a time on few keys. */
// deno-fmt-ignore
export const SCENARIOS: readonly Scenario[] = [
  {
    name: "everything",
    options: ["-m", "16", "-o", "memlimit_max=24"],
    keys: 800,
    kinds: ALL_KINDS,
    lengths: [...WIDE, ...WIDE, ...WIDE, ...LARGE],
    ttlSecMax: 20,
    keyLengthMax: 250,
    changes: {
      set: 20,
      cas: 3,
      grow: 15,
      delete: 4,
      touch: 4,
      stale: 1,
      lock: 2,
      lease: 2,
      token: 1,
    },
    events: { second: 0.3, reassign: 10, limit: 2, flush: 0.02, "flush later": 0.02, maintain: 60 },
    changeShare: 0.3,
    isSteady: false,
  },
  { ...STEADY, name: "overwriting", keys: 8, changes: { set: 1 }, lengths: SAME, kinds: PLAIN },
  { ...STEADY, name: "replacing", keys: 8, changes: { set: 4, cas: 1 }, lengths: OTHERS, testReads: 250_000 },
  { ...STEADY, name: "other lengths", keys: 12, changes: { set: 4, cas: 1 }, lengths: WIDE },
  { ...STEADY, name: "growing values", keys: 3, changes: { grow: 60, set: 1 }, lengths: [[1500, 2500]], kinds: [Kind.APPENDED], testReads: 300_000 },
  { ...STEADY, name: "counting", keys: 6, changes: { grow: 30, set: 1, delete: 1 }, kinds: [Kind.COUNTER] },
  { ...STEADY, name: "deleting", keys: 8, changes: { set: 1, delete: 1 }, lengths: LONG, kinds: PLAIN, testReads: 150_000 },
  { ...STEADY, name: "ids and flags", keys: 8, changes: { set: 2, cas: 1, stale: 1 }, kinds: [Kind.EXPLICIT, Kind.PLAIN] },
  { ...STEADY, name: "claims", keys: 12, changes: { set: 1, lock: 1, lease: 1, token: 1 }, lengths: WIDE, changeShare: 0.4 },
  { ...STEADY, name: "splitting", keys: 200_000, changes: { set: 1 }, lengths: [[0, 8]], kinds: PLAIN, keyLengthMax: 0, changeShare: 0.9, followsSplits: true, testReads: 250_000 },
  { ...STEADY, name: "expiring", keys: 40, changes: { set: 4, touch: 3 }, kinds: PLAIN, lengths: WIDE, ttlSecMax: 3, events: { second: 1, maintain: 8 } },
  { ...STEADY, ...UNSTEADY, name: "flushing", keys: 20, lengths: WIDE, events: { flush: 1, "flush later": 1, second: 1, maintain: 20 } },
  { ...STEADY, ...UNSTEADY, name: "evicting", options: ["-m", "2"], keys: 400, lengths: LONG, kinds: PLAIN, testReads: 200_000 },
  { ...STEADY, ...UNSTEADY, name: "moving pages", options: ["-m", "8"], keys: 400, lengths: WIDE, events: { reassign: 1, maintain: 4 } },
  { ...STEADY, ...UNSTEADY, name: "memory limit", options: ["-m", "16", "-o", "memlimit_max=24"], keys: 600, lengths: WIDE, events: { limit: 1, maintain: 20 } },
  { ...STEADY, ...UNSTEADY, name: "long values", options: ["-m", "32"], keys: 60, changes: { set: 3, delete: 1, grow: 1 }, lengths: [...LARGE, ...WIDE] },
];
