import { assert, assertEquals, assertLess, assertStringIncludes } from "@std/assert";
import { randomFrom } from "../../support/random.ts";
import { roundsOf } from "../../support/rounds.ts";
import { drawSeed, withSeed } from "../../support/seed.ts";
import { freePort } from "../../support/free_ports.ts";
import {
  Client,
  leastPermissions,
  MAIN,
  runToEnd,
  ServerProcess,
  testIoWays,
  testTransports as test,
} from "../../support/servers/server_process.ts";
import { UdpClient } from "../../support/servers/udp_client.ts";
import { textOf } from "../../support/sessions/side.ts";
import { waitingFor } from "../../support/waiting.ts";

const SIGNAL_WITHIN_MS = 500;
const MANY_THREADS = 200;
/** Clients that connect during a start, and descriptors of the server, which are fewer. */
const CLIENTS = 1500;
const OPEN_FILES_MAX = 1024;

/** Connects again and again until a server listens. @returns Null after `isGone`. */
async function connectWhenOpen(port: number, isGone?: AbortSignal): Promise<Client | null> {
  while (isGone?.aborted !== true) {
    try {
      const socket = await Deno.connect({ hostname: "127.0.0.1", port });
      if ((socket.localAddr as Deno.NetAddr).port !== port) return new Client(socket);
      socket.close();
    } catch (error) {
      const { ConnectionRefused, ConnectionReset } = Deno.errors;
      if (!(error instanceof ConnectionRefused || error instanceof ConnectionReset)) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  return null;
}

function serverCommand(io: "portable" | "native", args: readonly string[]): Deno.Command {
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", ...leastPermissions(io), MAIN, "--io", io, ...args],
    env: { NO_COLOR: "1" },
    stdout: "null",
    stderr: "piped",
  });
}

/** A field of a process's status (Linux). */
function statusOf(pid: number, field: string): string {
  const status = Deno.readTextFileSync(`/proc/${pid}/status`);
  return new RegExp(`^${field}:\\s+(\\S+)`, "m").exec(status)![1]!;
}

