import { CONNECTIONS_MAX_MOST } from "../../store/connections.ts";
import {
  ITEM_SIZE_MAX_LEAST,
  ITEM_SIZE_MAX_MOST,
  LOCKS_MAX_MOST,
  MEMORY_LIMIT_MIB_MAX,
  MIB,
} from "../../store/limits.ts";
import { LEASE_ENTRIES_MOST, TOKEN_ENTRIES_MOST } from "../../store/setup.ts";

/**
 * How the text of an option becomes a value:
 *
 * - `switch`: a boolean: whether the option is given. As a word of `-o` also `no_name`.
 * - `count`: how often the option is given (-vv).
 * - `whole`: an integer.
 * - `level`: an integer; the word alone is 1, `no_name` is 0.
 * - `octal`: an integer in octal.
 * - `real`: a decimal number.
 * - `mib`: a size in bytes, with the suffix k, m or g; without a suffix in MiB.
 * - `bytes`: a size in bytes, with the suffix k, m or g; without a suffix in bytes.
 * - `text`: the text itself.
 * - `choice`: one of the words in the unit's column.
 * - `list`: the parts between `,` or `;`. The option may be repeated.
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
 * - `works`: implemented; listed by `--help`.
 * - `ignored`: an option of memcached without effect here; accepted, and logged with its reason.
 * - `unsupported`: an option of memcached that this server cannot honour; refused with its reason.
 */
export type OptionState = "works" | "ignored" | "unsupported";

/** One option. */
export type OptionRow = readonly [
  name: string,
  letter: string,
  kind: OptionKind,
  /** The unit or the kind of the value, for help and errors; for `choice` the allowed words, separated by `|`. */
  unit: string,
  /** Smallest and largest value (sizes: in bytes). Both NaN: no range. */
  least: number,
  most: number,
  /** The default, as on the command line; "": none. */
  preset: string,
  state: OptionState,
  /** `works`: what the option does. Otherwise why it does not, and what to use instead. */
  meaning: string,
];

const NONE = NaN;
const INT31 = 2 ** 31 - 1;
/** So that the work of as many requests is an int32. */
const REQUESTS_PER_EVENT_MOST = 1_000_000;
/** The longest delay of the runtime's timers. */
const COUNTER_INTERVAL_SEC_MAX = Math.floor(INT31 / 1000);

