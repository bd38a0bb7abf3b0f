import { assert, assertEquals } from "@std/assert";
import { readCommand } from "../../../lib/cli/command.ts";
import { withBound } from "../../../lib/cli/options.ts";
import { parseOptions } from "../../../lib/cli/argv.ts";
import { fieldOf, type OptionRow, SERVER_OPTIONS } from "../../../lib/cli/option_table.ts";
import type { ProcessInfo } from "../../../lib/process/info.ts";
import type { StoreOptions } from "../../../store/limits.ts";
import { slotTableBytes } from "../../../store/setup.ts";
import { PROCESS_INFO, serverOptions } from "../../support/command_line.ts";
import { optionNames } from "./option_roles.ts";

type Leaf = string | number | boolean | null | undefined;

/** Returns the values in an object, by their paths: `transport.tls.key`. */
function leavesOf(value: unknown, path = "", leaves = new Map<string, Leaf>()): Map<string, Leaf> {
  if (value === null || typeof value !== "object") leaves.set(path, value as Leaf);
  else {
    for (const [name, part] of Object.entries(value)) {
      leavesOf(part, path === "" ? name : `${path}.${name}`, leaves);
    }
  }
  return leaves;
}

/** Returns what a server has otherwise than one without options. Reasons are left out. */
function changesBy(words: string): Map<string, Leaf> {
  const read = (argv: readonly string[]): Map<string, Leaf> => {
    const leaves = leavesOf(serverOptions(...argv));
    return new Map([...leaves].filter(([path]) => !/^ignored\.\d+\.reason$/.test(path)));
  };
  return changesOf(read([]), read(words.split(" ")));
}

/** Returns the values of the options that a command line names, by their fields. Defaults are left out. */
function ownValues(words: string): Map<string, Leaf> {
  const valuesOf = (argv: readonly string[]): Map<string, Leaf> =>
    leavesOf(parseOptions(argv, SERVER_OPTIONS).values);
  return changesOf(valuesOf([]), valuesOf(words.split(" ")));
}

function changesOf(
  plain: ReadonlyMap<string, Leaf>,
  changed: ReadonlyMap<string, Leaf>,
): Map<string, Leaf> {
  const changes = new Map(
    [...changed].filter(([path, value]) => !Object.is(plain.get(path), value)),
  );
  for (const path of plain.keys()) if (!changed.has(path)) changes.set(path, undefined);
  return changes;
}

const MIB = 2 ** 20;
const JOURNAL = { "store.tokenPersistence": "journal", "store.tokenEntries": 10_000 };
const ON_S = {
  ...{ "listens.0.kind": "unix", "listens.0.path": "/s" },
  ...{ listenAddresses: null, tcpPort: 0, "listens.0.mode": 0o700 },
  ...{ "listens.0.hostname": undefined, "listens.0.port": undefined },
};
const ROWS = { "store.rows": undefined };
const ASCII = { wireProtocol: "ascii", "listens.0.protocol": "ascii" };
const COUNTERS = {
  ...{ "counterListens.0.kind": "tcp", "counterListens.0.port": 7 },
  ...{ "counterListens.0.hostname": "127.0.0.1", "counterListens.0.protocol": "counters" },
};

/** Returns TLS as the server has it. */
function tls(values: Readonly<Record<string, Leaf>>): Record<string, Leaf> {
  const preset = {
    ...{ chainCert: "/c", key: "/c", keyFormat: 1, verifyMode: 0, ciphers: null, caCert: null },
    ...{ writeBufferBytes: 16_384, sessionCache: false, kernelTls: false, minVersion: 2 },
    handshakeTimeoutSec: 10,
  };
  const changes: Record<string, Leaf> = { "listens.0.tls": "tls" };
  changes["tls"] = undefined;
  for (const [name, value] of Object.entries({ ...preset, ...values })) {
    changes[`tls.${name}`] = value;
  }
  return changes;
}

/** Returns an option without effect, and what `stats settings` shows of it. */
function ignored(option: string, ...tunables: (string | number)[]): Record<string, Leaf> {
  const changes: Record<string, Leaf> = { "ignored.0.option": option };
  for (const [index, value] of tunables.entries()) {
    changes[`tunables.${index >> 1}.${index & 1}`] = value;
  }
  return changes;
}

