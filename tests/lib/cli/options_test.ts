import { assertEquals } from "@std/assert";
import { readCommand } from "../../../lib/cli/command.ts";
import type { CommandLine } from "../../../lib/cli/command_line.ts";
import type { Settings } from "../../../protocol/settings.ts";
import type { ServerOptions } from "../../../lib/cli/options.ts";
import { tlsOf } from "../../../lib/net/transport.ts";
import { PROCESS_INFO, serverOptions } from "../../support/command_line.ts";

function command(...argv: string[]): CommandLine<ServerOptions> {
  return readCommand(argv, PROCESS_INFO);
}

function errors(...argv: string[]): readonly string[] {
  const read = command(...argv);
  return read.kind === "refuse" ? read.errors : [];
}

const TCP = { kind: "tcp", hostname: "127.0.0.1", port: 11211, protocol: "auto" } as const;
const UDP = { ...TCP, kind: "udp" } as const;

Deno.test("readCommand() listens on the loopback address and memcached's port", () => {
  assertEquals(serverOptions().listens, [TCP]);
});

Deno.test("readCommand() makes a listener of every address, TCP and UDP", () => {
  assertEquals(serverOptions("-l", "127.0.0.1,[::1]:5", "-p", "9", "-U", "8").listens, [
    { ...TCP, port: 9 },
    { ...UDP, port: 8 },
    { ...TCP, hostname: "::1", port: 5 },
    { ...UDP, hostname: "::1", port: 8 },
  ]);
  assertEquals(serverOptions("-l", "proto[binary]:127.0.0.1:7,tag[x]:127.0.0.1").listens, [
    { ...TCP, port: 7, protocol: "binary" },
    TCP,
  ]);
  assertEquals(serverOptions("-l", "*").listens, [{ ...TCP, hostname: "0.0.0.0" }]);
});

Deno.test("readCommand() makes one UDP listener for two ports of an address", () => {
  assertEquals(serverOptions("-l", "127.0.0.1:5,127.0.0.1:6", "-U", "8").listens, [
    { ...TCP, port: 5 },
    { ...UDP, port: 8 },
    { ...TCP, port: 6 },
  ]);
});

Deno.test("readCommand() refuses a port that the server itself needs, and names its option", () => {
  assertEquals(errors("--admin", "11211", "--counter-port", "11211"), [
    "--counter-port 11211: the cache listens on this port; choose another",
    "--admin 11211: the server has this port for another use; choose another",
  ]);
  assertEquals(errors("--metrics", "11211"), [
    "--metrics 11211: the server has this port for another use; choose another",
  ]);
  assertEquals(errors("-l", "*", "--admin", "11211").length, 1);
  assertEquals(errors("-l", "127.0.0.2", "--admin", "11211"), []);
  assertEquals(errors("-p", "0", "--counter-port", "7", "--admin", "7").length, 1);
});

Deno.test("readCommand() tells that -p has no effect when every address has a port", () => {
  assertEquals(serverOptions("-l", "127.0.0.1:5", "-p", "6").ignored, [
    { option: "-p (--port)", reason: "every address of -l (--listen) names its own port" },
  ]);
  assertEquals(serverOptions("-l", "127.0.0.1:5,[::1]", "-p", "6").ignored, []);
});

Deno.test("readCommand() lets -U without -p move the TCP port too, and -1 be any port", () => {
  assertEquals(serverOptions("-U", "5").listens, [{ ...TCP, port: 5 }, { ...UDP, port: 5 }]);
  assertEquals(serverOptions("-p", "-1").listens, [{ ...TCP, port: 0 }]);
  assertEquals(serverOptions("-p0", "-U", "-1").listens, [{ ...UDP, port: 0 }]);
  assertEquals(serverOptions("-U", "-1").listens, [{ ...TCP, port: 0 }, { ...UDP, port: 0 }]);
  assertEquals(serverOptions("-p", "0").listens, []);
});

Deno.test("readCommand() listens on nothing else beside a Unix socket", () => {
  assertEquals(serverOptions("-s", "/tmp/x", "-p", "9", "-U", "8", "-a", "770").listens, [
    { kind: "unix", path: "/tmp/x", mode: 0o770, protocol: "auto" },
  ]);
});

