import type { SharedMemory } from "../../store/setup.ts";
import type { TransportEvent } from "../net/transport.ts";
import type { ThreadMember } from "../net/transports.ts";

/** The location of the journal, and its recovery. */
export interface JournalOptions {
  /** `--state-dir`: the path of a folder. */
  readonly stateDir: string;
  /** `--token-recover`: the action when the journal cannot be read. */
  readonly tokenRecover: "refuse" | "quarantine" | "drop";
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
  /** The journal's tokens are in the table, and the thread serves the queue. */
  | { readonly kind: "ready" }
  /** The journal cannot be used. */
  | { readonly kind: "refused"; readonly reason: string }
  /** Everything is on the disk, and the file is closed. */
  | { readonly kind: "ended" }
  | { readonly kind: "event"; readonly event: TransportEvent };
