import { Outcome } from "../../store/outcome.ts";
import { Status } from "./binary_status.ts";

/**
 * Every fixed reply of the text protocols, and the texts of refusals in the binary one. The only
 * file with error texts.
 */

const encoder = new TextEncoder();

function line(text: string): Uint8Array {
  return encoder.encode(`${text}\r\n`);
}

/** Whose behaviour ours is specified by. */
export const MEMCACHED_VERSION = "1.6.45";

/** `VERSION` begins with memcached's digits, because client libraries read features from them. */
export function versionText(version: string): string {
  return `${MEMCACHED_VERSION}-leased-${version}`;
}

/** Single words. */
export const REPLY = {
  OK: line("OK"),
  END: line("END"),
  RESET: line("RESET"),
  STORED: line("STORED"),
  NOT_FOUND: line("NOT_FOUND"),
  LOCKED: line("LOCKED"),
  // An id follows.
  DELETED_SPACE: encoder.encode("DELETED "),
  NOT_FOUND_SPACE: encoder.encode("NOT_FOUND "),
  TOKEN_SPACE: encoder.encode("TOKEN "),
  LEASE_VALUE_SPACE: encoder.encode("LVALUE "),
  LEASE_VALUE_END: encoder.encode(" 0 0\r\n\r\n"),
  ERROR: line("ERROR"),
  MN: line("MN"),
} as const;

/** Answers to SASL. */
export const SASL = {
  MECHANISMS: encoder.encode("PLAIN"),
  AUTHENTICATED: encoder.encode("Authenticated"),
} as const;

/** Pieces of answers to meta commands. Flags follow those without a line's end. */
export const META = {
  HD: encoder.encode("HD"),
  EN: encoder.encode("EN"),
  NF: encoder.encode("NF"),
  NS: encoder.encode("NS"),
  EX: encoder.encode("EX"),
  VA_SPACE: encoder.encode("VA "),
  WON: encoder.encode(" W"),
  LOST: encoder.encode(" Z"),
  LOST_UNCACHEABLE: encoder.encode(" Z U"),
  STALE: encoder.encode(" X"),
  TTL_NEVER: encoder.encode(" t-1"),
  KEY_BINARY: encoder.encode(" b"),
} as const;

