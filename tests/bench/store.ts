/** Miss ratios of traces replayed in process through the real store, and pauses of requests and of maintenance. */
import { MIB } from "../../store/limits.ts";
import { CONTROL } from "../../store/memory/memory.ts";
import { randomFrom } from "../support/random.ts";
import { say, Table } from "./base/measure.ts";
import { readOptions } from "../support/options.ts";
import { replay, REPLAY_DEFAULTS, type ReplayOptions } from "./replay/replay.ts";
import { StoreTarget } from "./replay/store_target.ts";
import { readTrace } from "./replay/traces.ts";
import { leastOf, pieces, PIECES_HEADS, Timings } from "./base/timings.ts";

interface TraceRun {
  readonly name: string;
  readonly traces: readonly string[];
  readonly memoryMib: number;
  readonly options: Partial<ReplayOptions>;
  /** Most rows of each trace. By default all are replayed. */
  readonly rowsMax?: number;
  /** The miss ratio that a running memcached 1.6.45 had. */
  readonly memcached: number;
}

const SMALLER = { valueScale: 8, maxValue: 60_000 };
const TTL_MIX = { ttl: true, timeScale: 10, maxValue: 8192 };

// deno-fmt-ignore
const TRACE_RUNS: readonly TraceRun[] = [
  { name: "recs",      traces: ["recs"],             memoryMib: 64, memcached: 0.389, options: { copies: 4 } },
  { name: "recs60k",   traces: ["recs"],             memoryMib: 64, memcached: 0.338, options: { copies: 4, maxValue: 60_000 } },
  { name: "ecom",      traces: ["ecom-orm"],         memoryMib: 64, rowsMax: 600_000, memcached: 0.133, options: { copies: 4, valueScale: 8 } },
  { name: "recs-ecom", traces: ["recs", "ecom-orm"], memoryMib: 64, memcached: 0.084, options: SMALLER },
  { name: "ecom-recs", traces: ["ecom-orm", "recs"], memoryMib: 64, memcached: 0.47,  options: SMALLER },
  { name: "ttl",       traces: ["ttl-mix"],          memoryMib: 32, memcached: 0.421, options: TTL_MIX },
];

/** Repetitions of the same work: each piece counts with its least. */
const ROUNDS = 3;
const KEY_SIZE = 16;
/** Of the items of `index`, every tenth is replaced. */
const REPLACED_PART = 10;
const SLICE_KEY_SIZE = 8;
const REQUESTS_PER_TICK = 256;
const NEW_KEYS = 1 << 28;

/**
 * Replays the traces one after another, each with keys of its own.
 *
 * @param restarts Whether the store stops and starts amid the last trace.
 * @returns The miss ratio of the last trace.
 */
async function replayTraces(
  run: TraceRun,
  folder: string,
  delayHits: number,
  restarts: boolean,
): Promise<number> {
  const target = new StoreTarget({ memoryLimitBytes: run.memoryMib * MIB }, delayHits);
  const options = { ...REPLAY_DEFAULTS, ...run.options };
  let firstKey = 0;
  let ratio = NaN;
  for (const name of run.traces) {
    const trace = await readTrace(`${folder}/${name}.csv.gz`, run.rowsMax);
    if (restarts && name === run.traces.at(-1)) {
      target.restartAfter(Math.floor(trace.rows * options.copies / 2));
    }
    const { gets, misses, refused } = replay(trace, target, options, firstKey);
    if (refused + target.wrong > 0) throw new Error(`${refused} refused, ${target.wrong} wrong`);
    firstKey += trace.keyCount * options.copies;
    ratio = misses / gets;
  }
  if (target.isRestartDue) throw new Error("no restart took place");
  return ratio;
}

/** Times the sets of `count` new small items, then of some that come for deleted ones, so that the index stays. */
function fillIndex(target: StoreTarget, count: number): { sets: Float32Array; grown: Uint8Array } {
  const { control } = target.memory;
  const grown = new Uint8Array(count + count / REPLACED_PART);
  const sets = new Timings();
  for (let key = 0; key < grown.length; key++) {
    if (key >= count) {
      target.name(key - count, KEY_SIZE);
      target.cache.remove(target.operation);
    }
    const buckets = control[CONTROL.HASH_BUCKETS]!;
    sets.start();
    target.set(key, KEY_SIZE, 100, 0);
    sets.stop();
    grown[key] = control[CONTROL.HASH_BUCKETS] === buckets ? 0 : 1;
  }
  return { sets: sets.took, grown };
}

