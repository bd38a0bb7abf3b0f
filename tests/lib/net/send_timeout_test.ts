import { assertEquals } from "@std/assert";
import { Client, testTransports as test } from "../../support/servers/server_process.ts";
import { bytesOf } from "../../support/sessions/side.ts";
import { waitingFor } from "../../support/waiting.ts";

const TIMEOUT_SEC = 1000;
/** Two steps of the clock are longer than the time-out, one is not. */
const STEP_SEC = 900;
const VALUE_BYTES = 8 * 1024 * 1024;
/** More than the kernel keeps for a Unix socket: to read it, the server must have sent more. */
const PROGRESS_BYTES = 400 * 1024;

/** A client that reads only when it is told. */
class SlowReader implements Disposable {
  readonly #socket: Deno.Conn;
  readonly #buffer = new Uint8Array(64 * 1024);
  received = 0;

  constructor(socket: Deno.Conn) {
    this.#socket = socket;
  }

  static async begin(path: string): Promise<SlowReader> {
    const reader = new SlowReader(await Deno.connect({ transport: "unix", path }));
    await reader.#socket.write(bytesOf("get big\r\n"));
    await reader.read(1);
    return reader;
  }

  /** Reads until so many bytes have been received in all, or the connection ends. */
  async read(total: number): Promise<void> {
    while (this.received < total) {
      const length = await waitingFor("bytes of a long value", this.#socket.read(this.#buffer));
      if (length === null) return;
      this.received += length;
    }
  }

  [Symbol.dispose](): void {
    this.#socket.close();
  }
}

test("a client that reads slowly is kept, one that reads nothing is closed after --send-timeout", async (start) => {
  const folder = await Deno.makeTempDir({ prefix: "leased-test-" });
  try {
    const path = `${folder}/socket`;
    await using server = await start({
      permissions: ["--allow-all"],
      // One thread looks at both clients at a time.
      args: [
        ...["-s", path, "-I", "16m", "-t", "1", "-v", "--test-commands"],
        ...["--send-timeout", `${TIMEOUT_SEC}`],
      ],
    });
    using client = await Client.connectUnix(path);
    await client.ask(`set big 0 0 ${VALUE_BYTES}\r\n${"v".repeat(VALUE_BYTES)}\r\n`, "STORED\r\n");
    using silent = await SlowReader.begin(path);
    using slow = await SlowReader.begin(path);
    await client.ask(`debugtime ${STEP_SEC}\r\n`, "OK\r\n");
    await slow.read(PROGRESS_BYTES);
    await client.ask(`debugtime ${STEP_SEC}\r\n`, "OK\r\n");
    await server.line(`accepted no byte of its replies for ${TIMEOUT_SEC} s (--send-timeout)`);
    const reply = `VALUE big 0 ${VALUE_BYTES}\r\n\r\nEND\r\n`.length + VALUE_BYTES;
    await slow.read(reply);
    assertEquals(slow.received, reply);
    await silent.read(reply).catch(() => {});
    assertEquals(silent.received < reply, true);
    await server.stop();
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
