// Options that need or exclude others: the whole text of each refusal, and command lines that are just right.
import { assertEquals } from "@std/assert";
import { readCommand } from "../../../lib/cli/command.ts";
import { PROCESS_INFO, serverOptions } from "../../support/command_line.ts";

const DB = "--db=sqlite:x";
const NODE = "--origin=h:1";
const TLS = ["-Z", "--ssl-chain-cert", "/c"];

function errors(...argv: readonly string[]): readonly string[] {
  const read = readCommand(argv, PROCESS_INFO);
  return read.kind === "refuse" ? read.errors : [];
}

/** The options without effect that a command line has. */
function ignored(...argv: readonly string[]): string[] {
  return serverOptions(...argv).ignored.map(({ option, reason }) => `${option}: ${reason}`);
}

Deno.test("an option that means nothing without another one is refused by name, and taken with it", () => {
  const LEASES = "rows are cached and locked under leases; leave that option out";
  const cases: readonly (readonly [needed: readonly string[], argv: string, error: string])[] = [
    [["-U", "5"], "--udp-reply-max=4k", "--udp-reply-max: needs -U (--udp-port)"],
    [["-Y", "f"], "--auth-timeout=5", "--auth-timeout: needs -Y (--auth-file)"],
    [
      ["--tokens=volatile"],
      "--token-quarantine=5",
      "--token-quarantine: needs --tokens volatile",
    ],
    [["--state-dir=s"], "--token-recover=drop", "--token-recover: needs --state-dir"],
    ...[["--state-dir=s"], ["--tokens=volatile"], [DB]].map((needed) =>
      [
        needed,
        "--token-entries=100",
        "--token-entries: needs --state-dir, --tokens volatile or --db",
      ] as const
    ),
    ...["conn-limit=10", "memory=1m", "interval=60"].map((option) =>
      [
        ["--counter-port=7"],
        `--counter-${option}`,
        `--counter-${option.split("=")[0]}: needs --counter-port`,
      ] as const
    ),
    ...["node-name=a", "origin-login=f", "origin-ca-cert=f"].map((option) =>
      [[NODE], `--${option}`, `--${option.split("=")[0]}: needs --origin`] as const
    ),
    ...[DB, NODE].flatMap((needed) =>
      ["rows=a:", "row-expiry=ignore", "db-timeout=20000"].map((option) =>
        [
          [needed],
          `--${option}`,
          `--${option.split("=")[0]}: needs --db or --origin`,
        ] as const
      )
    ),
    ...["table=t", "key-column=k", "value-column=v", "version-column=v", "flags-column=f"]
      .concat("db-connections=2", "applied-ttl=60", "member-time=500", "member-drift=0")
      .concat("standby", "take-over", "follow")
      .map((option) => [[DB], `--${option}`, `--${option.split("=")[0]}: needs --db`] as const),
    [[DB, "--row-expiry=column"], "--expiry-column=e", "--expiry-column: needs --db"],
    ...["temporary-slot", "lag-max=60000", "lag-quarantine", "views=f"].map((option) =>
      [[DB, "--follow"], `--${option}`, `--${option.split("=")[0]}: needs --db`] as const
    ),
    ...["--snapshot=s", "--memory-file=s"].map((needed) =>
      [[needed], "--snapshot-required", "--snapshot-required: needs --snapshot"] as const
    ),
  ];
  for (const [needed, option, error] of cases) {
    assertEquals(errors(option), [error], option);
    assertEquals(errors(...needed, option), [], `${needed.join(" ")} ${option}`);
  }
  // What is needed beside the role itself.
  const ofOrigin: readonly (readonly [argv: string, error: string])[] = [
    ["--expiry-column=e", "--expiry-column: needs --row-expiry column"],
    ["--lag-max=60000", "--lag-max: needs --follow"],
    ["--lag-quarantine", "--lag-quarantine: needs --follow"],
    ["--temporary-slot", "--temporary-slot: needs --follow"],
    ["--views=f", "--views: needs --follow"],
  ];
  for (const [option, error] of ofOrigin) assertEquals(errors(DB, option), [error]);
  assertEquals(errors("--token-entries=100", NODE), [
    "--token-entries: needs --state-dir, --tokens volatile or --db",
  ]);
  const acts = "--admin-actions: needs -Y (--auth-file): only users of the level admin may act";
  assertEquals(errors("--admin-actions"), ["--admin-actions: needs --admin", acts]);
  for (const port of ["--admin=9150", "--metrics=9150"]) {
    assertEquals(errors("--admin-actions", port), [acts]);
    assertEquals(errors("--admin-actions", port, "-Y", "f"), []);
  }
  for (const [role, name] of [[DB, "--db"], [NODE, "--origin"]] as const) {
    assertEquals(errors(role, "--lease-entries=0"), [`${name} and --lease-entries 0: ${LEASES}`]);
    assertEquals(errors(role, "--lease-entries=1000"), []);
  }
});

