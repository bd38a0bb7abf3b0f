import type { DatabaseOptions } from "../databases/open_backend.ts";
import type { TakeoverRule } from "./flows/takeover.ts";

/** The database of a server with rows. Plain data, for the database's thread. */
export interface RowsOptions extends DatabaseOptions {
  /** The treatment of expiry times: an error, nothing, or a value of the column `names.expiry`. */
  readonly rowExpiry: "refuse" | "ignore" | "column";
  /** The server's conduct towards another origin. */
  readonly takeover: TakeoverRule;
  /** The source of the right to serve rows from the cache, as errors name it; undefined: the right has no end. */
  readonly rightFrom: string | undefined;
  /** How long rows may be served from the cache after the database has confirmed that no other origin took over. */
  readonly memberTimeMs: number;
  /** How much slower the clock of a node may run than this server's, as a share of the time. */
  readonly driftShare: number;
  readonly prefixes: readonly string[];
  /** Most update tokens that are out. */
  readonly tokenEntries: number;
  /** How long the database remembers which tokens were used. */
  readonly appliedTtlSec: number;
  /** Whether changes of other writers are read from the database's log. */
  readonly follow: boolean;
  /** The file of views; "": none. */
  readonly views: string;
  /** How far behind the log `/health` is well, in milliseconds. */
  readonly lagMaxMs: number;
  /** Whether no cached row may be read while the lag is longer. */
  readonly lagQuarantine: boolean;
  /** One of so many hits is compared with the database; 0: none. */
  readonly verify: number;
  /** What is done about hits that were wrong, beside deleting them everywhere. */
  readonly stale: "log" | "quarantine";
}