/** The options of the command line. One table for parsing, errors, `--help`, the documentation and `stats settings`. */
// deno-fmt-ignore
export const OPTIONS = [
  // name                    letter kind    unit                    least most                   preset     state     meaning
  ["port",                   "p", "whole",  "port",                   -1, 65535,                 "11211",   "works",  "TCP port to listen on; 0: no TCP, -1: any free port"],
  ["listen",                 "l", "list",   "host[:port]",          NONE, NONE,                  "127.0.0.1", "works", "address to listen on; separate several with commas, or repeat the option; '*': every IPv4 address; under -Z the prefix notls: is a plain port, mtls: one that requires client certificates, btls: one that asks for none"],
  ["udp-reply-max",          "",  "bytes",  "bytes",                   0, ITEM_SIZE_MAX_MOST,    "0",       "works",  "longest reply to the requests of one datagram, longer ones are dropped; 0: -I and 4 KiB, enough for any get; a bare number is in bytes"],
  ["unix-socket",            "s", "text",   "path",                 NONE, NONE,                  "",        "works",  "listen on this Unix socket, and on no TCP or UDP port"],
  ["unix-mask",              "a", "octal",  "mode",                    0, 0o777,                 "700",     "works",  "permission bits of the Unix socket, in octal"],
  ["udp-port",               "U", "whole",  "port",                   -1, 65535,                 "0",       "works",  "UDP port to listen on; 0: no UDP, -1: any free port"],
  ["memory-limit",           "m", "mib",    "MiB",                   MIB, MEMORY_LIMIT_MIB_MAX * MIB, "64m", "works", "memory for items and the tables of the store, 1m to 15g; a bare number is in MiB"],
  ["max-item-size",          "I", "bytes",  "bytes",   ITEM_SIZE_MAX_LEAST, ITEM_SIZE_MAX_MOST,  "1m",      "works",  "largest item, key and header included, 1k to 1g; at most half of -m; a bare number is in bytes"],
  ["disable-evictions",      "M", "switch", "",                     NONE, NONE,                  "",        "works",  "return an error when memory is full, instead of evicting items"],
  ["conn-limit",             "c", "whole",  "connections",             1, CONNECTIONS_MAX_MOST,  "1024",    "works",  "maximum number of client connections"],
  ["threads",                "t", "whole",  "threads",                 1, 256,                   "4",       "works",  "number of worker threads"],
  ["max-reqs-per-event",     "R", "whole",  "requests",                1, REQUESTS_PER_EVENT_MOST, "4096",  "works",  "requests of one connection that are served before other connections; a costly request counts as many"],
  ["listen-backlog",         "b", "whole",  "connections",             1, INT31,                 "1024",    "works",  "connections that the kernel may queue until the server accepts them"],
  ["protocol",               "B", "choice", "auto|ascii|binary",    NONE, NONE,                  "auto",    "works",  "protocol to speak; auto: the first byte of each connection decides"],
  ["slab-growth-factor",     "f", "real",   "factor",             1.001, 1024,                   "1.075",    "works",  "size ratio of neighbouring slab classes; 1.25 with -o slab_layout=memcached"],
  ["slab-min-size",          "n", "whole",  "bytes",                   1, ITEM_SIZE_MAX_MOST,    "48",      "works",  "minimum space for key, value and flags"],
  ["disable-cas",            "C", "switch", "",                     NONE, NONE,                  "",        "works",  "do not keep cas ids"],
  ["disable-flush-all",      "F", "switch", "",                     NONE, NONE,                  "",        "works",  "refuse the flush_all command"],
  ["disable-dumping",        "X", "switch", "",                     NONE, NONE,                  "",        "works",  "refuse stats detail, stats cachedump, the dumps of lru_crawler, and lists of keys, locks and leases"],
  ["disable-watch",          "W", "switch", "",                     NONE, NONE,                  "",        "works", "refuse the watch command"],
  ["enable-shutdown",        "A", "switch", "",                     NONE, NONE,                  "",        "works",  "accept the shutdown command"],
  ["stats-delimiter",        "D", "text",   "character",            NONE, NONE,                  "",        "works",  "count gets and sets by key prefix from the start; a prefix ends at this character, by default ':'"],
  ["lease-flag",             "z", "text",   "flag[:mask]",          NONE, NONE,                  "",        "works",  "enable getss and deletess; the hexadecimal client flags that mark a lease, and which of their bits count (ffff)"],
  ["lease-time",             "",  "whole",  "seconds",                 1, 2_592_000,             "10",      "works",  "how long a lease is valid when the client does not say"],
  ["lease-entries",          "",  "whole",  "leases",                  0, LEASE_ENTRIES_MOST,    "100000",  "works",  "maximum number of leases, 64 bytes each; by default no more than fit in 1/64 of -m"],
  ["strict",                 "",  "list",   "prefix",               NONE, NONE,                  "",        "works",  "only the holder of a lease may fill keys with this prefix; '*': all keys; separate several with commas"],
  ["auth-file",              "Y", "text",   "path",                 NONE, NONE,                  "",        "works",  "ask clients for a name and a password; the file has lines user:password; leased passwd prints lines with hashes"],
  ["enable-sasl",            "S", "switch", "",                     NONE, NONE,                  "",        "works",  "with -Y: let clients of the binary protocol authenticate by SASL PLAIN"],
  ["auth-timeout",           "",  "whole",  "seconds",                 1, INT31,                 "30",      "works",  "with -Y: close connections that do not authenticate within this time"],
  ["require-auth",           "",  "switch", "",                     NONE, NONE,                  "",        "works",  "refuse to listen beyond this host without authentication"],
  ["state-dir",              "",  "text",   "path",                 NONE, NONE,                  "",        "works",  "directory where update tokens survive a restart; without it there are no update tokens"],
  ["tokens",                 "",  "choice", "journal|volatile",     NONE, NONE,                  "journal", "works",  "volatile: update tokens without a state directory, forgotten at exit; see --token-quarantine"],
  ["token-entries",          "",  "whole",  "tokens",                1, TOKEN_ENTRIES_MOST,     "10000",   "works",  "maximum number of update tokens, 64 bytes and more each; by default no more than fit in 1/64 of -m"],
  ["token-quarantine",       "",  "whole",  "seconds",                 0, 86_400,                "60",      "works",  "with --tokens=volatile: how long the server stores nothing after its start"],
  ["token-recover",          "",  "choice", "refuse|quarantine|drop", NONE, NONE,                "refuse",  "works",  "for a journal that cannot be read; refuse: store nothing; quarantine: forget its tokens and store nothing until quarantine off; drop: forget its tokens"],
  ["allow-token-drop",       "",  "switch", "",                     NONE, NONE,                  "",        "works",  "accept token drop, which takes update tokens from writers that may still write"],
  ["io",                     "",  "choice", "auto|portable|native", NONE, NONE,                  "auto",    "works",  "transport; native: system calls of Linux through FFI; portable: sockets of Deno; auto: native where available"],
  ["lock-limit",             "",  "whole",  "locks",                   1, LOCKS_MAX_MOST,        "65536",   "works",  "maximum number of locks"],
  ["lock-limit-per-conn",    "",  "whole",  "locks",                   1, LOCKS_MAX_MOST,        "1024",    "works",  "maximum number of locks of one connection"],
  ["lock-waiters",           "",  "whole",  "connections",             1, CONNECTIONS_MAX_MOST,  "1024",    "works",  "maximum number of connections that wait for one lock"],
  ["lock-idle-timeout",      "",  "whole",  "seconds",                 0, INT31,                 "0",       "works",  "close connections that hold locks and send nothing for this long; 0: never"],
  ["counter-port",           "",  "whole",  "port",                   -1, 65535,                 "0",       "works",  "TCP port of yrmcds's counter protocol, on the addresses of -l; 0: off, -1: any free port"],
  ["counter-conn-limit",     "",  "whole",  "connections",             1, CONNECTIONS_MAX_MOST,  "1024",    "works",  "maximum number of connections to the counter port, in addition to -c"],
  ["counter-memory",         "",  "mib",    "MiB",                   MIB, 1024 * MIB,            "16m",     "works",  "memory for counters, in addition to -m; a bare number is in MiB"],
  ["counter-interval",       "",  "whole",  "seconds",                 1, COUNTER_INTERVAL_SEC_MAX, "86400", "works", "how often the server drops idle counters and resets the peaks that Dump reports"],
  ["metrics",                "",  "text",   "[host:]port",         NONE, NONE,                  "",        "works",  "serve statistics to Prometheus (GET /metrics) and GET /health by HTTP on this address; only a port: 127.0.0.1"],
  ["enable-ssl",             "Z", "switch", "",                     NONE, NONE,                  "",        "works",  "TLS on TCP ports, with the certificate of -o ssl_chain_cert; a prefix of -l makes an exception"],
  ["pidfile",                "P", "text",   "path",                 NONE, NONE,                  "",        "works",  "write the process id to this file, and remove the file at exit"],
  ["extended",               "o", "list",   "name[=value]",         NONE, NONE,                  "",        "works",  "extended options, listed at the end; separate several with commas, or repeat the option"],
  ["verbose",                "v", "count",  "",                     NONE, NONE,                  "",        "works",  "log more; -v: refused and dropped connections; -vv: also every connection and protocol error; -vvv: also every command, and check the store at exit"],
  ["help",                   "h", "switch", "",                     NONE, NONE,                  "",        "works",  "print this help and exit"],
  ["version",                "V", "switch", "",                     NONE, NONE,                  "",        "works",  "print the version and exit"],
  ["license",                "i", "switch", "",                     NONE, NONE,                  "",        "works",  "print the license and exit"],
  ["daemon",                 "d", "switch", "",                     NONE, NONE,                  "",        "ignored", "the server stays in the foreground; start it from a service manager such as systemd"],
  ["user",                   "u", "text",   "name",                 NONE, NONE,                  "",        "ignored", "the server keeps the user that started it; set the user in the service manager (systemd: User=) or start it with runuser -u NAME"],
  ["lock-memory",            "k", "switch", "",                     NONE, NONE,                  "",        "ignored", "the server does not lock memory; turn swap off, or set MemorySwapMax=0 in systemd"],
  ["enable-largepages",      "L", "switch", "",                     NONE, NONE,                  "",        "ignored", "the native transport always asks for large pages; see /sys/kernel/mm/transparent_hugepage"],
  ["enable-coredumps",       "r", "switch", "",                     NONE, NONE,                  "",        "ignored", "the server does not change the core file limit; set ulimit -c, or LimitCORE= in systemd"],
  ["napi-ids",               "N", "whole",  "ids",                     1, INT31,                 "",        "ignored", "the server or the kernel spreads connections over threads; there is nothing to set"],
  ["memory-file",            "e", "text",   "path",                 NONE, NONE,                  "",        "unsupported", "items do not survive a restart; the cache starts empty"],
] as const satisfies readonly OptionRow[];

