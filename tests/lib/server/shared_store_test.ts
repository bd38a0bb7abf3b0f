import { assert, assertEquals } from "@std/assert";
import { announce, announceAdmin } from "../../../lib/server/announce.ts";
import { checkAtEnd, makeStore } from "../../../lib/server/shared_store.ts";
import type { Snapshot } from "../../../lib/snapshot/snapshot.ts";
import type { BoundTransport, Listen, TcpListen } from "../../../lib/net/transport.ts";
import type { RowsOptions } from "../../../lib/rows/options.ts";
import { Tunables } from "../../../protocol/tunables.ts";
import { clockSec, writeClock } from "../../../store/clock.ts";
import { ConnectionTable } from "../../../store/connections.ts";
import { MIB, type StoreOptions } from "../../../store/limits.ts";
import { serverOptions } from "../../support/command_line.ts";
import { loggedBy } from "../../support/log.ts";

const LISTENS: readonly Listen[] = [
  { kind: "tcp", hostname: "127.0.0.1", port: 5, protocol: "counters" },
  { kind: "tcp", hostname: "::1", port: 6, protocol: "auto" },
  { kind: "udp", hostname: "127.0.0.1", port: 7, protocol: "auto" },
];

/** A transport that only tells what was bound, and remembers which threads were woken. */
function transportOf(listens: readonly Listen[], woken: number[] = []): BoundTransport {
  return {
    name: "native",
    listens,
    usesIoUring: true,
    ioUringReason: "",
    wake: (index: number) => woken.push(index),
  } as unknown as BoundTransport;
}

const SMALL = ["-m", "2", "-c", "8", "-o", "memlimit_max=4"];

Deno.test("a store is made with the options, the tunables and the listeners of the cache", () => {
  const woken: number[] = [];
  const argv = [...SMALL, "-vv", "-o", "hot_lru_pct=33,temporary_ttl=5"];
  const { shared, cache } = makeStore(
    serverOptions(...argv),
    null,
    transportOf(LISTENS, woken),
    null,
  );
  assertEquals(shared.memory.options.memoryLimitBytes, 2 * MIB);
  assertEquals(shared.memory.options.rows, undefined);
  const tunables = new Tunables(shared.tunables);
  assertEquals(
    ["hot_lru_pct", "temporary_ttl", "temp_lru"].map((name) =>
      tunables.get(name as Parameters<typeof tunables.get>[0])
    ),
    [33, 5, 1],
  );
  assertEquals(tunables.get("verbosity"), 2);
  const connections = new ConnectionTable(shared.memory.connections);
  // Those of counters are not in this table.
  const names = ["tcp6:[::1]:6", "udp:127.0.0.1:7", "tcp:other"];
  assertEquals(names.map((name) => connections.addListener(name)), [0, 1, 2]);
  cache.onReady(3);
  assertEquals(woken, [3]);
});

Deno.test("a store takes the options that its snapshot has, its clock, and the right to serve rows", () => {
  const seen: StoreOptions[] = [];
  const snapshot = {
    clockMs: 7000,
    storeOptions: (wanted: StoreOptions) => {
      seen.push(wanted);
      return { ...wanted, connectionsMax: 16 };
    },
  } as unknown as Snapshot;
  const options = serverOptions(...SMALL, "--db", "sqlite:x", "--rows", "a:");
  const rows = { rightFrom: "clock" } as unknown as RowsOptions;
  const { shared, cache } = makeStore(options, rows, transportOf([]), snapshot);
  assertEquals(shared.memory.options.connectionsMax, 16);
  assertEquals(seen[0]!.rows, {
    prefixes: ["a:"],
    expiry: "refuse",
    isNode: false,
    rightFrom: "clock" as unknown as undefined,
  });
  assertEquals(clockSec(cache.memory), 9);
});

Deno.test("volatile tokens begin with a quarantine of the option's length, those of a journal do not", () => {
  const secondsOf = (...argv: readonly string[]): number => {
    const { cache } = makeStore(serverOptions(...SMALL, ...argv), null, transportOf([]), null);
    let seconds = 0;
    for (; seconds < 1000 && cache.inspector.isQuarantined; seconds++) {
      writeClock(cache.memory, seconds * 1000);
      cache.enter();
      while (cache.maintain());
      cache.leave();
    }
    return seconds;
  };
  const volatile = ["--tokens", "volatile"];
  const long = secondsOf(...volatile);
  assert(long >= 60 && long < 65, `${long}`);
  assertEquals(secondsOf(...volatile, "--token-quarantine", "100"), long + 40);
  assertEquals(secondsOf(...volatile, "--token-quarantine", "0"), 0);
  assertEquals(secondsOf(), 0);
});

