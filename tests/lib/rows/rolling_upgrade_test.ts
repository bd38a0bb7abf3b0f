// A node of an earlier release at an origin of this one, and the reverse, while clients read and write at both.
import { assert } from "@std/assert";
import { needs } from "../../support/needs/needs.ts";
import { isInstalled } from "../../support/servers/peers.ts";
import { path, program, ServerProcess } from "../../support/servers/server_process.ts";

/** The last commit before the rooms were made anew. Nodes of it speak the version of today. */
const EARLIER = "a6e5f514";
const ROUNDS = 200;

const hasEarlier = isInstalled(["git", "-C", path(""), "cat-file", "-e", `${EARLIER}^{commit}`]);

/** The sources of the earlier release, in a folder that goes away. */
class Release implements Disposable {
  readonly folder = Deno.makeTempDirSync({ prefix: "leased-test-" });

  constructor() {
    const line = 'git -C "$0" archive "$1" | tar -x -C "$2"';
    const { success } = new Deno.Command("sh", {
      args: ["-c", line, path(""), EARLIER, this.folder],
    }).outputSync();
    assert(success, "the earlier release is unpacked");
  }

  get main(): string {
    return `${this.folder}/main.ts`;
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.folder, { recursive: true });
  }
}

async function start(main: string, ...args: string[]): Promise<ServerProcess> {
  return await ServerProcess.start({ io: "native", permissions: ["--allow-all"], main, args });
}

/** Writes at one server and reads at both, in turn: each read must find the last value. */
async function writeAndRead(servers: readonly ServerProcess[]): Promise<void> {
  const clients = await Promise.all(servers.map((server) => server.connect()));
  for (let round = 0; round < ROUNDS; round++) {
    const writer = clients[round % clients.length]!;
    const [key, value] = [`k${round % 7}`, `value ${round}`];
    await writer.ask(`set ${key} 0 0 ${value.length}\r\n${value}\r\n`, "STORED\r\n");
    const reply = `VALUE ${key} 0 ${value.length}\r\n${value}\r\nEND\r\n`;
    for (const client of clients) await client.ask(`get ${key}\r\n`, reply);
  }
  for (const client of clients) client[Symbol.dispose]();
}

for (const earlier of ["node", "origin"] as const) {
  Deno.test(`an earlier ${earlier} is served, or serves, as one of today`, {
    ...needs("the earlier release", hasEarlier),
  }, async () => {
    using release = new Release();
    const { folder, main } = release;
    const db = ["--db", `sqlite:${folder}/rows.db`];
    await using origin = await start(earlier === "origin" ? main : program(), ...db);
    const at = ["--origin", `127.0.0.1:${origin.port}`];
    await using node = await start(earlier === "node" ? main : program(), ...at);
    await writeAndRead([origin, node]);
  });
}