/** Command lines, and all that each changes beside the values of its options. */
// deno-fmt-ignore
const EFFECTS: readonly (readonly [words: string, changes: Readonly<Record<string, Leaf>>])[] = [
  ["--port 5", { "listens.0.port": 5, tcpPort: 5 }],
  ["--listen h", { "listens.0.hostname": "h", listenAddresses: "h" }],
  ["--port 6 --udp-port 7 --udp-reply-max 8k", {
    "listens.0.port": 6, tcpPort: 6, udpPort: 7, udpReplyMaxBytes: 8192,
    "listens.1.kind": "udp", "listens.1.hostname": "127.0.0.1", "listens.1.port": 7, "listens.1.protocol": "auto" }],
  ["--unix-socket /s", ON_S],
  ["--unix-socket /s --unix-mask 770", { ...ON_S, "listens.0.mode": 0o770 }],
  ["--protocol binary", { "listens.0.protocol": "binary", wireProtocol: "binary" }],
  ["--protocol ascii", { "listens.0.protocol": "ascii", wireProtocol: "ascii" }],
  ["--io portable", {}],
  ["--io-uring off", {}],
  ["--memory-limit 1g", { "store.memoryLimitBytes": 1024 * MIB, "store.memoryCeilingBytes": 4096 * MIB, "store.leaseEntries": 100_000 }],
  ["--memory-limit 15g", { "store.memoryLimitBytes": 15_360 * MIB, "store.memoryCeilingBytes": 15_360 * MIB, "store.leaseEntries": 100_000 }],
  ["--memory-limit 257", { "store.memoryLimitBytes": 257 * MIB, "store.memoryCeilingBytes": 1028 * MIB, "store.leaseEntries": 58_480 }],
  ["--memory-limit 256", { "store.memoryLimitBytes": 256 * MIB, "store.leaseEntries": 58_252 }],
  ["--memlimit-max 256", { "store.memoryCeilingBytes": 256 * MIB }],
  ["--max-item-size 2m", { "store.itemSizeMaxBytes": 2 * MIB, udpReplyMaxBytes: 2 * MIB + 4096 }],
  ["--disable-evictions", { "store.evictions": false }],
  ["--slab-growth-factor 1.5", { "store.growthFactor": 1.5 }],
  ["--slab-min-size 100", { "store.chunkSizeMin": 100 }],
  ["--slab-layout memcached", { "store.slabLayout": "memcached", "store.growthFactor": 1.25 }],
  ["--threads 2", { "store.threads": 2 }],
  ["--threads 1", { "store.threads": 1, "store.optimisticReads": false }],
  ["--conn-limit 20", { "store.connectionsMax": 20 }],
  ["--no-maxconns-fast", {}],
  ["--no-warm-up", {}],
  ["--max-reqs-per-event 7", {}],
  ["--listen-backlog 9", {}],
  ["--idle-timeout 600", {}],
  ["--send-timeout 30", {}],
  ["--enable-ssl --ssl-chain-cert /c", tls({})],
  ["--enable-ssl --ssl-chain-cert /c --ssl-key /k", tls({ key: "/k" })],
  ["--enable-ssl --ssl-chain-cert /c --ssl-keyformat 2", { ...tls({ keyFormat: 2 }), "nativeOnly.0": "--ssl-keyformat" }],
  ["--enable-ssl --ssl-chain-cert /c --ssl-verify-mode 1", { ...tls({ verifyMode: 1 }), "nativeOnly.0": "--ssl-verify-mode" }],
  ["--enable-ssl --ssl-chain-cert /c --ssl-verify-mode 2", { ...tls({ verifyMode: 3 }), "nativeOnly.0": "--ssl-verify-mode" }],
  ["--enable-ssl --ssl-chain-cert /c --ssl-verify-mode 3", { ...tls({ verifyMode: 7 }), "nativeOnly.0": "--ssl-verify-mode" }],
  ["--enable-ssl --ssl-chain-cert /c --ssl-ca-cert /a", { ...tls({ caCert: "/a" }), "nativeOnly.0": "--ssl-ca-cert" }],
  ["--enable-ssl --ssl-chain-cert /c --ssl-ciphers X", { ...tls({ ciphers: "X" }), "nativeOnly.0": "--ssl-ciphers" }],
  ["--enable-ssl --ssl-chain-cert /c --ssl-min-version 3", { ...tls({ minVersion: 3 }), "nativeOnly.0": "--ssl-min-version" }],
  ["--enable-ssl --ssl-chain-cert /c --ssl-session-cache", { ...tls({ sessionCache: true }), "nativeOnly.0": "--ssl-session-cache" }],
  ["--enable-ssl --ssl-chain-cert /c --ssl-kernel-tls", { ...tls({ kernelTls: true }), "nativeOnly.0": "--ssl-kernel-tls" }],
  ["--enable-ssl --ssl-chain-cert /c --ssl-handshake-timeout 30", { ...tls({ handshakeTimeoutSec: 30 }), "nativeOnly.0": "--ssl-handshake-timeout" }],
  ["--disable-cas", { "store.casEnabled": false }],
  ["--disable-flush-all", {}],
  ["--disable-dumping", {}],
  ["--disable-watch", {}],
  ["--enable-shutdown", {}],
  ["--test-commands", {}],
  ["--stats-delimiter /x", { statsDelimiter: "/", detailEnabled: true }],
  ["--compat yrmcds", { "store.yrmcdsLocks": true }],
  ["--auth-file /u", ASCII],
  ["--auth-file /u --enable-sasl", { wireProtocol: "binary", "listens.0.protocol": "binary" }],
  ["--auth-file /u --auth-timeout 9", ASCII],
  ["--require-auth", {}],
  ["--lease-flag 3333", { "store.leaseFlag": 0x3333, "store.leaseMask": 0xffff, leaseFlag: 0x3333, leaseMask: 0xffff }],
  ["--lease-time 5", {}],
  ["--lease-entries 1000", { "store.leaseEntries": 1000 }],
  ["--strict a:,*", { "store.strictPrefixes.0": "a:", "store.strictPrefixes.1": "" }],
  ["--state-dir /d", JOURNAL],
  ["--state-dir /d --tokens journal", JOURNAL],
  ["--state-dir /d --token-entries 100", { ...JOURNAL, "store.tokenEntries": 100 }],
  ["--state-dir /d --token-entries 1", { ...JOURNAL, "store.tokenEntries": 16 }],
  ["--state-dir /d --token-recover drop", JOURNAL],
  ["--tokens volatile", { "store.tokenPersistence": "volatile", "store.tokenEntries": 10_000 }],
  ["--tokens volatile --token-quarantine 0", { "store.tokenPersistence": "volatile", "store.tokenEntries": 10_000 }],
  ["--allow-token-drop", {}],
  ["--db sqlite:x", { ...ROWS, "store.rows.prefixes.0": "", "store.rows.expiry": "refuse", "store.rows.isNode": false }],
  ["--db sqlite:x --rows a:,b: --row-expiry column", {
    ...ROWS, "store.rows.prefixes.0": "a:", "store.rows.prefixes.1": "b:", "prefixes.0": "a:", "prefixes.1": "b:", "store.rows.expiry": "column", "store.rows.isNode": false }],
  ["--origin h:1", { ...ROWS, "store.rows.prefixes.0": "", "store.rows.expiry": "refuse", "store.rows.isNode": true }],
  ["--lock-limit 5", { "store.lockLimits.locksMax": 5 }],
  ["--lock-limit-per-conn 6", { "store.lockLimits.locksPerConnectionMax": 6 }],
  ["--lock-waiters 7", { "store.lockLimits.waitersPerLockMax": 7 }],
  ["--lock-reply client_error", {}],
  ["--lock-idle-timeout 8", {}],
  ["--counter-port 7", COUNTERS],
  ["--counter-port 7 --counter-conn-limit 8 --counter-memory 9 --counter-interval 10", COUNTERS],
  ["--snapshot /x", { snapshotPath: "/x" }],
  ["--memory-file /x", { snapshotPath: "/x" }],
  ["--snapshot /x --snapshot-required", { snapshotPath: "/x" }],
  ["--admin 9", { admin: undefined, "admin.kind": "tcp", "admin.hostname": "127.0.0.1", "admin.port": 9, "admin.protocol": "ascii" }],
  ["--metrics 9", { admin: undefined, "admin.kind": "tcp", "admin.hostname": "127.0.0.1", "admin.port": 9, "admin.protocol": "ascii" }],
  ["--auth-file /u --admin 9 --admin-actions", {
    ...ASCII, admin: undefined, "admin.kind": "tcp", "admin.hostname": "127.0.0.1", "admin.port": 9, "admin.protocol": "ascii" }],
  ["--watcher-logbuf-size 300", { "store.watchRingBytes": 300 * 1024 }],
  ["--pidfile /p", {}],
  ["--log-format json", {}],
  ["-vv", {}],
  ["--user nobody", ignored("-u (--user)")],
  ["--lru-crawler", ignored("--lru-crawler", "lru_crawler", 1)],
  ["--no-lru-crawler", ignored("--no-lru-crawler", "lru_crawler", 0)],
  ["-o no_lru_maintainer", ignored("-o no_lru_maintainer")],
  ["--slab-automove", ignored("--slab-automove", "slab_automove", 1)],
  ["--slab-automove=2", ignored("--slab-automove", "slab_automove", 2)],
  ["--no-slab-automove", ignored("--no-slab-automove", "slab_automove", 0)],
  ["--temporary-ttl 5", ignored("--temporary-ttl", "temporary_ttl", 5, "temp_lru", 1)],
  ["--hot-lru-pct 30", ignored("--hot-lru-pct", "hot_lru_pct", 30)],
  ["--warm-lru-pct 31", ignored("--warm-lru-pct", "warm_lru_pct", 31)],
  ["--hot-max-factor 0.3", ignored("--hot-max-factor", "hot_max_factor", 0.3)],
];