/** The words of `-o`, in the columns of OPTIONS; none has a letter. */
// deno-fmt-ignore
export const EXTENDED_OPTIONS = [
  // name                      kind                       least most     preset     state   meaning
  ["ssl_chain_cert",        "", "text",   "path",          NONE, NONE,      "",        "works",  "certificate chain in PEM, for -Z"],
  ["ssl_key",               "", "text",   "path",          NONE, NONE,      "",        "works",  "private key; by default in the file of ssl_chain_cert"],
  ["ssl_keyformat",         "", "whole",  "format",            1, 2,         "1",       "works",  "format of the private key; 1: PEM, 2: DER"],
  ["ssl_verify_mode",       "", "whole",  "mode",              0, 3,         "0",       "works",  "client certificates; 0: none, 1: verified if the client sends one, 2 and 3: required"],
  ["ssl_ca_cert",           "", "text",   "path",          NONE, NONE,      "",        "works",  "authorities of client certificates, in PEM"],
  ["ssl_ciphers",           "", "text",   "ciphers",       NONE, NONE,      "",        "works",  "ciphers up to TLS 1.2, as openssl ciphers lists them"],
  ["ssl_min_version",       "", "whole",  "version",           0, 3,         "2",       "works",  "oldest protocol; 0: TLS 1.0, 1: TLS 1.1, 2: TLS 1.2, 3: TLS 1.3"],
  ["ssl_session_cache",     "", "switch", "",              NONE, NONE,      "",        "works",  "keep TLS sessions in memory, so that clients without tickets can resume them"],
  ["ssl_kernel_tls",        "", "switch", "",              NONE, NONE,      "",        "works",  "let the kernel encrypt, if it can (module tls)"],
  ["ssl_handshake_timeout", "", "whole",  "seconds",           1, INT31,     "10",      "works",  "close connections whose TLS handshake takes longer; the portable transport has no such limit"],
  ["ssl_wbuf_size",         "", "whole",  "KiB",               0, 2047,      "16",      "ignored", "replies are encrypted from the buffer that they were written to; there is nothing to set"],
  ["maxconns_fast",         "", "switch", "",              NONE, NONE,      "on",      "works",  "refuse connections above -c at once; no_maxconns_fast: leave them waiting in the kernel"],
  ["idle_timeout",          "", "whole",  "seconds",          0, INT31,     "0",       "works",  "close TCP connections that send nothing for this long; 0: never"],
  ["send_timeout",          "", "whole",  "seconds",          1, INT31,     "60",      "works",  "close connections that accept no byte of their replies for this long"],
  ["io_uring",              "", "choice", "on|off|auto",   NONE, NONE,      "auto",    "works",  "system calls of the native transport; on: one of io_uring for the reads of a round, one for its replies; off: one each; auto: on if possible"],
  ["memlimit_max",          "", "mib",    "MiB",              0, MEMORY_LIMIT_MIB_MAX * MIB, "0", "works", "how far the cache_memlimit command may raise -m, at most 15g; 0: four times -m, but at least 1g"],
  ["slab_layout",           "", "choice", "leased|memcached", NONE, NONE,   "leased",  "works",  "memcached: pages, slab classes and item sizes as memcached counts them"],
  ["compat",                "", "choice", "memcached|yrmcds", NONE, NONE,    "memcached", "works", "whose rules apply where memcached and yrmcds contradict each other"],
  ["log_format",            "", "choice", "text|json",     NONE, NONE,      "text",    "works",  "format of the log and of errors at start; json: one object per line"],
  ["relaxed_privileges",    "", "switch", "",              NONE, NONE,      "",        "ignored", "the server drops no privileges; the permissions of deno run limit it"],
  ["drop_privileges",       "", "switch", "",              NONE, NONE,      "",        "ignored", "the server drops no privileges itself; the permissions of deno run limit it, and systemd can add a sandbox"],
  ["hashpower",             "", "whole",  "bits",            12, 32,        "",        "ignored", "the hash table starts small and grows with the items; there is nothing to set"],
  ["hashexpand",            "", "switch", "",              NONE, NONE,      "",        "ignored", "the hash table starts small and grows with the items; there is nothing to set"],
  ["hash_algorithm",        "", "choice", "jenkins|murmur3|xxh3", NONE, NONE, "",      "ignored", "there is one hash function, seeded at every start"],
  ["slab_reassign",         "", "switch", "",              NONE, NONE,      "",        "ignored", "evictions decide when a page moves to another slab class; there is nothing to set"],
  ["slab_automove",         "", "level",  "level",            0, 2,         "",        "ignored", "evictions decide when a page moves to another slab class; there is nothing to set"],
  ["slab_automove_ratio",   "", "real",   "ratio",            0, 1,         "",        "ignored", "evictions decide when a page moves to another slab class; there is nothing to set"],
  ["slab_automove_window",  "", "whole",  "checks",           3, 1800,      "",        "ignored", "evictions decide when a page moves to another slab class; there is nothing to set"],
  ["slab_automove_freeratio", "", "real", "ratio",            0, 1,         "",        "ignored", "evictions decide when a page moves to another slab class; there is nothing to set"],
  ["slab_sizes",            "", "text",   "bytes-bytes…",  NONE, NONE,      "",        "ignored", "-n and -f determine the slab classes"],
  ["slab_chunk_max",        "", "whole",  "KiB",              1, 1024,      "",        "ignored", "the page size determines the largest chunk; see -o slab_layout"],
  ["chunked_items",         "", "switch", "",              NONE, NONE,      "",        "ignored", "large items are always chains of chunks"],
  ["tail_repair_time",      "", "whole",  "seconds",         10, INT31,     "",        "ignored", "no item is pinned for so long that its queue needs repair; there is nothing to set"],
  ["lru_crawler",           "", "switch", "",              NONE, NONE,      "",        "ignored", "expired items are always removed in the background, within seconds; there is nothing to set"],
  ["lru_crawler_sleep",     "", "whole",  "microseconds",     0, 1_000_000, "",        "ignored", "expired items are always removed in the background, within seconds; there is nothing to set"],
  ["lru_crawler_tocrawl",   "", "whole",  "items",            0, INT31,     "",        "ignored", "expired items are always removed in the background, within seconds; there is nothing to set"],
  ["lru_maintainer",        "", "switch", "",              NONE, NONE,      "",        "ignored", "items are evicted by S3-FIFO, which has no such queues; there is nothing to set"],
  ["hot_lru_pct",           "", "whole",  "percent",          1, 79,        "",        "ignored", "items are evicted by S3-FIFO, which has no such queues; there is nothing to set"],
  ["warm_lru_pct",          "", "whole",  "percent",          1, 79,        "",        "ignored", "items are evicted by S3-FIFO, which has no such queues; there is nothing to set"],
  ["hot_max_factor",        "", "real",   "factor",           0, INT31,     "",        "ignored", "items are evicted by S3-FIFO, which has no such queues; there is nothing to set"],
  ["warm_max_factor",       "", "real",   "factor",           0, INT31,     "",        "ignored", "items are evicted by S3-FIFO, which has no such queues; there is nothing to set"],
  ["temporary_ttl",         "", "whole",  "seconds",          0, INT31,     "",        "ignored", "items are evicted by S3-FIFO, which has no such queues; there is nothing to set"],
  ["watcher_logbuf_size",   "", "whole",  "KiB",              4, 1024 * 1024, "256",  "works",  "buffer of each watcher; a watcher that falls further behind loses lines"],
  ["worker_logbuf_size",    "", "whole",  "KiB",              0, INT31,     "",        "ignored", "workers need no such buffer; -o watcher_logbuf_size sets the one of each watcher"],
  ["track_sizes",           "", "switch", "",              NONE, NONE,      "",        "ignored", "stats sizes always works"],
  ["read_buf_mem_limit",    "", "whole",  "MiB",              0, INT31,     "",        "ignored", "buffers belong to threads and have a fixed size; limit connections with -c"],
  ["resp_obj_mem_limit",    "", "whole",  "MiB",              0, INT31,     "",        "ignored", "buffers belong to threads and have a fixed size; limit connections with -c"],
  ["inline_ascii_resp",     "", "switch", "",              NONE, NONE,      "",        "ignored", "it has no effect in memcached either"],
  ["modern",                "", "switch", "",              NONE, NONE,      "",        "ignored", "it has no effect in memcached either"],
  ["sock_cookie_id",        "", "whole",  "id",               0, INT31,     "",        "ignored", "the server sets no socket cookie; match the port or the user in the firewall"],
] as const satisfies readonly OptionRow[];

