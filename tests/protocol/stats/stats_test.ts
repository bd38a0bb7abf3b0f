import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import {
  classStatistics,
  commandStatistics,
  generalStatistics,
  itemStatistics,
  slabStatistics,
  threadStatistics,
} from "../../../protocol/statistics.ts";
import { cachedump } from "../../../protocol/stats/item_walk.ts";
import { HEADER_BYTES, STATE, WORD } from "../../../store/memory/item.ts";
import { ConversationSide } from "../../support/sessions/conversation_side.ts";
import { textOf } from "../../support/sessions/side.ts";

// memcached's names, in memcached's order (doc/protocol.txt and the server itself, version 1.6.45).
const GENERAL_NAMES = `
  pid uptime time version libevent pointer_size rusage_user rusage_system max_connections curr_connections
  total_connections rejected_connections connection_structures response_obj_oom response_obj_count response_obj_bytes
  read_buf_count read_buf_bytes read_buf_bytes_free read_buf_oom reserved_fds cmd_get cmd_set cmd_flush cmd_touch cmd_meta
  get_hits get_misses get_expired get_flushed delete_misses delete_hits incr_misses incr_hits decr_misses decr_hits
  cas_misses cas_hits cas_badval touch_hits touch_misses store_too_large store_no_memory auth_cmds auth_errors bytes_read
  bytes_written limit_maxbytes accepting_conns listen_disabled_num time_in_listen_disabled_us threads conn_yields
  hash_power_level hash_bytes hash_is_expanding slab_reassign_rescues slab_reassign_chunk_rescues
  slab_reassign_inline_reclaim slab_reassign_busy_items slab_reassign_busy_deletes slab_reassign_busy_nomem
  slab_reassign_last_busy_status slab_reassign_running slabs_moved lru_crawler_running lru_crawler_starts
  lru_maintainer_juggles malloc_fails log_worker_dropped log_worker_written log_watcher_skipped log_watcher_sent
  log_watchers unexpected_napi_ids round_robin_fallback bytes curr_items total_items slab_global_page_pool
  expired_unfetched evicted_unfetched evicted_active evictions reclaimed crawler_reclaimed crawler_items_checked
  lrutail_reflocked moves_to_cold moves_to_warm moves_within_lru direct_reclaims lru_bumps_dropped
`.trim().split(/\s+/);

const SETTING_NAMES = `
  maxbytes maxconns tcpport udpport inter verbosity oldest evictions domain_socket umask shutdown_command growth_factor
  chunk_size num_threads num_threads_per_udp stat_key_prefix detail_enabled reqs_per_event cas_enabled tcp_backlog
  binding_protocol auth_enabled_sasl auth_enabled_ascii item_size_max maxconns_fast hashpower_init slab_reassign
  slab_automove slab_automove_ratio slab_automove_window slab_chunk_max lru_crawler lru_crawler_sleep lru_crawler_tocrawl
  tail_repair_time flush_enabled dump_enabled hash_algorithm lru_maintainer_thread lru_segmented hot_lru_pct warm_lru_pct
  hot_max_factor warm_max_factor temp_lru temporary_ttl idle_timeout watcher_logbuf_size worker_logbuf_size
  read_buf_mem_limit track_sizes inline_ascii_response ssl_enabled ssl_chain_cert ssl_key ssl_verify_mode ssl_keyformat
  ssl_ciphers ssl_ca_cert ssl_wbuf_size ssl_session_cache ssl_kernel_tls ssl_min_version num_napi_ids memory_file
  client_flags_size
`.trim().split(/\s+/);

/** Names and values of a reply, in order. */
function parse(reply: string): [string, string][] {
  assert(reply.endsWith("END\r\n"));
  return [...reply.matchAll(/^STAT (\S+) (.*)\r$/gm)].map(([, name, value]) => [name!, value!]);
}

function names(reply: string): string[] {
  return parse(reply).map(([name]) => name);
}

Deno.test("stats has memcached's names in memcached's order, then ours", () => {
  const reply = new ConversationSide().connect().ask("stats\r\n");
  assertEquals(names(reply).slice(0, GENERAL_NAMES.length), GENERAL_NAMES);
  assertEquals(GENERAL_NAMES.length, 93);
});