/** Refusals that say why. */
export const REFUSAL = {
  // Lines that are malformed.
  BAD_FORMAT: line("CLIENT_ERROR bad command line format"),
  BAD_LINE: line("CLIENT_ERROR bad command line"),
  BAD_CHUNK: line("CLIENT_ERROR bad data chunk"),
  BAD_EXPTIME: line("CLIENT_ERROR invalid exptime argument"),
  BAD_DELTA: line("CLIENT_ERROR invalid numeric delta argument"),
  BAD_OWNER: line("CLIENT_ERROR invalid owner: up to 64 printable ASCII characters"),
  NO_CACHES: line(
    "CLIENT_ERROR caches is gone: this server has no list of caches; nodes lists its nodes",
  ),
  BAD_WAIT: line("CLIENT_ERROR invalid wait argument"),
  BAD_SHUTDOWN_MODE: line("CLIENT_ERROR invalid shutdown mode"),
  DETAIL_USAGE: line("CLIENT_ERROR usage: stats detail on|off|dump"),
  // Meta commands.
  FLAGS_TOO_LONG: line("CLIENT_ERROR options flags are too long"),
  DUPLICATE_FLAG: line("CLIENT_ERROR duplicate flag"),
  INVALID_FLAG: line("CLIENT_ERROR invalid flag"),
  BAD_TOKEN: line("CLIENT_ERROR bad token in command line format"),
  BAD_BASE64: line("CLIENT_ERROR error decoding key"),
  OPAQUE_TOO_LONG: line("CLIENT_ERROR opaque token too long"),
  BAD_INITIAL: line("CLIENT_ERROR invalid numeric initial value"),
  BAD_META_DELTA: line("CLIENT_ERROR invalid numeric delta value"),
  BAD_SET_MODE: line("CLIENT_ERROR invalid mode for ms M token"),
  BAD_ADD_MODE: line("CLIENT_ERROR invalid mode for ma M token"),
  BAD_ADD_FLAG: line("CLIENT_ERROR invalid or duplicate flag"),
  // No memory.
  OUT_OF_MEMORY: line("SERVER_ERROR out of memory"),
  NO_MEMORY_FOR_NUMBER: line("SERVER_ERROR Out of memory allocating new item"),
  NO_LEASE: line("SERVER_ERROR out of memory storing lease"),
  // Commands that an option or the connection's kind forbids.
  FLUSH_NOT_ALLOWED: line("CLIENT_ERROR flush_all not allowed"),
  TLS_NOT_ENABLED: line("Error TLS not enabled"),
  SHUTDOWN_NOT_ENABLED: line("SERVER_ERROR: shutdown not enabled"),
  DETAIL_NOT_ALLOWED: line("CLIENT_ERROR stats detail not allowed"),
  CACHEDUMP_NOT_ALLOWED: line("CLIENT_ERROR stats cachedump not allowed"),
  HOT_KEYS_NOT_ALLOWED: line("CLIENT_ERROR stats hotkeys not allowed"),
  METADUMP_NOT_ALLOWED: line("ERROR metadump not allowed"),
  MGDUMP_NOT_ALLOWED: line("ERROR key dump not allowed"),
  KEYS_NOT_ALLOWED: line("ERROR keys not allowed"),
  LOCK_LIST_NOT_ALLOWED: line("ERROR lock list not allowed"),
  LEASE_LIST_NOT_ALLOWED: line("ERROR lease list not allowed"),
  TOKEN_LIST_NOT_ALLOWED: line("ERROR token list not allowed"),
  TOKEN_DROP_NOT_ALLOWED: line("CLIENT_ERROR token drop not allowed; --allow-token-drop allows it"),
  TOKEN_DROP_UNSAFE: line(
    "CLIENT_ERROR usage: token drop <key> [<id>] unsafe | token drop_all unsafe",
  ),
  JOURNAL_UNREADABLE: line(
    "SERVER_ERROR the journal of update tokens cannot be read; start again with --token-recover",
  ),
  /** Under `-o lock_reply=client_error`. */
  LOCKED: line("CLIENT_ERROR locked"),
  QUARANTINE_NOT_ALLOWED: line("CLIENT_ERROR quarantine not allowed"),
  QUARANTINE_USAGE: line("CLIENT_ERROR usage: quarantine on|off"),
  WATCH_NOT_ALLOWED: line("CLIENT_ERROR watch commands not allowed"),
  NOT_OVER_UDP: line("SERVER_ERROR not available over UDP"),
  // Authentication.
  UNAUTHENTICATED: line("CLIENT_ERROR unauthenticated"),
  AUTH_TOO_LONG: line("CLIENT_ERROR auth token too long"),
  AUTH_NOT_ENDED: line("CLIENT_ERROR bad command line termination"),
  BAD_AUTH_FORMAT: line("CLIENT_ERROR bad authentication token format"),
  AUTH_FAILED: line("CLIENT_ERROR authentication failure"),
  NEEDS_WRITE: line("CLIENT_ERROR not permitted: this user may only read"),
  NEEDS_NODE: line("CLIENT_ERROR not permitted: this user is no node"),
  NEEDS_ADMIN: line("CLIENT_ERROR not permitted: this user is no administrator"),
  // Commands that must be the first of their batch.
  METADUMP_NOT_ALONE: line("ERROR cannot pipeline other commands before metadump"),
  MGDUMP_NOT_ALONE: line("ERROR cannot pipeline other commands before mgdump"),
  WATCH_NOT_ALONE: line("ERROR cannot pipeline other commands before watch"),
  // Watchers.
  TOO_MANY_WATCHERS: line("WATCHER_TOO_MANY log watcher limit reached"),
  WATCHER_FAILED: line("WATCHER_FAILED failed to add log watcher"),
  // slabs, lru, lru_crawler, stats cachedump.
  ILLEGAL_SLAB_ID: line("CLIENT_ERROR Illegal slab id"),
  REASSIGN_BUSY: line("BUSY currently processing reassign request"),
  BAD_REASSIGN_CLASS: line("BADCLASS invalid src or dst class id"),
  NO_SPARE_PAGES: line("NOSPARE source class has no spare pages"),
  SAME_CLASS: line("SAME src and dst class are identical"),
  WINDOW_RANGE: line("CLIENT_ERROR automove window too low or too high"),
  LRU_PERCENTS: line("ERROR hot and warm pcts must not exceed 80"),
  LRU_FACTORS: line("ERROR hot/warm age factors must be greater than 0"),
  SLEEP_RANGE: line("CLIENT_ERROR sleep must be one second or less"),
  CRAWLER_NOT_STARTED: line("ERROR failed to start lru crawler thread"),
  CRAWLER_DISABLED: line("CLIENT_ERROR lru crawler disabled"),
  CRAWLER_UNKNOWN: line("ERROR an unknown error happened"),
  BAD_CRAWL_CLASS: line("BADCLASS invalid class id"),
  NOT_STARTED: line("NOTSTARTED no items to crawl"),
  // cache_memlimit.
  MEMLIMIT_TOO_SMALL: line("MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"),
  MEMLIMIT_NOT_BYTES: line("MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes"),
  MEMLIMIT_BOUNDS: line("MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust"),
  /** To a connection above the limit, before it is closed (memcached: maxconns_fast). */
  TOO_MANY_CONNECTIONS: line("ERROR Too many open connections"),
} as const;

