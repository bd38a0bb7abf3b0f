// Servers under load for an hour, whose values are all judged: deno task soak [minutes] [SQLite|PostgreSQL]
// Prints a line a segment. Ends with status 1 when a value was wrong, or when the memory or the descriptors of a server
// that lives all the time have grown.
import { drawSeed } from "../support/seed.ts";
import { createDatabase, type DatabaseKind, sharedPostgres } from "../support/servers/databases.ts";
import { HAS_POSTGRES } from "../support/servers/postgres.ts";
import type { Gauges } from "./gauges.ts";
import { type Line, Soak } from "./soak.ts";

const SEGMENTS_MIN = 4;
const SEGMENT_MINUTES_MAX = 3;
const DISTURB_MS = 10_000;
/** How far a gauge may be at the end above its middle in the second quarter. */
const GROWTH_MAX = 1.1;

const [minutes = "60", kind = HAS_POSTGRES ? "PostgreSQL" : "SQLite"] = Deno.args;
const segments = Math.max(SEGMENTS_MIN, Math.ceil(Number(minutes) / SEGMENT_MINUTES_MAX));
const segmentMs = 60_000 * Number(minutes) / segments;

// deno-lint-ignore no-console -- the result of the run
const print = (text: string): void => console.log(text);

function lineOf({ judged, load, gauges, metered, disturbances }: Line, at: number): string {
  const { reads, writes, viewReads, applied } = judged;
  const memory = Object.values(gauges).map(({ residentMib }) => residentMib).join("/");
  const descriptors = Object.values(gauges).map((each) => each.descriptors).join("/");
  const evictions = Object.values(gauges).map((each) => each.evictions).join("/");
  const compared = metered.map((each) => `${each.compared} (${each.others} not)`).join("/");
  return `${at.toFixed(0).padStart(5)} s: judged ${reads} reads, ${writes} writes, ` +
    `${viewReads} reads of views, ${applied} changes; ${disturbances} disturbances; ` +
    `meters ${compared}; ` +
    `load ${load.requests} requests, p50 ${load.p50Ms.toFixed(2)} ms, ` +
    `p99 ${load.p99Ms.toFixed(2)} ms, ${load.errors} errors; origin/node/cache: ` +
    `${memory} MiB, ${descriptors} descriptors, ${evictions} evictions`;
}

/** Returns the gauges that have grown: their last values, beside the largest of the second quarter. */
function grown(lines: readonly Line[]): string[] {
  const early = lines.slice(Math.floor(lines.length / 4), Math.ceil(lines.length / 2));
  const last = lines.at(-1)!;
  const names = ["residentMib", "descriptors", "threads"] as const;
  return (["origin", "node", "cache"] as const).flatMap((server) =>
    names.flatMap((name: keyof Gauges) => {
      const before = Math.max(...early.map(({ gauges }) => gauges[server][name]));
      const now = last.gauges[server][name];
      return now > GROWTH_MAX * before ? [`${server}: ${name} ${before} to ${now}`] : [];
    })
  );
}

const seed = drawSeed();
print(`seed ${seed}, ${kind}, ${segments} segments of ${(segmentMs / 1000).toFixed(0)} s`);
const lines: Line[] = [];
const beganMs = performance.now();
{
  await using database = await createDatabase(kind as DatabaseKind);
  await using soak = new Soak(database, {
    seed,
    segmentMs,
    segments,
    disturbMs: DISTURB_MS,
    report(line): void {
      lines.push(line);
      print(lineOf(line, (performance.now() - beganMs) / 1000));
    },
  });
  await soak.run();
}
if (kind === "PostgreSQL") await (await sharedPostgres()).stop();
const growth = grown(lines);
print(growth.length === 0 ? "flat" : `grown: ${growth.join("; ")}`);
if (growth.length > 0) Deno.exit(1);