Deno.test("each option changes its own parts of the configuration, and no others", () => {
  for (const [words, changes] of EFFECTS) {
    const expected = new Map([...ownValues(words), ...Object.entries(changes)]);
    assertEquals(changesBy(words), expected, words);
  }
});

/** Options that only the configuration of rows has, or that do something else than start a server. */
const ELSEWHERE: ReadonlySet<string> = new Set(["extended", "help", "version", "license"]);

Deno.test("every option of the server itself stands in the table of effects", () => {
  const rowsGroup = SERVER_OPTIONS.find(([title]) => title === "Rows")![1];
  const ofRows = new Set<string>(rowsGroup.map(([name]) => name));
  const inTable = new Set(
    EFFECTS.flatMap(([words]) =>
      [...words.replaceAll("-vv", "--verbose").matchAll(/--(?:no-)?([a-z-]+)/g)].map(([, name]) =>
        name!
      )
    ),
  );
  const missing = optionNames().filter((name) =>
    !inTable.has(name) && !ofRows.has(name) && !ELSEWHERE.has(name)
  );
  const without = SERVER_OPTIONS.find(([title]) => title === "Without effect")![1];
  const withoutEffect = new Set<string>(without.map(([name]) => name));
  assertEquals(missing.filter((name) => !withoutEffect.has(name)), []);
});