/** Lines of `stats` and its tables that are no metrics: constants, and what other lines say better. */
const NO_METRICS = `
  pid libevent pointer_size connection_structures response_obj_oom response_obj_count response_obj_bytes read_buf_count
  read_buf_bytes read_buf_bytes_free read_buf_oom reserved_fds hash_power_level slab_reassign_inline_reclaim
  slab_reassign_busy_items slab_reassign_busy_deletes slab_reassign_busy_nomem slab_reassign_last_busy_status
  slab_reassign_running lru_crawler_running lru_crawler_starts lru_maintainer_juggles malloc_fails log_worker_dropped
  unexpected_napi_ids round_robin_fallback evicted_active lrutail_reflocked moves_to_cold moves_within_lru
  lru_bumps_dropped number_cold tailrepairs crawler_items_checked hits_to_hot hits_to_cold hits_to_temp
  free_chunks_end direct_reclaims chunk_size pages used_percent waste_percent small main promoted evicted evicted_age expired reclaimed
`.trim().split(/\s+/);

Deno.test("every statistic has a meaning for collectors, but for constants and repetitions", () => {
  const side = new ConversationSide(["-o", "idle_timeout=60"]);
  side.connect().ask("set a 0 0 1\r\n1\r\n");
  const { thread } = side;
  const tables = [generalStatistics, itemStatistics, slabStatistics, classStatistics];
  const all = [...tables, threadStatistics, commandStatistics].flatMap((table) => [
    ...table(thread),
  ]);
  const without = all.filter((stat) => stat !== null && stat.meaning === undefined);
  assertEquals(new Set(without.map((stat) => stat!.name)), new Set(NO_METRICS));
});

Deno.test("counters begin at 0", () => {
  const { thread } = new ConversationSide();
  const rows = [...generalStatistics(thread)];
  const begun = rows.filter((row) => row?.meaning?.kind === "counter" && Number(row.value) !== 0);
  assertEquals(begun.map((row) => `${row!.name} ${row!.value}`), []);
});

Deno.test("stats threads tells what each thread has done, and stats reset forgets it", () => {
  const side = new ConversationSide(["-t", "2"]);
  const peer = side.connect();
  peer.ask("get a\r\nget b\r\n");
  const of = (names: readonly string[]): (string | undefined)[] => {
    const stats = new Map(parse(peer.ask("stats threads\r\n")));
    return names.map((name) => stats.get(name));
  };
  const rows = [0, 1].map((thread) => [`${thread}:commands`, `${thread}:batches`]).flat();
  assertEquals(of(rows), ["3", "2", "0", "0"]);
  assertEquals(of(["maintenance:mutex_waits", "0:mutex_wait_us", "1:mutex_held_us"]), [
    "0",
    "0",
    "0",
  ]);
  peer.ask("stats reset\r\n");
  assertEquals(of(["0:commands", "1:commands"]), ["2", "0"]);
});

Deno.test("stats settings has memcached's names in memcached's order, then ours", () => {
  const reply = new ConversationSide().connect().ask("stats settings\r\n");
  assertEquals(names(reply).slice(0, SETTING_NAMES.length), SETTING_NAMES);
});

Deno.test("leases have their figures where the draft of strong cas has them: behind memcached's", () => {
  const peer = new ConversationSide(["-z", "3333:ff33"]).connect();
  const id = / (\d+)\r/.exec(peer.ask("getss 10 k\r\n"))![1];
  peer.ask(`cas k 0 0 1 999\r\na\r\ncas k 0 0 1 ${id}\r\na\r\n`);
  peer.ask("deletess 10 k\r\nset k 0 0 1\r\nb\r\n");
  const general = parse(peer.ask("stats\r\n"));
  assertEquals(general.slice(GENERAL_NAMES.length, GENERAL_NAMES.length + 14), [
    ["lease_cnt", "2"],
    ["lease_rewrite", "1"],
    ["lease_getss", "1"],
    ["lease_deletess", "1"],
    ["lease_hit", "1"],
    ["lease_badval", "1"],
    ["lease_set", "1"],
    ["lease_curr", "0"],
    ["lease_expired", "0"],
    ["lease_dropped", "0"],
    ["lease_flag_clash", "0"],
    ["lease_wait_hint", "0"],
    ["dirty_cut", "1"],
    ["strict_refused", "0"],
  ]);
  const settings = parse(peer.ask("stats settings\r\n"));
  assertEquals(settings.slice(SETTING_NAMES.length, SETTING_NAMES.length + 2), [
    ["lease_flag", "0x3333"],
    ["lease_mask", "0xff33"],
  ]);
  const slabs = parse(peer.ask("stats slabs\r\n"));
  const touched = slabs.findIndex(([name]) => name.endsWith(":touch_hits"));
  assertEquals(slabs.slice(touched + 1, touched + 4).map(([name, n]) => [name.split(":")[1], n]), [
    ["lease_hits", "1"],
    ["lease_badval", "1"],
    ["lease_set", "1"],
  ]);
});

