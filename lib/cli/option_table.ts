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
 * - `switch`: a boolean: whether the option is given. If it has a word of `-o` also `--no-name`.
 * - `count`: how often the option is given (-vv).
 * - `whole`: an integer.
 * - `level`: an integer; the name alone is 1, `--no-name` is 0.
 * - `octal`: an integer in octal.
 * - `real`: a decimal number.
 * - `mib`: a size in bytes, with the suffix k, m or g; without a suffix in MiB.
 * - `bytes`: a size in bytes, with the suffix k, m or g; without a suffix in bytes.
 * - `text`: the text itself.
 * - `choice`: one of the words in the unit's column.
 * - `list`: the parts between `,` or `;`. The option may be repeated.
 */
type OptionKind =
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

/** One option. */
export type OptionRow = readonly [
  name: string,
  /** Its letter; `-o`: a word of `-o` that has `_` for every `-` of the name. */
  letter: string,
  kind: OptionKind,
  /** The unit or the kind of the value, for help and errors; for `choice` the allowed words, separated by `|`. */
  unit: string,
  /** Smallest and largest value (sizes: in bytes). Both NaN: no range. */
  least: number,
  most: number,
  /** The default, as on the command line; "": none. */
  preset: string,
  /** The effect of the option. Of options without one: the reason, and what to use instead. */
  meaning: string,
  /**
   * Undefined: works, and is listed by `--help`. Otherwise an option of memcached that the server accepts and logs
   * (`ignored`), with its reason.
   */
  state?: "ignored",
];

/** Options under the title that they have in `--help`. */
export type OptionGroup = readonly [title: string, rows: readonly OptionRow[]];

const NONE = NaN;
const INT31 = 2 ** 31 - 1;
/** So that the work of as many requests is an int32. */
const REQUESTS_PER_EVENT_MOST = 1_000_000;
/** The longest delay of the runtime's timers. */
const COUNTER_INTERVAL_SEC_MAX = Math.floor(INT31 / 1000);

// deno-fmt-ignore
const NETWORK = [
  // name            letter kind      unit                    least  most                preset       meaning
  ["port",          "p",  "whole",  "port",                    -1, 65535,              "11211",     "TCP port to listen on; 0: no TCP, -1: any free port"],
  ["listen",        "l",  "list",   "host[:port]",           NONE, NONE,               "127.0.0.1", "address to listen on; separate several with commas, or repeat the option; '*': every IPv4 address; under -Z the prefix notls: is a plain port, mtls: one that requires client certificates, btls: one that asks for none"],
  ["udp-port",      "U",  "whole",  "port",                    -1, 65535,              "0",         "UDP port to listen on; 0: no UDP, -1: any free port"],
  ["udp-reply-max", "",   "bytes",  "bytes",                    0, ITEM_SIZE_MAX_MOST, "0",         "longest reply to the requests of one datagram, longer ones are dropped; 0: -I and 4 KiB, enough for any get; a bare number is in bytes"],
  ["unix-socket",   "s",  "text",   "path",                  NONE, NONE,               "",          "listen on this Unix socket, and on no TCP or UDP port"],
  ["unix-mask",     "a",  "octal",  "mode",                     0, 0o777,              "700",       "permission bits of the Unix socket, in octal"],
  ["protocol",      "B",  "choice", "auto|ascii|binary",     NONE, NONE,               "auto",      "protocol to speak; auto: the first byte of each connection decides"],
  ["io",            "",   "choice", "auto|portable|native",  NONE, NONE,               "auto",      "transport; native: system calls of Linux through FFI; portable: sockets of Deno; auto: native where available"],
  ["io-uring",      "-o", "choice", "on|off|auto",           NONE, NONE,               "auto",      "system calls of the native transport; on: one of io_uring for the reads of a round, one for its replies; off: one each; auto: on if possible"],
] as const satisfies readonly OptionRow[];

// deno-fmt-ignore
const MEMORY = [
  ["memory-limit",       "m",  "mib",    "MiB",                              MIB, MEMORY_LIMIT_MIB_MAX * MIB, "64m",     "memory for items and the tables of the store, 1m to 15g; a bare number is in MiB"],
  ["memlimit-max",       "-o", "mib",    "MiB",                                0, MEMORY_LIMIT_MIB_MAX * MIB, "0",       "how far the cache_memlimit command may raise -m, at most 15g; 0: four times -m, but at least 1g"],
  ["max-item-size",      "I",  "bytes",  "bytes",            ITEM_SIZE_MAX_LEAST, ITEM_SIZE_MAX_MOST,         "1m",      "largest item, key and header included, 1k to 1g; at most half of -m; a bare number is in bytes"],
  ["disable-evictions",  "M",  "switch", "",                                NONE, NONE,                       "",        "return an error when memory is full, instead of evicting items"],
  ["slab-growth-factor", "f",  "real",   "factor",                         1.001, 1024,                       "1.075",   "size ratio of neighbouring slab classes; 1.25 with --slab-layout=memcached"],
  ["slab-min-size",      "n",  "whole",  "bytes",                              1, ITEM_SIZE_MAX_MOST,         "48",      "minimum space for key, value and flags"],
  ["slab-layout",        "-o", "choice", "leased|memcached",                NONE, NONE,                       "leased",  "memcached: pages, slab classes and item sizes as memcached counts them"],
] as const satisfies readonly OptionRow[];

