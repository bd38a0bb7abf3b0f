import { assert, assertEquals } from "@std/assert";
import { pause } from "../../../../lib/process/pause.ts";
import { hostPortText } from "../../../../lib/net/transport.ts";
import { Client, textCodec } from "../../../../lib/client/mod.ts";
import { KetamaRing } from "../../../../lib/client/net/ring.ts";
import { isInstalled } from "../../../support/servers/peers.ts";
import { path } from "../../../support/servers/server_process.ts";
import { textOf } from "../../../support/sessions/side.ts";
import { startLeased } from "../servers.ts";
import { needs } from "../../../support/needs/needs.ts";

const PYTHON = "/usr/bin/python3";
const KEY_COUNT = 2_000;
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

const WEIGHTS = [1, 1, 3, 2];
/** libmemcached leaves its default port out of the points' names. The addresses keep out of others' way. */
const IPV4 = WEIGHTS.map((_, index) => ({
  hostname: `127.77.0.${index + 1}`,
  port: index % 2 === 0 ? DEFAULT_PORT : 0,
}));
/** libmemcached leaves the brackets out, too. */
const IPV6 = [...WEIGHTS.slice(1).map(() => ({ hostname: "::1", port: 0 })), IPV4[1]!];

function hasIpv6(): boolean {
  try {
    Deno.listen({ hostname: "::1", port: 0 }).close();
    return true;
  } catch {
    return false;
  }
}

const hasPylibmc = isInstalled([PYTHON, "-c", "import pylibmc"]);

for (const [family, places] of [["IPv4", IPV4], ["IPv6", IPV6]] as const) {
  Deno.test(`each key goes to the server that libmemcached's weighted ketama gives it, ${family}`, {
    ...(family === "IPv6" && !hasIpv6() ? needs("IPv6", false) : needs("pylibmc", hasPylibmc)),
  }, () => compare(places, WEIGHTS));
}

/** Weights whose shares libmemcached rounds: it computes with 32 bits. */
const ROUNDED = [[1, 2, 7], [1, 29, 30], [1, 1, 58], new Array<number>(25).fill(1)];

Deno.test(
  "shares of weights are rounded as libmemcached does",
  needs("pylibmc", hasPylibmc),
  async () => {
    for (const weights of ROUNDED) {
      const places = weights.map((_, index) => ({ hostname: `127.77.1.${index + 1}`, port: 0 }));
      await compare(places, weights);
    }
  },
);

/** Another run of the tests on this machine may have the address for a moment. */
async function listenWhenFree(
  place: { readonly hostname: string; readonly port: number },
): Promise<Deno.TcpListener> {
  for (;;) {
    try {
      return Deno.listen(place);
    } catch (error) {
      if (!(error instanceof Deno.errors.AddrInUse)) throw error;
      await pause(50);
    }
  }
}

/** Compares the servers that libmemcached asks for keys with those of the ring. */
async function compare(
  places: readonly { hostname: string; port: number }[],
  weights: readonly number[],
): Promise<void> {
  const listeners: Deno.TcpListener[] = [];
  for (const place of places) listeners.push(await listenWhenFree(place));
  const asked = weights.map((): string[] => []);
  const noted = listeners.map((listener, index) => noteKeys(listener, asked[index]!));
  const weighted = listeners.map(({ addr }, index) => ({
    name: hostPortText(addr.hostname, addr.port),
    weight: weights[index]!,
    server: index,
  }));
  const servers = weighted.map(({ name, weight }) => `${name}:${weight}`);
  const { code, stderr } = await new Deno.Command(PYTHON, {
    args: [path("tests/clients/ketama.py"), `${KEY_COUNT}`, ...servers],
  }).output();
  for (const listener of listeners) listener.close();
  await Promise.all(noted);
  assertEquals(code, 0, textOf(stderr));
  const ring = new KetamaRing(weighted);
  const expected = weights.map((): string[] => []);
  for (let number = 0; number < KEY_COUNT; number++) {
    expected[ring.of(`key${number}`)]!.push(`key${number}`);
  }
  assertEquals(asked, expected);
}

Deno.test({
  name:
    "values over three servers: libmemcached finds those of the client, and the other way round",
  ...needs("pylibmc", hasPylibmc),
  fn: async () => {
    await using stack = new AsyncDisposableStack();
    const servers: { server: string; weight: number }[] = [];
    for (const weight of [1, 2, 1]) {
      const { port } = stack.use(await startLeased());
      servers.push({ server: `127.0.0.1:${port}`, weight });
    }
    const client = stack.use(new Client(servers, { codec: textCodec, replyMs: 20_000 }));
    const keys = Array.from({ length: KEY_COUNT }, (_, number) => `key:${number}`);
    await askPython("set", keys, servers);
    const found = await client.getMany(keys);
    assertEquals(keys.map((key) => found.get(key)), keys.map((key) => `python ${key}`));
    await client.setMany(keys.map((key) => [key, `typescript ${key}`]));
    const lines = keys.map((key) => `typescript ${key}\n`).join("");
    assertEquals(await askPython("get", keys, servers), lines);
    for (const [, statistics] of await client.stats()) {
      assert(Number(statistics.get("curr_items")) > KEY_COUNT / 10, "each server has its part");
    }
  },
});

/** Has libmemcached set or get keys. @returns Its output. */
async function askPython(
  command: "set" | "get",
  keys: readonly string[],
  servers: readonly { readonly server: string; readonly weight: number }[],
): Promise<string> {
  const names = servers.map(({ server, weight }) => `${server}:${weight}`);
  const child = new Deno.Command(PYTHON, {
    args: [path("tests/clients/ketama_values.py"), command, ...names],
    ...{ stdin: "piped", stdout: "piped", stderr: "piped" },
  }).spawn();
  const input = child.stdin.getWriter();
  await input.write(new TextEncoder().encode(keys.join("\n")));
  await input.close();
  const { code, stdout, stderr } = await child.output();
  assertEquals(code, 0, textOf(stderr));
  return textOf(stdout);
}
