import { assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { request as httpsRequest } from "node:https";
import type { Buffer } from "node:buffer";
import {
  type Certificate,
  Certificates,
  openssl,
  tlsArguments,
} from "../../support/servers/certificates.ts";
import {
  Client,
  runToEnd,
  ServerProcess,
  type Start,
  testTransports,
  until,
} from "../../support/servers/server_process.ts";
import { bytesOf } from "../../support/sessions/side.ts";

interface Reply {
  readonly status: number;
  readonly body: string;
  /** SHA-256 of the server's certificate. */
  readonly fingerprint: string;
}

/** Asks by HTTPS on a new connection. @returns The error's name if there is no reply. */
function ask(
  port: number,
  path: string,
  options: { ca: string; client?: Certificate; login?: string },
): Promise<Reply | string> {
  const { ca, client, login } = options;
  return new Promise((resolve) => {
    const request = httpsRequest({
      host: "127.0.0.1",
      servername: "localhost",
      port,
      path,
      ca,
      cert: client?.cert,
      key: client?.key,
      auth: login,
      agent: false,
    }, (response) => {
      const { fingerprint256 } =
        (response.socket as unknown as { getPeerCertificate(): { fingerprint256: string } })
          .getPeerCertificate();
      let body = "";
      response.on("data", (bytes: Buffer) => body += bytes.toString());
      response.on(
        "end",
        () => resolve({ status: response.statusCode!, body, fingerprint: fingerprint256 }),
      );
    });
    request.on("error", (error: Error & { code?: string }) => resolve(error.code ?? error.name));
    request.end();
  });
}

function statusOf(reply: Reply | string): number | "refused" {
  return typeof reply === "string" ? "refused" : reply.status;
}

const NATIVE = ["--io", "native"];
/** A port without TLS for the cache itself. */
const PLAIN = ["-l", "notls:127.0.0.1"];
/** The admin port, on any port. */
const ADMIN = ["--admin", "0"];

/** Runs a server whose admin port speaks TLS, and stops it. @param certificate The server's. */
async function serve(
  certificate: Certificate,
  args: readonly string[],
  run: (port: number, server: ServerProcess) => Promise<void>,
  start: Start = ServerProcess.start,
): Promise<void> {
  await using server = await start({
    args: [...tlsArguments(certificate), ...args],
    permissions: ["--allow-net", "--allow-read", "--allow-ffi"],
  });
  const line = await server.line("the dashboard is at https://");
  await run(Number(/:(\d+)\/$/.exec(line)![1]), server);
  await server.stop();
}

/** The options of a server that knows authorities. */
function authorities({ certPath }: Certificate, mode = ""): string[] {
  return ["-o", `ssl_ca_cert=${certPath}`, ...mode === "" ? [] : ["--ssl-verify-mode", mode]];
}

/** A test with certificates. */
function test(name: string, run: (certificates: Certificates) => Promise<void>): void {
  Deno.test(name, async () => {
    using certificates = new Certificates();
    await run(certificates);
  });
}

testTransports("under -Z the admin port speaks TLS, and its users log in", async (start) => {
  using certificates = new Certificates();
  const own = certificates.make("own");
  const users = `${certificates.folder}/users`;
  await Deno.writeTextFile(users, "reader read:one\nboss admin:two\n");
  await Deno.chmod(users, 0o600);
  await serve(own, ["-Y", users, ...ADMIN], async (port) => {
    const get = async (path: string, login?: string): Promise<number | "refused"> =>
      statusOf(await ask(port, path, { ca: own.cert, ...login === undefined ? {} : { login } }));
    assertEquals(await get("/health"), 200);
    assertEquals(await get("/metrics"), 200);
    assertEquals(await get("/"), 401);
    assertEquals(await get("/", "reader:one"), 200);
    assertEquals(await get("/api/tables/users", "reader:one"), 403);
    assertEquals(await get("/api/tables/users", "boss:two"), 200);
    using plain = new Client(await Deno.connect({ hostname: "127.0.0.1", port }));
    await plain.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assertEquals((await plain.rest()).includes("memcached"), false);
  }, start);
});

test("the admin port verifies client certificates as the cache's ports do", async (certificates) => {
  const own = certificates.make("own");
  const trusted = certificates.make("trusted");
  const stranger = certificates.make("stranger");
  // Options and the admin port; then: without a certificate, with the trusted one, with a stranger's.
  const cases = [
    [[], "0", [200, 200, 200]],
    [authorities(trusted, "1"), "0", [200, 200, "refused"]],
    [authorities(trusted, "2"), "0", ["refused", 200, "refused"]],
    [authorities(trusted), "mtls:0", ["refused", 200, "refused"]],
    [authorities(trusted, "3"), "btls:0", [200, 200, 200]],
    // Without authorities no certificate is right: not even one of the public's.
    [[], "mtls:0", ["refused", "refused", "refused"]],
  ] as const;
  for (const [args, admin, expected] of cases) {
    await serve(own, [...args, "--admin", admin, ...NATIVE], async (port) => {
      const found = [];
      for (const client of [undefined, trusted, stranger]) {
        const reply = await ask(port, "/metrics", { ca: own.cert, ...client && { client } });
        found.push(statusOf(reply));
      }
      assertEquals(found, [...expected], `${args.join(" ")} --admin ${admin}`);
    });
  }
});

test("expired certificates: of a client it is refused, of the server clients refuse it", async (certificates) => {
  const own = certificates.make("own");
  const expired = certificates.makeExpired("expired");
  for (const mode of ["1", "2"]) {
    const args = [...authorities(expired, mode), ...ADMIN, ...NATIVE];
    await serve(own, args, async (port) => {
      const reply = await ask(port, "/metrics", { ca: own.cert, client: expired });
      assertEquals(statusOf(reply), "refused");
    });
  }
  await serve(expired, ADMIN, async (port) => {
    assertEquals(await ask(port, "/health", { ca: expired.cert }), "CERT_HAS_EXPIRED");
  });
});

test("keys in DER serve the admin port, in every form that OpenSSL writes", async (certificates) => {
  const curve = certificates.make("curve");
  const rsa = certificates.make("rsa", ["rsa:2048"]);
  const forms = [
    [curve, "pkcs8", "pkcs8", "-topk8", "-nocrypt"],
    [curve, "sec1", "ec"],
    [rsa, "pkcs8", "pkcs8", "-topk8", "-nocrypt"],
    [rsa, "pkcs1", "rsa", "-traditional"],
  ] as const;
  const der = ["-o", "ssl_keyformat=2", ...ADMIN, ...NATIVE];
  for (const [certificate, form, command, ...options] of forms) {
    const keyPath = `${certificate.keyPath}.${form}`;
    openssl(command, "-in", certificate.keyPath, "-outform", "DER", "-out", keyPath, ...options);
    await serve({ ...certificate, keyPath }, der, async (port) => {
      const reply = await ask(port, "/health", { ca: certificate.cert });
      assertEquals(statusOf(reply), 200, form);
    });
  }
  const keyPath = `${rsa.keyPath}.none`;
  await Deno.writeTextFile(keyPath, "no key\n");
  const { code, stderr } = await runToEnd({
    args: [...tlsArguments({ ...rsa, keyPath }), ...der, ...PLAIN, "-p", "-1"],
    permissions: ["--allow-net", "--allow-read", "--allow-ffi"],
  });
  assertEquals(code, 64);
  assertStringIncludes(stderr, keyPath);
});

test("native: ciphers that the admin port does not know are named, not the key", async (certificates) => {
  const own = certificates.make("own");
  const start = (
    ciphers: string,
  ): string[] => ["-o", `ssl_ciphers=${ciphers}`, ...ADMIN, ...NATIVE];
  await serve(own, start("ECDHE-ECDSA-AES128-GCM-SHA256"), async (port) => {
    assertEquals(statusOf(await ask(port, "/health", { ca: own.cert })), 200);
    const answerBy = (cipher: string): string =>
      answerOf("-connect", `127.0.0.1:${port}`, "-tls1_2", "-cipher", cipher);
    assertStringIncludes(answerBy("ECDHE-ECDSA-AES128-GCM-SHA256"), "HTTP/1.1 200");
    assertEquals(answerBy("ECDHE-ECDSA-AES256-GCM-SHA384").includes("HTTP"), false);
  });
  const { code, stderr } = await runToEnd({
    args: [...tlsArguments(own), ...start("ECDHE+AESGCM"), "-p", "-1"],
    permissions: ["--allow-net", "--allow-read", "--allow-ffi"],
  });
  assertEquals(code, 64);
  assertStringIncludes(stderr, "Error setting the cipher(s) of --admin: ECDHE+AESGCM");
  assertStringIncludes(stderr, "--admin notls:<port>");
  assertEquals(stderr.includes("key"), false, stderr);
});

test("native: the admin port speaks no version of TLS below --ssl-min-version", async (certificates) => {
  const own = certificates.make("own");
  for (const [least, oldest] of [["0", "-tls1_2"], ["2", "-tls1_2"], ["3", "-tls1_3"]] as const) {
    await serve(own, ["-o", `ssl_min_version=${least}`, ...ADMIN, ...NATIVE], (port) => {
      const connect = (version: string): void =>
        openssl("s_client", "-connect", `127.0.0.1:${port}`, version);
      connect("-tls1_3");
      if (oldest === "-tls1_2") connect(oldest);
      else assertThrows(() => connect("-tls1_2"));
      return Promise.resolve();
    });
  }
});

/** Returns what the admin port answers to a request by openssl. */
function answerOf(...words: readonly string[]): string {
  const command = `printf 'GET /health HTTP/1.0\r\n\r\n' | openssl s_client -quiet "$@" 2>&1`;
  const { stdout } = new Deno.Command("sh", { args: ["-c", command, "sh", ...words] }).outputSync();
  return new TextDecoder().decode(stdout);
}

/** Reads the fingerprint of an admin port's certificate. */
async function fingerprintAt(port: number, ...known: readonly Certificate[]): Promise<string> {
  const ca = known.map(({ cert }) => cert).join("");
  return (await ask(port, "/health", { ca }) as Reply).fingerprint;
}

async function replace(own: Certificate, other: Certificate): Promise<void> {
  await Deno.copyFile(other.certPath, own.certPath);
  await Deno.copyFile(other.keyPath, own.keyPath);
}

test("native: SIGHUP gives the admin port the new certificate", async (certificates) => {
  const [own, other] = [certificates.make("own"), certificates.make("other")];
  await serve(own, [...ADMIN, ...NATIVE], async (port, server) => {
    const first = await fingerprintAt(port, own, other);
    await replace(own, other);
    server.signal("SIGHUP");
    await until(async () => await fingerprintAt(port, own, other) !== first);
  });
});

Deno.test("the portable transport refuses --admin mtls:", async () => {
  const args = ["-Z", "-o", "ssl_chain_cert=/c", "--admin", "mtls:9150"];
  const { code, stderr } = await runToEnd({ args: ["--io", "portable", ...args] });
  assertEquals(code, 64);
  assertStringIncludes(
    stderr,
    "--admin mtls:: the portable transport cannot do that; use --io native",
  );
});

test("refresh_certs gives the admin port the new certificate; a wrong file leaves the old one", async (certificates) => {
  const [own, other] = [certificates.make("own"), certificates.make("other")];
  await serve(own, [...PLAIN, ...ADMIN, ...NATIVE], async (port, server) => {
    const first = await fingerprintAt(port, own, other);
    using client = await server.connect();
    await Deno.writeTextFile(own.certPath, "no certificate\n");
    await client.send("refresh_certs\r\n");
    assertMatch(await client.until("\r\n"), /Error loading the certificate chain/);
    assertEquals(await fingerprintAt(port, own, other), first);
    await replace(own, other);
    await client.ask("refresh_certs\r\n", "OK\r\n");
    assertEquals(await fingerprintAt(port, own, other) === first, false);
  });
});

test("1,000 connections that never finish a handshake stall neither the admin port nor the cache", async (certificates) => {
  const own = certificates.make("own");
  await serve(own, [...PLAIN, ...ADMIN], async (port, server) => {
    using client = await server.connect();
    const open: Deno.TcpConn[] = [];
    // Nothing, the begin of a record, a record that is none.
    const starts = ["", "\x16\x03\x01\x02\0\x01", "GET / HTTP/1.1\r\n\r\n"].map(bytesOf);
    for (let round = 0; round < 20; round++) {
      for (let index = 0; index < 50; index++) {
        const socket = await Deno.connect({ hostname: "127.0.0.1", port });
        await socket.write(starts[index % starts.length]!).catch(() => {});
        open.push(socket);
      }
      await client.ask("get a\r\n", "END\r\n");
      assertEquals(statusOf(await ask(port, "/health", { ca: own.cert })), 200);
    }
    for (const socket of open) socket.close();
  });
});

test("a stream over TLS goes on, and frees its place when its client leaves", async (certificates) => {
  const own = certificates.make("own");
  await serve(own, [...PLAIN, ...ADMIN], async (port) => {
    const stream = async (): Promise<Client> => {
      const options = { hostname: "127.0.0.1", port, caCerts: [own.cert] };
      const client = new Client(await Deno.connectTls(options));
      await client.send("GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
      return client;
    };
    for (let round = 0; round < 40; round++) {
      using client = await stream();
      // More than 32 one after the other: the place of one that has left is free.
      await until(async () => {
        using another = await stream();
        return (await another.until("\r\n\r\n")).includes("200 OK");
      });
      assertStringIncludes(await client.until("\r\n\r\n"), "200 OK");
      if (round === 0) await client.until("data: [");
    }
  });
});
