import type { Settings } from "../settings.ts";
import type { StatThread } from "../thread_context.ts";
import type { TunableName } from "../tunables.ts";
import { onOff, type StatEntry, yesNo } from "./entry.ts";
import { memoryLimitBytes } from "./general.ts";

/** By `-o ssl_min_version`. */
const TLS_VERSIONS = ["tlsv1.0", "tlsv1.1", "tlsv1.2", "tlsv1.3"] as const;
/** `-o ssl_wbuf_size` by default. */
const TLS_WRITE_BUFFER_BYTES = 16 * 1024;

const BINDING_PROTOCOL: Record<Settings["wireProtocol"], string> = {
  auto: "auto-negotiate",
  ascii: "ascii",
  binary: "binary",
};

type SettingRow = readonly [name: string, value: (thread: StatThread) => string | number];

/** A setting that commands may change. */
const tunable = (name: TunableName): SettingRow => [name, (t) => t.tunables.text(name)];
/** A setting of memcached that means nothing here: its value says what is the case. */
const fixed = (name: string, value: string | number): SettingRow => [name, () => value];

/** The lines of `stats settings`, in memcached's order. */
// deno-fmt-ignore
const ROWS: readonly SettingRow[] = [
  ["maxbytes",             (t) => memoryLimitBytes(t)],
  ["maxconns",             (t) => t.settings.connLimit],
  ["tcpport",              (t) => t.settings.tcpPort],
  ["udpport",              (t) => t.settings.udpPort],
  ["inter",                (t) => t.settings.listenAddresses ?? "NULL"],
  tunable("verbosity"),
  ["oldest",               (t) => t.cache.inspector.control("OLDEST_LIVE_SEC")],
  ["evictions",            (t) => onOff(t.memory.options.evictions)],
  ["domain_socket",        (t) => t.settings.unixSocket || "NULL"],
  ["umask",                (t) => t.settings.unixMask.toString(8)],
  ["shutdown_command",     (t) => yesNo(t.settings.enableShutdown)],
  ["growth_factor",        (t) => t.memory.options.growthFactor.toFixed(2)],
  ["chunk_size",           (t) => t.memory.options.chunkSizeMin],
  ["num_threads",          (t) => t.settings.threads],
  fixed("num_threads_per_udp", 1),
  ["stat_key_prefix",      (t) => t.settings.statsDelimiter],
  tunable("detail_enabled"),
  ["reqs_per_event",       (t) => t.settings.maxReqsPerEvent],
  ["cas_enabled",          (t) => yesNo(t.memory.options.casEnabled)],
  ["tcp_backlog",          (t) => t.settings.listenBacklog],
  ["binding_protocol",     (t) => BINDING_PROTOCOL[t.settings.wireProtocol]],
  ["auth_enabled_sasl",    (t) => yesNo(t.settings.enableSasl)],
  ["auth_enabled_ascii",   (t) => textAuthFile(t.settings)],
  ["item_size_max",        (t) => t.memory.options.itemSizeMaxBytes],
  ["maxconns_fast",        (t) => yesNo(t.settings.maxconnsFast)],
  fixed("hashpower_init", 0),
  fixed("slab_reassign", "yes"),
  tunable("slab_automove"),
  tunable("slab_automove_ratio"),
  tunable("slab_automove_window"),
  ["slab_chunk_max",       (t) => t.cache.inspector.chunkBytesMax],
  tunable("lru_crawler"),
  tunable("lru_crawler_sleep"),
  tunable("lru_crawler_tocrawl"),
  fixed("tail_repair_time", 0),
  ["flush_enabled",        (t) => yesNo(!t.settings.disableFlushAll)],
  ["dump_enabled",         (t) => yesNo(!t.settings.disableDumping)],
  fixed("hash_algorithm", "murmur3"),
  ["lru_maintainer_thread", (t) => yesNo(t.settings.lruMaintainer)],
  tunable("lru_segmented"),
  tunable("hot_lru_pct"),
  tunable("warm_lru_pct"),
  tunable("hot_max_factor"),
  tunable("warm_max_factor"),
  tunable("temp_lru"),
  tunable("temporary_ttl"),
  ["idle_timeout",         (t) => t.settings.idleTimeoutSec],
  ["watcher_logbuf_size",  (t) => t.cache.inspector.watchRingBytes],
  fixed("worker_logbuf_size", 0),
  fixed("read_buf_mem_limit", 0),
  fixed("track_sizes", "yes"),
  fixed("inline_ascii_response", "no"),
  ["ssl_enabled",          (t) => yesNo(t.settings.tls !== null)],
  ["ssl_chain_cert",       (t) => t.settings.tls?.chainCert ?? "(null)"],
  ["ssl_key",              (t) => t.settings.tls?.key ?? "(null)"],
  ["ssl_verify_mode",      (t) => t.settings.tls?.verifyMode ?? 0],
  ["ssl_keyformat",        (t) => t.settings.tls?.keyFormat ?? 1],
  ["ssl_ciphers",          (t) => t.settings.tls?.ciphers ?? "NULL"],
  ["ssl_ca_cert",          (t) => t.settings.tls?.caCert ?? "NULL"],
  ["ssl_wbuf_size",        (t) => t.settings.tls?.writeBufferBytes ?? TLS_WRITE_BUFFER_BYTES],
  ["ssl_session_cache",    (t) => yesNo(t.settings.tls?.sessionCache === true)],
  ["ssl_kernel_tls",       (t) => yesNo(t.settings.tls?.kernelTls === true)],
  ["ssl_min_version",      (t) => TLS_VERSIONS[t.settings.tls?.minVersion ?? 2]!],
  fixed("num_napi_ids", 0),
  ["memory_file",          (t) => t.settings.snapshotPath || "(null)"],
  fixed("client_flags_size", 4),
];