Deno.test("stats s, stats c and stats r are enough", () => {
  const peer = new ConversationSide().connect();
  assertStringIncludes(peer.ask("stats s\r\n"), "STAT maxbytes ");
  assertEquals(peer.ask("stats c\r\n"), "CLIENT_ERROR bad command line\r\n");
  assertStringIncludes(peer.ask("stats co\r\n"), ":listen_addr ");
  assertEquals(peer.ask("stats r\r\n"), "RESET\r\n");
  assertEquals(peer.ask("stats item\r\n"), "ERROR\r\n");
  assertEquals(peer.ask("stats extstore\r\n"), "END\r\n");
});

Deno.test("stats classes tells what became of items and pages", () => {
  const peer = new ConversationSide(["-m", "8"]).connect();
  const set = (key: string, length: number): string =>
    peer.ask(`set ${key} 0 0 ${length}\r\n${"x".repeat(length)}\r\n`);
  for (let key = 0; key < 70_000; key++) set(`s${key}`, 100);
  for (let key = 12_000; key < 12_100; key++) set(`s${key}`, 100);
  for (let key = 0; key < 200; key++) set(`m${key}`, 8000);
  const stats = new Map(
    parse(peer.ask("stats classes\r\n")).map(([name, value]) => [name, Number(value)]),
  );
  const sum = (name: string): number =>
    [...stats].filter(([key]) => key.endsWith(`:${name}`)).reduce((all, [, one]) => all + one, 0);
  assertEquals(stats.get("page_bytes"), 65_536);
  assertEquals(sum("pages_in"), sum("pages_out"));
  assert(sum("pages_in") > 0);
  assert(sum("evicted") > 0 && sum("ghost_hits") > 0);
  assert(
    sum("pages") + stats.get("pages_hash")! + stats.get("pages_ghost")! <= stats.get("pages")!,
  );
  for (const [name, value] of stats) {
    if (name.endsWith("_percent")) assert(value >= 0 && value <= 100, `${name} ${value}`);
  }
});

Deno.test("stats items and stats slabs tell of the classes that hold something", () => {
  const peer = new ConversationSide().connect();
  assertEquals(peer.ask("stats items\r\n"), "END\r\n");
  peer.ask("set k 0 0 1\r\nx\r\nget k\r\n");
  const items = new Map(parse(peer.ask("stats items\r\n")));
  assertEquals(items.get("items:1:number"), "1");
  assertEquals(items.get("items:1:hits_to_warm"), "1");
  const slabs = new Map(parse(peer.ask("stats slabs\r\n")));
  assertEquals(slabs.get("1:used_chunks"), "1");
  assertEquals(slabs.get("1:get_hits"), "1");
  assertEquals(slabs.get("active_slabs"), "1");
  assertEquals(slabs.get("total_malloced"), "65536");
});

Deno.test("stats items tells the age of the oldest item of both queues", () => {
  using side = new ConversationSide();
  const peer = side.connect();
  peer.ask("set k 0 0 1\r\n1\r\n");
  side.pause(100);
  const ages = peer.ask("stats items\r\n").match(/:age\w* \d+/g);
  assertEquals(ages, [":age_hot 100", ":age_warm 0", ":age 100"]);
});

Deno.test("stats reset zeroes counters and keeps sizes", () => {
  const peer = new ConversationSide().connect();
  peer.ask("set k 0 0 1\r\nx\r\nget k\r\nstats detail on\r\nset p:k 0 0 1\r\nx\r\n");
  assertEquals(peer.ask("stats reset\r\n"), "RESET\r\n");
  const stats = new Map(parse(peer.ask("stats\r\n")));
  assertEquals(stats.get("cmd_set"), "0");
  assertEquals(stats.get("get_hits"), "0");
  assertEquals(stats.get("total_items"), "0");
  assertEquals(stats.get("curr_items"), "2");
  assert(Number(stats.get("bytes")) > 0);
  assertEquals(peer.ask("stats detail dump\r\n"), "END\r\n");
});

