/**
 * How much the process grows while its store gets full, as part of `-m`, and which kinds of memory
 * that is (Linux, x86-64).
 *
 * With --traces, or LEASED_TRACES in the environment, ecom-orm.csv.gz from there is replayed too,
 * with four copies and values 8 times as long: a mixed load with long values. The store counts as
 * growth from its first byte, what is touched ahead of its use included.
 */
import { MIB } from "../../../store/limits.ts";
import { TRANSPORTS } from "../../support/servers/server_process.ts";
import { Connections } from "../sockets.ts";
import { growth } from "./growth.ts";
import { MAPPING_KINDS, type Resident, residentByKind } from "./mappings.ts";
import { readOptions } from "../options.ts";
import { type BenchServer, pinGenerator, say, startLeased } from "../processes.ts";
import { replay, REPLAY_DEFAULTS } from "../replay/replay.ts";
import { readTrace, type Trace } from "../replay/traces.ts";
import { median } from "../rows.ts";
import { SocketTarget } from "../socket_target.ts";

/** Growth: what sets take while items arrive. Limit: memory of the process beside `-m`. */
const PARTS = ["limit", "growth"];
const CONNECTIONS = 4;
const KEY_BYTES = 16;
const FILL_BATCH = 32;
/** Bytes of keys and values to store, as part of the memory limit. Headers take memory too, so the store gets full. */
const FILL_SHARE = 1.1;
/** Time for the server's background work after start and after the load. */
const SETTLE_MS = 1000;
const MIXED = { ...REPLAY_DEFAULTS, copies: 4, valueScale: 8 };

interface Load {
  readonly name: string;
  run(target: SocketTarget, memoryMib: number): void;
}

export async function main(args: readonly string[]): Promise<void> {
  const options = readOptions(args, {
    parts: PARTS,
    items: 10_000_000,
    batch: 20,
    memory: [64, 256, 1024],
    threads: [1, 4],
    fills: [64, 256, 1024],
    rounds: 3,
    traces: Deno.env.get("LEASED_TRACES") ?? "",
    rows: 30_000,
    io: "native",
    port: 21340,
  }, { parts: PARTS, io: TRANSPORTS });
  const { rounds, traces, rows, io, port } = options;
  if (options.parts.includes("growth")) {
    await growth(options.items, options.batch, rounds, port);
  }
  if (!options.parts.includes("limit")) return;
  const loads = options.fills.filter((bytes) => bytes > 0).map(fillOf);
  if (traces !== "") loads.push(mixed(await readTrace(`${traces}/ecom-orm.csv.gz`, rows)));
  await pinGenerator();
  for (const memoryMib of options.memory) {
    for (const threads of options.threads) {
      for (const load of loads) {
        const growths: Growth[] = [];
        for (let round = 0; round < rounds; round++) {
          const server = await startLeased(port, threads, io, ["-m", `${memoryMib}`]);
          try {
            growths.push(await measure(server, load, memoryMib));
          } finally {
            await server.stop();
          }
        }
        say(`-m ${memoryMib} -t ${threads} ${load.name.padEnd(9)} ${text(growths, memoryMib)}`);
      }
    }
  }
}

/** Growth in KiB by kind and in total; `end`: resident KiB after the load. */
type Growth = Resident & { readonly total: number; readonly end: number };

async function measure(server: BenchServer, load: Load, memoryMib: number): Promise<Growth> {
  const target = new SocketTarget(new Connections(server.port, CONNECTIONS, (fd) => ({ fd })));
  // The server listens before all threads run. A thread that answers runs.
  for (let key = 0; key < CONNECTIONS; key++) target.get(key, KEY_BYTES);
  await settle();
  const before = resident(server);
  load.run(target, memoryMib);
  target.close();
  await settle();
  const after = resident(server);
  // Prefaulted memory counts as growth.
  const grown = { ...after };
  for (const kind of MAPPING_KINDS) if (kind !== "store") grown[kind] -= before[kind];
  return { ...grown, total: sum(grown), end: sum(after) };
}

function resident(server: BenchServer): Resident {
  return residentByKind(Deno.readTextFileSync(`/proc/${server.pid}/smaps`));
}

function sum(kib: Resident): number {
  return MAPPING_KINDS.reduce((total, kind) => total + kib[kind], 0);
}

/** Median and range of the growth as part of the limit, then medians by kind. */
function text(growths: readonly Growth[], memoryMib: number): string {
  const shares = growths.map(({ total }) => total / 1024 / memoryMib);
  const [least, most] = [Math.min(...shares), Math.max(...shares)].map((share) => share.toFixed(3));
  const of = (kind: keyof Growth): number => Math.round(median(growths.map((each) => each[kind])));
  const kinds = MAPPING_KINDS.map((kind) => `${kind} ${of(kind)}`).join(", ");
  return `${median(shares).toFixed(3)} (${least}..${most}) of -m; KiB: ${kinds}; at the end ${
    of("end")
  }`;
}

function fillOf(valueBytes: number): Load {
  return {
    name: `fill ${valueBytes}`,
    run: (target, memoryMib) => {
      const items = Math.ceil(memoryMib * MIB * FILL_SHARE / (KEY_BYTES + valueBytes));
      for (let first = 0; first < items; first += FILL_BATCH) {
        target.setMany(first, FILL_BATCH, KEY_BYTES, valueBytes);
      }
    },
  };
}

function mixed(trace: Trace): Load {
  return { name: "mixed", run: (target) => void replay(trace, target, MIXED) };
}

function settle(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
}
