import { assertEquals, assertStringIncludes } from "@std/assert";
import { isInstalled } from "../../support/servers/peers.ts";
import { Client, MAIN, ServerProcess, TRANSPORTS } from "../../support/servers/server_process.ts";

/** As systemd does: binds sockets, and starts the server with them as the descriptors from 3 on. */
const ACTIVATE = `
import ctypes, os, socket, sys, time
sockets = []
for address in sys.argv[1].split(","):
    if address.startswith("/"):
        s = socket.socket(socket.AF_UNIX)
        s.bind(address)
    else:
        s = socket.socket()
        s.bind(("127.0.0.1", int(address)))
    s.listen(100)
    sockets.append(s)
    print("bound", s.getsockname()[1] if s.family == socket.AF_INET else address, file=sys.stderr, flush=True)
high = [os.dup2(s.fileno(), 100 + i) for i, s in enumerate(sockets)]
for i, fd in enumerate(high):
    os.dup2(fd, 3 + i, inheritable=True)
os.environ["LISTEN_FDS"] = str(len(high))
while True:
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG: it ends with this process
        os.environ["LISTEN_PID"] = os.environ.get("PID_FOR") or str(os.getpid())
        port = str(sockets[0].getsockname()[1])
        os.execvp(sys.argv[2], [a.replace("PORT", port) for a in sys.argv[2:]])
    _, status = os.waitpid(pid, 0)
    print("ended", status, file=sys.stderr, flush=True)
    if status != 0:
        sys.exit(1)
    while not os.path.exists(os.environ["RESTART"]):
        time.sleep(0.02)
`;
import { needs } from "../../support/needs/needs.ts";

const CAN_RUN = TRANSPORTS.includes("native") && isInstalled(["python3", "-c", ""]);

/**
 * @param restart The file that lets the second server start.
 * @param pidFor The process that the sockets are for; "": the server.
 */
function activated(
  restart: string,
  addresses: string,
  args: readonly string[],
  pidFor = "",
): ServerProcess {
  // deno-fmt-ignore
  const server = [
    Deno.execPath(), "run", "--no-prompt", "--allow-read", "--allow-ffi",
    "--allow-env=LISTEN_FDS,LISTEN_PID", MAIN, "--io", "native", "-t", "1", ...args,
  ];
  return ServerProcess.launch(
    new Deno.Command("python3", {
      args: ["-c", ACTIVATE, addresses, ...server],
      env: { NO_COLOR: "1", RESTART: restart, PID_FOR: pidFor },
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }),
  );
}

/** The server's process id, by its line with this number. */
async function pidOf(manager: ServerProcess, number: number): Promise<number> {
  const line = (): string | undefined =>
    manager.lines.filter((one) => one.includes(" listens on "))[number];
  while (line() === undefined) await new Promise((resolve) => setTimeout(resolve, 20));
  return Number(/pid (\d+)/.exec(line()!)![1]);
}

Deno.test(
  "clients wait while a server with passed sockets restarts",
  needs("python3", CAN_RUN),
  async () => {
    const folder = Deno.makeTempDirSync();
    const restart = `${folder}/restart`;
    await using manager = activated(restart, "0", ["-p", "PORT"]);
    const port = Number(/bound (\d+)/.exec(await manager.line("bound"))![1]);
    // Before the server runs.
    using early = new Client(await Deno.connect({ hostname: "127.0.0.1", port }));
    await early.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
    const first = await pidOf(manager, 0);
    Deno.kill(first, "SIGTERM");
    await manager.line("ended 0");
    // While no server runs.
    using late = new Client(await Deno.connect({ hostname: "127.0.0.1", port }));
    await late.send("get a\r\n");
    Deno.writeTextFileSync(restart, "");
    assertEquals(await late.until("END\r\n"), "END\r\n");
    Deno.kill(await pidOf(manager, 1), "SIGKILL");
    await manager.ended();
    Deno.removeSync(folder, { recursive: true });
  },
);

Deno.test("a passed Unix socket keeps its file; a socket that no option names is warned of", {
  ...needs("python3", CAN_RUN),
}, async () => {
  const folder = Deno.makeTempDirSync();
  const path = `${folder}/socket`;
  await using manager = activated(folder, `${path},0`, ["-s", path]);
  const line = await manager.line("the server does not listen on 127.0.0.1:");
  assertStringIncludes(line, "warning");
  const pid = await pidOf(manager, 0);
  using client = await Client.connectUnix(path);
  await client.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
  Deno.kill(pid, "SIGTERM");
  await manager.line("ended 0");
  assertEquals([...Deno.readDirSync(folder)].map(({ name }) => name), ["socket"]);
  Deno.kill(await pidOf(manager, 1), "SIGKILL");
  await manager.ended();
  Deno.removeSync(folder, { recursive: true });
});

Deno.test("sockets that are passed to another process are not taken", {
  ...needs("python3", CAN_RUN),
}, async () => {
  // Without a restart: the file does not exist.
  const folder = Deno.makeTempDirSync();
  await using manager = activated(`${folder}/none`, "0", ["-p", "-1"], `${Deno.pid}`);
  const pid = await pidOf(manager, 0);
  assertEquals(manager.lines.filter((line) => line.includes("LISTEN_FDS")), []);
  Deno.kill(pid, "SIGKILL");
  await manager.ended();
  Deno.removeSync(folder, { recursive: true });
});