Deno.test("options that contradict each other are refused together, and taken alone", () => {
  const cases: readonly (readonly [argv: readonly string[], error: string])[] = [
    [["--tokens=journal"], "--tokens journal: needs --state-dir"],
    [
      ["--tokens=volatile", "--state-dir=s"],
      "--state-dir and --tokens volatile: give one of them",
    ],
    [[DB, NODE], "--origin and --db: give one of them"],
    [[DB, "--standby", "--take-over"], "--standby and --take-over: give one of them"],
    [
      ["--strict=a:", "--lease-entries=0"],
      "--strict and --lease-entries 0: no lease could exist, so nothing could be stored; leave one of the two options out",
    ],
    [
      ["--snapshot=s", "--memory-file=s"],
      "--memory-file: memcached's name of --snapshot; leave one of them out",
    ],
    [
      ["--admin=9150", "--metrics=9151"],
      "--metrics: the former name of --admin; leave one of them out",
    ],
  ];
  for (const [argv, error] of cases) assertEquals(errors(...argv), [error]);
  const right: readonly (readonly string[])[] = [
    ["--tokens=journal", "--state-dir=s"],
    ["--state-dir=s"],
    ["--tokens=volatile"],
    ["--strict=a:"],
    ["--lease-entries=0"],
    [DB, "--standby"],
    [DB, "--take-over"],
    [NODE],
    ["--memory-file=s"],
  ];
  for (const argv of right) assertEquals(errors(...argv), [], argv.join(" "));
});

Deno.test("options without effect beside others are told, and serve on", () => {
  const unix = "with -s (--unix-socket) the server has no TCP and no UDP port for the cache";
  const cases: readonly (readonly [argv: readonly string[], told: readonly string[]])[] = [
    [["-a", "700"], ["-a (--unix-mask): there is no Unix socket without -s (--unix-socket)"]],
    [["-s", "/s", "-a", "700"], []],
    [["-s", "/s", "-p", "5"], [`-p (--port): ${unix}`]],
    [["-s", "/s", "-U", "5"], [`-U (--udp-port): ${unix}`]],
    [["-s", "/s", "-o", "idle_timeout=60"], [`--idle-timeout: ${unix}`]],
    [["-o", "idle_timeout=60"], []],
    [["-s", "/s", "-l", "::1"], [`-l (--listen): ${unix}`]],
    // The counters have the addresses of -l.
    [["-s", "/s", "-l", "::1", "--counter-port", "7"], []],
    [["-W", "--watcher-logbuf-size=512"], [
      "--watcher-logbuf-size: -W (--disable-watch) refuses watchers",
    ]],
    [["--watcher-logbuf-size=512"], []],
    [[DB, "--db-connections=2"], ["--db-connections: SQLite has one connection"]],
    [["--db=postgres://h/d", "--db-connections=2"], []],
    [[DB, "--follow", "--temporary-slot"], ["--temporary-slot: SQLite has no replication slots"]],
    [["--db=postgres://h/d", "--follow", "--temporary-slot"], []],
    [[...TLS, "-l", "notls:127.0.0.1"], ["-Z (--enable-ssl): no port of this server has TLS"]],
    [[...TLS, "-l", "notls:127.0.0.1,::1"], []],
    [[...TLS, "-l", "notls:127.0.0.1", "--admin", "9150"], []],
    [[...TLS, "-l", "notls:127.0.0.1", "--admin", "notls:9150"], [
      "-Z (--enable-ssl): no port of this server has TLS",
    ]],
    [["-p", "5", "-l", "127.0.0.1:6"], [
      "-p (--port): every address of -l (--listen) names its own port",
    ]],
    [["-p", "5", "-l", "127.0.0.1:6,::1"], []],
  ];
  for (const [argv, told] of cases) assertEquals(ignored(...argv), told, argv.join(" "));
});

