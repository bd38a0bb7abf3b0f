import { assert, assertEquals } from "@std/assert";
import { randomFrom } from "../../support/random.ts";
import { roundsOf } from "../../support/rounds.ts";
import { drawSeed, withSeed } from "../../support/seed.ts";
import {
  leastPermissions,
  ServerProcess,
  TRANSPORTS,
} from "../../support/servers/server_process.ts";
import { bytesOf, textOf } from "../../support/sessions/side.ts";

// Servers that stop and start while clients store, with other options each time. Every value is verified.

const CLIENTS = 3;
const KEYS = 300;
const BATCH = 20;
/** Batches that each client has answered before the server is stopped under the load. */
const BATCHES = 12;
/** Long values that arrive at the same time have a quarter of the memory. */
const REFUSED = "SERVER_ERROR out of memory storing object";
/** Expiry time of items that outlive the test. */
const LATER_SEC = 3000;

/** The value of a key's version, of a length that depends on both. */
function valueOf(key: string, version: number): string {
  const mixed = randomFrom(version * 7919 + key.length * 31 + key.charCodeAt(key.length - 1))();
  const length = mixed < 0.02 ? 50_000 + Math.floor(mixed * 10_000_000) : Math.floor(mixed * 3000);
  return `${key}:${version}:`.repeat(1 + length / 12);
}

/** One client and what it knows: for each key the versions that the server may have; 0: none. */
class LoadClient {
  readonly #name: string;
  readonly #random: () => number;
  readonly #mayRefuse: boolean;
  readonly #versions = new Map<string, Set<number>>();
  #nextVersion = 1;

  /** @param mayRefuse Whether the server may lack the memory for a value. */
  constructor(name: string, random: () => number, mayRefuse: boolean) {
    this.#name = name;
    this.#mayRefuse = mayRefuse;
    this.#random = random;
  }

  /** Stores and deletes until the server closes the connection. @param onBatch Called after each answered batch. */
  async load(port: number, onBatch: () => void): Promise<void> {
    using connection = await Deno.connect({ hostname: "127.0.0.1", port });
    try {
      for (;;) {
        if (!await this.#batch(connection)) return;
        onBatch();
      }
    } catch (error) {
      if (
        !(error instanceof Deno.errors.ConnectionReset || error instanceof Deno.errors.BrokenPipe)
      ) {
        throw error;
      }
    }
  }

  /** Sends a batch and takes its replies. @returns False at the end of the connection. */
  async #batch(connection: Deno.Conn): Promise<boolean> {
    const sent: { key: string; version: number }[] = [];
    let text = "";
    for (let count = 0; count < BATCH; count++) {
      const key = `${this.#name}${Math.floor(this.#random() * KEYS)}`;
      if (sent.some((one) => one.key === key)) continue;
      const version = this.#random() < 0.15 ? 0 : this.#nextVersion++;
      const value = valueOf(key, version);
      const exptime = this.#random() < 0.3 ? LATER_SEC : 0;
      text += version === 0
        ? `delete ${key}\r\n`
        : `set ${key} ${version} ${exptime} ${value.length}\r\n${value}\r\n`;
      sent.push({ key, version });
      this.#known(key).add(version);
    }
    const writing = writeAll(connection, bytesOf(text));
    let replies = "";
    const buffer = new Uint8Array(16 * 1024);
    let answered = 0;
    while (answered < sent.length) {
      const length = await connection.read(buffer).catch(() => null);
      if (length === null) break;
      replies += textOf(buffer.subarray(0, length));
      answered = replies.split("\r\n").length - 1;
    }
    const lines = replies.split("\r\n");
    for (const [index, { key, version }] of sent.slice(0, answered).entries()) {
      const line = lines[index]!;
      if (this.#mayRefuse && line === REFUSED) {
        this.#known(key).delete(version);
        this.#known(key).add(0);
        continue;
      }
      const expected = version === 0 ? /^(?:DELETED|NOT_FOUND)$/ : /^STORED$/;
      assert(expected.test(line), line);
      this.#versions.set(key, new Set([version]));
    }
    await writing;
    return answered === sent.length;
  }

