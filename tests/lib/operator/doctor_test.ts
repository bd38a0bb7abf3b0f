import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { examineMachine, type Machine, type Plan } from "../../../lib/operator/doctor/machine.ts";
import { examineServer, type ServerFacts } from "../../../lib/operator/doctor/server.ts";
import { Certificates, tlsArguments } from "../../support/servers/certificates.ts";
import { startMemcachedTcp, testWithMemcached } from "../../support/servers/memcached.ts";
import { ScriptedPeer } from "../../support/servers/scripted_peer.ts";
import { Client, MAIN, ServerProcess } from "../../support/servers/server_process.ts";
import { textOf } from "../../support/sessions/side.ts";

const MIB = 2 ** 20;
const PLAN: Plan = {
  process: "/proc/7",
  memoryLimitBytes: 64 * MIB,
  threads: 4,
  connLimit: 1024,
  listenBacklog: 1024,
};
const GOOD_FILES: Readonly<Record<string, string>> = {
  "/proc/sys/kernel/io_uring_disabled": "0\n",
  "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
  "/proc/7/limits":
    "Max open files            65536                65536                files     \n",
  "/proc/sys/net/core/somaxconn": "4096\n",
  "/proc/meminfo": "MemTotal:       16000000 kB\n",
  "/proc/7/cgroup": "0::/a/b\n",
  "/sys/fs/cgroup/a/b/memory.max": "max\n",
  "/sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
};

function machine(files: Readonly<Record<string, string | null>>, other = {}): Machine {
  const all: Readonly<Record<string, string | null>> = { ...GOOD_FILES, ...files };
  const read = (path: string): string | null => all[path] ?? null;
  return { os: "linux", missingFlags: [], hasLibc: true, ioUringFault: "", read, ...other };
}

function levels(findings: readonly { check: string; level: string }[]): string[] {
  return findings.filter(({ level }) => level !== "ok").map(({ check, level }) =>
    `${check} ${level}`
  );
}

Deno.test("a good machine has no faults, and each bad setting is one", () => {
  assertEquals(levels(examineMachine(machine({}), PLAN)), []);
  const huge = "/sys/kernel/mm/transparent_hugepage/enabled";
  const clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
  const cases: readonly (readonly [Machine, string])[] = [
    [machine({ [huge]: "always madvise [never]" }), "huge-pages warning"],
    [machine({ [huge]: null }), "huge-pages unseen"],
    [machine({ "/proc/7/limits": "Max open files  1024  4096 files" }), "open-files error"],
    [machine({ "/proc/sys/net/core/somaxconn": "128" }), "somaxconn warning"],
    [machine({ "/sys/fs/cgroup/a/memory.max": `${128 * MIB}` }), "memory error"],
    [machine({ "/proc/meminfo": "MemTotal: 100000 kB" }), "memory error"],
    [machine({ [clock]: "hpet" }), "clock warning"],
    [machine({}, { ioUringFault: "EPERM" }), "io_uring warning"],
    [machine({}, { missingFlags: ["--allow-ffi"] }), "permissions warning"],
  ];
  for (const [each, expected] of cases) {
    const findings = examineMachine(each, PLAN);
    assertEquals(levels(findings), [expected]);
    for (const { level, why, command } of findings) {
      assertEquals(why !== "" && command !== "", level === "warning" || level === "error");
    }
  }
});

Deno.test("without the C library the portable transport serves, and io_uring is not looked at", () => {
  const findings = examineMachine(machine({}, { hasLibc: false }), PLAN);
  const [ffi, ioUring] = ["ffi", "io_uring"].map((name) =>
    findings.find(({ check }) => check === name)!
  );
  assertEquals([ffi!.level, ioUring!.level], ["warning", "unseen"]);
  assertStringIncludes(ffi!.what, "(linux)");
  assertStringIncludes(ioUring!.what, "needs the C library");
});

Deno.test("the limit of a control group of version 1 counts, and the remedy fits into it", () => {
  const files = {
    "/proc/7/cgroup": "9:name=systemd:/\n4:memory:/box\n0::/\n",
    "/sys/fs/cgroup/memory/box/memory.limit_in_bytes": `${256 * MIB}`,
  };
  const findings = examineMachine(machine(files), { ...PLAN, memoryLimitBytes: 512 * MIB });
  assertEquals(levels(findings), ["memory error"]);
  assertEquals(findings.find(({ check }) => check === "memory")!.command, "leased -m 74");
});