/** The options of TLS that only OpenSSL has, with a value that is not their default, and with that. */
const OPENSSL: Readonly<Record<string, readonly [other: string, preset: string]>> = {
  "ssl-verify-mode": ["1", "0"],
  "ssl-keyformat": ["2", "1"],
  "ssl-ciphers": ["AES128-SHA", ""],
  "ssl-ca-cert": ["/ca", ""],
  "ssl-session-cache": ["", ""],
  "ssl-kernel-tls": ["", ""],
  "ssl-min-version": ["3", "2"],
  "ssl-handshake-timeout": ["5", "10"],
};

Deno.test("each option that only OpenSSL has is the native transport's, unless it is the default or there is no TLS", () => {
  for (const [name, [other, preset]] of Object.entries(OPENSSL)) {
    const argv = (value: string): string => value === "" ? `--${name}` : `--${name}=${value}`;
    assertEquals(serverOptions(...TLS, argv(other)).nativeOnly, [`--${name}`]);
    if (preset !== "") {
      assertEquals(serverOptions(...TLS, argv(preset)).nativeOnly, [], argv(preset));
    }
    const without = serverOptions(argv(other));
    assertEquals([without.nativeOnly, without.tls], [[], null], name);
    assertEquals(ignored(argv(other)), [`--${name}: there is no TLS without -Z (--enable-ssl)`]);
  }
  assertEquals(serverOptions(...TLS).nativeOnly, []);
  const modes = (...argv: readonly string[]): readonly string[] =>
    serverOptions(...TLS, ...argv).nativeOnly;
  assertEquals(modes("-l", "127.0.0.1,mtls:::1"), ["-l mtls:"]);
  assertEquals(modes("--admin", "mtls:9150"), ["--admin mtls:"]);
  assertEquals(modes("-l", "btls:127.0.0.1", "--admin", "btls:9150"), []);
});

Deno.test("the settings of TLS are those of its options", () => {
  const tls = (...argv: readonly string[]): unknown => serverOptions(...TLS, ...argv).tls;
  const preset = {
    chainCert: "/c",
    key: "/c",
    keyFormat: 1,
    verifyMode: 0,
    ciphers: null,
    caCert: null,
    writeBufferBytes: 16_384,
    sessionCache: false,
    kernelTls: false,
    minVersion: 2,
    handshakeTimeoutSec: 10,
  };
  assertEquals(tls(), preset);
  assertEquals(tls("--ssl-key", "/k", "--ssl-wbuf-size=2"), {
    ...preset,
    key: "/k",
    writeBufferBytes: 2048,
  });
  // As OpenSSL counts: SSL_VERIFY_PEER is 1, FAIL_IF_NO_PEER_CERT is 2, CLIENT_ONCE is 4.
  const modes = ["0", "1", "2", "3"].map((mode) =>
    serverOptions(...TLS, `--ssl-verify-mode=${mode}`).tls!.verifyMode
  );
  assertEquals(modes, [0, 1, 3, 7]);
  assertEquals(errors("-Z"), [
    "-Z (--enable-ssl): needs --ssl-chain-cert PATH, and --ssl-key PATH if the key is not in the same file",
  ]);
});

Deno.test("--require-auth refuses public counters and metrics with and without users", () => {
  const open = (address: string, remedy: string): string =>
    `--require-auth: other hosts can reach ${address}, and need no password; ${remedy}, or listen on 127.0.0.1`;
  const metrics = open("0.0.0.0:9150", "metrics have no authentication: leave --admin out");
  const counters = open(
    "0.0.0.0:7",
    "counters have no authentication: leave --counter-port out",
  );
  const cache = open("0.0.0.0:11211", "add -Y (--auth-file)");
  const argv = ["--require-auth", "-l", "0.0.0.0", "--counter-port=7", "--admin=*:9150"];
  assertEquals(errors(...argv), [cache, counters, metrics]);
  assertEquals(errors(...argv, "-Y", "f"), [counters, metrics]);
  assertEquals(errors(...argv.slice(1)), []);
  // UDP is refused for itself, not as a listener of another protocol.
  assertEquals(errors("-Y", "f", "-U", "5", "-l", "proto[binary]:127.0.0.1:6"), [
    "-U (--udp-port): UDP has no authentication; leave out -U, or -Y (--auth-file)",
    "-Y (--auth-file) and -l (--listen) 127.0.0.1:6: add -S (--enable-sasl) for the binary protocol, or leave -l out",
  ]);
});
