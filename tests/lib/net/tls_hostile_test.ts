import { assert, assertEquals, assertLess } from "@std/assert";
import { TlsClients } from "../../bench/base/tls_clients.ts";
import { Connections } from "../../bench/base/sockets.ts";
import { randomFrom } from "../../support/random.ts";
import {
  type Certificate,
  Certificates,
  clientHello,
  tlsArguments,
} from "../../support/servers/certificates.ts";
import {
  Client,
  residentKib,
  ServerProcess,
  TRANSPORTS,
} from "../../support/servers/server_process.ts";
import { needs } from "../../support/needs/needs.ts";

// Clients that break TLS on purpose. Beside each of them a plain client gets its replies, and the memory stays bounded.

const PLAIN = "127.0.0.1,notls:127.0.0.1:0";
/** Without them: the store, and what the engine's compilers take. */
const GROWTH_KIB_MAX = 160 * 1024;

/** A server that is attacked. */
interface Attacked {
  readonly server: ServerProcess;
  readonly certificate: Certificate;
  /** Its port for TLS. */
  readonly tls: number;
  /** A client of its plain port. */
  readonly neighbour: Client;
}

/** Registers a test, after which clients with and without TLS must be served. */
function attack(
  name: string,
  run: (attacked: Attacked) => Promise<void>,
  ...args: string[]
): void {
  Deno.test(`native: ${name}`, needs("native", TRANSPORTS.includes("native")), async () => {
    using certificates = new Certificates();
    const certificate = certificates.make("localhost");
    await using server = await ServerProcess.start({
      io: "native",
      args: [...tlsArguments(certificate), "-p", "-1", "-l", PLAIN, ...args],
    });
    const ports = /127\.0\.0\.1:(\d+) \(TLS\), 127\.0\.0\.1:(\d+);/.exec(server.lines[0]!)!;
    const [tls, plain] = ports.slice(1).map(Number) as [number, number];
    using neighbour = await server.connect(plain);
    await run({ server, certificate, tls, neighbour });
    await neighbour.ping();
    assertEquals(await session(tls, certificate), true);
    await server.stop();
  });
}

/** Relays connections, and gives every byte that the client sends to `change`: null ends the connection. */
class ByteRelay implements Disposable {
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #sockets: Deno.Conn[] = [];
  readonly #done: Promise<void>[] = [];
  /** Bytes that the last client sent. */
  sent = 0;
  change: (byte: number, at: number) => number | null = (byte) => byte;

  constructor(readonly target: number) {
    this.#accept();
  }

  get port(): number {
    return this.#listener.addr.port;
  }

  [Symbol.dispose](): void {
    this.#listener.close();
    for (const socket of this.#sockets) close(socket);
  }

  async #accept(): Promise<void> {
    try {
      for await (const client of this.#listener) {
        const server = await Deno.connect({ hostname: "127.0.0.1", port: this.target });
        this.#sockets.push(client, server);
        this.sent = 0;
        this.#done.push(this.#pass(client, server), back(server, client));
      }
    } catch {
      // The test is over.
    }
  }

  async #pass(client: Deno.Conn, server: Deno.Conn): Promise<void> {
    const buffer = new Uint8Array(16 * 1024);
    try {
      for (;;) {
        const length = await client.read(buffer);
        if (length === null) break;
        let kept = 0;
        let isChanged = false;
        for (; kept < length; kept++) {
          const changed = this.change(buffer[kept]!, this.sent);
          if (changed === null) break;
          isChanged ||= changed !== buffer[kept];
          buffer[kept] = changed;
          this.sent++;
        }
        for (let at = 0; at < kept;) at += await server.write(buffer.subarray(at, kept));
        if (kept < length) break;
        // A changed length would let both sides wait for ever: the server sees that nothing more comes.
        if (isChanged) return await server.closeWrite();
      }
    } catch {
      // One side is gone.
    }
    close(client);
    close(server);
  }
}

async function back(server: Deno.Conn, client: Deno.Conn): Promise<void> {
  const buffer = new Uint8Array(16 * 1024);
  try {
    for (let length = await server.read(buffer); length !== null;) {
      for (let at = 0; at < length;) at += await client.write(buffer.subarray(at, length));
      length = await server.read(buffer);
    }
  } catch {
    // One side is gone.
  }
  close(client);
}

function close(socket: Deno.Conn): void {
  try {
    socket.close();
  } catch {
    // It was closed before.
  }
}

/** A whole session of a client: handshake, a set, a get. Returns whether all went well. */
async function session(port: number, { cert }: Certificate): Promise<boolean> {
  let socket: Deno.TlsConn | undefined;
  try {
    socket = await Deno.connectTls({ hostname: "127.0.0.1", port, caCerts: [cert] });
    const client = new Client(socket);
    await client.ask("set k 0 0 3\r\nabc\r\n", "STORED\r\n");
    await client.ask("get k\r\n", "VALUE k 0 3\r\nabc\r\nEND\r\n");
    return true;
  } catch {
    return false;
  } finally {
    if (socket !== undefined) close(socket);
  }
}

