import { assert, assertEquals } from "@std/assert";
import {
  classStatistics,
  generalStatistics,
  itemStatistics,
  slabStatistics,
  threadStatistics,
} from "../protocol/statistics.ts";
import type { Stat } from "../protocol/stats/entry.ts";
import { readDocument } from "./support/docs/markdown.ts";
import { startMemcached, testWithMemcached } from "./support/servers/memcached.ts";
import { startLeased } from "./support/servers/leased.ts";
import { ConversationSide } from "./support/sessions/conversation_side.ts";
import type { SocketSide } from "./support/sessions/socket_side.ts";

/** Tables of `stats` that memcached has too. */
const SHARED_TABLES = ["", "settings", "items", "slabs"];
/** Tables that are ours. */
const OWN_TABLES = ["classes", "threads"];

/** memcached's, and younger than some memcached that may be installed. */
const YOUNG = ["client_flags_size", "slab_reassign_busy_nomem", "slab_reassign_last_busy_status"];

const page = readDocument("docs/monitoring.md").prose;

/** Returns the names of the tables' lines, a class's or a thread's number replaced by N. */
async function namesIn(side: SocketSide, tables: readonly string[]): Promise<Set<string>> {
  const names = new Set<string>();
  for (const table of tables) {
    const reply = await side.ask(`stats ${table}`.trim() + "\r\n", "END\r\n");
    for (const [, name] of reply.matchAll(/^STAT (\S+)/gm)) {
      names.add(name!.replace(/^items:\d+:/, "items:N:").replace(/^(?:\d+|maintenance):/, "N:"));
    }
  }
  return names;
}

/** The names that stand first in a row of a table. */
function documentedNames(): string[] {
  const ours = page.slice(page.indexOf("## Leases"), page.indexOf("## stats ops"));
  return [...ours.matchAll(/^\| `([\w:]+)`/gm)].map(([, name]) => name!);
}

/** Returns names and units of a part of the page, as the first two cells of a row of a table. */
function documentedUnits(start: string, end: string): (readonly [name: string, unit: string])[] {
  const part = page.slice(page.indexOf(start), page.indexOf(end));
  return [...part.matchAll(/^\| `([\w:]+)`\s*\| (.*?)\s*\|/gm)].map(([, name, unit]) =>
    [name!, unit!] as const
  );
}

Deno.test("docs/monitoring.md gives each statistic the unit that its table gives it", () => {
  const side = new ConversationSide(["-z", "3333"]);
  side.connect().ask("set a 0 0 1\r\n1\r\n");
  const { thread } = side;
  const general = [...generalStatistics(thread), ...itemStatistics(thread)];
  const parts: readonly (readonly [start: string, end: string, stats: Iterable<Stat | null>])[] = [
    ["## Leases", "## stats classes", [...general, ...slabStatistics(thread)]],
    ["## stats classes", "## stats threads", classStatistics(thread)],
    ["## stats threads", "## stats ops", threadStatistics(thread)],
  ];
  for (const [start, end, stats] of parts) {
    const units = new Map<string, string>();
    for (const stat of stats) {
      if (stat?.meaning === undefined) continue;
      units.set(stat.of === "" ? stat.name : `N:${stat.name}`, stat.meaning.unit);
    }
    const documented = documentedUnits(start, end).filter(([name]) => units.has(name));
    assert(documented.length > 0, start);
    assertEquals(documented, documented.map(([name]) => [name, units.get(name)!] as const));
  }
});

async function withItem(side: SocketSide): Promise<SocketSide> {
  await side.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
  return side;
}

Deno.test("docs/monitoring.md names statistics that the server has, and all of its own tables", async () => {
  await using leased = await withItem(await startLeased("portable", ["-z", "3333"]));
  const all = await namesIn(leased, [...SHARED_TABLES, ...OWN_TABLES]);
  assertEquals(documentedNames().filter((name) => !all.has(name)), []);
  const documented = new Set(documentedNames());
  const own = await namesIn(leased, OWN_TABLES);
  assertEquals([...own].filter((name) => !documented.has(name)), []);
});

testWithMemcached("docs/monitoring.md names all that memcached has not", async (memcached) => {
  await using leased = await withItem(await startLeased("portable", ["-z", "3333"]));
  await using theirs = await withItem(await startMemcached(memcached));
  const known = new Set([...await namesIn(theirs, SHARED_TABLES), ...YOUNG]);
  const extra = [...await namesIn(leased, SHARED_TABLES)].filter((name) => !known.has(name));
  assert(extra.length > 0);
  assertEquals(extra.filter((name) => !page.includes(`\`${name}\``)), []);
});