Deno.test("the check at the end tells how many items there are, or ends with 70 and the fault", () => {
  const { cache } = makeStore(serverOptions(...SMALL), null, transportOf([]), null);
  let status = -1;
  const passed = loggedBy("text", 0, () => status = checkAtEnd(cache.memory));
  assertEquals([status, passed], [0, ["store check passed; items: 0"]]);
  cache.memory.stats.fill(7);
  cache.memory.control.fill(3);
  const failed = loggedBy("text", 0, () => status = checkAtEnd(cache.memory));
  assertEquals(status, 70);
  assertEquals(failed[0]!.startsWith("error: store check failed: "), true, failed[0]);
});

function announced(
  argv: readonly string[],
  bound: Partial<BoundTransport>,
): Record<string, unknown>[] {
  const transport = { ...transportOf([]), ...bound } as BoundTransport;
  return loggedBy("json", 0, () => announce(serverOptions(...argv), transport))
    .map((line) => JSON.parse(line));
}

Deno.test("the server tells its addresses, memory, threads and transport, in text and in fields", () => {
  const tls = {
    kind: "tcp",
    hostname: "127.0.0.1",
    port: 8,
    protocol: "auto",
    tls: "mtls",
  } as const;
  const listens = [...LISTENS, tls];
  const [line] = announced(["-m", "65"], { listens });
  const { time: _time, ...fields } = line!;
  assertEquals(fields, {
    level: "info",
    event: "listening",
    version: "0.1.0",
    runtime: "deno-2.9.6",
    pid: 7,
    addresses: ["[::1]:6", "udp 127.0.0.1:7", "127.0.0.1:8 (TLS)"],
    counterAddresses: ["127.0.0.1:5"],
    memoryBytes: 65 * MIB,
    threads: 4,
    transport: "native",
    ioUring: true,
    message:
      "leased 0.1.0 listens on [::1]:6, udp 127.0.0.1:7, 127.0.0.1:8 (TLS), for counters on " +
      "127.0.0.1:5; 65m of memory, 4 threads, native transport with io_uring, deno-2.9.6, pid 7",
  });
  const [one] = announced(["-t", "1"], { listens: [], usesIoUring: false, name: "portable" });
  assertEquals(
    one!["message"],
    "leased 0.1.0 listens on no port (-p 0); 64m of memory, 1 thread, portable transport, " +
      "deno-2.9.6, pid 7",
  );
  assertEquals(one!["ioUring"], false);
});

Deno.test("io_uring that is missing is told with the reason, and only then", () => {
  const events = (ioUringReason: string): unknown[] =>
    announced([], { ioUringReason, usesIoUring: false }).map((
      { event, message },
    ) => [event, message]);
  assertEquals(events("").length, 1);
  assertEquals(events("a reason")[1], [
    "no_io_uring",
    "io_uring is not used: a reason; serving with a system call for each read and each reply",
  ]);
});

Deno.test("the admin port tells where dashboard and metrics are, and warns of other hosts", () => {
  const told = (listen: TcpListen): unknown[] => loggedBy("text", 0, () => announceAdmin(listen));
  const listen = { kind: "tcp", hostname: "127.0.0.1", port: 9, protocol: "ascii" } as const;
  assertEquals(told(listen), [
    "metrics are at http://127.0.0.1:9/metrics, the dashboard is at http://127.0.0.1:9/",
  ]);
  assertEquals(told({ ...listen, hostname: "::1", tls: "btls" }), [
    "metrics are at https://[::1]:9/metrics, the dashboard is at https://[::1]:9/",
  ]);
  assertEquals(
    told({ ...listen, hostname: "0.0.0.0" })[1],
    "warning: no authentication: any host that can reach 0.0.0.0:9 can read the statistics; restrict " +
      "access with a firewall, or use --admin 9 to listen on 127.0.0.1 only",
  );
});