Deno.test("stats reset forgets hot keys", () => {
  const side = new ConversationSide();
  const peer = side.connect();
  const samples = (): string | undefined =>
    new Map(parse(peer.ask("stats hotkeys\r\n"))).get("samples");
  assertEquals(samples(), "0");
  side.thread.memory.hotKeys.left = 1;
  peer.ask("get k\r\n");
  assertEquals(samples(), "1");
  peer.ask("stats reset\r\n");
  assertEquals(samples(), "0");
});

Deno.test("oldest of stats settings is the instant of the last flush, also of one to come", () => {
  const side = new ConversationSide();
  const peer = side.connect();
  const oldest = (): string => /oldest (\d+)/.exec(peer.ask("stats settings\r\n"))![1]!;
  side.advanceNow(10);
  assertEquals(oldest(), "0");
  peer.ask("flush_all\r\n");
  assertEquals(oldest(), "12");
  peer.ask("flush_all 5\r\n");
  assertEquals(oldest(), "16");
  side.advanceNow(20);
  assertEquals(oldest(), "16");
});

Deno.test("stats conns names what a connection waits for, as memcached does", () => {
  const side = new ConversationSide(["-m", "8"]);
  const asker = side.connect();
  const states: [sent: string, state: string][] = [
    ["", "conn_read"],
    ["get k", "conn_read"],
    ["set k 0 0 10\r\nabc", "conn_nread"],
    ["set k 0 0 100000\r\nabc", "conn_nread"],
    ["set k 0 0 9000000\r\nabc", "conn_swallow"],
    ["set k 0 0 10\r\nabcdefghij\r\n", "conn_read"],
  ];
  for (const [sent, state] of states) {
    const peer = side.connect();
    peer.ask(sent);
    assertEquals(
      [...asker.ask("stats conns\r\n").matchAll(/:state (\w+)/g)].at(-1)![1],
      state,
      sent,
    );
    peer.disconnect();
  }
});

Deno.test("stats conns shows listeners and connections; the asker is in conn_parse_cmd", () => {
  const side = new ConversationSide();
  side.connect();
  const values = parse(side.connect().ask("stats conns\r\n"));
  assertEquals(values.filter(([name]) => name.endsWith(":state")).map(([, state]) => state), [
    "conn_listening",
    "conn_read",
    "conn_parse_cmd",
  ]);
});

Deno.test("metadump and mgdump name every item, in many more bytes than a buffer", () => {
  const peer = new ConversationSide().connect();
  const count = 5000;
  for (let index = 0; index < count; index++) {
    peer.ask(`set key%${index} 3 ${index % 2 ? 100 : 0} 1\r\nx\r\n`);
  }
  const lines = peer.ask("lru_crawler metadump all\r\n").split("\n");
  assertEquals(lines.length, count + 3);
  assertEquals(lines[0], "OK\r");
  assertEquals(lines.at(-2), "END\r");
  assertMatch(
    lines.sort()[3]!,
    /^key=key%25\d+ exp=(-1|\d{10}) la=\d{10} cas=\d+ fetch=no cls=1 size=\d+ flags=3 $/,
  );
  const keys = peer.ask("lru_crawler mgdump all\r\n").split("\r\n");
  assertEquals(new Set(keys).size, count + 3);
  assertEquals(keys.at(-2), "EN");
  assertEquals(peer.ask("lru_crawler mgdump 60,61\r\n"), "OK\r\nEN\r\n");
});

Deno.test("dumps want to be the first of a pipeline", () => {
  const peer = new ConversationSide().connect();
  const mn = "mn\r\n";
  for (const name of ["metadump", "mgdump"]) {
    const refusal = `ERROR cannot pipeline other commands before ${name}\r\n`;
    assertEquals(peer.ask(`${mn}lru_crawler ${name} all\r\n`), `MN\r\n${refusal}`);
    const end = name === "metadump" ? "END\r\n" : "EN\r\n";
    assertEquals(peer.ask(`lru_crawler ${name} all\r\n${mn}`), `OK\r\n${end}MN\r\n`);
  }
});

