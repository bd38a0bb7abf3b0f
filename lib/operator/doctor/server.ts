import { bytesText } from "../output.ts";
import { groupsOf, numberOf, type Table } from "../stats_client.ts";
import { type Fault, fault, type Finding, ok, unseen, warning } from "./finding.ts";

/** The tables of a server's statistics. Null: it has no such table. */
export interface ServerFacts {
  /** Whether it runs on this host. */
  readonly isHere: boolean;
  /** The arguments by which `nc` reaches it. */
  readonly netcat: string;
  readonly stats: Table;
  readonly settings: Table | null;
  readonly items: Table | null;
  readonly threads: Table | null;
  /** `stats rows` */
  readonly rows: Table | null;
  /** Lines of `stats detail dump`. */
  readonly prefixes: readonly string[] | null;
  /** Lines of `token list`, which is asked for when a token is old. Null: not asked for, or refused. */
  readonly tokens: readonly string[] | null;
  /** When its certificate ends, in Unix milliseconds; NaN: not seen; null: no TLS. */
  readonly certificateEndMs: number | null;
  /** Size of the journal of update tokens; NaN: not seen; null: it has none. */
  readonly journalBytes: number | null;
  /** The clock of this machine when `stats` was asked for. */
  readonly nowMs: number;
}

const YOUNG_SEC = 60;
const YOUNG_EVICTIONS_MIN = 100;
const READS_MIN = 1000;
const HIT_PERCENT_MIN = 50;
const PREFIXES_SHOWN = 5;
/** As the alert LeasedTokenOld has it: `put` waits for seconds, and a transaction that takes minutes is rare. */
const TOKEN_AGE_MAX_SEC = 300;
const TOKENS_SHOWN = 5;
/** Most characters of a key that are shown. */
const KEY_LENGTH_SHOWN = 60;
const CLOCK_DIFFERENCE_MAX_SEC = 5;
const CERTIFICATE_DAYS_MIN = 30;
const DAY_MS = 86_400_000;
const JOURNAL_BYTES_MIN = 8 * 2 ** 20;
const JOURNAL_BYTES_PER_TOKEN = 8 * 512;
const MUTEX_HELD_MIN_US = 1_000_000;
const CONNECTIONS_PERCENT_MAX = 90;

/** Statistics that count faults: anything above 0 is one. */
const COUNTERS: readonly (readonly [check: string, stat: string, fault: Fault])[] = [
  ["lease-flags", "lease_flag_clash", [
    "items stored with client flags that look like a lease's",
    "readers take such values for leases and load them again",
    "leased -z <other flags>: see docs/leases.md",
  ]],
  ["udp", "udp_dropped", [
    "datagrams dropped: the receive buffer was full",
    "clients wait for replies that never arrive",
    "sysctl -w net.core.rmem_max=8388608, then restart the server",
  ]],
  ["refused", "rejected_connections", [
    "connections refused",
    "clients fail while others are connected",
    "leased -c <more>, and ulimit -n",
  ]],
  ["accept", "time_in_listen_disabled_us", [
    "microseconds without a descriptor for a new connection",
    "clients wait in the kernel's queue",
    "ulimit -n 65536, or fewer idle connections: -o idle_timeout=600",
  ]],
  ["passwords", "auth_errors", [
    "wrong passwords",
    "a client has an old password, or an attacker guesses",
    "journalctl -u leased: the log names the addresses",
  ]],
  ["no-memory", "store_no_memory", [
    "stores refused for lack of memory",
    "clients keep values that are older than the database's",
    "leased -m <more>, or without -M",
  ]],
  ["arriving", "values_dropped", [
    "values dropped before they had arrived",
    "clients send long values slowly, and send them again",
    "leased -m <more>, or a smaller -I",
  ]],
  ["lease-table", "lease_dropped", [
    "leases dropped because the table was full",
    "their fills are refused, and the next reader loads again",
    "leased --lease-entries <more>",
  ]],
  ["lock-waits", "lock_wait_timeouts", [
    "waits that ended without the lock",
    "holders keep locks for longer than others wait",
    "ask the server: lock list",
  ]],
  ["journal-errors", "token_journal_errors", [
    "update tokens refused because the journal could not be written",
    "writers cannot invalidate the cache, and so do not write",
    "df <state directory>; journalctl -u leased",
  ]],
  ["quarantine", "quarantine", [
    "the server is in quarantine",
    "nothing is cached",
    "ask the server: quarantine off, once no writer of before works any more",
  ]],
];