/** The user file, if clients of the text protocol authenticate. */
function textAuthFile({ authFile, wireProtocol }: Settings): string {
  return authFile === "" || wireProtocol === "binary" ? "no" : authFile;
}

/** `stats settings` */
export function* settingStats(thread: StatThread): Generator<StatEntry> {
  for (const [name, value] of ROWS) yield [name, value(thread)];
  const { leaseFlag, leaseMask, leaseTimeSec } = thread.settings;
  yield ["lease_flag", `0x${leaseFlag.toString(16)}`];
  yield ["lease_mask", `0x${leaseMask.toString(16)}`];
  yield ["lease_time", leaseTimeSec];
  yield ["lease_entries", thread.memory.options.leaseEntries];
  const { slabLayout, lockLimits } = thread.memory.options;
  yield ["slab_layout", slabLayout];
  yield ["io_uring", onOff(thread.settings.usesIoUring)];
  yield ["compat", thread.settings.compat];
  yield ["lock_limit", lockLimits.locksMax];
  yield ["lock_limit_per_conn", lockLimits.locksPerConnectionMax];
  yield ["lock_waiters", lockLimits.waitersPerLockMax];
  yield ["lock_reply", thread.settings.lockReply];
  yield ["lock_idle_timeout", thread.settings.lockIdleTimeoutSec];
  const { stateDir, tokenQuarantineSec, tokenRecover, allowTokenDrop } = thread.settings;
  yield ["state_dir", stateDir || "NULL"];
  yield ["tokens", thread.memory.options.tokenPersistence];
  yield ["token_entries", thread.memory.options.tokenEntries];
  yield ["token_quarantine", tokenQuarantineSec];
  yield ["token_recover", tokenRecover];
  yield ["allow_token_drop", yesNo(allowTokenDrop)];
  yield ["ssl_handshake_timeout", thread.settings.tls?.handshakeTimeoutSec ?? 0];
}
