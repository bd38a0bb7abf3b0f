import { assertEquals } from "@std/assert";
import {
  crowdedFolders,
  importCycles,
  importsPastDoors,
  type Room,
  roomOf,
  unusedDoors,
  upwardImports,
} from "./support/architecture.ts";
import { linesWith, readSources, type Source } from "./support/sources.ts";

// Rules about the source that neither compiler nor linter knows. Each test lists what breaks its rule.

const LINES_MAX = 600;
const COMMENT_WIDTH_MAX = 120;
const FILES_IN_FOLDER_MAX = 25;

/**
 * The rooms from the bottom up: a file imports from its own room and from lower ones, and there only
 * doors. docs/architecture.md says why. A file that stands alone is a room of its own.
 */
// deno-fmt-ignore
const ROOMS: readonly Room[] = [
  // room                        doors
  ["store/base/",                "*"],
  ["store/limits.ts",            ""],
  ["store/stats.ts",             ""],
  ["store/outcome.ts",           ""],
  ["store/connections.ts",       ""],
  ["store/memory/",              "*"],
  ["store/operation.ts",         ""],
  ["store/clock.ts",             ""],
  ["store/watch/",               "item_watch watch_log"],
  ["store/items/",               "found item_links item_walk key_walk optimistic_read prefetch values"],
  ["store/space/",               "allocator arriving_values eviction expiry flush page_mover"],
  ["store/claims/",              "leases locks token_queue token_view token_waiters update_tokens waiters write_guard"],
  ["store/rows/",                "detached_items row_request row_requests row_session serving_right"],
  ["store/operations/",          "arithmetic lease lock journal lookup meta parts reserved row row_parking store token"],
  ["store/check/",               "check"],
  ["store/snapshot/",            "header_check page_pieces prepare snapshot_header snapshot_operations snapshot_pages tables_check"],
  ["store/",                     "cache clock row_cache connections inspector limits operation outcome setup stats base/*"],
  ["protocol/reply/",            "binary_status replies reply_buffer"],
  ["protocol/auth/",             "access password_checks"],
  ["protocol/counts/",           "op_counts request_times"],
  ["protocol/",                  "auth/access auth/password_checks conversation counts/op_counts counts/request_times reply/replies reply/reply_buffer settings statistics stats/entry tasks thread_context thread_protocols tunables work_budget"],
  ["protocol/waits/",            "auth_wait token_wait wait"],
  ["protocol/stats/",            "classes connections entry general hot_keys item_walk kinds latency ops threads"],
  ["protocol/meta/",             "arithmetic debug delete get request set"],
  ["protocol/text/",             "admin answer auth_gate keys lease parser read stats table write"],
  ["protocol/binary/",           "parser replies table"],
  ["protocol/thread_protocols.ts", ""],
  ["protocol/statistics.ts",     ""],
  ["lib/",                       "cli/command cli/command_line cli/exit cli/manual cli/passwd cli/subcommand operator/audit/run operator/doctor/run operator/init operator/suggest/run operator/top/run operator/views_check process/info process/signals server/boot"],
  ["lib/process/",               "*"],
  ["lib/flow/",                  "*"],
  ["lib/net/",                   "accept_failures cache_service descriptors service transport transports worker_transport portable/bind portable/sockets"],
  ["lib/net/portable/",          "bind sockets thread"],
  ["lib/net/native/",            "bind libc notify_socket probe thread waker"],
  ["lib/net/transports.ts",      ""],
  ["lib/auth/",                  "authenticator scrypt user_file"],
  ["lib/counters/",              "service"],
  ["lib/peers/",                 "dial peer peer_pool"],
  ["lib/journal/",               "journal state_folder"],
  ["lib/snapshot/",              "snapshot snapshot_format"],
  ["lib/cli/",                   "argv command command_line exit manual passwd help listen option_table options subcommand values"],
  ["lib/admin/",                 "dashboard/recorder dashboard/routes dashboard/series http_server pages server_metrics tls"],
  ["lib/admin/dashboard/",       "recorder routes series"],
  ["lib/databases/views/",       "key_set key_template parameter_type unwatched view view_mapping views_file"],
  ["lib/databases/base/",        "*"],
  // Its door is lib/databases/open_backend.ts, which imports it when it is needed.
  ["lib/databases/postgres/",    "publication"],
  ["lib/databases/sqlite/",      "backend catalog triggers views"],
  ["lib/databases/",             "open_backend base/* postgres/publication sqlite/triggers views/key_set views/parameter_type views/unwatched views/view views/view_mapping views/views_file"],
  ["lib/rows/flows/",            "expulsion flows log_flow marks node_flows node_list node_service node_waits row_edit row_write steps takeover token_states"],
  ["lib/rows/follow/",           "follow_command follow_stats follower lag_guard prefix_expulsion"],
  ["lib/operator/audit/",            "run"],
  ["lib/rows/",                  "*"],
  ["lib/operator/audit/",        "run"],
  ["lib/operator/",              "audit/run doctor/run init suggest/run top/run views_check"],
  ["lib/server/",                "boot"],
  // Its door is lib/client/mod.ts, for applications: the server imports nothing of it.
  ["lib/client/",                ""],
  ["main.ts",                    ""],
];

