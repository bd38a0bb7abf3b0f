import { assertEquals, assertObjectMatch } from "@std/assert";
import { type Finding, findingsText } from "../../../lib/operator/doctor/finding.ts";
import { examineMachine, type Machine, type Plan } from "../../../lib/operator/doctor/machine.ts";
import { readDoctorCommand } from "../../../lib/operator/doctor/options.ts";
import { examineServer, type ServerFacts } from "../../../lib/operator/doctor/server.ts";
import { readTopCommand } from "../../../lib/operator/top/options.ts";

const MIB = 2 ** 20;
const DAY_MS = 86_400_000;

function table(figures: Readonly<Record<string, number | string>>): Map<string, string> {
  return new Map(Object.entries(figures).map(([name, value]) => [name, `${value}`]));
}

/** Facts of a server that tells nothing but these statistics. */
function facts(
  stats: Readonly<Record<string, number | string>>,
  other: Partial<ServerFacts> = {},
): ServerFacts {
  return {
    isHere: true,
    netcat: "h 1",
    stats: table(stats),
    settings: null,
    items: null,
    threads: null,
    rows: null,
    prefixes: null,
    tokens: null,
    certificateEndMs: null,
    journalBytes: null,
    nowMs: 1_000_000,
    ...other,
  };
}

/** Returns a finding as `level: what`, with its command behind a bar. */
function said(findings: readonly Finding[], check: string): string {
  const found = findings.filter((finding) => finding.check === check);
  assertEquals(found.length, 1, check);
  const { level, what, command } = found[0]!;
  return `${level}: ${what}${command === "" ? "" : ` | ${command}`}`;
}

/** Returns what the doctor says about a server by one check. */
function serverSays(check: string, ...given: Parameters<typeof facts>): string {
  return said(examineServer(facts(...given)), check);
}

Deno.test("evictions are a fault from 100 on, of items younger than a minute; the worst class is named", () => {
  const items = (...classes: readonly (readonly [number, number])[]): Partial<ServerFacts> => ({
    items: table(Object.fromEntries(classes.flatMap(([count, ageSec], index) => [
      [`items:${index + 1}:evicted`, count],
      [`items:${index + 1}:evicted_time`, ageSec],
    ]))),
  });
  const stats = { "limit_maxbytes": 64 * MIB };
  const fine = "ok: no class evicts items younger than 60 s";
  assertEquals(serverSays("evictions", stats, items([99, 0], [1000, 60])), fine);
  assertEquals(
    serverSays("evictions", stats, items([100, 59], [300, 5], [200, 1])),
    "warning: 3 slab classes evict items within 60 s of their last use; class 2: 300 evictions, " +
      "the last one after 5 s | printf 'cache_memlimit 128\\r\\nquit\\r\\n' | nc h 1",
  );
  assertEquals(serverSays("evictions", {}), "unseen: the server does not answer stats items");
});

Deno.test("a hit ratio below one half is a fault from 1000 reads on, the prefixes with most misses first", () => {
  const prefixes = (
    ...counts: readonly (readonly [string, number, number])[]
  ): Partial<ServerFacts> => ({
    prefixes: counts.map(([name, gets, hits]) =>
      `PREFIX ${name} get ${gets} hit ${hits} set 1 del 0`
    ),
  });
  const command = "printf 'stats detail dump\\r\\nquit\\r\\n' | nc h 1";
  assertEquals(
    serverSays("hit-ratio", {}, prefixes(["few", 999, 0], ["half", 1000, 500])),
    "ok: 2 prefixes",
  );
  assertEquals(
    serverSays(
      "hit-ratio",
      {},
      prefixes(
        ...[["a", 1000, 499], ["b", 3000, 0], ["c", 2000, 0], ["d", 1000, 0]] as const,
        ...[["e", 1000, 100], ["f", 1000, 200], ["g", 5000, 4999]] as const,
      ),
    ),
    "warning: hits below 50 %: b 0 % of 3000, c 0 % of 2000, d 0 % of 1000, e 10 % of 1000, " +
      `f 20 % of 1000 | ${command}`,
  );
  const on = "printf 'stats detail on\\r\\nquit\\r\\n' | nc h 1";
  assertEquals(
    serverSays("hit-ratio", { get_hits: 333, get_misses: 667 }),
    `warning: hits below 50 %: all keys 33 % of 1000 | ${on}`,
  );
  assertEquals(
    serverSays("hit-ratio", { get_hits: 500, get_misses: 500 }, { prefixes: ["noise"] }),
    `unseen: all keys together are well; prefixes are not counted | ${on}`,
  );
});