Deno.test("stats cachedump takes nothing inside a value for an item that was there before", () => {
  using side = new ConversationSide();
  const peer = side.connect();
  const classId = side.thread.cache.links.slabs.largeClass;
  const value = "v".repeat(14_000);
  for (let n = 0; n < 128; n++) peer.ask(`set key-${n} 0 0 ${value.length}\r\n${value}\r\n`);
  const id = Number(peer.ask("mg key-1 c\r\n").match(/^HD c(\d+)/)![1]);
  const dump = cachedump(side.thread, classId, 0);
  let text = dump.next().value!;
  // The ones that the dump goes on with are deleted, and where they were lie values that imitate them.
  for (let n = 0; n < 64; n++) peer.ask(`delete key-${n}\r\n`);
  const header = new Int32Array(HEADER_BYTES / 4).fill(-8);
  header[WORD.ID_LOW] = id | 0;
  header[WORD.STATE] = STATE.LINKED | 3;
  const imitation = textOf(new Uint8Array(header.buffer)).repeat(64_000 / HEADER_BYTES);
  for (let n = 0; n < 60; n++) {
    // With 24 bytes of key every header's place begins a piece of HEADER_BYTES of the value.
    const key = `imitation-${n}`.padEnd(24, "-");
    const reply = peer.ask(`set ${key} 0 0 ${imitation.length}\r\n${imitation}\r\n`);
    assertEquals(reply, "STORED\r\n");
  }
  for (const lines of dump) text += lines;
  assertMatch(text, /^(ITEM (key|imitation)-[\d-]+ \[\d+ b; 0 s\]\r\n)+END\r\n$/);
});

Deno.test("what tuning commands are told is in stats settings", () => {
  const peer = new ConversationSide().connect();
  for (
    const line of [
      "slabs automove 2",
      "slabs automove ratio 0.5",
      "slabs automove window 30",
      "lru tune 10 20 0.3 3",
      "lru mode flat",
      "lru temp_ttl 5",
      "lru_crawler sleep 7",
      "lru_crawler tocrawl 8",
      "lru_crawler disable",
      "verbosity 9",
    ]
  ) assertEquals(peer.ask(`${line}\r\n`), "OK\r\n", line);
  const settings = new Map(parse(peer.ask("stats settings\r\n")));
  for (
    const [name, value] of Object.entries({
      slab_automove: "2",
      slab_automove_ratio: "0.50",
      slab_automove_window: "30",
      hot_lru_pct: "10",
      warm_lru_pct: "20",
      hot_max_factor: "0.30",
      warm_max_factor: "3.00",
      lru_segmented: "no",
      temp_lru: "yes",
      temporary_ttl: "5",
      lru_crawler_sleep: "7",
      lru_crawler_tocrawl: "8",
      lru_crawler: "no",
      verbosity: "2",
    })
  ) assertEquals(settings.get(name), value, name);
});

Deno.test("lru temp_ttl with a negative time turns the queue off, and keeps the time", () => {
  const peer = new ConversationSide().connect();
  const settings = (): (string | undefined)[] => {
    const found = new Map(parse(peer.ask("stats settings\r\n")));
    return ["temp_lru", "temporary_ttl"].map((name) => found.get(name));
  };
  assertEquals(peer.ask("lru temp_ttl 5\r\n"), "OK\r\n");
  assertEquals(settings(), ["yes", "5"]);
  assertEquals(peer.ask("lru temp_ttl -1\r\n"), "OK\r\n");
  assertEquals(settings(), ["no", "5"]);
});

Deno.test("stats settings shows the values of settings that no command has changed", () => {
  const settings = new Map(parse(new ConversationSide().connect().ask("stats settings\r\n")));
  for (
    const [name, value] of Object.entries({
      slab_automove: "1",
      hot_lru_pct: "20",
      warm_lru_pct: "40",
      hot_max_factor: "0.20",
      warm_max_factor: "2.00",
      lru_segmented: "yes",
      temp_lru: "no",
      temporary_ttl: "61",
      lru_crawler: "yes",
    })
  ) assertEquals(settings.get(name), value, name);
});