// deno-fmt-ignore
const CONNECTIONS = [
  ["threads",            "t",  "whole",  "threads",         1, 256,                     "",        "number of worker threads; by default that of the processors that the process may use, at most 4"],
  ["conn-limit",         "c",  "whole",  "connections",     1, CONNECTIONS_MAX_MOST,    "1024",    "maximum number of client connections"],
  ["maxconns-fast",      "-o", "switch", "",             NONE, NONE,                    "on",      "refuse connections above -c at once; --no-maxconns-fast: leave them waiting in the kernel"],
  ["warm-up",            "-o", "switch", "",             NONE, NONE,                    "on",      "let the engine compile the request path before the first client is served; --no-warm-up: the server starts sooner with less work, for tests; its first requests are slower"],
  ["max-reqs-per-event", "R",  "whole",  "requests",        1, REQUESTS_PER_EVENT_MOST, "4096",    "requests of one connection that are served before other connections; a costly request counts as many"],
  ["listen-backlog",     "b",  "whole",  "connections",     1, INT31,                   "1024",    "connections that the kernel may queue until the server accepts them"],
  ["idle-timeout",       "-o", "whole",  "seconds",         0, INT31,                   "0",       "close TCP connections that send nothing for this long; 0: never"],
  ["send-timeout",       "-o", "whole",  "seconds",         1, INT31,                   "60",      "close connections that accept no byte of their replies for this long"],
] as const satisfies readonly OptionRow[];

// deno-fmt-ignore
const TLS = [
  ["enable-ssl",            "Z",  "switch", "",             NONE, NONE,  "",        "TLS on TCP ports, with the certificate of --ssl-chain-cert; a prefix of -l makes an exception"],
  ["ssl-chain-cert",        "-o", "text",   "path",         NONE, NONE,  "",        "certificate chain in PEM, for TLS with clients; without a subcommand, -Z is needed as well"],
  ["ssl-key",               "-o", "text",   "path",         NONE, NONE,  "",        "private key; by default in the file of --ssl-chain-cert"],
  ["ssl-keyformat",         "-o", "whole",  "format",          1, 2,     "1",       "format of the private key; 1: PEM, 2: DER"],
  ["ssl-verify-mode",       "-o", "whole",  "mode",            0, 3,     "0",       "client certificates; 0: none, 1: verified if the client sends one, 2 and 3: required"],
  ["ssl-ca-cert",           "-o", "text",   "path",         NONE, NONE,  "",        "authorities of client certificates, in PEM"],
  ["ssl-ciphers",           "-o", "text",   "ciphers",      NONE, NONE,  "",        "ciphers up to TLS 1.2, as openssl ciphers lists them"],
  ["ssl-min-version",       "-o", "whole",  "version",         0, 3,     "2",       "oldest protocol; 0: TLS 1.0, 1: TLS 1.1, 2: TLS 1.2, 3: TLS 1.3"],
  ["ssl-session-cache",     "-o", "switch", "",             NONE, NONE,  "",        "keep TLS sessions in memory, so that clients without tickets can resume them"],
  ["ssl-kernel-tls",        "-o", "switch", "",             NONE, NONE,  "",        "let the kernel encrypt, if it can (module tls)"],
  ["ssl-handshake-timeout", "-o", "whole",  "seconds",         1, INT31, "10",      "close connections whose TLS handshake takes longer; the portable transport has no such limit"],
] as const satisfies readonly OptionRow[];

// deno-fmt-ignore
const COMMANDS = [
  ["disable-cas",       "C",  "switch", "",                  NONE, NONE,  "",          "do not keep cas ids"],
  ["disable-flush-all", "F",  "switch", "",                  NONE, NONE,  "",          "refuse the flush_all command"],
  ["disable-dumping",   "X",  "switch", "",                  NONE, NONE,  "",          "refuse stats detail, stats cachedump, the dumps of lru_crawler, and lists of keys, locks and leases"],
  ["disable-watch",     "W",  "switch", "",                  NONE, NONE,  "",          "refuse the watch command"],
  ["enable-shutdown",   "A",  "switch", "",                  NONE, NONE,  "",          "accept the shutdown command"],
  ["test-commands",     "",   "switch", "",                  NONE, NONE,  "",          "for tests of clients: accept debugtime, which moves the server's clock: debugtime <seconds>, or p to stop it and r to let it go on"],
  ["stats-delimiter",   "D",  "text",   "character",         NONE, NONE,  "",          "count gets and sets by key prefix from the start; a prefix ends at this character, by default ':'"],
  ["compat",            "-o", "choice", "memcached|yrmcds",  NONE, NONE,  "memcached", "whose rules apply where memcached and yrmcds contradict each other"],
] as const satisfies readonly OptionRow[];

