import { assertEquals } from "@std/assert";
import { announce, announceIgnoredOptions } from "../../../lib/server/announce.ts";
import { listenFailure } from "../../../lib/server/start_failure.ts";
import { type BoundTransport, ListenError } from "../../../lib/net/transport.ts";
import { serverOptions } from "../../support/command_line.ts";
import { loggedBy } from "../../support/log.ts";

Deno.test("-u as root is a warning with what to do, and not an ignored option", () => {
  const lines = loggedBy(
    "text",
    0,
    () => announceIgnoredOptions(serverOptions("-u", "memcache"), true),
  );
  assertEquals(lines, [
    "warning: still running as root: -u (--user) memcache has no effect; start the server as that " +
    "user: runuser -u memcache, or User=memcache in systemd",
  ]);
});

Deno.test("-u as another user is an option without effect", () => {
  const lines = loggedBy(
    "text",
    0,
    () => announceIgnoredOptions(serverOptions("-u", "memcache"), false),
  );
  assertEquals(lines, [
    "-u (--user) has no effect: the server keeps the user that started it; set the user in the " +
    "service manager (systemd: User=) or start it with runuser -u NAME",
  ]);
});

Deno.test("root without -u is not warned", () => {
  assertEquals(loggedBy("text", 0, () => announceIgnoredOptions(serverOptions(), true)), []);
});

Deno.test("an ignored option is a JSON object with the option and the reason", () => {
  const [line] = loggedBy("json", 0, () => announceIgnoredOptions(serverOptions("-k"), true));
  const { event, level, option, reason } = JSON.parse(line!);
  assertEquals([event, level, option], ["option_ignored", "info", "-k (--lock-memory)"]);
  assertEquals(
    reason,
    "the server does not lock memory; turn swap off, or set MemorySwapMax=0 in systemd",
  );
});

Deno.test("addresses that other hosts can reach are warned of, unless -Y and -Z protect them", () => {
  const cache = "0.0.0.0:11211";
  const counters = "0.0.0.0:11215";
  const users = ["-Y", "users"];
  const tls = ["-Z", "-o", "ssl_chain_cert=cert"];
  const both = ["--counter-port", "11215"];
  const cases = [
    [[], { public_address: [cache] }],
    [tls, { public_address: [cache] }],
    [both, { public_address: [cache, counters] }],
    [users, { passwords_in_clear_text: [cache] }],
    [[...users, ...both], { public_address: [counters], passwords_in_clear_text: [cache] }],
    [[...users, ...tls], {}],
    [[...users, ...tls, ...both], { public_address: [counters] }],
  ] as const;
  const warned = (host: string, args: readonly string[]): unknown => {
    const options = serverOptions("-l", host, ...args);
    const listens = [...options.listens, ...options.counterListens];
    const bound = { name: "portable", listens, ioUringReason: "" } as unknown as BoundTransport;
    const found = loggedBy("json", 0, () => announce(options, bound))
      .map((line) => JSON.parse(line))
      .filter(({ event }) => event === "public_address" || event === "passwords_in_clear_text")
      .map(({ event, addresses }) => [event, addresses]);
    return Object.fromEntries(found);
  };
  for (const [args, expected] of cases) {
    assertEquals(warned("0.0.0.0", args), expected, args.join(" "));
    assertEquals(warned("127.0.0.1", args), {}, args.join(" "));
  }
});

const TCP = { kind: "tcp", hostname: "127.0.0.1", port: 80, protocol: "auto" } as const;
const UNIX = { kind: "unix", path: "/nowhere/sock", mode: 0o700, protocol: "auto" } as const;

/** A listener, an error code of the system, and what the operator reads. */
const FAILURES = [
  [
    TCP,
    "EADDRINUSE",
    "127.0.0.1:80: another process uses this port (EADDRINUSE); choose another with -p or -l, or " +
    "find the process: ss -tlnp 'sport = :80'",
  ],
  [
    { ...TCP, kind: "udp" },
    "EADDRINUSE",
    "udp 127.0.0.1:80: another process uses this port (EADDRINUSE); choose another with -U, or " +
    "find the process: ss -ulnp 'sport = :80'",
  ],
  [
    TCP,
    "EACCES",
    "127.0.0.1:80: permission denied (EACCES); ports below 1024 need root or " +
    "CAP_NET_BIND_SERVICE, or choose another with -p or -l",
  ],
  [
    TCP,
    "EADDRNOTAVAIL",
    "127.0.0.1:80: this host has no such address (EADDRNOTAVAIL); ip address lists its addresses",
  ],
  [TCP, "ENOENT", "127.0.0.1:80: the cause"],
  [
    UNIX,
    "ENOENT",
    "/nowhere/sock: the folder /nowhere does not exist; create it, or choose another path with -s",
  ],
  [
    { ...UNIX, path: "sock" },
    "EACCES",
    "sock: permission denied (EACCES); the user of the server needs write permission for the folder .",
  ],
] as const;

for (const [listen, code, text] of FAILURES) {
  Deno.test(`listenFailure() explains ${code} on ${listen.kind}`, () => {
    const address = listen.kind === "unix" ? listen.path : "127.0.0.1:80";
    const error = new ListenError(listen, code, `cannot listen on ${address}: the cause`);
    const { message, fields } = listenFailure(error, serverOptions());
    assertEquals(message, `cannot listen on ${text}`);
    assertEquals(fields["code"], code);
  });
}