Deno.test("each other check of a server says what it saw, up to its bound and beyond it", () => {
  const threads = (waitUs: number, heldUs: number): Partial<ServerFacts> => ({
    threads: table({
      "0:mutex_wait_us": waitUs,
      "0:mutex_held_us": heldUs,
      "1:mutex_wait_us": 0,
      "1:mutex_held_us": 0,
    }),
    settings: table({ num_threads: 5, state_dir: "/d" }),
  });
  const journal = (bytes: number): Partial<ServerFacts> => ({
    journalBytes: bytes,
    settings: table({ state_dir: "/d" }),
  });
  const ends = (days: number): Partial<ServerFacts> => ({
    certificateEndMs: 1_000_000 + days * DAY_MS,
  });
  const ask = "printf 'token list\\r\\nquit\\r\\n' | nc h 1; when the writer can no longer commit:";
  const release = `${ask} token release <key> <id>`;
  const revoke = `${ask} token revoke <key> <id>`;
  const oldest = { "token_oldest_age": 301 };
  const out = (...tokens: string[]): Partial<ServerFacts> => ({ tokens });
  const token = (key: string, age: number): string => `TOKEN ${key} 5 ${age} me 127.0.0.1:9`;
  const seven = ["a", "b", "b", "c", "d", "e", "f", "g"].map((key) => token(key, 301));
  const replace = "replace the file of ssl_chain_cert, then: systemctl reload leased";
  // deno-fmt-ignore
  const cases: readonly (readonly [check: string, Parameters<typeof facts>, string])[] = [
    ["connections", [{ curr_connections: 899, max_connections: 1000 }], "ok: 899 of 1000"],
    ["connections", [{ curr_connections: 900, max_connections: 1000 }], "warning: 900 of 1000 | leased -c 2000"],
    ["connections", [{ curr_connections: 900 }], "unseen: the server does not count them"],
    ["tokens", [{}], "unseen: the server has no update tokens"],
    ["tokens", [{ token_oldest_age: 300 }], "ok: the oldest is 300 s old"],
    ["tokens", [{ token_oldest_age: 301 }], `warning: an update token has been out for 301 s | ${release}`],
    ["tokens", [oldest, out(token("a", 301), token("b", 300))], `warning: an update token has been out for 301 s; keys: a | ${release}`],
    ["tokens", [oldest, out(token("b", 300), "noise", "TOKEN x")], `warning: an update token has been out for 301 s | ${release}`],
    ["tokens", [oldest, out(...seven.slice(0, -2))], `warning: an update token has been out for 301 s; keys: a b c d e | ${release}`],
    ["tokens", [oldest, out(...seven)], `warning: an update token has been out for 301 s; keys: a b c d e, and 2 more | ${release}`],
    ["tokens", [oldest, out(token("k".repeat(60), 301), token("l".repeat(61), 301))], `warning: an update token has been out for 301 s; keys: ${"k".repeat(60)} ${"l".repeat(60)}... | ${release}`],
    ["tokens", [{ token_oldest_age: 5 }, { rows: table({ tokens_oldest_age: 310 }), ...out("TOKEN row:1 7 unknown me") }], `warning: an update token has been out for 310 s; keys: row:1 | ${revoke}`],
    ["tokens", [{ token_oldest_age: 5 }, { rows: table({ tokens_oldest_age: 310 }), ...out(token("a", 310)) }], `warning: an update token has been out for 310 s | ${revoke}`],
    ["tokens", [{ token_oldest_age: 320 }, { rows: table({ tokens_oldest_age: 5 }), ...out("TOKEN row:1 7 idle me") }], `warning: an update token has been out for 320 s | ${release}`],
    ["journal", [{}], "ok: the server keeps none"],
    ["journal", [{ token_curr: 1 }, journal(8 * MIB)], "ok: 8.0 MiB for 1 tokens"],
    ["journal", [{ token_curr: 1 }, journal(8 * MIB + 1)], "warning: 8.0 MiB for 1 tokens | df /d"],
    ["journal", [{ token_curr: 10_000 }, journal(40_960_000)], "ok: 39.1 MiB for 10000 tokens"],
    ["journal", [{ token_curr: 10_000 }, journal(40_960_001)], "warning: 39.1 MiB for 10000 tokens | df /d"],
    ["journal", [{}, journal(NaN)], "unseen: /d cannot be read from here"],
    ["mutex", [{}], "unseen: the server does not measure waits for its locks"],
    ["mutex", [{}, { threads: table({ "0:commands": 5 }) }], "unseen: the server does not measure waits for its locks"],
    ["mutex", [{}, threads(494_999, 1_000_000)], "ok: threads wait 49 % of the time that the mutex is held"],
    ["mutex", [{}, threads(999_999, 999_999)], "ok: threads wait 100 % of the time that the mutex is held"],
    ["mutex", [{}, threads(500_000, 1_000_000)], "warning: threads wait 50 % of the time that the mutex is held | leased -t 2"],
    ["mutex", [{}, { ...threads(5e6, 1e6), settings: table({ num_threads: 1 }) }], "warning: threads wait 500 % of the time that the mutex is held | leased -t 1"],
    ["mutex", [{}, threads(0, 0)], "ok: threads wait 0 % of the time that the mutex is held"],
    ["certificate", [{}], "ok: no TLS"],
    ["certificate", [{}, ends(NaN)], "unseen: the handshake failed"],
    ["certificate", [{}, ends(30)], "ok: ends in 30 days"],
    ["certificate", [{}, ends(29.99)], `warning: ends in 29 days | ${replace}`],
    ["certificate", [{}, ends(0)], `warning: ends in 0 days | ${replace}`],
    ["certificate", [{}, ends(-0.01)], `error: ended 1 days ago | ${replace}`],
    ["time", [{}], "unseen: the server does not say its time"],
    ["time", [{ time: 995 }], "ok: as here"],
    ["time", [{ time: 1005 }], "ok: as here"],
    ["time", [{ time: 1006 }], "warning: the clocks here and there differ by 6 s | timedatectl set-ntp true"],
    ["time", [{ time: 994 }], "warning: the clocks here and there differ by 6 s | timedatectl set-ntp true"],
  ];
  for (const [check, given, expected] of cases) {
    assertEquals(serverSays(check, ...given), expected, `${check} ${JSON.stringify(given[0])}`);
  }
});