// deno-fmt-ignore
const AUTHENTICATION = [
  ["auth-file",     "Y",  "text",   "path",         NONE, NONE,  "",        "ask clients for a name and a password; the file has lines user:password; leased passwd prints lines with hashes"],
  ["enable-sasl",   "S",  "switch", "",             NONE, NONE,  "",        "with -Y: let clients of the binary protocol authenticate by SASL PLAIN"],
  ["auth-timeout",  "",   "whole",  "seconds",         1, INT31, "30",      "with -Y: close connections that do not authenticate within this time"],
  ["require-auth",  "",   "switch", "",             NONE, NONE,  "",        "refuse to listen beyond this host without authentication"],
] as const satisfies readonly OptionRow[];

// deno-fmt-ignore
const LEASES = [
  ["lease-flag",    "z",  "text",   "flag[:mask]",  NONE, NONE,               "",        "enable getss and deletess; the hexadecimal client flags that mark a lease, and which of their bits count (ffff)"],
  ["lease-time",    "",   "whole",  "seconds",         1, 2_592_000,          "10",      "how long a lease is valid when the client does not say"],
  ["lease-entries", "",   "whole",  "leases",          0, LEASE_ENTRIES_MOST, "100000",  "maximum number of leases, 64 bytes each; by default no more than fit in 1/64 of -m"],
  ["strict",        "",   "list",   "prefix",       NONE, NONE,               "",        "only the holder of a lease may fill keys with this prefix; '*': all keys; separate several with commas"],
] as const satisfies readonly OptionRow[];

// deno-fmt-ignore
const TOKENS = [
  ["state-dir",        "",   "text",   "path",                    NONE, NONE,               "",        "directory where update tokens survive a restart; without it there are no update tokens"],
  ["tokens",           "",   "choice", "journal|volatile",        NONE, NONE,               "journal", "volatile: update tokens without a state directory, forgotten at exit; see --token-quarantine"],
  ["token-entries",    "",   "whole",  "tokens",                     1, TOKEN_ENTRIES_MOST, "10000",   "maximum number of update tokens, 64 bytes and more each; by default no more than fit in 1/64 of -m"],
  ["token-quarantine", "",   "whole",  "seconds",                    0, 86_400,             "60",      "with --tokens=volatile: how long the server stores nothing after its start"],
  ["token-recover",    "",   "choice", "refuse|quarantine|drop",  NONE, NONE,               "refuse",  "for a journal that cannot be read; refuse: store nothing; quarantine: forget its tokens and store nothing until quarantine off; drop: forget its tokens"],
  ["allow-token-drop", "",   "switch", "",                        NONE, NONE,               "",        "accept token drop, which takes update tokens from writers that may still write"],
] as const satisfies readonly OptionRow[];

// deno-fmt-ignore
const LOCKS = [
  ["lock-limit",          "",   "whole",  "locks",           1, LOCKS_MAX_MOST,       "65536",   "maximum number of locks"],
  ["lock-limit-per-conn", "",   "whole",  "locks",           1, LOCKS_MAX_MOST,       "1024",    "maximum number of locks of one connection"],
  ["lock-waiters",        "",   "whole",  "connections",     1, CONNECTIONS_MAX_MOST, "1024",    "maximum number of connections that wait for one lock"],
  ["lock-reply",          "-o", "choice", "locked|client_error", NONE, NONE, "locked", "reply to a change of a key that another connection has locked; clients of memcached know client_error"],
  ["lock-idle-timeout",   "",   "whole",  "seconds",         0, INT31,                "0",       "close connections that hold locks and send nothing for this long; 0: never"],
] as const satisfies readonly OptionRow[];

// deno-fmt-ignore
const COUNTERS = [
  ["counter-port",       "",   "whole",  "port",           -1, 65535,                    "0",       "TCP port of yrmcds's counter protocol, on the addresses of -l; 0: off, -1: any free port"],
  ["counter-conn-limit", "",   "whole",  "connections",     1, CONNECTIONS_MAX_MOST,     "1024",    "maximum number of connections to the counter port, in addition to -c"],
  ["counter-memory",     "",   "mib",    "MiB",           MIB, 1024 * MIB,               "16m",     "memory for counters, in addition to -m; a bare number is in MiB"],
  ["counter-interval",   "",   "whole",  "seconds",         1, COUNTER_INTERVAL_SEC_MAX, "86400",   "how often the server drops idle counters and resets the peaks that Dump reports"],
] as const satisfies readonly OptionRow[];