Deno.test("readCommand() refuses what does not fit together", () => {
  assertEquals(errors("-l", "proto[x]:h", "-l", "tag[123456789]:h", "-l", "h:99999", "-l", ":1"), [
    '-l (--listen) "proto[x]:h": proto must be ascii, binary or negotiating',
    '-l (--listen) "tag[123456789]:h": a tag must have 1 to 8 characters',
    '-l (--listen) "h:99999": the port must be a whole number from 0 to 65535',
    "-l (--listen) \":1\": the host is missing; '*' is every IPv4 address",
  ]);
  assertEquals(errors("-m", "2", "-I", "1500k"), [
    "-I (--max-item-size) 1500k: must be at most half of -m (--memory-limit), which is 1m",
  ]);
  assertEquals(errors("-n", "2097152"), [
    "-n (--slab-min-size) 2097152: must leave 250 bytes for the key below -I (--max-item-size), which is 1m",
  ]);
});

Deno.test("readCommand() reads the flag that marks leases, in hexadecimal", () => {
  const flagOf = (text: string): number[] => {
    const { leaseFlag, leaseMask, store } = serverOptions("-z", text);
    assertEquals([store.leaseFlag, store.leaseMask], [leaseFlag, leaseMask]);
    return [leaseFlag, leaseMask];
  };
  assertEquals(flagOf("3333"), [0x3333, 0xffff]);
  assertEquals(flagOf("0x3333:0xff33"), [0x3333, 0xff33]);
  assertEquals(flagOf("80000000:ffffffff"), [0x80000000, 0xffffffff]);
  assertEquals(serverOptions().leaseMask, 0);
});

Deno.test("readCommand() refuses flags that mark nothing, and leases that cannot be", () => {
  for (const text of ["0", "1:2", "10000"]) {
    assertEquals(errors("-z", text), [
      `-z (--lease-flag) "${text}": flag and mask must share a bit, otherwise a lease looks like a value`,
    ]);
  }
  for (const text of ["xyz", "3333:", "123456789"]) {
    assertEquals(errors("-z", text), [
      `-z (--lease-flag) "${text}": must be flag or flag:mask, hexadecimal numbers of up to 32 bits`,
    ]);
  }
  assertEquals(errors("-z", "3333", "-C"), [
    "-z (--lease-flag) and -C (--disable-cas): leases are cas ids; leave one of the two options out",
  ]);
  assertEquals(errors("-z", "3333", "--lease-entries", "0"), [
    "-z (--lease-flag) and --lease-entries 0: no lease could exist; leave one of the two options out",
  ]);
  assertEquals(errors("--lease-entries", "10000000"), [
    "--lease-entries 10000000: must be at most 233015: the table takes 707108992 bytes, and may take " +
    "16777216, a quarter of -m (--memory-limit) 64m",
  ]);
});

Deno.test("readCommand() makes the table of leases smaller where memory is small and no number is given", () => {
  assertEquals(serverOptions("-m", "1g").store.leaseEntries, 100_000);
  assertEquals(serverOptions("-m", "64").store.leaseEntries, 14_561);
  assertEquals(serverOptions("--lease-entries", "1").store.leaseEntries, 8);
  assertEquals(serverOptions("--lease-entries", "0").store.leaseEntries, 0);
});

Deno.test("readCommand() makes a counter server where a port is given, on each address once", () => {
  assertEquals(serverOptions().counterListens, []);
  const options = serverOptions(
    ...["-l", "127.0.0.1,127.0.0.1:5000,::1", "--counter-port", "11215"],
    ...["--counter-memory", "2", "--counter-interval", "60"],
  );
  assertEquals(options.counterListens, [
    { kind: "tcp", hostname: "127.0.0.1", port: 11215, protocol: "counters" },
    { kind: "tcp", hostname: "::1", port: 11215, protocol: "counters" },
  ]);
  const { counterConnLimit, counterMemoryBytes, counterIntervalSec } = options;
  assertEquals([counterConnLimit, counterMemoryBytes, counterIntervalSec], [1024, 2 ** 21, 60]);
});

