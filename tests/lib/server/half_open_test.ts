import { assertEquals } from "@std/assert";
import { TwoNetworks } from "../../support/servers/netns.ts";
import {
  ServerProcess,
  SHORT_KEEPALIVE,
  TRANSPORTS,
  until,
} from "../../support/servers/server_process.ts";
import { textOf } from "../../support/sessions/side.ts";
import { needs } from "../../support/needs/needs.ts";

// Clients that hold locks and vanish without a packet: their host is cut off, or they say nothing more.

const VANISHING = 40;
const WAITING = 10;
const STAYING = 5;
/** How long those who wait would wait. */
const WAIT_MS = 600_000;

const networks = TwoNetworks.create();
const cannot = networks === undefined ? " (no networks of their own here)" : "";
networks?.[Symbol.dispose]();

/** Connections of a shell, which stay until it is killed: each sends one line and waits for one. */
class Connections implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;

  private constructor(child: Deno.ChildProcess) {
    this.#child = child;
  }

  /** @param answered How many of them get a line back. The others come last. */
  static async open(
    under: readonly string[],
    address: string,
    lines: readonly string[],
    answered: number,
  ): Promise<Connections> {
    const script = `for line in "$@"; do exec {fd}<>${address}; printf '%s\r\n' "$line" >&$fd; ` +
      `if [ $((answered--)) -gt 0 ]; then read -r _ <&$fd; fi; done; echo ready; read -r _`;
    const [program, ...args] = [...under, "bash", "-c", `answered=${answered}; ${script}`, "-"];
    const child = new Deno.Command(program!, {
      args: [...args, ...lines],
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    const reader = child.stdout.getReader();
    await reader.read();
    reader.releaseLock();
    return new Connections(child);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.stdin.abort().catch(() => {});
    await this.#child.stdout.cancel();
    await this.#child.status;
  }
}

/** Returns the server's answer to one request on a connection of its own. */
async function ask(under: readonly string[], address: string, request: string): Promise<string> {
  const script = `exec 3<>${address}; printf '%s\r\nquit\r\n' "$0" >&3; cat <&3`;
  const [program, ...args] = [...under, "bash", "-c", script, request];
  const { stdout } = await new Deno.Command(program!, { args, stderr: "inherit" }).output();
  return textOf(stdout);
}

/** The keys that are locked. */
async function locked(under: readonly string[], address: string): Promise<string[]> {
  const list = await ask(under, address, "lock list");
  return [...list.matchAll(/^LOCK (\S+)/gm)].map(([, key]) => key!).sort();
}

function names(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index}`);
}

for (const io of TRANSPORTS) {
  Deno.test(`${io}: locks of clients whose host vanishes are freed by keepalive${cannot}`, {
    ...needs("network namespaces", networks !== undefined),
  }, async (): Promise<void> => {
    using networks = TwoNetworks.create()!;
    const { onServer, onClient, serverAddress } = networks;
    await using server = await ServerProcess.start({
      io,
      under: onServer,
      main: SHORT_KEEPALIVE,
      permissions: ["--allow-net", "--allow-ffi", "--allow-read"],
      args: ["-l", "0.0.0.0"],
    });
    const address = `/dev/tcp/${serverAddress}/${server.port}`;
    const vanishing = names("vanishing", VANISHING);
    const staying = names("staying", STAYING);
    for (const key of [...vanishing, ...staying]) {
      assertEquals(await ask(onServer, address, `set ${key} 0 0 1\r\n1`), "STORED\r\n");
    }
    const holds = (key: string): string => `lock ${key}`;
    await using _staying = await Connections.open(
      onServer,
      address,
      staying.map(holds),
      STAYING,
    );
    const lines = [
      ...vanishing.map(holds),
      ...names("", WAITING).map((name) => `lock staying${Number(name) % STAYING} ${WAIT_MS}`),
    ];
    await using _vanishing = await Connections.open(onClient, address, lines, VANISHING);
    assertEquals((await locked(onServer, address)).length, VANISHING + STAYING);
    networks.cut();
    await until(async () => (await locked(onServer, address)).length === STAYING);
    assertEquals(await locked(onServer, address), staying);
    await until(async () => (await ask(onServer, address, "stats")).includes("lock_waiting 0\r\n"));
    await server.stop();
  });

  Deno.test(`${io}: --lock-idle-timeout closes connections that hold locks and are silent`, async () => {
    await using server = await ServerProcess.start({ io, args: ["--lock-idle-timeout=4"] });
    using silent = await server.connect();
    using talking = await server.connect();
    using without = await server.connect();
    await talking.ask("set a 0 0 1\r\n1\r\nset b 0 0 1\r\n2\r\n", "STORED\r\nSTORED\r\n");
    await without.ping();
    await talking.ask("lock b\r\n", "OK\r\n");
    await silent.ask("lock a\r\n", "OK\r\n");
    let closed = false;
    const closing = silent.rest().then((rest) => {
      closed = true;
      return rest;
    });
    while (!closed) {
      await talking.ask("set b 0 0 1\r\n3\r\n", "STORED\r\n");
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    assertEquals(await closing, "");
    await without.ask("lock b\r\n", "LOCKED\r\n");
    await without.ask("lock a\r\n", "OK\r\n");
    await server.stop();
  });
}