// deno-fmt-ignore
const RESTART = [
  ["snapshot",          "e",  "text",   "path",          NONE, NONE,  "",        "write all items to this file at a clean stop, and load them at the next start"],
  ["memory-file",       "",   "text",   "path",          NONE, NONE,  "",        "memcached's name of --snapshot"],
  ["snapshot-required", "",   "switch", "",              NONE, NONE,  "",        "refuse to start with a snapshot that cannot be loaded; without it the cache starts empty"],
] as const satisfies readonly OptionRow[];

// deno-fmt-ignore
const MONITORING = [
  ["admin",               "",   "text",   "[host:]port",  NONE, NONE,        "",        "serve the dashboard (GET /), statistics to Prometheus (GET /metrics) and GET /health by HTTP on this address; only a port: 127.0.0.1; under -Z by HTTPS, with the prefixes of -l"],
  ["metrics",             "",   "text",   "[host:]port",  NONE, NONE,        "",        "the former name of --admin"],
  ["admin-actions",       "",   "switch", "",             NONE, NONE,        "",        "let users of the level admin drop update tokens, flush and quarantine on the dashboard; needs --admin and -Y"],
  ["watcher-logbuf-size", "-o", "whole",  "KiB",             4, 1024 * 1024, "256",     "buffer of each watcher; a watcher that falls further behind loses lines"],
] as const satisfies readonly OptionRow[];

// deno-fmt-ignore
const PROCESS = [
  ["pidfile",       "P",  "text",   "path",          NONE, NONE,  "",        "write the process id to this file, and remove the file at exit"],
  ["log-format",    "-o", "choice", "text|json",     NONE, NONE,  "text",    "format of the log and of errors at start; json: one object per line"],
  ["verbose",       "v",  "count",  "",              NONE, NONE,  "",        "log more; -v: refused and dropped connections; -vv: also every connection and protocol error; -vvv: also every command, and check the store at exit"],
  ["extended",      "o",  "list",   "name[=value]",  NONE, NONE,  "",        "memcached's spelling of other options, as in -o idle_timeout=60,no_maxconns_fast; separate several with commas, or repeat the option"],
  ["help",          "h",  "switch", "",              NONE, NONE,  "",        "print this help and exit"],
  ["version",       "V",  "switch", "",              NONE, NONE,  "",        "print the version and exit"],
  ["license",       "i",  "switch", "",              NONE, NONE,  "",        "print the license and exit"],
] as const satisfies readonly OptionRow[];