const text = (characters: string): Uint8Array => encoder.encode(characters);

/** The bodies of refusals in the binary protocol. */
export const STATUS_TEXT: Record<Status, Uint8Array> = {
  [Status.OK]: text(""),
  [Status.NOT_FOUND]: text("Not found"),
  [Status.EXISTS]: text("Data exists for key."),
  [Status.TOO_LARGE]: text("Too large."),
  [Status.INVALID]: text("Invalid arguments"),
  [Status.NOT_STORED]: text("Not stored."),
  [Status.NOT_NUMERIC]: text("Non-numeric server-side value for incr or decr"),
  [Status.LOCKED]: text("Locked"),
  [Status.BUSY]: text("Locked"),
  [Status.NOT_LOCKED]: text("Not locked"),
  [Status.LEASED]: text("Leased"),
  [Status.UNCACHEABLE]: text("Uncacheable"),
  [Status.NOT_SUPPORTED]: text("Update tokens need a state directory"),
  [Status.TEMPORARY_FAILURE]: text("Cannot persist update token"),
  [Status.REFUSED]: text("Auth failure."),
  [Status.AUTH_CONTINUE]: text(""),
  [Status.UNKNOWN_COMMAND]: text("Unknown command"),
  [Status.NO_MEMORY]: text("Out of memory"),
  // See `setRowFailure`.
  [Status.INTERNAL_ERROR]: text(""),
};

/** Statuses that mean a request which is malformed, refused or cannot be executed, and their texts. */
export const BINARY_ERRORS: Readonly<Record<number, string>> = Object.fromEntries(
  [
    ...[Status.TOO_LARGE, Status.INVALID, Status.NOT_NUMERIC, Status.REFUSED],
    ...[Status.UNKNOWN_COMMAND, Status.NO_MEMORY],
  ].map((status) => [status, new TextDecoder().decode(STATUS_TEXT[status])]),
);

/** Matches the lines that mean the same in the text protocol. */
export const TEXT_ERROR = /^(?:CLIENT_|SERVER_)?ERROR\b/;

