import type { SharedMemory } from "../../store/setup.ts";
import type { TransportEvent } from "../net/transport.ts";
import type { ThreadMember } from "../net/transports.ts";

/** How to start with a journal that cannot be read. */
export type TokenRecover = "refuse" | "quarantine" | "drop";

/** Where update tokens are kept. */
export interface JournalOptions {
  /** `--state-dir`: the path of a folder. */
  readonly folder: string;
  /** `--token-recover` */
  readonly recover: TokenRecover;
}

/** The start message of the journal's thread. */
export interface JournalStart extends JournalOptions {
  readonly shared: SharedMemory;
  /** `Lifecycle.createShared` */
  readonly lifecycle: SharedArrayBuffer;
  /** The threads that serve connections, which the journal wakes. */
  readonly member: ThreadMember;
}

/** Messages of the journal's thread to the main thread. */
export type JournalMessage =
  /** The tokens of the journal are in the table; those of the future will be written. */
  | { readonly kind: "ready" }
  /** There can be no journal. */
  | { readonly kind: "refused"; readonly reason: string }
  /** Everything is on the disk, and the file is closed. */
  | { readonly kind: "ended" }
  | { readonly kind: "event"; readonly event: TransportEvent };