const CLEAN_STATS = "curr_connections 1|max_connections 1024|get_hits 0|get_misses 0|time 1000|" +
  "token_curr 0|token_oldest_age 0|limit_maxbytes 67108864|lease_flag_clash 0|udp_dropped 0|" +
  "rejected_connections 0|time_in_listen_disabled_us 0|auth_errors 0|store_no_memory 0|" +
  "values_dropped 0|lease_dropped 0|lock_wait_timeouts 0|token_journal_errors 0|quarantine 0";

function table(text: string): Map<string, string> {
  return new Map(text.split("|").map((line) => line.split(" ") as [string, string]));
}

function facts(stats: string, other: Partial<ServerFacts> = {}): ServerFacts {
  return {
    isHere: true,
    netcat: "127.0.0.1 11211",
    stats: new Map([...table(CLEAN_STATS), ...table(stats)]),
    settings: table("state_dir /var/lib/leased|num_threads 4"),
    items: table("items:1:evicted 0|items:1:evicted_time 0"),
    threads: table("0:mutex_wait_us 0|0:mutex_held_us 9000000"),
    rows: null,
    prefixes: ["PREFIX user get 5000 hit 4000 set 1 del 0"],
    tokens: null,
    certificateEndMs: null,
    journalBytes: 1000,
    nowMs: 1_000_000,
    ...other,
  };
}

Deno.test("a good server has no faults, and each bad figure is one", () => {
  assertEquals(levels(examineServer(facts("time 1000"))), []);
  const young = "items:5:evicted 400|items:5:evicted_time 3";
  const cases: readonly (readonly [ServerFacts, string])[] = [
    [facts("time 1000", { items: table(young) }), "evictions warning"],
    [
      facts("time 1000", { prefixes: ["PREFIX a get 2000 hit 10 set 1 del 0"] }),
      "hit-ratio warning",
    ],
    [facts("get_hits 1|get_misses 5000", { prefixes: [] }), "hit-ratio warning"],
    [facts("curr_connections 1000"), "connections warning"],
    [facts("token_curr 2|token_oldest_age 301"), "tokens warning"],
    [
      facts("time 1000", {
        rows: table("tokens_oldest_age 301|verified_day 9|verified_wrong_day 0"),
      }),
      "tokens warning",
    ],
    [
      facts("time 1000", { rows: table("verified_day 9|verified_wrong_day 1") }),
      "verified warning",
    ],
    [facts("time 1000", { journalBytes: 100 * MIB }), "journal warning"],
    [facts("time 1000", { journalBytes: NaN }), "journal unseen"],
    [
      facts("time 1000", { threads: table("0:mutex_wait_us 8000000|0:mutex_held_us 9000000") }),
      "mutex warning",
    ],
    [facts("time 1000", { certificateEndMs: 1_000_000 + 5 * 86_400_000 }), "certificate warning"],
    [facts("time 1000", { certificateEndMs: 0 }), "certificate error"],
    [facts("time 900"), "time warning"],
    [facts("lease_flag_clash 3"), "lease-flags warning"],
    [facts("udp_dropped 1"), "udp warning"],
  ];
  for (const [each, expected] of cases) assertEquals(levels(examineServer(each)), [expected]);
});

/** On a busy machine a server is silent for longer than the doctor waits by default. */
const PATIENT = ["--timeout", "60000"];

async function doctor(
  ...args: readonly string[]
): Promise<{ code: number; text: string; stderr: string }> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", "-A", MAIN, "doctor", ...args],
    env: { NO_COLOR: "1" },
    stdin: "null",
  }).output();
  return { code, text: textOf(stdout), stderr: textOf(stderr) };
}

Deno.test("leased doctor finds a clash of lease flags and an old certificate of a running server", async () => {
  using certificates = new Certificates();
  const certificate = certificates.make("localhost");
  await using server = await ServerProcess.start({
    args: ["-z", "3333", "--tokens=volatile", "--token-quarantine=0", "-b", "2000000000"],
  });
  await using secure = await ServerProcess.start({
    args: tlsArguments(certificate),
    permissions: ["-A"],
  });
  using client = await server.connect();
  // Flags 0x3333 look like a lease's.
  await client.ask("set a 13107 0 1\r\n1\r\n", "STORED\r\n");
  const { code, text } = await doctor(`127.0.0.1:${server.port}`, ...PATIENT);
  assertEquals(code, 1);
  assertStringIncludes(text, "This machine\n");
  if (Deno.build.os === "linux") assertStringIncludes(text, ", below the 2000000000 of -b\n");
  assertStringIncludes(text, "warning  lease-flags: lease_flag_clash is 1: items stored with");
  const args = [
    `localhost:${secure.port}`,
    "--ca-cert",
    certificate.certPath,
    "--json",
    ...PATIENT,
  ];
  const { reports } = JSON.parse((await doctor(...args)).text);
  const [, { findings }] = reports;
  const ends = findings.find(({ check }: { check: string }) => check === "certificate");
  assertMatch(`${ends.level} ${ends.what}`, /^warning ends in [12] days$/);
});