Deno.test("readCommand() reads the address of the admin port; only a port is one of 127.0.0.1", () => {
  const { admin } = serverOptions();
  assertEquals(admin, null);
  const addresses: readonly (readonly [text: string, hostname: string, port: number])[] = [
    ["9150", "127.0.0.1", 9150],
    ["0", "127.0.0.1", 0],
    ["*:9150", "0.0.0.0", 9150],
    ["[::1]:9150", "::1", 9150],
    ["cache1:9150", "cache1", 9150],
  ];
  for (const [text, hostname, port] of addresses) {
    const listen = { kind: "tcp", hostname, port, protocol: "ascii" } as const;
    assertEquals(serverOptions("--admin", text).admin, listen);
    assertEquals(serverOptions("--metrics", text).admin, listen);
  }
  const tls = ["-Z", "--ssl-chain-cert", "c.pem"];
  const modes = [["9150", "tls"], ["btls:9150", "btls"], ["mtls:9150", "mtls"]] as const;
  for (const [text, mode] of modes) {
    assertEquals(serverOptions(...tls, "--admin", text).admin?.tls, mode);
  }
  for (const words of [[...tls, "--admin", "notls:9150"], ["--admin", "notls:9150"]]) {
    assertEquals(serverOptions(...words).admin?.tls, undefined);
  }
  for (const text of ["70000", "cache1", "::1", ":9150", "cache1:", "cache1:x", "mtls:9150"]) {
    const command = readCommand(["--metrics", text], PROCESS_INFO);
    assertEquals(command.kind, "refuse", text);
  }
});

Deno.test("readCommand() makes the largest item smaller where memory is small", () => {
  assertEquals(serverOptions("-m", "1").store.itemSizeMaxBytes, 512 * 1024);
});

Deno.test("readCommand() passes on what the store is made with", () => {
  const { store } = serverOptions("-m1g", "-I2m", "-M", "-C", "-c", "10", "-t2", "-n", "100");
  assertEquals(store.memoryLimitBytes, 1024 ** 3);
  assertEquals(store.itemSizeMaxBytes, 2 * 1024 ** 2);
  assertEquals(store.evictions, false);
  assertEquals(store.casEnabled, false);
  assertEquals(store.connectionsMax, 10);
  assertEquals(store.threads, 2);
  assertEquals(store.chunkSizeMin, 100);
  assertEquals(store.startedUnixSec, 1_800_000_000);
  assertEquals(store.growthFactor, 1.075);
});

Deno.test("readCommand() has threads warm up, unless it is told not to", () => {
  const all = [[], ["--no-warm-up"], ["-o", "no_warm_up"], ["--no-warm-up", "--warm-up"]];
  assertEquals(all.map((argv) => serverOptions(...argv).warmUp), [true, false, false, true]);
});

Deno.test("readCommand() takes memcached's growth factor with memcached's layout", () => {
  assertEquals(serverOptions("-o", "slab_layout=memcached").store.growthFactor, 1.25);
  assertEquals(serverOptions("-o", "slab_layout=memcached", "-f", "1.5").store.growthFactor, 1.5);
});

Deno.test("readCommand() tells the protocols what stats settings shows", () => {
  const options = serverOptions(
    ...["-l", "127.0.0.1", "-A", "-F", "-X", "-W", "-D", "/", "-R", "5", "-b", "9", "-vv"],
    ...[
      "-o",
      "hot_lru_pct=30,no_lru_crawler,slab_automove_ratio=0.5,idle_timeout=3,temporary_ttl=20",
    ],
  );
  const settings: Settings = {
    version: "0.1.0",
    runtime: "deno-2.9.6",
    pid: 7,
    connLimit: 1024,
    tcpPort: 11211,
    udpPort: 0,
    listenAddresses: "127.0.0.1",
    unixSocket: "",
    unixMask: 0o700,
    verbose: 2,
    enableShutdown: true,
    testCommands: false,
    tls: null,
    threads: 4,
    statsDelimiter: "/",
    detailEnabled: true,
    maxReqsPerEvent: 5,
    listenBacklog: 9,
    wireProtocol: "auto",
    maxconnsFast: true,
    idleTimeoutSec: 3,
    lockIdleTimeoutSec: 0,
    disableFlushAll: true,
    stateDir: "",
    snapshotPath: "",
    tokenQuarantineSec: 60,
    tokenRecover: "refuse",
    allowTokenDrop: false,
    disableDumping: true,
    disableWatch: true,
    leaseFlag: 0,
    leaseMask: 0,
    leaseTimeSec: 10,
    authFile: "",
    enableSasl: false,
    usesIoUring: false,
    compat: "memcached",
    lockReply: "locked",
    lruMaintainer: true,
  };
  assertEquals({ ...options, ...settings }, options);
  assertEquals(options.tunables, [
    ["slab_automove_ratio", 0.5],
    ["lru_crawler", 0],
    ["hot_lru_pct", 30],
    ["temporary_ttl", 20],
    ["temp_lru", 1],
  ]);
});