// deno-fmt-ignore
const WITHOUT_EFFECT = [
  ["daemon",                  "d",  "switch", "",                      NONE, NONE,      "",        "the server stays in the foreground; start it from a service manager such as systemd", "ignored"],
  ["user",                    "u",  "text",   "name",                  NONE, NONE,      "",        "the server keeps the user that started it; set the user in the service manager (systemd: User=) or start it with runuser -u NAME", "ignored"],
  ["lock-memory",             "k",  "switch", "",                      NONE, NONE,      "",        "the server does not lock memory; turn swap off, or set MemorySwapMax=0 in systemd", "ignored"],
  ["enable-largepages",       "L",  "switch", "",                      NONE, NONE,      "",        "the native transport always asks for large pages; see /sys/kernel/mm/transparent_hugepage", "ignored"],
  ["enable-coredumps",        "r",  "switch", "",                      NONE, NONE,      "",        "the server does not change the core file limit; set ulimit -c, or LimitCORE= in systemd", "ignored"],
  ["napi-ids",                "N",  "whole",  "ids",                      1, INT31,     "",        "the server or the kernel spreads connections over threads; there is nothing to set", "ignored"],
  ["ssl-wbuf-size",           "-o", "whole",  "KiB",                      0, 2047,      "16",      "replies are encrypted from the buffer that they were written to; there is nothing to set", "ignored"],
  ["relaxed-privileges",      "-o", "switch", "",                      NONE, NONE,      "",        "the server drops no privileges; the permissions of deno run limit it", "ignored"],
  ["drop-privileges",         "-o", "switch", "",                      NONE, NONE,      "",        "the server drops no privileges itself; the permissions of deno run limit it, and systemd can add a sandbox", "ignored"],
  ["hashpower",               "-o", "whole",  "bits",                    12, 32,        "",        "the hash table starts small and grows with the items; there is nothing to set", "ignored"],
  ["hashexpand",              "-o", "switch", "",                      NONE, NONE,      "",        "the hash table starts small and grows with the items; there is nothing to set", "ignored"],
  ["hash-algorithm",          "-o", "choice", "jenkins|murmur3|xxh3",  NONE, NONE,      "",        "there is one hash function, seeded at every start", "ignored"],
  ["slab-reassign",           "-o", "switch", "",                      NONE, NONE,      "",        "evictions decide when a page moves to another slab class; there is nothing to set", "ignored"],
  ["slab-automove",           "-o", "level",  "level",                    0, 2,         "",        "evictions decide when a page moves to another slab class; there is nothing to set", "ignored"],
  ["slab-automove-ratio",     "-o", "real",   "ratio",                    0, 1,         "",        "evictions decide when a page moves to another slab class; there is nothing to set", "ignored"],
  ["slab-automove-window",    "-o", "whole",  "checks",                   3, 1800,      "",        "evictions decide when a page moves to another slab class; there is nothing to set", "ignored"],
  ["slab-automove-freeratio", "-o", "real",   "ratio",                    0, 1,         "",        "evictions decide when a page moves to another slab class; there is nothing to set", "ignored"],
  ["slab-sizes",              "-o", "text",   "bytes-bytes…",          NONE, NONE,      "",        "-n and -f determine the slab classes", "ignored"],
  ["slab-chunk-max",          "-o", "whole",  "KiB",                      1, 1024,      "",        "the page size determines the largest chunk; see --slab-layout", "ignored"],
  ["chunked-items",           "-o", "switch", "",                      NONE, NONE,      "",        "large items are always chains of chunks", "ignored"],
  ["tail-repair-time",        "-o", "whole",  "seconds",                 10, INT31,     "",        "no item is pinned for so long that its queue needs repair; there is nothing to set", "ignored"],
  ["lru-crawler",             "-o", "switch", "",                      NONE, NONE,      "",        "expired items are always removed in the background, within seconds; there is nothing to set", "ignored"],
  ["lru-crawler-sleep",       "-o", "whole",  "microseconds",             0, 1_000_000, "",        "expired items are always removed in the background, within seconds; there is nothing to set", "ignored"],
  ["lru-crawler-tocrawl",     "-o", "whole",  "items",                    0, INT31,     "",        "expired items are always removed in the background, within seconds; there is nothing to set", "ignored"],
  ["lru-maintainer",          "-o", "switch", "",                      NONE, NONE,      "on",      "items are evicted by S3-FIFO, which has no such queues; there is nothing to set", "ignored"],
  ["hot-lru-pct",             "-o", "whole",  "percent",                  1, 79,        "",        "items are evicted by S3-FIFO, which has no such queues; there is nothing to set", "ignored"],
  ["warm-lru-pct",            "-o", "whole",  "percent",                  1, 79,        "",        "items are evicted by S3-FIFO, which has no such queues; there is nothing to set", "ignored"],
  ["hot-max-factor",          "-o", "real",   "factor",                   0, INT31,     "",        "items are evicted by S3-FIFO, which has no such queues; there is nothing to set", "ignored"],
  ["warm-max-factor",         "-o", "real",   "factor",                   0, INT31,     "",        "items are evicted by S3-FIFO, which has no such queues; there is nothing to set", "ignored"],
  ["temporary-ttl",           "-o", "whole",  "seconds",                  0, INT31,     "",        "items are evicted by S3-FIFO, which has no such queues; there is nothing to set", "ignored"],
  ["worker-logbuf-size",      "-o", "whole",  "KiB",                      0, INT31,     "",        "workers need no such buffer; --watcher-logbuf-size sets the one of each watcher", "ignored"],
  ["track-sizes",             "-o", "switch", "",                      NONE, NONE,      "",        "stats sizes always works", "ignored"],
  ["read-buf-mem-limit",      "-o", "whole",  "MiB",                      0, INT31,     "",        "buffers belong to threads and have a fixed size; limit connections with -c", "ignored"],
  ["resp-obj-mem-limit",      "-o", "whole",  "MiB",                      0, INT31,     "",        "buffers belong to threads and have a fixed size; limit connections with -c", "ignored"],
  ["inline-ascii-resp",       "-o", "switch", "",                      NONE, NONE,      "",        "it has no effect in memcached either", "ignored"],
  ["modern",                  "-o", "switch", "",                      NONE, NONE,      "",        "it has no effect in memcached either", "ignored"],
  ["sock-cookie-id",          "-o", "whole",  "id",                       0, INT31,     "",        "the server sets no socket cookie; match the port or the user in the firewall", "ignored"],
] as const satisfies readonly OptionRow[];

// deno-fmt-ignore
const DATABASE = [
  ["db",             "",   "text",   "url",           NONE, NONE,  "sqlite:leased.db", "database that holds the rows: sqlite:<file>, or postgres://user@host/database, where several hosts may stand with commas between them; a password may stand in PGPASSWORD"],
  ["table",          "",   "text",   "name",          NONE, NONE,  "kv",               "table of the rows; created if missing"],
  ["key-column",     "",   "text",   "name",          NONE, NONE,  "key",              "its primary key"],
  ["value-column",   "",   "text",   "name",          NONE, NONE,  "value",            "column of the value"],
  ["version-column", "",   "text",   "name",          NONE, NONE,  "version",          "column of the version, an integer that grows with every write"],
  ["flags-column",   "",   "text",   "name",          NONE, NONE,  "flags",            "column of the client's flags, an integer"],
  ["db-connections", "",   "whole",  "connections",      1, 1000,  "10",               "most connections to PostgreSQL, and so most statements in progress; others wait"],
  ["db-timeout",     "",   "whole",  "milliseconds",   100, INT31, "5000",             "longest time for a statement of PostgreSQL, for the wait for a connection to it, or for that for a locked SQLite file"],
  ["applied-ttl",    "",   "whole",  "seconds",         60, INT31, "86400",            "how long the database remembers which update tokens were used, for writers that ask again"],
] as const satisfies readonly OptionRow[];