Deno.test("leased doctor looks at servers at Unix sockets, which are on this machine", async () => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/leased.sock`;
  await using server = await ServerProcess.start({
    args: ["-s", path, "-z", "3333"],
    permissions: ["-A"],
  });
  using client = await Client.connectUnix(path);
  await client.ask("set a 13107 0 1\r\n1\r\n", "STORED\r\n");
  const { code, text } = await doctor(path, ...PATIENT);
  assertEquals(code, 1);
  assertStringIncludes(text, "This machine\n");
  assertStringIncludes(text, `Server ${path}\n`);
  assertStringIncludes(text, "lease_flag_clash is 1");
  const { code: none, text: reason } = await doctor(`${folder}/none`);
  assertEquals(none, 69);
  assertStringIncludes(reason, `error    connection: ${folder}/none: `);
  await server.stop();
  await Deno.remove(folder, { recursive: true });
});

Deno.test("leased doctor names --login for a server that asks for a password", async () => {
  await using server = new ScriptedPeer(() => ["CLIENT_ERROR unauthenticated\r\n"]);
  const address = `127.0.0.1:${server.port}`;
  const { code, text } = await doctor(address, ...PATIENT);
  assertEquals(code, 69);
  assertStringIncludes(text, `connection: ${address}: asks for a password: add --login\n`);
  assertStringIncludes(text, `do:  deno task doctor --login FILE ${address}\n`);
});

testWithMemcached("leased doctor says what it cannot see of memcached", async (memcached) => {
  await using server = await startMemcachedTcp(memcached);
  const { text } = await doctor(`127.0.0.1:${server.port}`, ...PATIENT);
  assertStringIncludes(text, "ok       connections: ");
  assertStringIncludes(text, "unseen   tokens: the server has no update tokens\n");
  assertStringIncludes(text, "unseen   mutex: ");
});

Deno.test("leased doctor passes no control character on, and gives a silent server up", async () => {
  const evil = "\x1b]0;evil\x07\x9b31m";
  await using server = new ScriptedPeer((line) =>
    line === "stats detail dump"
      ? [`PREFIX ${evil} get 5000 hit 1 set 1 del 0\r\n`, "END\r\n"]
      : [`STAT curr_connections ${evil}\r\n`, `STAT ${evil} ${evil}\r\n`, "END\r\n"]
  );
  for (const flags of [[], ["--json"]]) {
    const { code, text } = await doctor(`127.0.0.1:${server.port}`, ...flags, ...PATIENT);
    assertEquals(code, 1);
    assertStringIncludes(text, "evil");
    assert(!/[^\x20-\x7e\n]/.test(text), JSON.stringify(text));
  }
  await using silent = new ScriptedPeer(() => []);
  const { code, text } = await doctor(`127.0.0.1:${silent.port}`, "--timeout", "100");
  assertEquals(code, 69);
  assertStringIncludes(text, "error    connection: ");
});

Deno.test("leased doctor names the keys of old update tokens, and asks for them only then", async () => {
  const asked: string[] = [];
  const evil = "\x1b]0;evil";
  let ageSec = 300;
  await using server = new ScriptedPeer((line) => {
    asked.push(line);
    if (line === "stats") return [`STAT token_oldest_age ${ageSec}\r\n`, "END\r\n"];
    if (line !== "token list") return ["ERROR\r\n"];
    return [`TOKEN young 6 299 - p\r\n`, `TOKEN ${evil} 5 301 me p\r\n`, "END\r\n"];
  });
  const address = `127.0.0.1:${server.port}`;
  const young = await doctor(address, ...PATIENT);
  assertStringIncludes(young.text, "ok       tokens: the oldest is 300 s old\n");
  assert(!asked.includes("token list"));
  ageSec = 301;
  const { text, code } = await doctor(address, ...PATIENT);
  assertEquals(code, 1);
  assertStringIncludes(
    text,
    "warning  tokens: an update token has been out for 301 s; keys: ?]0;evil\n",
  );
  assertStringIncludes(text, "can no longer commit: token release <key> <id>\n");
});

Deno.test("leased doctor refuses options and addresses that it does not know", async () => {
  const { code, stderr } = await doctor("here", "--colour");
  assertEquals(code, 64);
  assertStringIncludes(stderr, '"here": must be host:port');
  assertStringIncludes(stderr, "unknown option --colour");
});