/** Statistics of `stats rows` that count faults. */
const ROW_COUNTERS: typeof COUNTERS = [
  ["views", "views_broken", [
    "views no longer fit the schema, or their queries do not end",
    "they are read from the database each time, or answered with an error",
    "ask the server: GET /health of --admin names the first one",
  ]],
  ["stale", "verified_stale", [
    "cached values were older than the database",
    "something writes past the origin, or a view's changes name other keys than its query has",
    "journalctl -u leased | grep 'cached value': the log names the keys",
  ]],
  ["phantom", "verified_phantom", [
    "cached values were newer than the database",
    "the database was put back to an earlier state",
    "ask the server: flush_all",
  ]],
  ["log-bound", "follow_unbounded", [
    "max_slot_wal_keep_size is -1",
    "PostgreSQL keeps its log while no origin reads it, until its disk is full and it stops",
    "psql -c \"ALTER SYSTEM SET max_slot_wal_keep_size = '64GB'\" -c 'SELECT pg_reload_conf()'",
  ]],
];

/** Looks at a server, memcached included. */
export function examineServer(facts: ServerFacts): Finding[] {
  const checks = [evictions, hits, connections, tokens, journal, mutex, certificate, clock];
  return [
    ...checks.map((check) => check(facts)),
    ...COUNTERS.map((counter) => counted(facts.stats, counter)),
    // Only a server with --follow has them.
    ...ROW_COUNTERS.filter(([, stat]) => facts.rows?.has(stat) === true)
      .map((counter) => counted(facts.rows, counter)),
    ...facts.rows === null ? [] : [verified(facts.rows)],
  ];
}

/** How many cached values of rows were compared with the database, and what that proves. */
function verified(rows: Table): Finding {
  const compared = numberOf(rows, "verified_day");
  if (Number.isNaN(compared)) {
    return unseen("verified", "cached values are not compared with the database: --verify is 0");
  }
  const [nines, wrong] = [
    numberOf(rows, "verified_nines_day"),
    numberOf(rows, "verified_wrong_day"),
  ];
  const text = `${wrong} of ${compared} values compared in the last day were wrong: ` +
    `at least ${(Math.floor(10 * nines) / 10).toFixed(1)} nines`;
  if (wrong === 0) return ok("verified", text);
  return warning("verified", [
    text,
    "clients have read values that the database did not have",
    "journalctl -u leased | grep 'cached value': the log names the keys",
  ]);
}

function counted(
  stats: Table | null,
  [check, stat, [what, why, command]]: typeof COUNTERS[number],
): Finding {
  const value = numberOf(stats, stat);
  if (Number.isNaN(value)) return unseen(check, `the server has no statistic ${stat}`);
  if (value === 0) return ok(check, `${stat} is 0`);
  return warning(check, [`${stat} is ${value}: ${what}`, why, command]);
}

/** Returns a command that sends one line to the server. */
function ask({ netcat }: ServerFacts, line: string): string {
  return `printf '${line}\\r\\nquit\\r\\n' | nc ${netcat}`;
}