// deno-fmt-ignore
const ROWS = [
  ["db",             "",   "text",   "url",           NONE, NONE,  "",                 "database behind the keys of --rows: sqlite:<file>, or postgres://user@host/database, where several hosts may stand with commas between them; a password may stand in PGPASSWORD"],
  ["rows",           "",   "list",   "prefix",        NONE, NONE,  "",                 "with --db: keys that begin with this are rows of the database, others are ordinary items; separate several with commas, or repeat the option; by default every key is a row, and with --views, only the keys of views, which always are; *: every key"],
  ["row-expiry",     "",   "choice", "refuse|ignore|column", NONE, NONE, "refuse",    "an expiry time of a row is refused, has no effect, or is kept in --expiry-column"],
  ["expiry-column",  "",   "text",   "name",          NONE, NONE,  "expires",          "with --row-expiry column: column of the expiry time, an integer: Unix seconds, 0: never"],
  ["standby",        "",   "switch", "",              NONE, NONE,  "",                 "with --db: wait while another origin serves the rows of the database, then take over; by default the start fails"],
  ["take-over",      "",   "switch", "",              NONE, NONE,  "",                 "with --db: take over from another origin, which ends"],
  ["member-time",    "",   "whole",  "milliseconds",   100, 3600000, "2000",           "with --db: how long a node serves rows after its origin's last answer, and with PostgreSQL, how long this server does while the database does not answer; the next origin waits as long, unless this one was shut down and had no nodes"],
  ["member-drift",   "",   "whole",  "percent",          0, 1000,  "10",               "with --db: how much slower the clocks of nodes may run; an origin waits so much longer before it writes without a node"],
  ["origin",         "",   "list",   "host:port",     NONE, NONE,  "",                 "be a node: read and write rows through this origin, a server with --db; separate several with commas, they are tried in their order"],
  ["node-name",      "",   "text",   "name",          NONE, NONE,  "",                 "with --origin: name of this node in the origin's list of nodes; by default the address it listens on"],
  ["origin-login",   "",   "text",   "path",          NONE, NONE,  "",                 "file with the line user:password for an origin that asks for passwords; the level node is needed"],
  ["origin-ca-cert", "",   "text",   "path",          NONE, NONE,  "",                 "reach the origin over TLS, and verify it against these certificates in PEM, beside the runtime's root certificates"],
  ["follow",         "",   "switch", "",              NONE, NONE,  "",                 "with --db: read the database's log, and delete rows that other programs change; `init --follow` prepares the database"],
  ["temporary-slot", "",   "switch", "",              NONE, NONE,  "",                 "with --follow before PostgreSQL: use a replication slot that ends with its connection, so that no log is kept for an origin that is away; each start and each new connection deletes all cached rows"],
  ["views",          "",   "text",   "file",          NONE, NONE,  "",                 "with --follow: file of views, keys whose values are results of queries; SIGHUP reads it again"],
  ["lag-max",        "",   "whole",  "milliseconds",   100, INT31, "10000",            "with --follow: /health fails when changes have not been applied for so long"],
  ["verify",         "",   "whole",  "hits",             0, INT31, "10000",            "with --db or --origin: compare one of so many hits on rows and views with the database, and at least one in ten seconds; 0: none"],
  ["stale",          "",   "choice", "log|quarantine", NONE, NONE, "log",              "with --db: what to do when --verify finds a stale value, beside deleting it everywhere: log it, or after two of them keep no row in a cache until a restart"],
  ["lag-quarantine", "",   "switch", "",              NONE, NONE,  "",                 "with --follow: while /health fails for --lag-max, rows are read from the database and kept nowhere"],
] as const satisfies readonly OptionRow[];

// deno-fmt-ignore
const INIT = [
  ["run", "", "switch", "", NONE, NONE, "", "with init: make the tables, instead of printing the SQL"],
  ["follow", "", "switch", "", NONE, NONE, "", "with init: make what --follow of the server needs, too"],
  ["end",    "", "switch", "", NONE, NONE, "", "with init: take away again what --follow of the server needs, from a database that no origin uses"],
  ["views",  "", "text", "file", NONE, NONE, "", "with init --follow: make what --views of the server needs, too"],
] as const satisfies readonly OptionRow[];

// deno-fmt-ignore
const VIEWS = [
  ["file",   "", "list", "path",  NONE, NONE, "", "with check: file of views; also without --file"],
  ["change", "", "text", "row",   NONE, NONE, "", "with check: show the keys that this change deletes: a table and a row in JSON, before or after the change: 'price {\"product_id\": 7}'"],
  ["of",     "", "list", "table", NONE, NONE, "", "with suggest: table of the database, for which a file of views is printed; also without --of"],
] as const satisfies readonly OptionRow[];

