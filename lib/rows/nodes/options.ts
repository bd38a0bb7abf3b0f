import type { OriginAddress } from "./membership.ts";

/** A node's origins. Plain data, for the database's thread. */
export interface NodeOptions {
  /** In the order in which they are tried. */
  readonly origins: readonly OriginAddress[];
  /** The source of the right to serve rows from the cache, as errors name it. */
  readonly rightFrom: string;
  /** As `nodes` of the origin shows this node; "": by the address that it listens on. */
  readonly name: string;
  readonly prefixes: readonly string[];
  readonly expiry: "refuse" | "ignore" | "column";
  readonly timeoutMs: number;
  /** Path of the file with the name and the password for the origin; "": none. */
  readonly loginFile: string;
  /** Path of the certificates that verify that of the origin; "": it is reached without TLS. */
  readonly caCertPath: string;
}
