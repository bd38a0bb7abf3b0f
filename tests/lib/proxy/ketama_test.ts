import { assertEquals } from "@std/assert";
import { KetamaRing } from "../../../lib/proxy/caches/ketama.ts";
import { isInstalled } from "../../support/servers/peers.ts";
import { path } from "../../support/servers/server_process.ts";
import { textOf } from "../../support/sessions/side.ts";

const PYTHON = "/usr/bin/python3";
const KEY_COUNT = 500;
const DEFAULT_PORT = 11211;
const END = new TextEncoder().encode("END\r\n");

/** Notes the keys that are asked for at `listener`, and answers that none exists. */
async function noteKeys(listener: Deno.TcpListener, keys: string[]): Promise<void> {
  for await (const connection of listener) {
    let received = "";
    for await (const text of connection.readable.pipeThrough(new TextDecoderStream())) {
      const lines = (received + text).split("\r\n");
      received = lines.pop()!;
      for (const line of lines) {
        const [command, key] = line.split(" ");
        if (command === "get") {
          keys.push(key!);
          await connection.write(END);
        }
      }
    }
  }
}

Deno.test({
  name: "each key goes to the cache that libmemcached's weighted ketama gives it",
  ignore: !isInstalled([PYTHON, "-c", "import pylibmc"]),
  fn: async () => {
    const weights = [1, 1, 3, 2];
    // libmemcached leaves its default port out of the points' names. The address keeps out of others' way.
    const listeners = weights.map((_, index) =>
      Deno.listen({ hostname: `127.77.0.${index + 1}`, port: index % 2 === 0 ? DEFAULT_PORT : 0 })
    );
    const asked = weights.map((): string[] => []);
    const noted = listeners.map((listener, index) => noteKeys(listener, asked[index]!));
    const caches = listeners.map(({ addr }, index) => ({
      name: `${addr.hostname}:${addr.port}`,
      weight: weights[index]!,
      cache: index,
    }));
    const servers = caches.map(({ name, weight }) => `${name}:${weight}`);
    const { code, stderr } = await new Deno.Command(PYTHON, {
      args: [path("tests/clients/ketama.py"), `${KEY_COUNT}`, ...servers],
    }).output();
    for (const listener of listeners) listener.close();
    await Promise.all(noted);
    assertEquals(code, 0, textOf(stderr));
    const ring = new KetamaRing(caches);
    const expected = weights.map((): string[] => []);
    for (let number = 0; number < KEY_COUNT; number++) {
      expected[ring.of(`key${number}`)!]!.push(`key${number}`);
    }
    assertEquals(asked, expected);
  },
});