// deno-fmt-ignore
const AUDIT = [
  ["origin",        "",   "text",   "host:port",     NONE, NONE,  "127.0.0.1:11311", "server that reads the database"],
  ["cache",         "",   "list",   "host:port",     NONE, NONE,  "",                "cache to compare; separate several with commas, or repeat the option; by default the origin's own and those of its nodes without --node-name"],
  ["origin-login",  "",   "text",   "path",          NONE, NONE,  "",                "file with the line user:password for an origin that asks for passwords"],
  ["cache-login",   "",   "text",   "path",          NONE, NONE,  "",                "file with the line user:password for caches that ask for passwords; the level admin is needed to list keys"],
  ["origin-ca-cert", "",  "text",   "path",          NONE, NONE,  "",                "reach the origin over TLS, and verify it against these certificates in PEM, beside the runtime's root certificates"],
  ["cache-ca-cert", "",   "text",   "path",          NONE, NONE,  "",                "reach caches over TLS, and verify them as the origin"],
  ["prefix",        "",   "text",   "text",          NONE, NONE,  "",                "compare only keys that begin with this text; needed when a cache also holds keys that are no rows"],
  ["canary",        "",   "list",   "key",           NONE, NONE,  "",                "instead of comparing, write this row at the origin, and read it in each cache: a read behind an acknowledged write must return it; the row must not be used otherwise"],
  ["interval",      "",   "whole",  "milliseconds",     1, INT31, "1000",            "with --canary: time between two writes of a row"],
  ["rounds",        "",   "whole",  "writes",           0, INT31, "0",               "with --canary: end after so many writes of each row; 0: at a signal"],
  ["timeout",       "",   "whole",  "milliseconds",     1, INT31, "10000",           "how long a cache or the origin may be silent"],
] as const satisfies readonly OptionRow[];

// deno-fmt-ignore
const OPERATOR = [
  ["server",   "",   "list",   "host:port",     NONE, NONE,  "",      "server to look at, or the path of its Unix socket, with a slash; also without --server; separate several with commas, or repeat the option"],
  ["login",    "",   "text",   "path",          NONE, NONE,  "",      "file with the line user:password for servers that ask for passwords"],
  ["ca-cert",  "",   "text",   "path",          NONE, NONE,  "",      "reach servers over TLS, and verify them against these certificates in PEM, beside the runtime's root certificates"],
  ["timeout",  "",   "whole",  "milliseconds",     1, INT31, "2000",  "how long a server may be silent"],
] as const satisfies readonly OptionRow[];

// deno-fmt-ignore
const DOCTOR = [
  ["json",     "",   "switch", "",              NONE, NONE,  "",      "print the findings as JSON"],
] as const satisfies readonly OptionRow[];

// deno-fmt-ignore
const TOP = [
  ["once",     "",   "switch", "",              NONE, NONE,  "",      "print one plain table and exit"],
  ["interval", "",   "whole",  "milliseconds",   100, INT31, "1000",  "time between two looks at a server"],
  ["view",     "",   "choice", "servers|commands|classes|threads|connections|hotkeys|latency|rows", NONE, NONE, "servers", "table to begin with"],
] as const satisfies readonly OptionRow[];

/** Returns the rows of a group that have one of the names. */
function pick<Row extends OptionRow, Name extends Row[0]>(
  rows: readonly Row[],
  ...names: readonly Name[]
): readonly Extract<Row, readonly [Name, ...unknown[]]>[] {
  const isNamed = (row: Row): row is Extract<Row, readonly [Name, ...unknown[]]> =>
    (names as readonly string[]).includes(row[0]);
  return rows.filter(isNamed);
}

// Each command takes groups of the rows above: for parsing, errors, `--help`, the documentation and `stats settings`.

/** The options of `leased`. */
export const SERVER_OPTIONS = [
  ["Network", NETWORK],
  ["Memory", MEMORY],
  ["Threads and connections", CONNECTIONS],
  ["TLS", TLS],
  ["Commands", COMMANDS],
  ["Authentication", AUTHENTICATION],
  ["Leases", LEASES],
  ["Update tokens", TOKENS],
  ["Rows", [
    ...ROWS,
    ...pick(DATABASE, "table", "key-column", "value-column", "version-column", "flags-column"),
    ...pick(DATABASE, "db-connections", "db-timeout", "applied-ttl"),
  ]],
  ["Locks", LOCKS],
  ["Restart", RESTART],
  ["Counters", COUNTERS],
  ["Monitoring", MONITORING],
  ["Process", PROCESS],
  ["Without effect", WITHOUT_EFFECT],
] as const satisfies readonly OptionGroup[];

/** The options of `leased rows init`. */
export const INIT_OPTIONS = [
  ["Database", [...INIT, ...DATABASE, ...pick(ROWS, "row-expiry", "expiry-column")]],
  ["Process", pick(PROCESS, "log-format", "help")],
] as const satisfies readonly OptionGroup[];