attack(
  "TLS sessions cut behind every byte leave nothing",
  async ({ certificate, tls, neighbour }) => {
    using relay = new ByteRelay(tls);
    assertEquals(await session(relay.port, certificate), true);
    const whole = relay.sent;
    for (let length = 0; length < whole - 40; length += length < 400 ? 3 : 1) {
      relay.change = (byte, at) => at < length ? byte : null;
      assertEquals(await session(relay.port, certificate), false, `${length} bytes`);
      if (length % 50 === 0) await neighbour.ping();
    }
    relay.change = (byte) => byte;
    assertEquals(await session(relay.port, certificate), true);
  },
);

attack("changed bytes of TLS sessions change no value", async ({ certificate, tls, neighbour }) => {
  await neighbour.ask("set k 0 0 3\r\nabc\r\n", "STORED\r\n");
  using relay = new ByteRelay(tls);
  assertEquals(await session(relay.port, certificate), true);
  const whole = relay.sent;
  const random = randomFrom(1);
  for (let count = 0; count < 250; count++) {
    const target = Math.floor(random() * whole);
    const bit = 1 << Math.floor(random() * 8);
    relay.change = (byte, at) => at === target ? byte ^ bit : byte;
    await session(relay.port, certificate);
    await neighbour.ask("get k\r\n", "VALUE k 0 3\r\nabc\r\nEND\r\n");
  }
  relay.change = (byte) => byte;
  assertEquals(await session(relay.port, certificate), true);
});

attack(
  "10,000 half-finished handshakes take bounded memory",
  async ({ server, certificate, tls, neighbour }) => {
    const hello = await clientHello(certificate);
    assertEquals(await session(tls, certificate), true);
    const before = residentKib(server.pid);
    const sockets: Deno.Conn[] = [];
    for (let count = 0; count < 10_000; count++) {
      const socket = await Deno.connect({ hostname: "127.0.0.1", port: tls });
      sockets.push(socket);
      await socket.write(hello);
      if (count % 500 === 0) await neighbour.ping();
    }
    await neighbour.ping();
    assertLess(residentKib(server.pid) - before, GROWTH_KIB_MAX);
    for (const socket of sockets) close(socket);
  },
  "-c",
  "12000",
  "-t",
  "2",
);

attack(
  "clients get in though others begin handshakes and do not finish them",
  async ({ certificate, tls, neighbour }) => {
    const hello = await clientHello(certificate);
    // More than may be under way: the last ones wait.
    const sockets: Deno.Conn[] = [];
    for (let count = 0; count < 600; count++) {
      const socket = await Deno.connect({ hostname: "127.0.0.1", port: tls });
      sockets.push(socket);
      await socket.write(hello);
    }
    const sessions = await Promise.all([1, 2, 3].map(() => session(tls, certificate)));
    assertEquals(sessions, [true, true, true]);
    assert(Number(await neighbour.stat("ssl_handshake_errors")) > 0);
    for (const socket of sockets) close(socket);
  },
  "-t",
  "1",
);

attack(
  "TLS clients that never read take bounded memory",
  async ({ server, certificate, tls, neighbour }) => {
    const value = "v".repeat(500_000);
    await neighbour.ask(`set long 0 0 ${value.length}\r\n${value}\r\n`, "STORED\r\n");
    const before = residentKib(server.pid);
    const sockets: Deno.Conn[] = [];
    const sending: Promise<void>[] = [];
    for (let count = 0; count < 60; count++) {
      const socket = await Deno.connectTls({
        hostname: "127.0.0.1",
        port: tls,
        caCerts: [certificate.cert],
      });
      sockets.push(socket);
      sending.push(new Client(socket).send("get long\r\n".repeat(5000)).catch(() => {}));
      await neighbour.ping();
    }
    for (let count = 0; count < 50; count++) await neighbour.ping();
    assertLess(residentKib(server.pid) - before, GROWTH_KIB_MAX);
    for (const socket of sockets) close(socket);
    await Promise.all(sending);
  },
  "-t",
  "1",
);

attack(
  "floods of key updates and renegotiations block no one",
  async ({ tls, neighbour }) => {
    const connections = new Connections(tls, 1, (fd) => ({ fd }));
    const clients = new TlsClients();
    const { fd } = connections.all[0]!;
    clients.add(fd);
    while (!clients.handshake(fd));
    const noop = new TextEncoder().encode("mn\r\n");
    const reply = new Uint8Array(4096);
    let answered = 0;
    try {
      for (let count = 0; count < 2000; count++) {
        clients.updateKeys(fd);
        if (count % 10 === 0) answered -= 4 * Number(clients.send(fd, noop) === noop.length);
        if (count % 100 === 0) await neighbour.ping();
        answered += clients.receive(fd, reply);
      }
      while (answered < 0) answered += clients.receive(fd, reply);
      assertEquals(answered, 0);
    } finally {
      clients.close();
      connections.close();
    }
    const renegotiation = new Deno.Command("sh", {
      args: [
        "-c",
        `(for i in 1 2 3 4 5; do echo R; sleep 0.1; done) | ` +
        `timeout 10 openssl s_client -tls1_2 -connect 127.0.0.1:${tls} 2>&1`,
      ],
    });
    const { stdout } = await renegotiation.output();
    const text = new TextDecoder().decode(stdout);
    assertEquals(/RENEGOTIATING\n(?:.*\n)*verify return/.test(text), false, text);
  },
  "-t",
  "1",
);