/** Returns the most threads that a process has from now to its end (Linux). */
async function mostThreads(pid: number): Promise<number> {
  let most = 0;
  try {
    for (;;) {
      most = Math.max(most, Number(statusOf(pid, "Threads")));
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  } catch {
    return most; // the process has ended
  }
}

/**
 * Whether a server listens to SIGTERM, judged by SIGUSR1, to which it listens last. SIGTERM itself tells nothing: from
 * the first listener of any signal, the runtime catches it to restore the terminal and end.
 */
function listensToSigterm(pid: number): boolean {
  return (BigInt(`0x${statusOf(pid, "SigCgt")}`) >> 9n & 1n) === 1n;
}

test(
  "threads beyond the processors cause a warning; a signal while they start ends the server",
  async (_start, io) => {
    const child = serverCommand(io, ["-p", "0", "-t", `${MANY_THREADS}`]).spawn();
    const lines = child.stderr.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    const readOn = async (): Promise<boolean> => {
      const { value, done } = await waitingFor("the server's log", lines.read());
      text += value ?? "";
      return !done;
    };
    while (!text.includes("use as many threads as processors") && await readOn());
    child.kill("SIGTERM");
    // A signal that waits for the last thread finds all of them.
    const threads = Deno.build.os === "linux" ? mostThreads(child.pid) : 0;
    while (await readOn());
    const { code } = await child.status;
    assertEquals(code, 0, text);
    assertStringIncludes(text, "SIGTERM: shutting down");
    assertLess(await threads, MANY_THREADS);
    assert(!text.includes("threads serve"), text);
  },
);

test("-U may equal a port of -l: each address has one UDP socket", async (start, io) => {
  const [first, second] = [freePort(), freePort()];
  const listen = `127.0.0.1:${first},127.0.0.1:${second}`;
  await using server = await start({ args: ["-l", listen, "-p", "0", "-U", `${second}`] });
  assertEquals(server.lines[0]!.match(/udp /g)?.length, 1, io);
  for (const port of [first, second]) {
    using client = await server.connect(port);
    await client.ping();
  }
  using datagrams = new UdpClient(second);
  await datagrams.send(7, "mn\r\n");
  assertEquals(await datagrams.receive(), [7, "MN\r\n"]);
});

test("threads beyond the first few join while these serve", async (start, io) => {
  const threads = Math.max(4, navigator.hardwareConcurrency) + 2;
  await using server = await start({ args: ["-t", `${threads}`] });
  assert(!server.lines.some((line) => line.includes("threads serve")));
  using early = await server.connect();
  await early.ping();
  await server.line(`all ${threads} threads serve`);
  // The native transport gives each new connection to the thread that has the fewest.
  const clients = await Promise.all(Array.from({ length: 4 * threads }, () => server.connect()));
  for (const client of clients) await client.ping();
  for (const client of clients) client[Symbol.dispose]();
  assertEquals((await server.stop()).code, 0, io);
});

/** Starts a server and sends SIGTERM after `delayMs`. */
async function signalDuringStart(
  io: "portable" | "native",
  threads: string,
  delayMs: number,
): Promise<void> {
  const port = freePort();
  const child = serverCommand(io, ["-p", `${port}`, "-t", threads]).spawn();
  const isGone = new AbortController();
  const connecting = connectWhenOpen(port, isGone.signal);
  await new Promise((resolve) => setTimeout(resolve, delayMs));
  const listens = Deno.build.os === "linux" && listensToSigterm(child.pid);
  child.kill("SIGTERM");
  const { code, signal, stderr } = await waitingFor("the server's end", child.output());
  isGone.abort();
  using client = await connecting;
  const said = textOf(stderr);
  if (signal === "SIGTERM") {
    // The runtime was still loading the server.
    assertEquals({ listens, said, client }, { listens: false, said: "", client: null });
    return;
  }
  assertEquals([code, signal], [0, null], said);
  // Without a word before the log is set up.
  if (said !== "") assertStringIncludes(said, "shutting down");
}

test(
  "a signal at any moment of the start ends the server with 0, or no client could connect yet",
  async (_start, io) => {
    await withSeed(drawSeed(), async (seed) => {
      const random = randomFrom(seed);
      for (let round = 0; round < roundsOf(2); round++) {
        for (const threads of ["1", "16"]) {
          await signalDuringStart(io, threads, random() * SIGNAL_WITHIN_MS);
        }
      }
    });
  },
);

test(
  "who connects has been told where the server listens, and is served over TCP and UDP",
  async (_start, io) => {
    const port = freePort();
    const file = await Deno.makeTempFile();
    const child = new Deno.Command("sh", {
      args: [
        "-c",
        `exec "$@" 2>"$0"`,
        file,
        Deno.execPath(),
        "run",
        "--no-prompt",
        ...leastPermissions(io),
        MAIN,
        ...["--io", io, "-p", `${port}`, "-U", `${port}`, "-t", "4"],
      ],
      stdout: "null",
      stderr: "null",
    }).spawn();
    try {
      using first = (await connectWhenOpen(port))!;
      // A datagram to a socket that is not open would be lost.
      using udp = new UdpClient(port);
      await udp.send(1, "mn\r\n");
      assertEquals(await udp.receive(), [1, "MN\r\n"]);
      await first.ping();
      assertStringIncludes(Deno.readTextFileSync(file), " listens on ");
      // None of them is refused or reset, whichever thread it comes to.
      for (let count = 0; count < 16; count++) {
        using client = new Client(await Deno.connect({ hostname: "127.0.0.1", port }));
        await client.ping();
      }
    } finally {
      child.kill("SIGTERM");
      assertEquals((await waitingFor("the server's end", child.status)).code, 0);
      await Deno.remove(file);
    }
  },
);

testIoWays(
  "requests sent before a stop are answered, though no thread had accepted them",
  async (start) => {
    await using server = await start();
    using held = await server.connect();
    await held.ping();
    server.signal("SIGSTOP");
    const clients: Client[] = [];
    for (let count = 0; count < 20; count++) {
      const client = await server.connect();
      await client.send("get nothing\r\n");
      clients.push(client);
    }
    server.signal("SIGTERM");
    server.signal("SIGCONT");
    for (const client of clients) {
      assertEquals(await client.rest(), "END\r\n");
      client[Symbol.dispose]();
    }
    assertEquals((await server.ended()).code, 0);
  },
);

test(
  "too few descriptors for the threads are refused with the number needed",
  async (_start, io) => {
    for (const openFilesMax of [40, 48]) {
      const args = ["-p", "-1", "-t", "4", "--io", io];
      const { code, stderr } = await runToEnd({ io, args, openFilesMax });
      assertEquals(code, 71, stderr);
      assertStringIncludes(stderr, "too few open files: -t 4 needs 69 descriptors");
    }
  },
);

/** Starts a server among clients that connect again and again. */
async function startAmongClients(io: "portable" | "native"): Promise<void> {
  const port = freePort();
  const server = ServerProcess.start({
    io,
    args: [`-p${port}`, "-t", "4"],
    openFilesMax: OPEN_FILES_MAX,
    permissions: leastPermissions(io),
  });
  let open = true;
  const clients: Deno.Conn[] = [];
  const connecting = Array.from({ length: CLIENTS }, async () => {
    while (open) {
      try {
        clients.push(await Deno.connect({ hostname: "127.0.0.1", port }));
        return;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    }
  });
  await using running = await server;
  open = false;
  await Promise.all(connecting);
  for (const client of clients.splice(0)) client.close();
  using client = await running.connect();
  await client.ping();
  assert(running.lines[0]!.includes(" listens on "));
  await running.stop();
}

test("the server comes up among more clients than it has descriptors for", async (_start, io) => {
  for (let round = 0; round < roundsOf(1); round++) await startAmongClients(io);
});

test("-s leaves a file alone that is no socket", async (_start, io) => {
  const path = await Deno.makeTempFile();
  try {
    await Deno.writeTextFile(path, "keep");
    const unix = [`--allow-read=${path}`, `--allow-write=${path}`, `--allow-net=unix:${path}`];
    const permissions = [...leastPermissions(io), ...(io === "portable" ? unix : [])];
    const { code, stderr } = await runToEnd({ io, args: ["--io", io, "-s", path], permissions });
    assertEquals(code, 71);
    assertStringIncludes(stderr, "no socket");
    assertEquals(await Deno.readTextFile(path), "keep");
  } finally {
    await Deno.remove(path);
  }
});
