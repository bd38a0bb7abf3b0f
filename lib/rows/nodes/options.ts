import type { OriginAddress } from "./membership.ts";

/** A node's origins. Plain data, for the database's thread. */
export interface NodeOptions {
  /** In the order in which they are tried. */
  readonly origins: readonly OriginAddress[];
  /** The source of the right to serve rows from the cache, as errors name it. */
  readonly rightFrom: string;
  /** As `nodes` of the origin shows this node; "": by the address that it listens on. */
  readonly nodeName: string;
  readonly prefixes: readonly string[];
  readonly rowExpiry: "refuse" | "ignore" | "column";
  readonly dbTimeoutMs: number;
  /** One of so many hits is compared with the database; 0: none. */
  readonly verify: number;
  /** How far behind the origin's log a hit may be, in milliseconds. */
  readonly lagMaxMs: number;
  /** Path of the file with the name and the password for the origin; "": none. */
  readonly originLogin: string;
  /** Path of the certificates that verify that of the origin; "": it is reached without TLS. */
  readonly originCaCert: string;
}
