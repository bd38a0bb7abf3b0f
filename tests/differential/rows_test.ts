import { needs } from "../support/needs/needs.ts";
import { assert } from "@std/assert";
import { readDocument } from "../support/docs/markdown.ts";
import { createDatabase, type DatabaseKind } from "../support/servers/databases.ts";
import { startLeased } from "../support/servers/leased.ts";
import { HAS_POSTGRES } from "../support/servers/postgres.ts";
import { startOrigin } from "../support/servers/origin_process.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { SocketSide } from "../support/sessions/socket_side.ts";
import type { Part } from "../support/sessions/transcript.ts";
import type { Fence, RequestSource } from "./commands.ts";
import type { Difference } from "./differences.ts";
import { Duel, type DuelRules, MEMCACHED_RULES, OUR_OPTIONS } from "./duel.ts";
import { holeOf } from "./lock_commands.ts";
import { SOURCES } from "./sources.ts";
import { IdsByItem } from "./yrmcds_rules.ts";
import { roundsOf } from "../support/rounds.ts";

// The same random commands to a server whose keys are rows, and to one without a database.

/** For each kind of commands. */
const COMMANDS = roundsOf(1000);

/** Expiry times that do not pass during a run, as text and in the binary protocol. */
const LASTING = "(?:0|1000|2592000|2147483647)";
const LASTING_BYTES = String.raw`(?:\0{4}|\0\0\x03\xe8|\0\x27\x8d\0|\x7f\xff{3})`;

/** Requests that mean something else for a row, by the words that begin their line in docs/rows.md. */
// deno-fmt-ignore
const DIFFERENT: readonly (readonly [line: string, request: RegExp])[] = [
  ["`flush_all`",                 new RegExp(String.raw`^(?:flush_all|\x80[\x08\x18])`)],
  ["`ignore`",                    new RegExp(String.raw`^(?:set|add|replace|append|prepend|cas) +\S+ +\S+ +(?!${LASTING} )`)],
  ["`ignore`",                    new RegExp(String.raw`^(?:touch \S+|gats?) +(?!${LASTING} )`)],
  ["`ignore`",                    /^m[gsa] .* T(?:-|2147483648)/],
  ["`ignore`",                    new RegExp(String.raw`^\x80[\x01-\x03\x11-\x13][^]{26}(?!${LASTING_BYTES})`)],
  ["`ignore`",                    new RegExp(String.raw`^\x80[\x1c-\x1e\x23\x24][^]{22}(?!${LASTING_BYTES})`)],
  ["`ignore`",                    /^mg .* [tR]/],
  ["`mg N` on an absent row",     /^mg .* N/],
  ["`md I`, `md x`, `ms I`",      /^m[ds] .* [Ix]/],
  ["`E` of `ms` and `ma`",        /^m[sa] .* E/],
  ["`incr`, `decr`, `ma`",        new RegExp(String.raw`^(?:incr |decr |ma |\x80[\x05\x06\x15\x16])`)],
  ["`get <key>+` with a key over 250", /^get .*k{251}/],
  ["a value that is too large",   /x{1048600}/],
  ["`mg h`, `mg l`",              /^mg .* [hl]/],
  ["`ms s` that appends",         /^ms (?=.* M[APap]).* s/],
  ["`me`, `keys`, dumps, `stats sizes`", /^me /],
];

/** Names a cas id that no item has, and that many rows have. */
const VERSION_1 = new RegExp(String.raw`^(?:m[gsda] .* C1(?!\d)|\x80[^]{15}\0{7}\x01)`);

/** Draws of another source what means the same for a row and for an item. */
class CommonSource implements RequestSource {
  readonly #source: RequestSource;

  constructor(source: RequestSource) {
    this.#source = source;
  }

  get operations(): RequestSource["operations"] {
    return this.#source.operations;
  }

  next(): readonly Part[] {
    for (;;) {
      const request = this.#source.next();
      const text = request.filter((part) => typeof part === "string").join("");
      // Rows count their own versions: that of another key may be equal.
      const own = holeOf(text.split(" ")[1] ?? "");
      const isOwn = request.every((part) => typeof part === "string" || part.hole === own);
      const isDifferent = DIFFERENT.some(([, different]) => different.test(text));
      if (isOwn && !isDifferent && !VERSION_1.test(text)) return request;
    }
  }

  learned(name: string): void {
    this.#source.learned(name);
  }

  fence(number: number): Fence {
    return this.#source.fence(number);
  }

  closer(): readonly Part[] {
    return this.#source.closer();
  }
}

/** Such requests cost the connection here. */
const WITHOUT: ReadonlySet<Difference> = new Set(["malformed SASL"]);

const RULES: DuelRules = { ...MEMCACHED_RULES, ids: (learned) => new IdsByItem(learned) };

Deno.test("requests that mean something else for a row are in docs/rows.md", () => {
  const { text } = readDocument("docs/rows.md");
  for (const [line] of DIFFERENT) {
    assert(["|", "-"].some((mark) => text.includes(`\n${mark} ${line}`)), line);
  }
});

function testRows(kind: DatabaseKind): void {
  const name = `random commands get the same replies of rows and of items, ${kind}`;
  Deno.test(name, kind === "PostgreSQL" ? needs(kind, HAS_POSTGRES) : {}, async () => {
    await using database = await createDatabase(kind);
    await using items = await startLeased("native", OUR_OPTIONS);
    await using server = await startOrigin(database, [
      ...OUR_OPTIONS,
      "--row-expiry",
      "ignore",
    ]);
    const address = { hostname: "127.0.0.1", port: server.port };
    await using rows = new SocketSide(`rows of ${kind}`, address, () => Promise.resolve());
    for (const sources of Object.values(SOURCES)) {
      await withSeed(drawSeed(), async (seed) => {
        const common = sources(seed, WITHOUT).map((source) => new CommonSource(source));
        await new Duel(items, rows, common, RULES).run(COMMANDS);
      });
    }
  });
}

testRows("SQLite");
testRows("PostgreSQL");