/** The line that says how an operation ended. */
export const OUTCOME_LINE: Record<Outcome, Uint8Array> = {
  [Outcome.OK]: REPLY.OK,
  [Outcome.STORED]: REPLY.STORED,
  [Outcome.NOT_STORED]: line("NOT_STORED"),
  [Outcome.EXISTS]: line("EXISTS"),
  [Outcome.NOT_FOUND]: REPLY.NOT_FOUND,
  [Outcome.DELETED]: line("DELETED"),
  [Outcome.TOUCHED]: line("TOUCHED"),
  [Outcome.LOCKED]: REPLY.LOCKED,
  [Outcome.TOO_LARGE]: line("SERVER_ERROR object too large for cache"),
  [Outcome.NO_MEMORY]: line("SERVER_ERROR out of memory storing object"),
  [Outcome.NOT_NUMERIC]: line("CLIENT_ERROR cannot increment or decrement non-numeric value"),
  [Outcome.NOT_LOCKED]: line("CLIENT_ERROR object is not locked or not found"),
  [Outcome.TOO_MANY_LOCKS]: line("SERVER_ERROR too many locks"),
  // A connection that waits is answered when its waiting is over.
  [Outcome.WAITING]: new Uint8Array(),
  // Shown by those who ask for leases.
  [Outcome.LEASED]: REPLY.ERROR,
  [Outcome.UNCACHEABLE]: REPLY.NOT_FOUND,
  [Outcome.TOKENS_OFF]: line("SERVER_ERROR update tokens need a state directory"),
  [Outcome.TOO_MANY_TOKENS]: line("SERVER_ERROR too many update tokens"),
  [Outcome.NOT_PERSISTED]: line("SERVER_ERROR cannot persist update token"),
  [Outcome.BAD_CHUNK]: REFUSAL.BAD_CHUNK,
  [Outcome.PARKED]: new Uint8Array(),
  // See `setRowFailure`.
  [Outcome.ROW_ERROR]: REPLY.ERROR,
  [Outcome.TOO_MANY_REQUESTS]: line("SERVER_ERROR too many requests wait for the database"),
};

/** Sets the text of the error that answers an operation on a row: the last one that failed on this thread. */
export function setRowFailure(reason: string, isClients: boolean): void {
  OUTCOME_LINE[Outcome.ROW_ERROR] = line(`${isClients ? "CLIENT" : "SERVER"}_ERROR ${reason}`);
  STATUS_TEXT[Status.INTERNAL_ERROR] = text(reason);
}

/**
 * The replies of meta commands; null: as the text commands' reply. An item that another
 * connection has locked answers like any other item that is not changed.
 */
export const META_CODE: Record<Outcome, Uint8Array | null> = {
  [Outcome.OK]: META.HD,
  [Outcome.STORED]: META.HD,
  [Outcome.DELETED]: META.HD,
  [Outcome.TOUCHED]: META.HD,
  [Outcome.NOT_STORED]: META.NS,
  [Outcome.LOCKED]: META.NS,
  [Outcome.EXISTS]: META.EX,
  [Outcome.NOT_FOUND]: META.NF,
  [Outcome.TOO_LARGE]: null,
  [Outcome.NO_MEMORY]: null,
  [Outcome.NOT_NUMERIC]: null,
  [Outcome.NOT_LOCKED]: null,
  [Outcome.TOO_MANY_LOCKS]: null,
  [Outcome.WAITING]: null,
  [Outcome.LEASED]: null,
  [Outcome.UNCACHEABLE]: null,
  [Outcome.TOKENS_OFF]: null,
  [Outcome.TOO_MANY_TOKENS]: null,
  [Outcome.NOT_PERSISTED]: null,
  [Outcome.BAD_CHUNK]: null,
  [Outcome.PARKED]: null,
  [Outcome.ROW_ERROR]: null,
  [Outcome.TOO_MANY_REQUESTS]: null,
};
