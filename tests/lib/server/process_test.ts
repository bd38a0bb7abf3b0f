import {
  assert,
  assertEquals,
  assertGreater,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import {
  Client,
  leastPermissions,
  MAIN,
  path,
  runToEnd,
  ServerProcess,
  testTransports as test,
  TRANSPORTS,
} from "../../support/servers/server_process.ts";
import { needs } from "../../support/needs/needs.ts";

test(
  "the server says where it listens, with how much memory, how many threads, how and on what",
  async (start, io) => {
    await using server = await start({ args: ["-m", "65"] });
    const version = JSON.parse(Deno.readTextFileSync(path("deno.json"))).version;
    const [line] = server.lines;
    assertMatch(
      line!,
      /^\S+Z leased [\d.]+ listens on 127\.0\.0\.1:\d+; 65m of memory, 2 threads, \w+ transport(?: with io_uring)?, deno-[\d.]+, pid \d+$/,
    );
    assertStringIncludes(line!, `leased ${version} `);
    assertStringIncludes(line!, ` ${io} transport`);
    assertStringIncludes(line!, `pid ${server.pid}`);
    const { stderr } = await server.stop();
    const lines = stderr.split("\n").filter((line) => !line.includes("io_uring is not used"));
    assertEquals(lines.length, 2, stderr);
  },
);

test("the server ends with 0 at SIGINT, SIGTERM and SIGUSR1, and stays at SIGHUP", async (start) => {
  for (const signal of ["SIGINT", "SIGTERM", "SIGUSR1"] as const) {
    await using server = await start();
    server.signal("SIGHUP");
    await server.line("SIGHUP ignored: there is no file to reload");
    using client = await server.connect();
    await client.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
    server.signal(signal);
    const ended = await server.ended();
    assertEquals([ended.code, ended.signal], [0, null], ended.stderr);
    assertEquals(await client.rest(), "");
  }
});

// Over the portable transport the runtime closes connections that it has not accepted.
Deno.test(
  "native: requests sent before the signal are answered, also on connections that wait to be accepted",
  needs("native", TRANSPORTS.includes("native")),
  async () => {
    await using server = await ServerProcess.start({ io: "native", args: ["-t", "1"] });
    server.signal("SIGSTOP");
    // More than one round accepts.
    const clients = await Promise.all(Array.from({ length: 200 }, () => server.connect()));
    for (const client of clients) await client.send("mn\r\n");
    server.signal("SIGTERM");
    server.signal("SIGCONT");
    const replies = await Promise.all(clients.map((client) => client.rest()));
    for (const client of clients) client[Symbol.dispose]();
    assertEquals(replies.filter((reply) => reply !== "MN\r\n"), []);
    assertEquals((await server.ended()).code, 0);
  },
);

test("ids start above those of an earlier process: its leases fill nothing", async (start) => {
  const lease = async (): Promise<[server: ServerProcess, id: number]> => {
    const server = await start({ args: ["-z", "3333"] });
    using client = await server.connect();
    await client.send("getss 1000 k\r\n");
    return [server, Number(/ (\d+)\r\n0\r\n/.exec(await client.until("END\r\n"))![1])];
  };
  const [first, earlier] = await lease();
  await first.stop();
  const [second, later] = await lease();
  await using server = second;
  assertGreater(later, earlier);
  using client = await server.connect();
  await client.ask(`cas k 0 0 5 ${earlier}\r\nstale\r\n`, "EXISTS\r\n");
  await client.ask(`cas k 0 0 5 ${later}\r\nfresh\r\n`, "STORED\r\n");
  await server.stop();
});

test("with -vvv the store is checked at the end", async (start) => {
  await using server = await start({ args: ["-vvv"] });
  using client = await server.connect();
  await client.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
  const { code, stderr } = await server.stop();
  assertEquals(code, 0);
  assertStringIncludes(stderr, "store check passed; items: 1");
});

test("the shutdown command ends the server, with -A only", async (start) => {
  await using strict = await start();
  using refused = await strict.connect();
  await refused.send("shutdown\r\n");
  assertMatch(await refused.until("\r\n"), /ERROR/);
  await strict.stop();
  await using server = await start({ args: ["-A"] });
  using client = await server.connect();
  await client.send("shutdown\r\n");
  assertEquals(await client.rest(), "");
  assertEquals((await server.ended()).code, 0);
});

Deno.test("a command line that is wrong ends with 64 and names every mistake", async () => {
  const { code, stderr, stdout } = await runToEnd({ args: ["-m", "abc", "--prot", "1"] });
  assertEquals(code, 64);
  assertEquals(stdout, "");
  assertEquals(stderr.split("\n"), [
    'leased: -m (--memory-limit) "abc": must be a size from 1m to 15g (a bare number is in MiB)',
    "leased: unknown option --prot; did you mean --port or --protocol?",
    "leased: try --help for the list of options",
    "",
  ]);
});

Deno.test("--help and --version need no permission and end with 0", async () => {
  const help = await runToEnd({ args: ["-h"], permissions: [] });
  assertEquals([help.code, help.stderr], [0, ""]);
  assertMatch(help.stdout, /--memory-limit/);
  const version = await runToEnd({ args: ["-V"], permissions: [] });
  assertMatch(version.stdout, /^leased \d+\.\d+\.\d+ \(speaks memcached 1\.6\.45; deno-/);
});

test(
  "a port that is taken ends the second server with 71, whatever transport has it",
  async (start) => {
    await using server = await start();
    const { code, stderr } = await runToEnd({
      args: ["--io", "portable", "-p", `${server.port}`],
    });
    assertEquals(code, 71, stderr);
    assertStringIncludes(stderr, `cannot listen on 127.0.0.1:${server.port}: `);
    assertStringIncludes(stderr, "ss -tlnp");
  },
);

Deno.test("an address that is not ours ends with 71", async () => {
  const { code, stderr } = await runToEnd({
    args: ["--io", "portable", "-l", "192.0.2.1:1"],
    permissions: ["--allow-all"],
  });
  assertEquals(code, 71);
  assertStringIncludes(stderr, "192.0.2.1:1");
});

Deno.test("a missing permission ends with 77 and the line that would do, which does", async () => {
  const refused = await runToEnd({ args: ["-p", "-1", "-t", "1"], permissions: [] });
  assertEquals(refused.code, 77);
  assertStringIncludes(
    refused.stderr,
    "leased: not permitted to listen on 127.0.0.1: add --allow-net=127.0.0.1\n",
  );
  const line = refused.stderr.split("\n").find((text) => text.includes(" deno run "))!;
  const words = line.slice(line.indexOf("deno run ")).split(" ");
  assertEquals(words.slice(-5), [MAIN, "-p", "-1", "-t", "1"]);
  assertEquals(words.filter((word) => word.startsWith("--allow")).length, 2);
  // They are those of the sources, not of a bundle.
  await using server = await ServerProcess.start({
    main: MAIN,
    permissions: words.slice(2, -5),
    args: ["-p", "-1"],
  });
  await server.stop();
});

Deno.test("the line that would do keeps --allow-ffi, or says what it costs to go without", {
  ...needs("native", TRANSPORTS.includes("native")),
}, async () => {
  for (const permissions of [[], ["--allow-ffi"]]) {
    const { code, stderr } = await runToEnd({ args: ["-p", "-1"], permissions });
    assertEquals(code, 77, stderr);
    const line = stderr.split("\n").find((text) => text.includes(" deno run "))!;
    assertEquals(line.split(" ").filter((word) => word === "--allow-ffi"), permissions);
    const cost =
      "leased: with --allow-ffi too, a request takes a third to two thirds less CPU time";
    assertEquals(stderr.includes(cost), permissions.length === 0, stderr);
  }
});

test(
  "-P without its permissions ends with 77, names the flags, and the command runs",
  async (start, io) => {
    const folder = await Deno.makeTempDir();
    const pidFile = `${folder}/leased.pid`;
    const args = ["--io", io, "-t", "1", "-p", "-1", "-P", pidFile];
    const { code, stderr } = await runToEnd({ io, args });
    assertEquals(code, 77, stderr);
    const files = `${pidFile},${pidFile}.tmp`;
    assertStringIncludes(
      stderr,
      `leased: not permitted to write the pid file ${pidFile} (-P): add --allow-read=${files} ` +
        `--allow-write=${files}, or leave -P out`,
    );
    const words = stderr.split("\n").find((line) => line.includes(" deno run "))!.trim().split(" ");
    const permissions = words.filter((word) => /^--(?:allow|v8)/.test(word));
    await using server = await start({ main: MAIN, args: ["-P", pidFile], permissions });
    await server.stop();
    await Deno.remove(folder);
  },
);

test("-s in a folder that does not exist ends with 71 and names the folder", async (_start, io) => {
  const { code, stderr } = await runToEnd({
    args: ["--io", io, "-s", "/nowhere/at/all/sock", "-o", "log_format=json"],
    permissions: ["--allow-all"],
  });
  assertEquals(code, 71, stderr);
  const { event, level, address, code: cause, message } = JSON.parse(stderr);
  assertEquals([event, level, address, cause], [
    "cannot_listen",
    "fatal",
    "/nowhere/at/all/sock",
    "ENOENT",
  ]);
  assertStringIncludes(message, "the folder /nowhere/at/all does not exist");
});

Deno.test("a Unix socket needs permissions with the portable transport, none with the native", async () => {
  const folder = await Deno.makeTempDir();
  const args = ["-t", "1", "-s", `${folder}/sock`];
  const { code, stderr } = await runToEnd({ args: ["--io", "portable", ...args] });
  assertEquals(code, 77, stderr);
  assertStringIncludes(stderr, `not permitted to create the Unix socket ${folder}/sock (-s): add `);
  assertStringIncludes(stderr, "--io native with --allow-ffi: it needs no file permission");
  if (TRANSPORTS.includes("native")) {
    await using server = await ServerProcess.start({ io: "native", args });
    using client = await Client.connectUnix(`${folder}/sock`);
    await client.ping();
    await server.stop();
  }
  await Deno.remove(folder, { recursive: true });
});

Deno.test("-o log_format=json makes usage errors objects", async () => {
  const { code, stderr } = await runToEnd({ args: ["-m", "abc", "-q", "-o", "log_format=json"] });
  assertEquals(code, 64);
  const errors = stderr.trimEnd().split("\n").map((line) => JSON.parse(line));
  assertEquals(errors.map(({ level, event }) => `${level} ${event}`), [
    "fatal usage_error",
    "fatal usage_error",
  ]);
  assertEquals(errors[1].message, "unknown option -q");
});

Deno.test("deno task lists start, test and ok first", () => {
  const { tasks } = JSON.parse(Deno.readTextFileSync(path("deno.json")));
  assertEquals(Object.keys(tasks).slice(0, 3), ["start", "test", "ok"]);
});

test(
  "the server runs with the flags that docs/running.md names, and never prompts",
  async (start, io) => {
    await using server = await start({ permissions: leastPermissions(io) });
    using client = await server.connect();
    await client.ask("version\r\n", "VERSION ");
    await server.stop();
  },
);

test("the pid file is there while the server runs", async (start, io) => {
  const folder = await Deno.makeTempDir();
  const pidFile = `${folder}/leased.pid`;
  await using server = await start({
    args: ["-P", pidFile],
    permissions: [
      ...leastPermissions(io),
      `--allow-read=${folder}`,
      `--allow-write=${folder}`,
    ],
  });
  // The line that says it listens comes first.
  using client = await server.connect();
  await client.ask("version\r\n", "VERSION ");
  assertEquals(Deno.readTextFileSync(pidFile), `${server.pid}\n`);
  await server.stop();
  assertEquals([...Deno.readDirSync(folder)], []);
  await Deno.remove(folder);
});

test("a second server that cannot start leaves the first one's pid file", async (start, io) => {
  const folder = await Deno.makeTempDir();
  const pidFile = `${folder}/leased.pid`;
  const permissions = ["--allow-all"];
  await using server = await start({
    args: ["-P", pidFile, "--counter-port", "-1"],
    permissions,
  });
  // Its own port is free: it fails late.
  const taken = ["-p", "-1", "--counter-port", `${server.counterPort}`];
  const { code } = await runToEnd({ args: ["--io", io, "-P", pidFile, ...taken], permissions });
  assertEquals(code, 71);
  assertEquals(Deno.readTextFileSync(pidFile), `${server.pid}\n`);
  await server.stop();
  await Deno.remove(folder);
});

test("a pid file that cannot be written is a warning", async (start) => {
  await using server = await start({
    args: ["-P", "/nowhere/leased.pid"],
    permissions: ["--allow-all"],
  });
  await server.line(
    "warning: cannot write the pid file /nowhere/leased.pid: the folder /nowhere does not exist",
  );
  await server.stop();
});

test("MEMCACHED_PORT_FILENAME names the file that gets the ports", async (start, io) => {
  const folder = await Deno.makeTempDir();
  const portFile = `${folder}/ports`;
  await using server = await start({
    args: ["-p", "-1", "-U", "-1"],
    env: { MEMCACHED_PORT_FILENAME: portFile },
    permissions: [
      ...new Set([...leastPermissions(io), "--allow-net=127.0.0.1"]),
      `--allow-read=${folder}`,
      `--allow-write=${folder}`,
      "--allow-env=MEMCACHED_PORT_FILENAME",
    ],
  });
  using client = await server.connect();
  await client.ask("version\r\n", "VERSION ");
  assertMatch(Deno.readTextFileSync(portFile), /^TCP INET: \d+\nUDP INET: \d+\n$/);
  assertStringIncludes(Deno.readTextFileSync(portFile), `TCP INET: ${server.port}\n`);
  await server.stop();
  await Deno.remove(folder, { recursive: true });
});

test("options without effect say why; a public address is warned of", async (start, io) => {
  await using server = await start({
    args: ["-k", "-u", "nobody", "-o", "modern", "-l", "0.0.0.0"],
    permissions: leastPermissions(io).map((flag) => flag.replace("=127.0.0.1", "")),
  });
  await server.line("-k (--lock-memory) has no effect: the server does not lock memory; ");
  await server.line("-o modern has no effect: ");
  await server.line("warning: no authentication: any host that can reach 0.0.0.0:");
  await server.stop();
});

test("-o log_format=json says the same as an object a line", async (start, io) => {
  await using server = await start({ args: ["-o", "log_format=json"] });
  const { event, transport, threads, addresses, memoryBytes } = JSON.parse(server.lines[0]!);
  assertEquals([event, transport, threads, memoryBytes], [
    "listening",
    io,
    2,
    64 * 1024 * 1024,
  ]);
  assertEquals(addresses, [`127.0.0.1:${server.port}`]);
  await server.stop();
});

test("-vvv logs connections, commands and protocol errors with their peer", async (start) => {
  await using server = await start({ args: ["-vvv", "-c", "1", "-o", "log_format=json"] });
  using client = await server.connect();
  await client.ask("bogus\r\n", "ERROR\r\n");
  const logged = async (event: string): Promise<Record<string, unknown>> =>
    JSON.parse(await server.line(`"event":"${event}"`));
  const { peer, conn } = await logged("connection_opened");
  const command = await logged("command");
  assertEquals([command["command"], command["peer"], command["conn"]], ["bogus", peer, conn]);
  const error = await logged("protocol_error");
  assertEquals([error["reason"], error["peer"], error["conn"]], ["ERROR", peer, conn]);
  using second = await server.connect();
  await second.rest();
  const refused = await logged("connection_refused");
  assertEquals(refused["reason"], "1 connections are open (-c)");
  client.socket.close();
  const closed = await logged("connection_closed");
  assertEquals([closed["reason"], closed["peer"], closed["conn"]], ["normal", peer, conn]);
  await server.stop();
});

test("a second signal ends the server at once", async (start) => {
  await using server = await start();
  using client = await server.connect();
  // A reply nobody takes keeps the drain busy.
  await client.ask(`set big 0 0 1000000\r\n${"x".repeat(1_000_000)}\r\n`, "STORED\r\n");
  await client.send("get big\r\n".repeat(100));
  await client.until("\r\n");
  server.signal("SIGTERM");
  await server.line("finishing requests in progress");
  // One that follows at once counts as the first one's echo.
  const repeating = setInterval(() => {
    try {
      server.signal("SIGTERM");
    } catch {
      // It has ended.
    }
  }, 50);
  await server.line("closing all connections now");
  clearInterval(repeating);
  const { code } = await server.ended();
  assertEquals(code, 128 + 15);
});

Deno.test("a thread that fails takes the process down, loudly", async () => {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", "--allow-all", path("tests/support/servers/failing_thread.ts")],
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  });
  const { signal, stderr } = await child.output();
  assertEquals(signal, "SIGABRT");
  assert(new TextDecoder().decode(stderr).startsWith("leased: a thread failed, stopping: "));
});
