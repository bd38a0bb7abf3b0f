import { assertEquals } from "@std/assert";
import { PYTHON, ROW_CLIENTS, type RowClient } from "../../clients/row_clients.ts";
import { freePort } from "../../support/free_ports.ts";
import { createDatabase } from "../../support/servers/databases.ts";
import { isInstalled } from "../../support/servers/peers.ts";
import { startNode, startOrigin } from "../../support/servers/origin_process.ts";
import { path, type ServerProcess, until } from "../../support/servers/server_process.ts";
import { textOf } from "../../support/sessions/side.ts";
import { needs } from "../../support/needs/needs.ts";

// Clients that others wrote write rows at one node and read them at another. One that is not installed is left out by
// name.

const HASH_CLIENT: RowClient = {
  name: "pymemcache's HashClient",
  probe: [PYTHON, "-c", "import pymemcache"],
  command: [PYTHON, path("tests/clients/rows.py"), "pymemcache-hash"],
};

/** Commands that twemproxy does not speak. */
const NOT_TEXT = /binary|dalli|memjs/;
const TWEMPROXY = "/usr/sbin/nutcracker";

/** An origin and two nodes, for all tests. */
class Cluster implements AsyncDisposable {
  readonly nodes: readonly ServerProcess[];
  readonly servers: readonly ServerProcess[];
  readonly #stack: AsyncDisposableStack;

  private constructor(stack: AsyncDisposableStack, origin: ServerProcess, nodes: ServerProcess[]) {
    this.#stack = stack;
    this.nodes = nodes;
    this.servers = [origin, ...nodes];
  }

  static async start(): Promise<Cluster> {
    const stack = new AsyncDisposableStack();
    const database = stack.use(await createDatabase("SQLite"));
    const origin = stack.use(await startOrigin(database));
    const nodes = [stack.use(await startNode([origin])), stack.use(await startNode([origin]))];
    return new Cluster(stack, origin, nodes);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }
}

let cluster: Cluster;
Deno.test.beforeAll(async () => {
  cluster = await Cluster.start();
});
Deno.test.afterAll(() => cluster[Symbol.asyncDispose]());

/** Runs the client with `ports` of the nodes, and reads its last row everywhere. */
async function drive(
  { command }: RowClient,
  prefix: string,
  ports: (nodes: readonly ServerProcess[]) => Promise<string>,
): Promise<void> {
  const { nodes, servers } = cluster;
  const { code, stdout, stderr } = await new Deno.Command("timeout", {
    args: ["--signal=KILL", "120", ...command, await ports(nodes), prefix],
    stdin: "null",
  }).output();
  assertEquals(code, 0, textOf(stdout) + textOf(stderr));
  for (const server of servers) {
    using client = await server.connect();
    await client.send(`gets ${prefix}a\r\n`);
    assertEquals((await client.until("END\r\n")).split("\r\n")[1], "last");
  }
}

const all = (nodes: readonly ServerProcess[]): Promise<string> =>
  Promise.resolve(nodes.map(({ port }) => port).join());

for (const client of [...ROW_CLIENTS, HASH_CLIENT]) {
  Deno.test(
    `${client.name} writes and reads rows through two nodes in turns`,
    needs(client.name, isInstalled(client.probe)),
    () => drive(client, `${client.name.replaceAll(/\W/g, "")}:`, all),
  );
}

/** Runs twemproxy before servers. It sends each request to any of them. */
class Twemproxy implements AsyncDisposable {
  readonly port = freePort();
  readonly #folder = Deno.makeTempDirSync({ prefix: "leased-test-" });
  readonly #process: Deno.ChildProcess;

  constructor(servers: readonly ServerProcess[]) {
    const lines = [
      "pool:",
      `  listen: 127.0.0.1:${this.port}`,
      "  distribution: random",
      "  auto_eject_hosts: false",
      "  servers:",
      ...servers.map(({ port }) => `  - 127.0.0.1:${port}:1`),
    ];
    const file = `${this.#folder}/twemproxy.yml`;
    Deno.writeTextFileSync(file, `${lines.join("\n")}\n`);
    const args = ["-c", file, "-s", `${freePort()}`, "-a", "127.0.0.1"];
    this.#process = new Deno.Command(TWEMPROXY, {
      args,
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
  }

  async listening(): Promise<void> {
    await until(async () => {
      try {
        (await Deno.connect({ hostname: "127.0.0.1", port: this.port })).close();
        return true;
      } catch {
        return false;
      }
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#process.kill("SIGKILL");
    } catch {
      // It has ended.
    }
    await this.#process.status;
    Deno.removeSync(this.#folder, { recursive: true });
  }
}

for (const client of ROW_CLIENTS.filter(({ name }) => !NOT_TEXT.test(name))) {
  Deno.test(
    `${client.name} writes and reads rows through twemproxy before two nodes`,
    isInstalled(client.probe)
      ? needs("nutcracker", isInstalled(["test", "-x", TWEMPROXY]))
      : needs(client.name, false),
    async () => {
      await using stack = new AsyncDisposableStack();
      await drive(client, `twemproxy-${client.name}:`, async (nodes) => {
        const origin = stack.use(new Twemproxy(nodes));
        await origin.listening();
        return `${origin.port}`;
      });
    },
  );
}