function valueIn(values: unknown, row: OptionRow): unknown {
  return (values as Readonly<Record<string, unknown>>)[fieldOf(row)];
}

/** Returns a text that the option takes. */
function sampleOf([name, , kind, unit, least, most]: OptionRow): string {
  switch (kind) {
    case "octal":
      return "711";
    case "real":
      return least > 0 ? `${least + 0.5}` : "0.5";
    case "mib":
      return `${Math.max(least, 2 ** 21) / 1024}k`;
    case "bytes":
      return `${Math.max(least, 4096)}`;
    case "choice":
      return unit.split("|").at(-1)!;
    case "list":
      return "one;two";
    case "text":
      return "some=text";
    default:
      assert(kind === "whole" || kind === "level", name);
      return `${Math.min(most, Math.max(least, 3))}`;
  }
}

Deno.test("an option has one value by its letter, its name and its word of -o, however it is joined", () => {
  for (const [, rows] of SERVER_OPTIONS as readonly (readonly [string, readonly OptionRow[]])[]) {
    for (const row of rows) {
      const [name, letter, kind] = row;
      if (name === "extended") continue;
      const hasValue = kind !== "switch" && kind !== "count";
      const text = hasValue ? sampleOf(row) : "";
      const spellings: string[][] = hasValue ? [[`--${name}=${text}`]] : [[`--${name}`]];
      if (hasValue && kind !== "level") spellings.push([`--${name}`, text]);
      if (letter.length === 1) spellings.push(hasValue ? [`-${letter}`, text] : [`-${letter}`]);
      if (letter.length === 1 && hasValue) {
        spellings.push([`-${letter}${text}`], [`-M${letter}${text}`]);
      }
      const word = name.replaceAll("-", "_");
      if (letter === "-o" && text.includes(";")) throw new Error(`${name}: a list as a word of -o`);
      if (letter === "-o") {
        spellings.push(["-o", hasValue ? `${word}=${text}` : word]);
        spellings.push([`-omodern,${hasValue ? `${name}=${text}` : name}`]);
        spellings.push([`--extended=${hasValue ? `${word}=${text}` : word};modern`]);
      }
      const read = spellings.map((argv) => {
        const { values, errors, given } = parseOptions(argv, SERVER_OPTIONS);
        assertEquals(errors, [], argv.join(" "));
        assert((given as ReadonlySet<string>).has(name), argv.join(" "));
        return valueIn(values, row);
      });
      const preset = valueIn(parseOptions([], SERVER_OPTIONS).values, row);
      for (const [at, value] of read.entries()) {
        assertEquals(value, read[0], spellings[at]!.join(" "));
      }
      if (kind !== "switch" || preset === false) {
        assert(read[0] !== preset || kind === "choice", name);
      }
      if (letter === "-o" && (kind === "switch" || kind === "level")) {
        for (const argv of [[`--no-${name}`], ["-o", `no_${word}`], ["-o", `no-${name}`]]) {
          const { values, errors } = parseOptions(argv, SERVER_OPTIONS);
          assertEquals(errors, [], argv.join(" "));
          const off = valueIn(values, row);
          assertEquals(off, kind === "switch" ? false : 0, argv.join(" "));
        }
      } else {
        assertEquals(parseOptions([`--no-${name}`], SERVER_OPTIONS).errors.length, 1, name);
      }
    }
  }
});