/** Evictions of items that were read or stored shortly before. */
function evictions(facts: ServerFacts): Finding {
  const { items, stats } = facts;
  if (items === null) return unseen("evictions", "the server does not answer stats items");
  const young = [...groupsOf(items, "items:")].map(([of, group]) => ({
    of,
    count: numberOf(group, "evicted"),
    ageSec: numberOf(group, "evicted_time"),
  })).filter(({ count, ageSec }) => count >= YOUNG_EVICTIONS_MIN && ageSec < YOUNG_SEC);
  if (young.length === 0) {
    return ok("evictions", `no class evicts items younger than ${YOUNG_SEC} s`);
  }
  const worst = young.reduce((most, each) => each.count > most.count ? each : most);
  const limitMib = Math.ceil(numberOf(stats, "limit_maxbytes") / 2 ** 20);
  return warning("evictions", [
    `${young.length} slab classes evict items within ${YOUNG_SEC} s of their last use; ` +
    `class ${worst.of}: ${worst.count} evictions, the last one after ${worst.ageSec} s`,
    "the working set does not fit: clients load again what they have just stored",
    ask(facts, `cache_memlimit ${2 * limitMib}`),
  ]);
}

/** Hit ratio by key prefix, or of all keys if the server does not count by prefix. */
function hits(facts: ServerFacts): Finding {
  const { prefixes, stats } = facts;
  const counts = (prefixes ?? []).flatMap((line) => {
    const [, prefix, gets, found] = /^PREFIX (\S+) get (\d+) hit (\d+) /.exec(line) ?? [];
    return prefix === undefined ? [] : [{ prefix, gets: Number(gets), found: Number(found) }];
  });
  if (counts.length === 0) {
    const found = numberOf(stats, "get_hits");
    counts.push({ prefix: "", gets: found + numberOf(stats, "get_misses"), found });
  }
  const low = counts.filter(({ gets, found }) =>
    gets >= READS_MIN && 100 * found < HIT_PERCENT_MIN * gets
  ).sort((a, b) => (b.gets - b.found) - (a.gets - a.found)).slice(0, PREFIXES_SHOWN);
  const isByPrefix = counts[0]!.prefix !== "";
  const command = isByPrefix ? ask(facts, "stats detail dump") : ask(facts, "stats detail on");
  if (low.length > 0) {
    const texts = low.map(({ prefix, gets, found }) =>
      `${prefix || "all keys"} ${Math.floor(100 * found / gets)} % of ${gets}`
    );
    return warning("hit-ratio", [
      `hits below ${HIT_PERCENT_MIN} %: ${texts.join(", ")}`,
      "most reads of these keys go to the database: they expire, are evicted, or are never stored",
      command,
    ]);
  }
  if (isByPrefix) return ok("hit-ratio", `${counts.length} prefixes`);
  return unseen("hit-ratio", "all keys together are well; prefixes are not counted", command);
}

function connections({ stats }: ServerFacts): Finding {
  const [now, most] = [numberOf(stats, "curr_connections"), numberOf(stats, "max_connections")];
  if (Number.isNaN(now + most)) return unseen("connections", "the server does not count them");
  const text = `${now} of ${most}`;
  if (100 * now < CONNECTIONS_PERCENT_MAX * most) return ok("connections", text);
  return warning("connections", [
    text,
    "the next clients are refused",
    `leased -c ${2 * most}`,
  ]);
}

function tokens(facts: ServerFacts): Finding {
  const ageSec = oldestTokenSec(facts);
  if (Number.isNaN(ageSec)) return unseen("tokens", "the server has no update tokens");
  if (ageSec <= TOKEN_AGE_MAX_SEC) return ok("tokens", `the oldest is ${ageSec} s old`);
  const isOfRows = numberOf(facts.rows, "tokens_oldest_age") === ageSec;
  const end = isOfRows ? "token revoke <key> <id>" : "token release <key> <id>";
  return warning("tokens", [
    `an update token has been out for ${ageSec} s${oldKeys(facts.tokens ?? [], isOfRows)}`,
    "a writer is gone, or does not know the outcome of its commit; the keys are not cached until the token is released",
    `${ask(facts, "token list")}; when the writer can no longer commit: ${end}`,
  ]);
}

/** Whether `token list` would show a token that the doctor warns of. */
export function hasOldToken(facts: Pick<ServerFacts, "stats" | "rows">): boolean {
  return oldestTokenSec(facts) > TOKEN_AGE_MAX_SEC;
}