const VIEWS_DATABASE = [
  ["Database", pick(DATABASE, "db", "table", "db-timeout")],
  ["Process", pick(PROCESS, "log-format", "help")],
] as const satisfies readonly OptionGroup[];

/** The options of `leased views`. */
export const VIEWS_OPTIONS = [["Views", VIEWS], ...VIEWS_DATABASE] as const;
/** The options of `leased views check`. */
export const CHECK_OPTIONS = [
  ["Views", pick(VIEWS, "file", "change")],
  ...VIEWS_DATABASE,
] as const satisfies readonly OptionGroup[];
/** The options of `leased views suggest`. */
export const SUGGEST_OPTIONS = [
  ["Views", pick(VIEWS, "of")],
  ...VIEWS_DATABASE,
] as const satisfies readonly OptionGroup[];

/** The options of `leased audit`. */
export const AUDIT_OPTIONS = [
  ["Options", [...AUDIT, ...pick(PROCESS, "log-format", "help", "license")]],
] as const satisfies readonly OptionGroup[];

/** The options of `leased doctor`. */
export const DOCTOR_OPTIONS = [
  ["Servers", [...OPERATOR, ...DOCTOR]],
  ["The server to be started on this machine", [
    ...pick(MEMORY, "memory-limit"),
    ...pick(CONNECTIONS, "threads", "conn-limit", "listen-backlog"),
  ]],
  ["Process", pick(PROCESS, "log-format", "help")],
] as const satisfies readonly OptionGroup[];

/** The options of `leased top`. */
export const TOP_OPTIONS = [
  ["Options", [...OPERATOR, ...TOP, ...pick(PROCESS, "log-format", "help")]],
] as const satisfies readonly OptionGroup[];

/** Prefixes of `-o` words whose part of memcached this server lacks, and why or what to use instead. */
export const UNSUPPORTED_WORDS: readonly (readonly [prefix: string, reason: string])[] = [
  ["ext_", "items live in memory only; raise -m, or run several servers"],
  ["proxy_", "memcached's built-in proxy is not supported; use mcrouter, or memcached as a proxy"],
];

const NO_LIST =
  "an origin has no list of caches; make each of them a node (--origin), see docs/nodes.md";
/** Options of earlier versions, by long name, and what takes their place. */
export const REMOVED_OPTIONS: ReadonlyMap<string, string> = new Map([
  ["cache", NO_LIST],
  ["caches", NO_LIST],
  ["cache-timeout", NO_LIST],
  ["cache-login", NO_LIST],
  ["cache-ca-cert", NO_LIST],
]);

/** Why a range ends where it does, for errors: by long name. */
export const RANGE_REASONS: Readonly<Record<string, string>> = {
  "memory-limit": "one server addresses at most 15 GiB; run several for more",
  "memlimit-max": "one server addresses at most 15 GiB; run several for more",
};

/** The rows of a command. */
export type RowOf<Groups extends readonly OptionGroup[]> = Groups[number][1][number];

type Choice<Unit extends string> = Unit extends `${infer First}|${infer Rest}`
  ? First | Choice<Rest>
  : Unit;

type ValueOf<Row extends OptionRow> = {
  switch: boolean;
  count: number;
  whole: number;
  level: number;
  octal: number;
  real: number;
  mib: number;
  bytes: number;
  text: string;
  choice: Choice<Row[3]>;
  list: readonly string[];
}[Row[2]];

/** Ends the field of an option whose value is a time or a size: by the unit of its row, or the kind. */
const FIELD_ENDS = { seconds: "Sec", milliseconds: "Ms", bytes: "Bytes", mib: "Bytes" } as const;
type FieldEnds = typeof FIELD_ENDS;

type CamelCase<Name extends string> = Name extends `${infer Word}-${infer Rest}`
  ? `${Word}${Capitalize<CamelCase<Rest>>}`
  : Name;

type EndOf<Row extends OptionRow> = Row[3] extends keyof FieldEnds ? FieldEnds[Row[3]]
  : Row[2] extends keyof FieldEnds ? FieldEnds[Row[2]]
  : "";

/**
 * The value of every option by its field, defaults included. The field is the option's name in camel case, with the
 * unit of a time or a size: `--idle-timeout` is `idleTimeoutSec`. Code that needs options declares an interface of such
 * fields, and the values are passed to it as they are.
 */
export type OptionValues<Row extends OptionRow> = {
  readonly [Each in Row as `${CamelCase<Each[0]>}${EndOf<Each>}`]: ValueOf<Each>;
};

/** Returns the option's field in `OptionValues`. */
export function fieldOf([name, , kind, unit]: OptionRow): string {
  const ends: Readonly<Record<string, string>> = FIELD_ENDS;
  const words = name.replaceAll(/-(.)/g, (_, letter: string) => letter.toUpperCase());
  return words + (ends[unit] ?? ends[kind] ?? "");
}
