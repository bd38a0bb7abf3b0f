import { assertEquals } from "@std/assert";
import { savedRowsOptions, toNodeOptions, toRowsOptions } from "../../../lib/rows/row_arguments.ts";
import type { RowsOptions } from "../../../lib/rows/options.ts";
import { RowKeeping } from "../../../lib/server/row_keeping.ts";
import type { Snapshot } from "../../../lib/snapshot/snapshot.ts";
import type { SavedRows } from "../../../lib/snapshot/snapshot_format.ts";
import { serverOptions } from "../../support/command_line.ts";

function originOptions(...argv: readonly string[]): RowsOptions {
  const errors: string[] = [];
  const options = toRowsOptions(serverOptions("--db", "sqlite:x", ...argv), errors);
  assertEquals(errors, []);
  return options;
}

/** A snapshot that has these rows. */
function snapshotOf(rows: SavedRows | null, isLoaded = true): Snapshot {
  return { rows, isLoaded } as unknown as Snapshot;
}

function saved(options: string, prefixes: readonly string[] = ["old:"]): SavedRows {
  return { prefixes, options, mark: "the mark" };
}

const ORIGIN = originOptions("--rows", "a:,b:");
const OWN = savedRowsOptions(ORIGIN);

Deno.test("an origin keeps the rows of an origin with its options, by the mark of that one's end", () => {
  const keeping = new RowKeeping(ORIGIN, snapshotOf(saved(OWN)));
  assertEquals(keeping.removedAtStart, []);
  assertEquals(keeping.savedMark, "the mark");
  assertEquals(keeping.savesRows, true);
  assertEquals(keeping.saved("m"), { prefixes: ["a:", "b:"], options: OWN, mark: "m" });
  assertEquals(keeping.removedAtEnd("m"), []);
});

Deno.test("rows are kept by none with other options; its own keys are no plain items before either", () => {
  const others = [
    originOptions("--rows", "a:"),
    originOptions("--rows", "a:,b:", "--row-expiry", "ignore"),
    originOptions("--rows", "a:,b:", "--table", "other"),
    originOptions("--rows", "a:,b:", "--follow"),
  ];
  for (const options of others) {
    const keeping = new RowKeeping(options, snapshotOf(saved(OWN, ["a:", "b:"])));
    assertEquals(keeping.savedMark, null);
    assertEquals(keeping.removedAtStart, [...options.prefixes, "a:", "b:"]);
  }
  const plain = new RowKeeping(null, snapshotOf(saved(OWN)));
  assertEquals([plain.removedAtStart, plain.savedMark, plain.savesRows], [["old:"], null, false]);
  assertEquals(plain.saved("m"), null);
  // Items of a server without a database do not become rows.
  const first = new RowKeeping(ORIGIN, snapshotOf(null));
  assertEquals([first.removedAtStart, first.savedMark, first.savesRows], [
    ["a:", "b:"],
    null,
    true,
  ]);
});

Deno.test("an origin with views and a node keep no rows, and save none", () => {
  const errors: string[] = [];
  const node = toNodeOptions(serverOptions("--origin", "h:1", "--rows", "a:"), errors);
  assertEquals(errors, []);
  const views = { ...ORIGIN, views: "/views" };
  for (const [rows, options] of [[node, ""], [views, savedRowsOptions(views)]] as const) {
    const keeping = new RowKeeping(rows, snapshotOf(saved(options)));
    assertEquals(keeping.savedMark, null);
    assertEquals(keeping.savesRows, false);
    assertEquals(keeping.saved("m"), null);
    assertEquals(keeping.removedAtStart, [...rows.prefixes, "old:"]);
  }
});

Deno.test("an origin whose end the database has not noted saves no rows", () => {
  const keeping = new RowKeeping(ORIGIN, snapshotOf(saved(OWN)));
  assertEquals(keeping.saved(""), null);
  assertEquals(keeping.removedAtEnd(""), ["a:", "b:"]);
});

Deno.test("a snapshot that was not loaded, or is not there, brings no mark", () => {
  assertEquals(new RowKeeping(ORIGIN, snapshotOf(saved(OWN), false)).savedMark, null);
  const none = new RowKeeping(ORIGIN, null);
  assertEquals([none.savedMark, none.savesRows], [null, false]);
  assertEquals(none.removedAtStart, ["a:", "b:"]);
});