/** Prefixes of `-o` words whose part of memcached this server lacks, and why or what to use instead. */
export const UNSUPPORTED_EXTENDED: readonly (readonly [prefix: string, reason: string])[] = [
  ["ext_", "items live in memory only; raise -m, or run several servers"],
  ["proxy_", "memcached's built-in proxy is not supported; use mcrouter, or memcached as a proxy"],
];

/** Why a range ends where it does, for errors: by long name. */
export const RANGE_REASONS: Readonly<Record<string, string>> = {
  "memory-limit": "one server addresses at most 15 GiB; run several for more",
  "memlimit_max": "one server addresses at most 15 GiB; run several for more",
};

/** The groups of `--help`, and the long names of the options in each. */
export const OPTION_GROUPS: readonly (readonly [title: string, names: readonly string[]])[] = [
  ["Network", [
    ...["port", "listen", "udp-port", "udp-reply-max", "unix-socket", "unix-mask"],
    ...["protocol", "io"],
  ]],
  ["Memory", [
    ...["memory-limit", "max-item-size", "disable-evictions"],
    ...["slab-growth-factor", "slab-min-size"],
  ]],
  ["Threads and connections", [
    ...["threads", "conn-limit", "max-reqs-per-event", "listen-backlog"],
  ]],
  ["TLS", ["enable-ssl"]],
  ["Commands", [
    ...["disable-cas", "disable-flush-all", "disable-dumping", "disable-watch"],
    ...["enable-shutdown", "stats-delimiter"],
  ]],
  ["Authentication", ["auth-file", "enable-sasl", "auth-timeout", "require-auth"]],
  ["Leases", ["lease-flag", "lease-time", "lease-entries", "strict"]],
  ["Update tokens", [
    ...["state-dir", "tokens", "token-entries", "token-quarantine", "token-recover"],
    ...["allow-token-drop"],
  ]],
  ["Locks", ["lock-limit", "lock-limit-per-conn", "lock-waiters", "lock-idle-timeout"]],
  ["Counters", ["counter-port", "counter-conn-limit", "counter-memory", "counter-interval"]],
  ["Monitoring", ["metrics"]],
  ["Process", ["pidfile", "verbose", "extended", "help", "version", "license"]],
];

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

/** The value of every option by its long name, defaults included. */
export type OptionValues = ValuesOf<typeof OPTIONS>;
/** The value of every word of `-o`, defaults included. */
export type ExtendedValues = ValuesOf<typeof EXTENDED_OPTIONS>;