/** Small items: memory of each, and pauses while the index grows. */
function index(items: number): void {
  const rounds = Array.from({ length: ROUNDS }, () => {
    const target = new StoreTarget({ memoryLimitBytes: 2048 * MIB });
    const round = fillIndex(target, items);
    const { memory: { control, pageBytes } } = target;
    const pages = control[CONTROL.PAGE_COUNT]! - control[CONTROL.FREE_PAGE_COUNT]!;
    return { ...round, overheadBytes: pages * pageBytes / items - KEY_SIZE - 100 };
  });
  const { grown, overheadBytes } = rounds[0]!;
  const least = leastOf(rounds.map(({ sets }) => sets));
  say(`\n${overheadBytes.toFixed(1)} bytes an item beside key and value`);
  const table = new Table("set, µs of CPU", ...PIECES_HEADS);
  for (const [kind, name] of ["the index stays", "the index grows"].entries()) {
    table.row(name, ...pieces(least.filter((_, set) => grown[set] === kind)));
  }
}

/** Sets new keys from `first` on, with maintenance in between, and times each. */
function timedSets(
  target: StoreTarget,
  sets: Timings,
  first: number,
  count: number,
  valueSize: () => number,
  ttlSeconds: () => number = () => 0,
): void {
  for (let at = 0; at < count; at++) {
    const [size, ttl] = [valueSize(), ttlSeconds()];
    sets.start();
    target.set(first + at, SLICE_KEY_SIZE, size, ttl);
    sets.stop();
    if (at % REQUESTS_PER_TICK === 0) target.tick(0);
  }
}

/** Sizes that change, expiry, evictions: everything at once. */
function playMixed(target: StoreTarget, sets: Timings): void {
  const random = randomFrom(1);
  for (let part = 0; part < 4; part++) {
    const scale = 2 ** (part % 3);
    const size = (): number => Math.floor(20 + random() * 600 * scale);
    const ttl = (): number => random() < 0.5 ? 0 : 1 + Math.floor(random() * 10);
    timedSets(target, sets, part * 1_000_000, 1_000_000, size, ttl);
  }
}

/** Values of a new size arrive in a full store, whose items were read `reads` times. */
function playMoves(target: StoreTarget, sets: Timings, reads: number): void {
  let keys = 0;
  while (target.evicted === 0) target.set(keys++, SLICE_KEY_SIZE, 4, 0);
  for (let read = 0; read < reads; read++) {
    for (let key = 0; key < keys; key++) target.get(key, SLICE_KEY_SIZE, 4);
  }
  timedSets(target, sets, NEW_KEYS, 20_000, () => 3000);
  timedSets(target, sets, 2 * NEW_KEYS, 20_000, () => 4);
}

// deno-fmt-ignore
const SLICE_RUNS: readonly (readonly [name: string, memoryMib: number, play: (target: StoreTarget, sets: Timings) => void])[] = [
  ["slices-mixed", 1024, playMixed],
  ["slices-cold",    64, (target, sets) => playMoves(target, sets, 0)],
  ["slices-hot",     64, (target, sets) => playMoves(target, sets, 3)],
];

/** Times every slice of maintenance and every request. */
function slices([name, memoryMib, play]: typeof SLICE_RUNS[number]): void {
  const rounds = Array.from({ length: ROUNDS }, () => {
    const target = new StoreTarget({ memoryLimitBytes: memoryMib * MIB });
    const sets = new Timings();
    play(target, sets);
    return { slices: target.slices.took, sets: sets.took };
  });
  const least = leastOf(rounds.map((round) => round.slices));
  const table = new Table(`${name}, µs of CPU`, ...PIECES_HEADS);
  table.row("slices of maintenance", ...pieces(least));
  table.row("requests", ...pieces(leastOf(rounds.map(({ sets }) => sets))));
}

export async function main(args: readonly string[]): Promise<void> {
  const given = readOptions(args, {
    traces: Deno.env.get("LEASED_TRACES") ?? "",
    /** Beginnings of names. */
    run: [""],
    "delay-hits": 0,
    /** Replay each trace a second time, with a restart halfway. */
    restart: false,
    items: 10_000_000,
  });
  const isWanted = (name: string): boolean => given.run.some((start) => name.startsWith(start));
  const traceRuns = TRACE_RUNS.filter(({ name }) => isWanted(name));
  const ratioOf = (run: TraceRun, restarts: boolean): Promise<number> =>
    replayTraces(run, given.traces, given["delay-hits"], restarts);
  const table = traceRuns.length > 0
    ? new Table("miss ratio", "memcached", "leased", "restarted")
    : undefined;
  for (const run of traceRuns) {
    const ratios = [await ratioOf(run, false)];
    if (given.restart) ratios.push(await ratioOf(run, true));
    table!.row(run.name, run.memcached.toFixed(3), ...ratios.map((ratio) => ratio.toFixed(4)));
  }
  if (isWanted("index")) index(given.items);
  for (const run of SLICE_RUNS.filter(([name]) => isWanted(name))) slices(run);
}
