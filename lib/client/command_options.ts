import type { LinkOptions } from "./net/address.ts";
import type { OptionNames } from "./checks.ts";
import type { Codec } from "./values/codecs.ts";
import type { Duration } from "./durations.ts";

/** Options of a client. */
export interface ClientOptions<Value> extends LinkOptions {
  /** Turns values into bytes. Default: JSON, which has no Date and no Map: see `structuredCodec`. */
  readonly codec?: Codec<Value>;
  /** Connections to each server, 1 to 64. Default 1. */
  readonly connections?: number;
  /** A server that cannot be reached is an error, or a miss for reads. Default "error". */
  readonly whenDown?: "error" | "miss";
  /** Longest value, in bytes, as encoded. Default 1 MiB less 100 bytes, as servers have it without `-I`. */
  readonly valueBytesMax?: number;
  /** Stands before all keys and tags: applications that share servers do not meet. Up to 200 bytes. Default "". */
  readonly prefix?: string;
  /** Time to live of values whose call names none, in seconds; 0: for ever. Default 0; of loaded values 600. */
  readonly ttlSec?: Duration;
}

/** Options of one command. */
export interface CallOptions {
  /** The promise rejects when it aborts. The server may have executed the request. */
  readonly signal?: AbortSignal;
}

/** Options of a command that stores. */
export interface StoreOptions extends CallOptions {
  /** Whole seconds; 0: for ever. Default: the client's. */
  readonly ttlSec?: Duration;
}

/** Options of `increment`. */
export interface IncrementOptions extends StoreOptions {
  /** The value of a key that is missing. */
  readonly initial?: number;
}

/** Their names. */
export const CALL: OptionNames<CallOptions> = { signal: true };
export const STORE: OptionNames<StoreOptions> = { ...CALL, ttlSec: true };
export const INCREMENT: OptionNames<IncrementOptions> = { ...STORE, initial: true };
export const CLIENT: OptionNames<ClientOptions<unknown>> = {
  ...{ codec: true, connections: true, whenDown: true, valueBytesMax: true, prefix: true },
  ...{ ttlSec: true, connectMs: true },
  ...{ replyMs: true, retryFirstMs: true, retryMaxMs: true, queueBytesMax: true, tls: true },
  login: true,
};