Deno.test("both ends of each range are taken, and what is beyond them is refused with the range", () => {
  for (const [, rows] of SERVER_OPTIONS as readonly (readonly [string, readonly OptionRow[]])[]) {
    for (const row of rows) {
      const [name, , kind, , least, most] = row;
      if (Number.isNaN(least)) continue;
      const write = (value: number): string =>
        kind === "octal" ? value.toString(8) : kind === "mib" ? `${value / 1024}k` : `${value}`;
      const read = (text: string): { value: unknown; errors: readonly string[] } => {
        const { values, errors } = parseOptions([`--${name}=${text}`], SERVER_OPTIONS);
        return { value: valueIn(values, row), errors };
      };
      for (const end of [least, most]) {
        assertEquals(read(write(end)), { value: end, errors: [] }, `${name} ${write(end)}`);
      }
      const step = kind === "real" ? 0.0005 : kind === "mib" ? 1024 : 1;
      const beyond = [
        write(most + step),
        ...least > 0 || kind === "whole" ? [write(least - step)] : [],
        "x",
        "",
      ];
      for (const text of beyond) {
        const { errors } = read(text);
        assertEquals(errors.length, 1, `${name} ${text}`);
        assert(errors[0]!.includes(text === "" ? "needs a value" : "must be "), errors[0]);
      }
    }
  }
});

Deno.test("readCommand() refuses a server option's mistakes all at once, in the order of their checks", () => {
  const command = readCommand(["-m", "x", "--no-such", "--require-auth", "-l", "*"], PROCESS_INFO);
  assertEquals(command.kind === "refuse" && command.errors.map((error) => error.split(":")[0]), [
    ...['-m (--memory-limit) "x"', "unknown option --no-such", "--require-auth"],
  ]);
});

Deno.test("sizes may reach their limits by other options, and a byte more is refused", () => {
  const errorsOf = (...argv: string[]): number => {
    const command = readCommand(argv, PROCESS_INFO);
    return command.kind === "refuse" ? command.errors.length : 0;
  };
  // A quarter of -m 64.
  let entries = 233_015;
  while (slotTableBytes(entries + 1) <= 16 * MIB) entries++;
  const pairs = [
    [["-m", "2", "-I", "1m"], ["-m", "2", "-I", `${MIB + 1}`]],
    [["-n", `${MIB - 250}`], ["-n", `${MIB - 249}`]],
    [["--lease-entries", `${entries}`], ["--lease-entries", `${entries + 1}`]],
    [
      ["--tokens", "volatile", "--token-entries", `${entries}`],
      ["--tokens", "volatile", "--token-entries", `${entries + 1}`],
    ],
  ];
  for (const [fits, exceeds] of pairs) {
    assertEquals([errorsOf(...fits!), errorsOf(...exceeds!)], [0, 1], fits!.join(" "));
  }
  const { store } = serverOptions("-m", "1", "--tokens", "volatile");
  assertEquals([store.leaseEntries, store.tokenEntries], [225, 225]);
});