Deno.test("each counter of faults has its statistic, and a server without it is not called well", () => {
  const counters = {
    "lease-flags": "lease_flag_clash",
    udp: "udp_dropped",
    refused: "rejected_connections",
    accept: "time_in_listen_disabled_us",
    passwords: "auth_errors",
    "no-memory": "store_no_memory",
    arriving: "values_dropped",
    "lease-table": "lease_dropped",
    "lock-waits": "lock_wait_timeouts",
    "journal-errors": "token_journal_errors",
    quarantine: "quarantine",
  };
  for (const [check, stat] of Object.entries(counters)) {
    assertEquals(serverSays(check, {}), `unseen: the server has no statistic ${stat}`);
    assertEquals(serverSays(check, { [stat]: 0 }), `ok: ${stat} is 0`);
    assertEquals(serverSays(check, { [stat]: 1 }).startsWith(`warning: ${stat} is 1: `), true);
  }
  const checks = examineServer(facts({})).map(({ check }) => check);
  assertEquals(checks, [
    ...["evictions", "hit-ratio", "connections", "tokens", "journal", "mutex", "certificate"],
    ...["time", ...Object.keys(counters)],
  ]);
});

Deno.test("a server with rows tells of views that are not cached, and of a log without bound", () => {
  const says = (check: string, rows: Record<string, number>) =>
    serverSays(check, {}, { rows: table(rows) });
  assertEquals(says("stale", { verified_stale: 0 }), "ok: verified_stale is 0");
  assertEquals(
    says("phantom", { verified_phantom: 2 }),
    "warning: verified_phantom is 2: cached values were newer than the database | " +
      "ask the server: flush_all",
  );
  assertEquals(says("views", { views_broken: 0 }), "ok: views_broken is 0");
  assertEquals(
    says("views", { views_broken: 2 }),
    "warning: views_broken is 2: views no longer fit the schema, or their queries do not end | " +
      "ask the server: GET /health of --admin names the first one",
  );
  assertEquals(
    says("log-bound", { follow_unbounded: 1 }).startsWith(
      "warning: follow_unbounded is 1: max_slot_wal",
    ),
    true,
  );
});