  /** Reads all keys. @param mayLose Whether items may be missing. @returns How many are there. */
  async verify(port: number, mayLose: boolean): Promise<number> {
    using connection = await Deno.connect({ hostname: "127.0.0.1", port });
    const buffer = new Uint8Array(64 * 1024);
    let found = 0;
    for (const [key, versions] of this.#versions) {
      await connection.write(bytesOf(`get ${key}\r\n`));
      let reply = "";
      while (!reply.endsWith("END\r\n")) {
        const length = await connection.read(buffer);
        assert(length !== null, "the server has closed the connection");
        reply += textOf(buffer.subarray(0, length));
      }
      const version = Number(/^VALUE \S+ (\d+)/.exec(reply)?.[1] ?? 0);
      if (version === 0 && mayLose) versions.add(0);
      assert(versions.has(version), `${key} has version ${version} of ${[...versions]}`);
      if (version !== 0) {
        const value = valueOf(key, version);
        const expected = `VALUE ${key} ${version} ${value.length}\r\n${value}\r\nEND\r\n`;
        assertEquals(reply === expected, true, `${key}: ${reply.slice(0, 100)}`);
        found++;
      }
      this.#versions.set(key, new Set([version]));
    }
    return found;
  }

  #known(key: string): Set<number> {
    const known = this.#versions.get(key) ?? new Set([0]);
    this.#versions.set(key, known);
    return known;
  }
}

async function writeAll(connection: Deno.Conn, bytes: Uint8Array): Promise<void> {
  try {
    for (let at = 0; at < bytes.length;) at += await connection.write(bytes.subarray(at));
  } catch {
    // The server has closed the connection.
  }
}

/** Stops and starts a server under load. @param memory Sizes to choose from, in MiB. */
async function restartUnderLoad(
  seed: number,
  memory: readonly number[],
  mayLose: boolean,
  restarts: number,
): Promise<void> {
  const folder = Deno.makeTempDirSync();
  const random = randomFrom(seed);
  const pick = <Value>(values: readonly Value[]): Value =>
    values[Math.floor(random() * values.length)]!;
  const clients = Array.from(
    { length: CLIENTS },
    (_, at) => new LoadClient("abc"[at]!, random, mayLose),
  );
  let found = 0;
  for (let restart = 0; restart <= restarts; restart++) {
    const io = pick(TRANSPORTS);
    const [read, ...others] = leastPermissions(io);
    const layout = random() < 0.2 ? ["-f", pick(["1.2", "1.3"])] : [];
    await using server = await ServerProcess.start({
      io,
      permissions: [`${read},${folder}`, `--allow-write=${folder}`, ...others],
      // deno-fmt-ignore
      args: ["-vvv", "-e", `${folder}/items`, "-m", `${pick(memory)}`, "-t", pick(["1", "2", "3"]), ...layout],
    });
    found = 0;
    for (const client of clients) found += await client.verify(server.port, mayLose);
    let left = CLIENTS * BATCHES;
    const loads = clients.map((client) =>
      client.load(server.port, () => {
        if (--left === 0) server.signal("SIGTERM");
      })
    );
    await Promise.all(loads);
    const { code, stderr } = await server.ended();
    assertEquals(code, 0, stderr);
    assert(stderr.includes(" written: "), stderr);
  }
  assert(found > 0, "items survive");
  Deno.removeSync(folder, { recursive: true });
}

Deno.test("no item is lost, and no byte is wrong, in servers that stop and start under load", () =>
  withSeed(drawSeed(), (seed) => restartUnderLoad(seed, [64, 100, 200], false, roundsOf(4))));

Deno.test("no byte is wrong when servers with too little memory stop and start under load", () =>
  withSeed(drawSeed(), (seed) => restartUnderLoad(seed, [2, 3, 4], true, roundsOf(4))));