Deno.test("readCommand() reads -Z with memcached's words of -o, and the prefixes of -l", () => {
  const { tls, listens } = serverOptions(
    ...["-Z", "-p", "1", "-l", "a,notls:b,mtls:c:2,btls:d"],
    ...["-o", "ssl_chain_cert=/c,ssl_verify_mode=2,ssl_min_version=3,ssl_wbuf_size=32"],
  );
  assertEquals(tls, {
    chainCert: "/c",
    key: "/c",
    keyFormat: 1,
    verifyMode: 3,
    ciphers: null,
    caCert: null,
    writeBufferBytes: 32 * 1024,
    sessionCache: false,
    kernelTls: false,
    minVersion: 3,
    handshakeTimeoutSec: 10,
  });
  assertEquals(listens.map(tlsOf), ["tls", undefined, "mtls", "btls"]);
});

Deno.test("readCommand() refuses TLS without a certificate, and client certificates without TLS", () => {
  assertEquals(errors("-Z"), [
    "-Z (--enable-ssl): needs --ssl-chain-cert PATH, and --ssl-key PATH if the key is not in the same file",
  ]);
  assertEquals(errors("-l", "mtls:127.0.0.1"), ["-l (--listen) mtls: needs -Z (--enable-ssl)"]);
  assertEquals(errors("-l", "notls:127.0.0.1"), []);
  assertEquals(serverOptions("-o", "ssl_key=/x").ignored, [
    { option: "--ssl-key", reason: "there is no TLS without -Z (--enable-ssl)" },
  ]);
});

Deno.test("readCommand() tells what the portable transport cannot do", () => {
  const words = ["ssl_chain_cert=/c", "ssl_key=/k", "ssl_ciphers=x", "ssl_min_version=3"];
  const { nativeOnly } = serverOptions("-Z", "-l", "mtls:a", "-o", words.join());
  assertEquals(nativeOnly, ["--ssl-ciphers", "--ssl-min-version", "-l mtls:"]);
  assertEquals(serverOptions("-Z", "-o", "ssl_chain_cert=/c").nativeOnly, []);
  const admin = (address: string): readonly string[] =>
    serverOptions("-Z", "-o", "ssl_chain_cert=/c", "--admin", address).nativeOnly;
  assertEquals(admin("9150"), []);
  assertEquals(admin("btls:9150"), []);
  assertEquals(admin("mtls:9150"), ["--admin mtls:"]);
});

Deno.test("readCommand() refuses actions on the dashboard without a dashboard or users", () => {
  assertEquals(errors("--admin-actions"), [
    "--admin-actions: needs --admin",
    "--admin-actions: needs -Y (--auth-file): only users of the level admin may act",
  ]);
  assertEquals(errors("--admin-actions", "--metrics", "9150", "-Y", "/users"), []);
  assertEquals(serverOptions("--admin", "9150", "-Y", "/users").adminActions, false);
});

Deno.test("readCommand() prints help, version and licence before it looks for mistakes", () => {
  const help = command("-h", "--nonsense");
  assertEquals(help.kind === "print" && help.text.includes("--memory-limit"), true);
  assertEquals(command("-V"), {
    kind: "print",
    text: "leased 0.1.0 (speaks memcached 1.6.45; deno-2.9.6)",
  });
  const license = command("-i");
  assertEquals(license.kind === "print" && license.text.startsWith("MIT"), true);
});

Deno.test("readCommand() reads the snapshot by each of its names", () => {
  for (const words of [["--snapshot=/x"], ["-e/x"], ["--memory-file=/x"]]) {
    const { snapshotPath, snapshotRequired } = serverOptions(...words);
    assertEquals([snapshotPath, snapshotRequired], ["/x", false]);
  }
  assertEquals(serverOptions("-e", "/x", "--snapshot-required").snapshotRequired, true);
  assertEquals(serverOptions().snapshotPath, "");
  assertEquals(errors("--snapshot-required"), ["--snapshot-required: needs --snapshot"]);
});

Deno.test("readCommand() refuses a socket path that the kernel cannot take", () => {
  assertEquals(errors("-s", `/${"x".repeat(107)}`), [
    `-s (--unix-socket) "/${"x".repeat(107)}": must be at most 107 bytes long, is 108`,
  ]);
  assertEquals(errors("-s", `/${"x".repeat(106)}`), []);
});

Deno.test("readCommand() refuses in the format of --log-format, if that is readable", () => {
  const refused = command("-m", "abc", "-o", "log_format=json");
  assertEquals(refused.kind === "refuse" && refused.logFormat, "json");
  const plain = command("-o", "log_format=xml");
  assertEquals(plain.kind === "refuse" && plain.logFormat, "text");
});