const PLAN: Plan = {
  process: "/proc/7",
  memoryLimitBytes: 64 * MIB,
  threads: 4,
  connLimit: 1000,
  listenBacklog: 500,
};

/** Returns what the doctor says about a machine by one check. */
function machineSays(
  check: string,
  files: Readonly<Record<string, string>>,
  plan: Partial<Plan> = {},
  other: Partial<Machine> = {},
): string {
  const machine: Machine = {
    os: "linux",
    missingFlags: [],
    hasLibc: true,
    ioUringFault: "",
    read: (path) => files[path] ?? null,
    ...other,
  };
  return said(examineMachine(machine, { ...PLAN, ...plan }), check);
}

Deno.test("the limit of open files has room for the threads beside the connections", () => {
  const limit = (soft: string | number): Record<string, string> => ({
    "/proc/7/limits": `Max open files            ${soft}   99999999   files\n`,
  });
  const spoken = machineSays("open-files", limit(1));
  const needed = Number(/need (\d+)/.exec(spoken)![1]);
  assertEquals(
    spoken,
    `error: the limit is 1; 1000 connections and 4 threads need ${needed} | ` +
      `prlimit --pid 7 --nofile=${needed}`,
  );
  assertEquals(needed > 1000, true);
  assertEquals(machineSays("open-files", limit(needed)), `ok: limit ${needed}, ${needed} needed`);
  assertEquals(machineSays("open-files", limit(needed - 1)).startsWith("error: "), true);
  assertEquals(
    machineSays("open-files", limit("unlimited")),
    `ok: limit unlimited, ${needed} needed`,
  );
  const self = { "/proc/self/limits": limit(1)["/proc/7/limits"]! };
  const planned = machineSays("open-files", self, { process: "/proc/self", connLimit: 1010 });
  assertEquals(planned.endsWith(` | ulimit -n ${needed + 10}`), true, planned);
  assertEquals(machineSays("open-files", {}), "unseen: /proc/7/limits cannot be read");
});