/** Returns the age of the oldest update token; NaN: the server has none. */
function oldestTokenSec({ stats, rows }: Pick<ServerFacts, "stats" | "rows">): number {
  const ages = [numberOf(stats, "token_oldest_age"), numberOf(rows, "tokens_oldest_age")]
    .filter((age) => !Number.isNaN(age));
  return ages.length === 0 ? NaN : Math.max(...ages);
}

/** Returns keys of old tokens as text; of rows, whose list has states and no ages, those of any token. */
function oldKeys(lines: readonly string[], areRows: boolean): string {
  const keys = lines.flatMap((line) => {
    const [, key, age, state] = /^TOKEN (\S+) \d+ (?:(\d+)|([a-z]+)) /.exec(line) ?? [];
    const isOld = areRows ? state !== undefined : Number(age) > TOKEN_AGE_MAX_SEC;
    if (key === undefined || !isOld) return [];
    return [key.length > KEY_LENGTH_SHOWN ? `${key.slice(0, KEY_LENGTH_SHOWN)}...` : key];
  });
  const each = [...new Set(keys)];
  if (each.length === 0) return "";
  const more = each.length > TOKENS_SHOWN ? `, and ${each.length - TOKENS_SHOWN} more` : "";
  return `; keys: ${each.slice(0, TOKENS_SHOWN).join(" ")}${more}`;
}

function journal({ journalBytes, settings, stats }: ServerFacts): Finding {
  if (journalBytes === null) return ok("journal", "the server keeps none");
  const folder = settings?.get("state_dir") ?? "";
  if (Number.isNaN(journalBytes)) return unseen("journal", `${folder} cannot be read from here`);
  const held = numberOf(stats, "token_curr");
  const most = Math.max(JOURNAL_BYTES_MIN, held * JOURNAL_BYTES_PER_TOKEN);
  const text = `${bytesText(journalBytes)} for ${held} tokens`;
  if (journalBytes <= most) return ok("journal", text);
  return warning("journal", [
    text,
    "the server cannot rewrite the file, and a start reads all of it",
    `df ${folder}`,
  ]);
}

function mutex({ threads, settings }: ServerFacts): Finding {
  const sum = (name: string): number =>
    [...groupsOf(threads).values()].reduce((total, group) => total + numberOf(group, name), 0);
  const [waitUs, heldUs] = [sum("mutex_wait_us"), sum("mutex_held_us")];
  if (threads === null || Number.isNaN(waitUs)) {
    return unseen("mutex", "the server does not measure waits for its locks");
  }
  const percent = heldUs > 0 ? Math.round(100 * waitUs / heldUs) : 0;
  const text = `threads wait ${percent} % of the time that the mutex is held`;
  if (heldUs < MUTEX_HELD_MIN_US || percent < 50) return ok("mutex", text);
  const half = Math.max(1, Math.floor(numberOf(settings, "num_threads") / 2));
  return warning("mutex", [text, "more threads do not help any more", `leased -t ${half}`]);
}

function certificate({ certificateEndMs, nowMs }: ServerFacts): Finding {
  if (certificateEndMs === null) return ok("certificate", "no TLS");
  if (Number.isNaN(certificateEndMs)) return unseen("certificate", "the handshake failed");
  const days = Math.floor((certificateEndMs - nowMs) / DAY_MS);
  const text = days < 0 ? `ended ${-days} days ago` : `ends in ${days} days`;
  if (days >= CERTIFICATE_DAYS_MIN) return ok("certificate", text);
  return (days < 0 ? fault : warning)("certificate", [
    text,
    "clients that verify it cannot connect then",
    "replace the file of ssl_chain_cert, then: systemctl reload leased",
  ]);
}

function clock({ stats, nowMs }: ServerFacts): Finding {
  const differenceSec = Math.abs(numberOf(stats, "time") - nowMs / 1000);
  if (Number.isNaN(differenceSec)) return unseen("time", "the server does not say its time");
  if (differenceSec <= CLOCK_DIFFERENCE_MAX_SEC) return ok("time", "as here");
  return warning("time", [
    `the clocks here and there differ by ${Math.round(differenceSec)} s`,
    "items with an absolute expiry time end too early or too late",
    "timedatectl set-ntp true",
  ]);
}
