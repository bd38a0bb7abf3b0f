/** The client library: commands, and flows that keep a cache in step with a database. */
export type { LinkOptions, Login, TlsData, TlsOptions } from "./net/address.ts";
export { Cache, Namespace } from "./cache.ts";
export type { CacheEntry, CacheOptions, PutOptions } from "./cache.ts";
export { Client, Section } from "./client.ts";
export type { LockOptions } from "./client.ts";
export { Commands } from "./commands.ts";
export type { Versioned } from "./commands.ts";
export type {
  CallOptions,
  ClientOptions,
  IncrementOptions,
  StoreOptions,
} from "./command_options.ts";
export type { Duration } from "./durations.ts";
export type { WeightedServer } from "./net/servers.ts";
export {
  bytesCodec,
  compressed,
  jsonCodec,
  structuredCodec,
  textCodec,
  validated,
} from "./values/codecs.ts";
export type {
  Codec,
  CompressionOptions,
  Encoded,
  SchemaResult,
  StandardSchema,
  SyncCodec,
} from "./values/codecs.ts";
export * from "./errors.ts";
export type { ClientEvents, Listener } from "./events.ts";
export type { Load, LoadControl, LoadDefaults, LoadMany, LoadOptions } from "./load_options.ts";
export { transaction } from "./commits/transaction.ts";
export type { LeaseReply, MetaReply, Stored } from "./requests.ts";