Deno.test("ids begin where the clock says, or chance where the clock is wrong; reads need their processor", () => {
  const storeOf = (info: Partial<ProcessInfo>): StoreOptions => {
    const command = readCommand([], { ...PROCESS_INFO, ...info });
    assert(command.kind === "run");
    return command.options.store;
  };
  const { firstId } = serverOptions().store;
  assert(storeOf({ unixMs: PROCESS_INFO.unixMs + 1000 }).firstId > firstId);
  assertEquals(storeOf({ random: 0.25 }).firstId, firstId);
  assert(storeOf({ unixMs: 0, random: 0.25 }).firstId < storeOf({ unixMs: 0 }).firstId);
  assertEquals(storeOf({ keepsMemoryOrder: false }).optimisticReads, false);
  const threadsWith = (processors: number): number => storeOf({ processors }).threads;
  assertEquals([1, 2, 3, 4, 5, 64].map(threadsWith), [1, 2, 3, 4, 4, 4]);
  assertEquals(storeOf({ processors: 1 }).optimisticReads, false);
});

Deno.test("a name is guessed from two letters on, near names first, then longer ones", () => {
  const guesses: readonly (readonly [string, string])[] = [
    ["--thread", "; did you mean --threads?"],
    ["--memory", "; did you mean --memory-limit or --memory-file?"],
    ["--lo", "; did you mean --io?"],
    ["--lock", "; did you mean --lock-limit or --lock-limit-per-conn?"],
    ["--xx", ""],
    ["--x", ""],
    ["--qwertyuiop", ""],
  ];
  for (const [flag, guess] of guesses) {
    const { errors } = parseOptions([flag], SERVER_OPTIONS);
    assertEquals(errors, [`unknown option ${flag}${guess}`]);
  }
});

Deno.test("a store without options has the shares and limits that its documents name", () => {
  const { lockLimits, connectionsMax, threads, tokenEntries, yrmcdsLocks } = serverOptions().store;
  assertEquals(lockLimits, {
    locksMax: 65_536,
    locksPerConnectionMax: 1024,
    memoryShareMax: 0.5,
    memorySharePerConnectionMax: 0.25,
    waitersPerLockMax: 1024,
  });
  assertEquals([connectionsMax, threads, tokenEntries, yrmcdsLocks], [1024, 4, 0, false]);
});

Deno.test("any free port of counters and of the admin port is port 0; mistakes name the option given", () => {
  assertEquals(serverOptions("--counter-port", "-1").counterListens[0]!.port, 0);
  for (const option of ["--admin", "--metrics"]) {
    const command = readCommand([option, "x"], PROCESS_INFO);
    assertEquals(command.kind === "refuse" && command.errors[0]!.split(":")[0], `${option} "x"`);
  }
  const both = readCommand(["--admin", "1", "--metrics", "2"], PROCESS_INFO);
  assertEquals(both.kind === "refuse" && both.errors, [
    "--metrics: the former name of --admin; leave one of them out",
  ]);
  const twice = readCommand(["--snapshot", "/a", "--memory-file", "/b"], PROCESS_INFO);
  assertEquals(twice.kind === "refuse" && twice.errors, [
    "--memory-file: memcached's name of --snapshot; leave one of them out",
  ]);
});

Deno.test("options get the ports that were bound, those of the cache and not of counters", () => {
  const options = serverOptions();
  const listen = { hostname: "127.0.0.1", protocol: "auto" } as const;
  const bound = withBound(options, {
    listens: [
      { ...listen, kind: "tcp", port: 9, protocol: "counters" },
      { ...listen, kind: "udp", port: 7 },
      { ...listen, kind: "tcp", port: 5 },
      { ...listen, kind: "tcp", port: 6 },
    ],
    usesIoUring: true,
  });
  assertEquals(bound, { ...options, tcpPort: 5, udpPort: 7, usesIoUring: true });
  const none = withBound(options, { listens: [], usesIoUring: false });
  assertEquals([none.tcpPort, none.udpPort, none.usesIoUring], [0, 0, false]);
});

Deno.test("addresses reach to the last port and the longest tag; contradictions are refused", () => {
  const read = (...argv: readonly string[]): string => {
    const command = readCommand(argv, PROCESS_INFO);
    return command.kind === "refuse" ? command.errors.join() : "";
  };
  assertEquals(read("-l", "tag[12345678]:h:65535,tag_x_:h:0"), "");
  assertEquals(read("-l", "h:65536").includes("from 0 to 65535"), true);
  assertEquals(read("-l", "tag[]:h").includes("1 to 8 characters"), true);
  assertEquals(read("--tokens", "journal"), "--tokens journal: needs --state-dir");
  assertEquals(
    read("--tokens", "volatile", "--state-dir", "/d"),
    "--state-dir and --tokens volatile: give one of them",
  );
  assertEquals(read("--db", "sqlite:x", "--origin", "h:1"), "--origin and --db: give one of them");
});
