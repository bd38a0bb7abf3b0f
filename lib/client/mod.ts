/** The client library: commands, and flows that keep a cache in step with a database. */
export type { LinkOptions, Login } from "./address.ts";
export { Cache, Namespace } from "./cache.ts";
export type { CacheEntry, PutOptions } from "./cache.ts";
export { Client, Section } from "./client.ts";
export type { LockOptions, WeightedServer } from "./client.ts";
export { Commands } from "./commands.ts";
export type {
  CallOptions,
  ClientOptions,
  IncrementOptions,
  StoreOptions,
  Versioned,
} from "./commands.ts";
export { bytesCodec, compressed, jsonCodec, textCodec } from "./codecs.ts";
export type { Codec, Encoded } from "./codecs.ts";
export * from "./errors.ts";
export type { Load, LoadControl, LoadMany, LoadOptions } from "./load_options.ts";
export { transaction } from "./transaction.ts";
export type { LeaseReply, MetaReply, Stored } from "./requests.ts";
