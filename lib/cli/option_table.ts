import { CONNECTIONS_MAX_MOST } from "../../store/connections.ts";
import {
  ITEM_SIZE_MAX_LEAST,
  ITEM_SIZE_MAX_MOST,
  LOCKS_MAX_MOST,
  MEMORY_LIMIT_MIB_MAX,
  MIB,
} from "../../store/limits.ts";
import { LEASE_ENTRIES_MOST } from "../../store/memory/lease_layout.ts";

/**
 * How an option's text becomes a value:
 *
 * - `switch`: there or not; as `-o` sub-option also `no_name`. A boolean.
 * - `count`: how often it is there (-vv).
 * - `whole`: a whole number.
 * - `level`: a whole number that may be left out (1), or `no_name` (0).
 * - `octal`: a whole number written in octal.
 * - `real`: a number with a fraction.
 * - `mib`: a size in bytes; a bare number counts MiB, else with k, m, g.
 * - `bytes`: a size in bytes; a bare number counts bytes, else with k, m, g.
 * - `text`: as it is. `choice`: one of the words in the unit's column.
 * - `list`: may be repeated; parts between `,` or `;`.
 */
export type OptionKind =
  | "switch"
  | "count"
  | "whole"
  | "level"
  | "octal"
  | "real"
  | "mib"
  | "bytes"
  | "text"
  | "choice"
  | "list";

/**
 * - `works`: does what it says; shown by `--help`.
 * - `idle`: memcached has it and it means nothing here; accepted, and said once.
 * - `absent`: memcached has it and this version does not; refused by name.
 */
export type OptionState = "works" | "idle" | "absent";

/** One option. */
export type OptionRow = readonly [
  name: string,
  letter: string,
  kind: OptionKind,
  /** What a value counts or names, for help and errors; for `choice` the words allowed, between `|`. */
  unit: string,
  /** Least and most, in the unit a value is stored in (sizes: bytes). Both NaN: no range. */
  least: number,
  most: number,
  /** As it would be written on the command line; "": none. */
  preset: string,
  state: OptionState,
  meaning: string,
];

const NONE = NaN;
const INT31 = 2 ** 31 - 1;
/** The runtime's timers reach no further. */
const COUNTER_INTERVAL_SEC_MAX = Math.floor(INT31 / 1000);

