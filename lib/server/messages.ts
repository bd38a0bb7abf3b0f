import type { Settings } from "../../protocol/settings.ts";
import type { SharedState } from "../../protocol/thread_context.ts";
import type { TransportEvent, TransportOptions } from "../net/transport.ts";
import type { TransportName } from "../net/transports.ts";

/** What a worker is started with. */
export interface WorkerStart {
  readonly threadIndex: number;
  readonly transport: TransportName;
  /** Of all workers, by their numbers. */
  readonly transports: readonly TransportName[];
  /** What the transport's host made for this worker. */
  readonly workerData: unknown;
  readonly transportOptions: TransportOptions;
  readonly settings: Settings;
  readonly shared: SharedState;
  readonly lifecycle: SharedArrayBuffer;
}

/** What a worker says to the main thread. */
export type WorkerMessage =
  /** It warms up. */
  | { readonly kind: "begun" }
  /** It accepts connections. */
  | { readonly kind: "ready" }
  /** It cannot. */
  | { readonly kind: "refused"; readonly reason: string }
  /** Its last connection is closed. */
  | { readonly kind: "ended" }
  /** A client asked the process to end. */
  | { readonly kind: "shutdown" }
  /** A worker that this one cannot reach shall look for connections whose waiting is over. */
  | { readonly kind: "wake"; readonly threadIndex: number }
  | { readonly kind: "event"; readonly event: TransportEvent };