Deno.test("stats reset forgets what was done with update tokens, and keeps those that are out", () => {
  const side = new ConversationSide(["--tokens", "volatile"]);
  const peer = side.connect();
  const of = (...names: string[]): (string | undefined)[] => {
    const stats = new Map(parse(peer.ask("stats\r\n")));
    return names.map((name) => stats.get(`token_${name}`));
  };
  const { journal } = side.thread.cache;
  peer.ask("token get k\r\nset k 0 0 1\r\n1\r\ntoken release k 1\r\n");
  journal.noteSyncs(7);
  side.advanceNow(5);
  const names = "curr get release_unknown refused oldest_age journal_syncs".split(" ");
  assertEquals(of(...names), ["1", "1", "1", "1", "5", "7"]);
  peer.ask("stats reset\r\n");
  assertEquals(of(...names), ["1", "0", "0", "0", "5", "0"]);
  journal.noteSyncs(9);
  assertEquals(of("journal_syncs"), ["2"]);
  peer.ask("token drop_all unsafe\r\n");
});

Deno.test("stats settings tells of update tokens", () => {
  const settings = (options: string): string[] => {
    const reply = new ConversationSide(options.split(" ")).connect().ask("stats settings\r\n");
    return parse(reply).filter(([name]) => /token|state_dir/.test(name)).map((row) =>
      row.join("=")
    );
  };
  assertEquals(settings("-m 16"), [
    "state_dir=NULL",
    "tokens=off",
    "token_entries=0",
    "token_quarantine=60",
    "token_recover=refuse",
    "allow_token_drop=no",
  ]);
  assertEquals(
    settings("--state-dir /nowhere --token-entries 100 --token-recover=drop --allow-token-drop"),
    [
      "state_dir=/nowhere",
      "tokens=journal",
      "token_entries=100",
      "token_quarantine=60",
      "token_recover=drop",
      "allow_token_drop=yes",
    ],
  );
});

Deno.test("stats cachedump lists a class, newest first", () => {
  const peer = new ConversationSide().connect();
  peer.ask("set a 0 0 1\r\nx\r\nset b 0 50 2\r\nxy\r\n");
  const reply = peer.ask("stats cachedump 1 0\r\n");
  assertMatch(reply, /^ITEM b \[2 b; \d{10} s\]\r\nITEM a \[1 b; 0 s\]\r\nEND\r\n$/);
  assertMatch(peer.ask("stats cachedump 1 1\r\n"), /^ITEM b [^\r]*\r\nEND\r\n$/);
});

Deno.test("tuning commands refuse as memcached does", () => {
  const peer = new ConversationSide().connect();
  peer.ask("set k 0 0 1\r\nx\r\n");
  for (
    const [line, reply] of Object.entries({
      "slabs": "ERROR",
      "slabs reassign 1": "ERROR",
      "slabs reassign x 1": "CLIENT_ERROR bad command line format",
      "slabs reassign 1 1": "SAME src and dst class are identical",
      "slabs reassign 1 99": "BADCLASS invalid src or dst class id",
      "slabs reassign 1 2": "NOSPARE source class has no spare pages",
      "slabs automove": "ERROR",
      "slabs automove 3": "ERROR",
      "slabs automove x": "CLIENT_ERROR bad command line format",
      "slabs automove ratio x": "ERROR",
      "slabs automove window 2": "CLIENT_ERROR automove window too low or too high",
      "lru tune 50 50 1 1": "ERROR hot and warm pcts must not exceed 80",
      "lru tune 10 10 0 1": "ERROR hot/warm age factors must be greater than 0",
      "lru tune 10 10 1": "ERROR",
      "lru mode x": "ERROR",
      "lru constructor": "ERROR",
      "lru_crawler": "ERROR",
      "lru_crawler enable": "ERROR failed to start lru crawler thread",
      "lru_crawler sleep 1000001": "CLIENT_ERROR sleep must be one second or less",
      "lru_crawler sleep x": "CLIENT_ERROR bad command line format",
      "lru_crawler crawl 64": "BADCLASS invalid class id",
      "lru_crawler crawl all": "OK",
      "lru_crawler metadump 0": "BADCLASS invalid class id",
    })
  ) assertEquals(peer.ask(`${line}\r\n`), `${reply}\r\n`, line);
});