/** The options of the command line. One table for parsing, errors, `--help`, README and `stats settings`. */
// deno-fmt-ignore
export const OPTIONS = [
  // name                    letter kind    unit                    least most                   preset     state     meaning
  ["port",                   "p", "whole",  "port",                   -1, 65535,                 "11211",   "works",  "TCP port; 0: no TCP, -1: any free port"],
  ["listen",                 "l", "list",   "host[:port]",          NONE, NONE,                  "127.0.0.1", "works", "address to listen on, several between commas or by repeating; '*': every IPv4 address"],
  ["unix-socket",            "s", "text",   "path",                 NONE, NONE,                  "",        "works",  "listen on this Unix socket, and on no port"],
  ["unix-mask",              "a", "octal",  "mode",                    0, 0o777,                 "700",     "works",  "permission bits of the Unix socket, in octal"],
  ["udp-port",               "U", "whole",  "port",                   -1, 65535,                 "0",       "works",  "UDP port; 0: no UDP, -1: any free port"],
  ["memory-limit",           "m", "mib",    "MiB",                   MIB, MEMORY_LIMIT_MIB_MAX * MIB, "64m", "works", "memory of the store, its tables included; a bare number counts MiB"],
  ["max-item-size",          "I", "bytes",  "bytes",   ITEM_SIZE_MAX_LEAST, ITEM_SIZE_MAX_MOST,  "1m",      "works",  "largest item, key and header included; at most half of the memory"],
  ["disable-evictions",      "M", "switch", "",                     NONE, NONE,                  "",        "works",  "answer an error when memory is full instead of evicting"],
  ["conn-limit",             "c", "whole",  "connections",             1, CONNECTIONS_MAX_MOST,  "1024",    "works",  "connections at the same time"],
  ["threads",                "t", "whole",  "threads",                 1, 256,                   "4",       "works",  "threads that serve connections"],
  ["max-reqs-per-event",     "R", "whole",  "requests",                1, INT31,                 "20",      "idle",   "a turn ends after some full reads, whatever the requests in them"],
  ["listen-backlog",         "b", "whole",  "connections",             1, INT31,                 "1024",    "works",  "connections the kernel may keep waiting"],
  ["protocol",               "B", "choice", "auto|ascii|binary",    NONE, NONE,                  "auto",    "works",  "protocol to speak; auto: what the first byte of a connection shows"],
  ["slab-growth-factor",     "f", "real",   "factor",             1.001, 1024,                   "1.075",    "works",  "how far the sizes of neighbouring slab classes are apart; with slab_layout=memcached 1.25"],
  ["slab-min-size",          "n", "whole",  "bytes",                   1, ITEM_SIZE_MAX_MOST,    "48",      "works",  "least room for key, value and flags"],
  ["disable-cas",            "C", "switch", "",                     NONE, NONE,                  "",        "works",  "no cas ids"],
  ["disable-flush-all",      "F", "switch", "",                     NONE, NONE,                  "",        "works",  "refuse flush_all"],
  ["disable-dumping",        "X", "switch", "",                     NONE, NONE,                  "",        "works",  "refuse stats detail, stats cachedump, dumps of lru_crawler, and lists of keys, locks and leases"],
  ["disable-watch",          "W", "switch", "",                     NONE, NONE,                  "",        "works", "refuse watch"],
  ["enable-shutdown",        "A", "switch", "",                     NONE, NONE,                  "",        "works",  "allow the shutdown command"],
  ["stats-delimiter",        "D", "text",   "character",            NONE, NONE,                  "",        "works",  "count gets and sets by key prefix, which ends at this character (':')"],
  ["lease-flag",             "z", "text",   "flag[:mask]",          NONE, NONE,                  "",        "works",  "turn getss and deletess on; client flags, in hexadecimal, that mark a lease (mask ffff)"],
  ["lease-time",             "",  "whole",  "seconds",                 1, 2_592_000,             "10",      "works",  "how long a lease is held, when a client does not say"],
  ["lease-entries",          "",  "whole",  "leases",                  0, LEASE_ENTRIES_MOST,    "100000",  "works",  "leases at the same time, 64 bytes each; not given: at most what 1/64 of the memory holds"],
  ["strict",                 "",  "list",   "prefix",               NONE, NONE,                  "",        "works",  "keys that only the holder of a lease may fill, by prefix; '*': all keys"],
  ["io",                     "",  "choice", "auto|portable|native", NONE, NONE,                  "auto",    "works",  "native: system calls of Linux through FFI; auto: native where it can be had"],
  ["lock-limit",             "",  "whole",  "locks",                   1, LOCKS_MAX_MOST,        "65536",   "works",  "locks in all"],
  ["lock-limit-per-conn",    "",  "whole",  "locks",                   1, LOCKS_MAX_MOST,        "1024",    "works",  "locks that one connection may hold"],
  ["lock-waiters",           "",  "whole",  "connections",             1, CONNECTIONS_MAX_MOST,  "1024",    "works",  "connections that may wait for one lock"],
  ["lock-idle-timeout",      "",  "whole",  "seconds",                 0, INT31,                 "0",       "works",  "close connections that hold locks and are silent for so long; 0: never"],
  ["counter-port",           "",  "whole",  "port",                   -1, 65535,                 "0",       "works",  "port of yrmcds's counter protocol, on the addresses of -l; 0: none, -1: any free port"],
  ["counter-conn-limit",     "",  "whole",  "connections",             1, CONNECTIONS_MAX_MOST,  "1024",    "works",  "connections to the counter port at the same time; beside those of -c"],
  ["counter-memory",         "",  "mib",    "MiB",                   MIB, 1024 * MIB,            "16m",     "works",  "memory for counters, beside that of -m; a bare number counts MiB"],
  ["counter-interval",       "",  "whole",  "seconds",                 1, COUNTER_INTERVAL_SEC_MAX, "86400", "works", "how often idle counters are dropped, and the highest sums of Dump forgotten"],
  ["pidfile",                "P", "text",   "path",                 NONE, NONE,                  "",        "works",  "write the process id into this file while running"],
  ["extended",               "o", "list",   "name[=value]",         NONE, NONE,                  "",        "works",  "further options, below; several between commas or by repeating"],
  ["verbose",                "v", "count",  "",                     NONE, NONE,                  "",        "works",  "say more: -v refusals and errors, -vv every connection, -vvv everything, and check the store at the end"],
  ["help",                   "h", "switch", "",                     NONE, NONE,                  "",        "works",  "print this and exit"],
  ["version",                "V", "switch", "",                     NONE, NONE,                  "",        "works",  "print the version and exit"],
  ["license",                "i", "switch", "",                     NONE, NONE,                  "",        "works",  "print the licence and exit"],
  ["daemon",                 "d", "switch", "",                     NONE, NONE,                  "",        "idle",   "stays in the foreground: let a service manager start it"],
  ["user",                   "u", "text",   "name",                 NONE, NONE,                  "",        "idle",   "does not change its user: let a service manager do it"],
  ["lock-memory",            "k", "switch", "",                     NONE, NONE,                  "",        "idle",   "does not lock memory"],
  ["enable-largepages",      "L", "switch", "",                     NONE, NONE,                  "",        "idle",   "the native transport asks for large pages anyhow"],
  ["enable-coredumps",       "r", "switch", "",                     NONE, NONE,                  "",        "idle",   "leaves the core file limit alone"],
  ["napi-ids",               "N", "whole",  "ids",                     1, INT31,                 "",        "idle",   "the kernel spreads connections over threads"],
  ["enable-sasl",            "S", "switch", "",                     NONE, NONE,                  "",        "absent", "SASL authentication"],
  ["enable-ssl",             "Z", "switch", "",                     NONE, NONE,                  "",        "absent", "TLS"],
  ["auth-file",              "Y", "text",   "path",                 NONE, NONE,                  "",        "absent", "authentication in the text protocol"],
  ["memory-file",            "e", "text",   "path",                 NONE, NONE,                  "",        "absent", "memory that outlives the process"],
] as const satisfies readonly OptionRow[];