const sources = readSources();
const own = sources.filter(({ path }) => roomOf(path, ROOMS) !== undefined);

function isIn(folder: string): (source: Source) => boolean {
  return ({ path }) => path.startsWith(folder);
}

function places(files: readonly Source[], pattern: RegExp): string[] {
  return files.flatMap((file) => linesWith(file, pattern).map((line) => `${file.path}:${line}`));
}

Deno.test("imports point down", () => {
  assertEquals(upwardImports(own, ROOMS), []);
});

Deno.test("imports go by the doors of a room", () => {
  assertEquals(importsPastDoors(own, ROOMS), []);
});

Deno.test("every door is used", () => {
  assertEquals(unusedDoors(own, ROOMS), []);
});

Deno.test("protocols and transports do not reach behind the store's door", () => {
  const outside = own.filter(({ path }) => !path.startsWith("store/"));
  assertEquals(places(outside, /\bcache\.(?:links|items)\b|\.segmentOf\(/), []);
});

Deno.test("operations count, handlers do not", () => {
  const handlers = ["binary/", "meta/", "text/"].flatMap((room) =>
    own.filter(isIn(`protocol/${room}`))
  );
  assertEquals(places(handlers, /\bSTAT\.|memory\.(?:classS|s)tats\b/), []);
});

/** Ways to take or leave the store's mutex, and the files of protocol/ that may name them. */
const HOLDERS: readonly (readonly [pattern: RegExp, files: string])[] = [
  [/\bcache\.(?:enter|leave|yieldMutex|mutex)\b/, "conversation store_hold thread_context"],
  [/\b(?:beginBatch|endBatch)\b/, "conversation store_hold thread_context"],
  [
    /\bhold\(\)/,
    "binary/parser binary/read conversation meta/get store_hold text/parser text/read",
  ],
  [/\byieldMutex\(\)/, "binary/parser store_hold tasks text/parser text/read work_task"],
  [/\bmayReadOptimistically\b/, "store_hold thread_context"],
  [/\bwithoutMutex[(<]/, "store_hold text/admin"],
  [/\breleaseForReads\(/, "store_hold binary/parser meta/get text/parser"],
];

for (const [pattern, files] of HOLDERS) {
  Deno.test(`of protocol, only ${files} name ${pattern.source}`, () => {
    const named = own.filter(isIn("protocol/")).filter(({ text }) => pattern.test(text));
    const names = named.map(({ path }) => path.slice("protocol/".length, -".ts".length));
    assertEquals(names.sort(), files.split(" ").sort());
  });
}

Deno.test("handlers and statistics do not see the whole thread", () => {
  const inner = own.filter(({ path }) => /^protocol\/\w+\//.test(path));
  assertEquals(places(inner, /import .*\bThreadContext\b/), []);
});

Deno.test("no file imports itself by way of others, type imports included", () => {
  assertEquals(importCycles(own), []);
});

Deno.test(`no folder has more than ${FILES_IN_FOLDER_MAX} files`, () => {
  assertEquals(crowdedFolders(sources, FILES_IN_FOLDER_MAX), []);
});

const ERROR_TEXTS = ["protocol/reply/replies.ts"];

Deno.test(`texts of errors stand in ${ERROR_TEXTS.join(" and ")} only`, () => {
  const others = own.filter(({ path }) => !ERROR_TEXTS.includes(path));
  assertEquals(places(others, /(?:CLIENT|SERVER)_ERROR|"ERROR/), []);
});

/** Calls that store and protocol may not make, and the replacement of each. */
const BANNED: readonly (readonly [pattern: RegExp, instead: string])[] = [
  [/\bDate\.now\b|\bnew Date\b/, "store/clock.ts"],
  [/\bperformance\.now\b/, "store/clock.ts"],
  [/\bset(?:Timeout|Interval)\b/, "Cache.maintain, which the process calls"],
  [/\bMath\.random\b|\bcrypto\./, "CONTROL.RANDOM, or StoreOptions.hashSeed"],
  [/\bDeno\./, "ServerHooks"],
  [/\bconsole\./, "ServerHooks"],
];

for (const [pattern, instead] of BANNED) {
  Deno.test(`store and protocol use ${instead} instead of ${pattern.source}`, () => {
    const below = [...own.filter(isIn("store/")), ...own.filter(isIn("protocol/"))];
    assertEquals(places(below, pattern), []);
  });
}

Deno.test("every source file is a test, imported by another, or started by a task or a test", () => {
  const imported = new Set(sources.flatMap(({ imports }) => imports));
  const config = Deno.readTextFileSync(new URL("../deno.json", import.meta.url));
  const dead = sources.filter(({ path }) =>
    !imported.has(path) && !path.endsWith("_test.ts") && !config.includes(path) &&
    !sources.some(({ text }) =>
      text.includes(`"${path}"`) || text.includes(`here("${nameOf(path)}")`)
    )
  );
  assertEquals(dead.map(({ path }) => path), []);
});

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** Parts of the store that are tested through another one's test. */
const TESTED_THROUGH: readonly (readonly [test: string, parts: string])[] = [
  ["cache", "operation items/hash_index items/item_links items/queues items/values memory/item"],
  ["cache", "memory/memory memory/slabs space/allocator space/expiry space/flush"],
  ["cache", "operations/lookup operations/store operations/arithmetic operations/meta"],
  ["cache", "operations/parts operations/reserved"],
  ["inspector", "items/item_walk"],
  ["claims/locks", "operations/lock claims/write_guard check/check_locks claims/waiters"],
  ["claims/locks", "claims/lock_waiters check/check_waiters memory/wakes"],
  ["claims/leases", "operations/lease check/check_leases"],
  [
    "claims/update_tokens",
    "operations/token operations/journal claims/token_waiters",
  ],
  ["claims/update_tokens", "check/check_tokens claims/token_view"],
  ["operations/long_copies", "items/prefetch"],
  ["space/page_mover", "space/page_evacuator space/page_selector"],
  [
    "snapshot/snapshot_operations",
    "snapshot/page_pieces snapshot/prepare snapshot/readmission snapshot/restore_queues snapshot/snapshot_header " +
    "snapshot/snapshot_pages snapshot/header_check snapshot/links_check snapshot/tables_check",
  ],
  ["watch/watch_log", "watch/item_watch"],
  [
    "operations/row",
    "operations/row_leases operations/row_parking operations/row_removal row_cache rows/detached_items rows/row_request " +
    "rows/row_requests rows/row_session rows/serving_right",
  ],
];
const testOf = new Map(
  TESTED_THROUGH.flatMap(([test, parts]) => parts.split(" ").map((part) => [part, test])),
);

/** Nothing but names and numbers. */
// deno-fmt-ignore
const WITHOUT_TEST = [
  "base/assert", "base/prefixes", "limits", "memory/arriving_layout", "memory/lock_layout", "memory/request_layout", "memory/token_layout", "memory/token_record",
  "memory/waiter_layout", "memory/watch_layout", "outcome", "setup", "stats",
];

Deno.test("every part of the store has its test", () => {
  const paths = new Set(sources.map(({ path }) => path));
  const missing = sources.filter(isIn("store/"))
    .map(({ path }) => path.slice("store/".length, -".ts".length))
    .filter((name) => !WITHOUT_TEST.includes(name))
    .filter((name) => !paths.has(`tests/store/${testOf.get(name) ?? name}_test.ts`));
  assertEquals(missing, []);
});

Deno.test("the list of parts tested through others names only what there is", () => {
  const names = [...testOf.keys(), ...WITHOUT_TEST];
  const paths = new Set(sources.map(({ path }) => path));
  assertEquals(names.filter((name) => !paths.has(`store/${name}.ts`)), []);
});

Deno.test(`no file is longer than ${LINES_MAX} lines`, () => {
  const long = sources.filter(({ text }) => text.split("\n").length - 1 > LINES_MAX);
  assertEquals(long.map(({ path }) => path), []);
});

Deno.test(`no comment but a table's head is wider than ${COMMENT_WIDTH_MAX} characters`, () => {
  const wide = new RegExp(`^(?=.{${COMMENT_WIDTH_MAX + 1}})\\s*(?!// name )(?:\\*|//|/\\*)`);
  assertEquals(places(sources, wide), []);
});

Deno.test("nothing is left to be done", () => {
  // Written apart, so that this file does not find itself.
  assertEquals(places(sources, new RegExp(["FIX" + "ME", "TO" + "DO", "X" + "XX"].join("|"))), []);
});