Deno.test("memory is that of the store, the process and its threads, within the least limit around it", () => {
  const needed = 64 * MIB + 70e6 + 4 * 30e6;
  const files = (bytes: number): Record<string, string> => ({
    "/proc/7/cgroup": "0::/a/b\n",
    "/sys/fs/cgroup/a/b/memory.max": "max\n",
    "/sys/fs/cgroup/a/memory.max": `${bytes}\n`,
    "/sys/fs/cgroup/memory.max": `${bytes + 5}\n`,
    "/proc/meminfo": "MemFree: 1 kB\nMemTotal:       16777216 kB\n",
  });
  const name = "/sys/fs/cgroup/a/memory.max";
  assertEquals(
    machineSays("memory", files(needed)),
    `ok: ${name} allows 245.2 MiB, 245.2 MiB planned`,
  );
  assertEquals(
    machineSays("memory", files(needed - MIB)),
    `error: ${name} allows 244.2 MiB; -m 64 and -t 4 need 245.2 MiB | leased -m 63`,
  );
  for (
    const [left, remedy] of [
      [MIB, "leased -m 1"],
      [MIB - 1, "raise the memory limit, or lower -t"],
      [1000, "raise the memory limit, or lower -t"],
    ] as const
  ) {
    const [, told] = machineSays("memory", files(needed - 64 * MIB + left)).split(" | ");
    assertEquals(told, remedy);
  }
  assertEquals(
    machineSays("memory", { "/proc/meminfo": "MemTotal: 16777216 kB\n" }),
    "ok: the machine allows 16.0 GiB, 245.2 MiB planned",
  );
  assertEquals(machineSays("memory", {}), "unseen: neither /proc nor /sys shows a limit");
  const root = { "/proc/7/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "1048576\n" };
  assertEquals(
    machineSays("memory", root).startsWith("error: /sys/fs/cgroup/memory.max allows 1.0 MiB"),
    true,
  );
  // Other controllers of version 1 have no limit of memory.
  const v1 = { "/proc/7/cgroup": "3:cpu:/a\n", "/sys/fs/cgroup/a/memory.max": "1048576\n" };
  assertEquals(machineSays("memory", v1).startsWith("unseen"), true);
  const two = {
    "/proc/7/cgroup": "3:cpu,memory:/a\n",
    "/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1048576\n",
  };
  assertEquals(machineSays("memory", two).startsWith("error: /sys/fs/cgroup/memory/a/"), true);
});

Deno.test("each other check of the machine says what it saw, and how to mend it", () => {
  const disabled = "/proc/sys/kernel/io_uring_disabled";
  const huge = "/sys/kernel/mm/transparent_hugepage/enabled";
  const somaxconn = "/proc/sys/net/core/somaxconn";
  const clock = "/sys/devices/system/clocksource/clocksource0";
  const seccomp =
    "allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp profile";
  const fault = { ioUringFault: "not permitted" };
  // deno-fmt-ignore
  const cases: readonly (readonly [string, Readonly<Parameters<typeof machineSays>>])[] = [
    ["ok: deno run grants FFI, network and files", ["permissions", {}]],
    ["warning: deno run does not grant --allow-ffi --allow-read | deno task doctor", ["permissions", {}, {}, { missingFlags: ["--allow-ffi", "--allow-read"] }]],
    ["ok: the C library can be called: native transport", ["ffi", {}]],
    ["unseen: needs the C library", ["io_uring", {}, {}, { hasLibc: false }]],
    ["ok: can be used", ["io_uring", { [disabled]: "2" }]],
    ["warning: not permitted | sysctl -w kernel.io_uring_disabled=0", ["io_uring", { [disabled]: "1\n" }, {}, fault]],
    [`warning: not permitted | ${seccomp}`, ["io_uring", { [disabled]: "0\n" }, {}, fault]],
    [`warning: not permitted | ${seccomp}`, ["io_uring", {}, {}, fault]],
    ["ok: madvise", ["huge-pages", { [huge]: "always [madvise] never" }]],
    ["ok: always", ["huge-pages", { [huge]: "[always] madvise never" }]],
    [`warning: transparent huge pages are off | echo madvise > ${huge}`, ["huge-pages", { [huge]: "always madvise [never]" }]],
    [`unseen: ${huge} cannot be read`, ["huge-pages", {}]],
    ["ok: 500", ["somaxconn", { [somaxconn]: "500\n" }]],
    ["warning: net.core.somaxconn is 499, below the 500 of -b | sysctl -w net.core.somaxconn=500", ["somaxconn", { [somaxconn]: "499\n" }]],
    ["unseen: net.core.somaxconn cannot be read", ["somaxconn", {}]],
    ["unseen: " + `${clock} cannot be read`, ["clock", {}]],
    [`warning: the clock source is hpet | echo tsc > ${clock}/current_clocksource`, ["clock", { [`${clock}/current_clocksource`]: "hpet\n" }]],
    ...["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"].map((name) =>
      [`ok: ${name}`, ["clock", { [`${clock}/current_clocksource`]: `${name}\n` }]] as const),
  ];
  for (const [expected, given] of cases) assertEquals(machineSays(...given), expected);
  const other = examineMachine(
    { os: "darwin", missingFlags: [], hasLibc: false, ioUringFault: "", read: () => null },
    PLAN,
  );
  assertEquals(other.map(({ check, level }) => `${check} ${level}`), [
    ...["permissions ok", "ffi warning", "machine unseen"],
  ]);
});

Deno.test("findings are lines: what, why it matters, and what to do where there is something", () => {
  const finding = { check: "a", level: "ok", what: "w\x1b", why: "", command: "" } as const;
  assertEquals(
    findingsText("Server h", [finding, { ...finding, level: "warning", why: "y", command: "c" }]),
    "Server h\n  ok       a: w?\n  warning  a: w?\n           why: y\n           do:  c\n",
  );
});

function optionsOf(command: { kind: string; options?: unknown }): Record<string, unknown> {
  assertEquals(command.kind, "run");
  return command.options as Record<string, unknown>;
}

Deno.test("doctor and top take their options, and their defaults", () => {
  const doctor = readDoctorCommand([]);
  assertObjectMatch(optionsOf(doctor), {
    targets: { addresses: [], dial: { timeoutMs: 2000, login: null, caCert: null } },
    json: false,
    memoryLimitBytes: 64 * MIB,
    threads: Math.min(navigator.hardwareConcurrency, 4),
    connLimit: 1024,
    listenBacklog: 1024,
  });
  const words = ["h:1", "--json", "-m", "1g", "-t", "2", "-c", "3", "-b", "4", "--server", "h:2"];
  const given = readDoctorCommand([...words, "--timeout", "5"]);
  assertObjectMatch(optionsOf(given), {
    targets: {
      addresses: [{ hostname: "h", port: 1 }, { hostname: "h", port: 2 }],
      dial: { timeoutMs: 5, login: null, caCert: null },
    },
    json: true,
    memoryLimitBytes: 1024 * MIB,
    threads: 2,
    connLimit: 3,
    listenBacklog: 4,
  });
  const dial = { timeoutMs: 2000, login: null, caCert: null };
  const top = readTopCommand([]);
  assertObjectMatch(optionsOf(top), {
    targets: { addresses: [{ hostname: "127.0.0.1", port: 11211 }], dial },
    once: false,
    intervalMs: 1000,
    view: "servers",
  });
  const watched = readTopCommand(["/s", "--once", "--interval", "100", "--view", "rows"]);
  assertObjectMatch(optionsOf(watched), {
    targets: { addresses: [{ path: "/s" }], dial },
    once: true,
    intervalMs: 100,
    view: "rows",
  });
  for (const read of [readDoctorCommand, readTopCommand]) {
    const help = read(["--help", "--nonsense"]);
    assertEquals(help.kind === "print" && help.text.startsWith("Usage: leased "), true);
    const refused = read(["bad", "--nonsense", "--log-format", "json"]);
    assertEquals(refused.kind === "refuse" && [refused.errors.length, refused.logFormat], [
      2,
      "json",
    ]);
  }
});

Deno.test("values that were compared with the database are told with their nines", () => {
  const rows = (figures: Readonly<Record<string, number>>): Partial<ServerFacts> => ({
    rows: table(Object.fromEntries(
      Object.entries(figures).map(([name, value]) => [`verified_${name}`, value]),
    )),
  });
  assertEquals(
    serverSays("verified", {}, rows({ day: 8640, "wrong_day": 0, "nines_day": 3.46 })),
    "ok: 0 of 8640 values compared in the last day were wrong: at least 3.4 nines",
  );
  assertEquals(
    serverSays("verified", {}, rows({ day: 8640, "wrong_day": 2, "nines_day": 2.9 })),
    "warning: 2 of 8640 values compared in the last day were wrong: at least 2.9 nines | " +
      "journalctl -u leased | grep 'cached value': the log names the keys",
  );
  assertEquals(
    serverSays("verified", {}, { rows: table({ tokens: 1 }) }),
    "unseen: cached values are not compared with the database: --verify is 0",
  );
});