/** The words of `-o`. The letter's column is empty. */
// deno-fmt-ignore
export const EXTENDED_OPTIONS = [
  // name                      kind                       least most     preset     state   meaning
  ["maxconns_fast",         "", "switch", "",              NONE, NONE,      "on",      "works",  "refuse connections above the limit at once; no_maxconns_fast: let them wait"],
  ["idle_timeout",          "", "whole",  "seconds",          0, INT31,     "0",       "works",  "close TCP connections that are silent for so long; 0: never"],
  ["send_timeout",          "", "whole",  "seconds",          1, INT31,     "60",      "works",  "drop connections that take nothing of their replies for so long"],
  ["memlimit_max",          "", "mib",    "MiB",              0, MEMORY_LIMIT_MIB_MAX * MIB, "0", "works", "how far cache_memlimit may raise -m; 0: to four times as much, at least 1g"],
  ["slab_layout",           "", "choice", "leased|memcached", NONE, NONE,   "leased",  "works",  "memcached: pages, classes and item sizes are counted as memcached does"],
  ["compat",                "", "choice", "memcached|yrmcds", NONE, NONE,    "memcached", "works", "whose rules hold where the two contradict each other"],
  ["log_format",            "", "choice", "text|json",     NONE, NONE,      "text",    "works",  "how lines of the log are written"],
  ["relaxed_privileges",    "", "switch", "",              NONE, NONE,      "",        "idle",   "no privileges are dropped"],
  ["drop_privileges",       "", "switch", "",              NONE, NONE,      "",        "idle",   "permissions of deno run take its place"],
  ["hashpower",             "", "whole",  "bits",            12, 32,        "",        "idle",   "the hash index grows with the items"],
  ["hashexpand",            "", "switch", "",              NONE, NONE,      "",        "idle",   "the hash index grows with the items"],
  ["hash_algorithm",        "", "choice", "jenkins|murmur3|xxh3", NONE, NONE, "",      "idle",   "has one, seeded at every start"],
  ["slab_reassign",         "", "switch", "",              NONE, NONE,      "",        "idle",   "pages always move to the class that needs them"],
  ["slab_automove",         "", "level",  "level",            0, 2,         "",        "idle",   "evictions move pages"],
  ["slab_automove_ratio",   "", "real",   "ratio",            0, 1,         "",        "idle",   "evictions move pages"],
  ["slab_automove_window",  "", "whole",  "checks",           3, 1800,      "",        "idle",   "evictions move pages"],
  ["slab_automove_freeratio", "", "real", "ratio",            0, 1,         "",        "idle",   "evictions move pages"],
  ["slab_sizes",            "", "text",   "bytes-bytes…",  NONE, NONE,      "",        "idle",   "classes follow from -n and -f"],
  ["slab_chunk_max",        "", "whole",  "KiB",              1, 1024,      "",        "idle",   "the largest chunk follows from the page size"],
  ["chunked_items",         "", "switch", "",              NONE, NONE,      "",        "idle",   "large items are always chains of chunks"],
  ["tail_repair_time",      "", "whole",  "seconds",         10, INT31,     "",        "idle",   "has no tail to repair"],
  ["lru_crawler",           "", "switch", "",              NONE, NONE,      "",        "idle",   "expired items are always removed in the background"],
  ["lru_crawler_sleep",     "", "whole",  "microseconds",     0, 1_000_000, "",        "idle",   "expired items are always removed in the background"],
  ["lru_crawler_tocrawl",   "", "whole",  "items",            0, INT31,     "",        "idle",   "expired items are always removed in the background"],
  ["lru_maintainer",        "", "switch", "",              NONE, NONE,      "",        "idle",   "evicts by S3-FIFO"],
  ["hot_lru_pct",           "", "whole",  "percent",          1, 79,        "",        "idle",   "evicts by S3-FIFO"],
  ["warm_lru_pct",          "", "whole",  "percent",          1, 79,        "",        "idle",   "evicts by S3-FIFO"],
  ["hot_max_factor",        "", "real",   "factor",           0, INT31,     "",        "idle",   "evicts by S3-FIFO"],
  ["warm_max_factor",       "", "real",   "factor",           0, INT31,     "",        "idle",   "evicts by S3-FIFO"],
  ["temporary_ttl",         "", "whole",  "seconds",          0, INT31,     "",        "idle",   "evicts by S3-FIFO"],
  ["watcher_logbuf_size",   "", "whole",  "KiB",              4, 1024 * 1024, "256",  "works",  "what each watcher may be behind before it loses lines"],
  ["worker_logbuf_size",    "", "whole",  "KiB",              0, INT31,     "",        "idle",   "needs no such buffer"],
  ["track_sizes",           "", "switch", "",              NONE, NONE,      "",        "idle",   "stats sizes needs no switch"],
  ["read_buf_mem_limit",    "", "whole",  "MiB",              0, INT31,     "",        "idle",   "buffers belong to threads, not to connections"],
  ["resp_obj_mem_limit",    "", "whole",  "MiB",              0, INT31,     "",        "idle",   "buffers belong to threads, not to connections"],
  ["inline_ascii_resp",     "", "switch", "",              NONE, NONE,      "",        "idle",   "means nothing in memcached either"],
  ["modern",                "", "switch", "",              NONE, NONE,      "",        "idle",   "means nothing in memcached either"],
  ["sock_cookie_id",        "", "whole",  "id",               0, INT31,     "",        "idle",   "sets no socket cookie"],
] as const satisfies readonly OptionRow[];

/** Beginnings of `-o` words that belong to parts of memcached this version does not have. */
export const ABSENT_EXTENDED_PREFIXES = ["ext_", "ssl_", "proxy_"] as const;

type ValueOfKind = {
  switch: boolean;
  count: number;
  whole: number;
  level: number;
  octal: number;
  real: number;
  mib: number;
  bytes: number;
  text: string;
  choice: string;
  list: readonly string[];
};

type ValuesOf<Rows extends readonly OptionRow[]> = {
  -readonly [Row in Rows[number] as Row[0]]: ValueOfKind[Row[2]];
};

/** What a command line came to: every option by its long name, defaults filled in. */
export type OptionValues = ValuesOf<typeof OPTIONS>;
/** The same of `-o`. */
export type ExtendedValues = ValuesOf<typeof EXTENDED_OPTIONS>;
