import { assertEquals } from "@std/assert";
import { ServiceManager } from "../../../lib/server/service_manager.ts";
import { Threads } from "../../../lib/server/threads.ts";
import { loggedBy } from "../../support/log.ts";

/** Runs `act` with these variables, and without the others that a service manager sets. */
function withVariables(variables: Readonly<Record<string, string>>, act: () => void): void {
  const names = ["LISTEN_PID", "LISTEN_FDS", "NOTIFY_SOCKET"];
  const before = names.map((name) => [name, Deno.env.get(name)] as const);
  try {
    for (const name of names) Deno.env.delete(name);
    for (const [name, value] of Object.entries(variables)) Deno.env.set(name, value);
    act();
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) Deno.env.delete(name);
      else Deno.env.set(name, value);
    }
  }
}

function passed(
  transport: "native" | "portable",
  pid: string,
  count: string,
): [number[], string[]] {
  let sockets: number[] = [];
  let lines: string[] = [];
  withVariables({ LISTEN_PID: pid, LISTEN_FDS: count }, () => {
    lines = loggedBy("text", 0, () => {
      sockets = ServiceManager.passedSockets(transport);
    });
  });
  return [sockets, lines];
}

Deno.test("sockets are taken from descriptor 3 on, if they are for this process", () => {
  const own = `${Deno.pid}`;
  assertEquals(passed("native", own, "3"), [[3, 4, 5], []]);
  assertEquals(passed("native", own, "1"), [[3], []]);
  for (const count of ["0", "-1", "x", "1.5", ""]) {
    assertEquals(passed("native", own, count), [[], []]);
  }
  assertEquals(passed("native", `${Deno.pid + 1}`, "3"), [[], []]);
  assertEquals(passed("native", "", "3"), [[], []]);
});

Deno.test("the portable transport takes none, which is a warning only if there are some", () => {
  assertEquals(passed("portable", `${Deno.pid}`, "1"), [[], [
    "warning: LISTEN_FDS is set, and the portable transport cannot use sockets that are bound " +
    "already; use --io native, or disable the socket unit",
  ]]);
  assertEquals(passed("portable", `${Deno.pid}`, "0"), [[], []]);
  assertEquals(passed("portable", "1", "1"), [[], []]);
});

Deno.test("each socket that no option wants is a warning with its address", () => {
  const lines = loggedBy("json", 0, () => ServiceManager.warnOfUnused(["127.0.0.1:5", "/s"]));
  assertEquals(
    lines.map((line) => JSON.parse(line)).map(({ event, address }) => [event, address]),
    [
      ["socket_not_used", "127.0.0.1:5"],
      ["socket_not_used", "/s"],
    ],
  );
});

// The C library stays open until the process ends.
Deno.test("a manager's socket that takes nothing is a warning, and without one there is none", {
  sanitizeResources: false,
}, () => {
  withVariables({}, () => {
    for (const transport of ["native", "portable"] as const) {
      const manager = new ServiceManager(transport);
      assertEquals(loggedBy("text", 0, () => manager.ready("x")), []);
    }
  });
  withVariables({ NOTIFY_SOCKET: "/nowhere/socket" }, () => {
    const [line] = loggedBy("text", 0, () => new ServiceManager("portable"));
    assertEquals(
      line!.startsWith("warning: NOTIFY_SOCKET is set, and the portable transport"),
      true,
    );
    const manager = new ServiceManager("native");
    const said = (act: () => void): string[] =>
      loggedBy("json", 0, act).map((each) => JSON.parse(each).message);
    const fails = "cannot send to NOTIFY_SOCKET: ";
    assertEquals(said(() => manager.ready("serving, 2 threads")), [
      `${fails}READY=1\nSTATUS=serving, 2 threads`,
    ]);
    assertEquals(said(() => manager.stopping()), [
      `${fails}STOPPING=1\nSTATUS=stopping\nEXTEND_TIMEOUT_USEC=120000000`,
    ]);
    // The next one is due some seconds later.
    assertEquals(said(() => manager.goesOn()), [`${fails}EXTEND_TIMEOUT_USEC=120000000`]);
    assertEquals(said(() => manager.goesOn()), []);
  });
});

Deno.test("more threads than eight, and than four for each processor, are a warning", () => {
  const processors = navigator.hardwareConcurrency;
  const most = Math.max(8, 4 * processors);
  const warnings = (count: number): string[] =>
    loggedBy("text", 0, () => {
      new Threads(count, () => ({}) as never, {} as never);
    });
  assertEquals(warnings(most), []);
  assertEquals(warnings(most + 1), [
    `warning: -t ${
      most + 1
    }: ${processors} processors; each thread takes about 25 MB and a quarter of ` +
    "a second of a processor at the start; use as many threads as processors",
  ]);
});
