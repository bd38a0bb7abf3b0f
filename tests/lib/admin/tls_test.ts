import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
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
  testTransports,
  until,
} from "../../support/servers/server_process.ts";

const PERMISSIONS = ["--allow-net", "--allow-read", "--allow-ffi"];

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

async function portOf(server: ServerProcess): Promise<number> {
  const line = await server.line("the dashboard is at https://");
  return Number(/:(\d+)\/$/.exec(line)![1]);
}

function statusOf(reply: Reply | string): number | "refused" {
  return typeof reply === "string" ? "refused" : reply.status;
}

testTransports("under -Z the admin port speaks TLS, and its users log in", async (start) => {
  using certificates = new Certificates();
  const own = certificates.make("own");
  const users = `${certificates.folder}/users`;
  await Deno.writeTextFile(users, "reader read:one\nboss admin:two\n");
  await Deno.chmod(users, 0o600);
  await using server = await start({
    args: [...tlsArguments(own), "-Y", users, "--admin", "0"],
    permissions: PERMISSIONS,
  });
  const port = await portOf(server);
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
  await server.stop();
});

Deno.test("the admin port verifies client certificates as the cache's ports do", async () => {
  using certificates = new Certificates();
  const own = certificates.make("own");
  const trusted = certificates.make("trusted");
  const stranger = certificates.make("stranger");
  const authorities = tlsArguments(own, `ssl_ca_cert=${trusted.certPath}`);
  const cases = [
    // Mode or prefix; then: without a certificate, with the trusted one, with a stranger's.
    { args: [...tlsArguments(own)], admin: "0", expected: [200, 200, 200] },
    {
      args: [...authorities, "--ssl-verify-mode", "1"],
      admin: "0",
      expected: [200, 200, "refused"],
    },
    {
      args: [...authorities, "--ssl-verify-mode", "2"],
      admin: "0",
      expected: ["refused", 200, "refused"],
    },
    { args: [...authorities], admin: "mtls:0", expected: ["refused", 200, "refused"] },
    {
      args: [...authorities, "--ssl-verify-mode", "3"],
      admin: "btls:0",
      expected: [200, 200, 200],
    },
    // Without authorities no certificate is right: not even one of the public's.
    { args: [...tlsArguments(own)], admin: "mtls:0", expected: ["refused", "refused", "refused"] },
  ] as const;
  for (const { args, admin, expected } of cases) {
    await using server = await ServerProcess.start({
      args: [...args, "--admin", admin, "--io", "native"],
      permissions: PERMISSIONS,
    });
    const port = await portOf(server);
    const found = [];
    for (const client of [undefined, trusted, stranger]) {
      const reply = await ask(port, "/metrics", { ca: own.cert, ...client && { client } });
      found.push(statusOf(reply));
    }
    assertEquals(found, [...expected], `${args.join(" ")} --admin ${admin}`);
    await server.stop();
  }
});

Deno.test("expired certificates: of a client it is refused, of the server clients refuse it", async () => {
  using certificates = new Certificates();
  const own = certificates.make("own");
  const expired = certificates.makeExpired("expired");
  for (const mode of ["1", "2"]) {
    await using server = await ServerProcess.start({
      args: [
        ...tlsArguments(own, `ssl_ca_cert=${expired.certPath}`, `ssl_verify_mode=${mode}`),
        ...["--admin", "0", "--io", "native"],
      ],
      permissions: PERMISSIONS,
    });
    const reply = await ask(await portOf(server), "/metrics", { ca: own.cert, client: expired });
    assertEquals(statusOf(reply), "refused");
    await server.stop();
  }
  await using server = await ServerProcess.start({
    args: [...tlsArguments(expired), "--admin", "0"],
    permissions: PERMISSIONS,
  });
  const reply = await ask(await portOf(server), "/health", { ca: expired.cert });
  assertEquals(reply, "CERT_HAS_EXPIRED");
  await server.stop();
});

Deno.test("keys in DER serve the admin port, in every form that OpenSSL writes", async () => {
  using certificates = new Certificates();
  const curve = certificates.make("curve");
  const rsa = certificates.make("rsa", ["rsa:2048"]);
  const forms = [
    [curve, "pkcs8", "pkcs8", "-topk8", "-nocrypt"],
    [curve, "sec1", "ec"],
    [rsa, "pkcs8", "pkcs8", "-topk8", "-nocrypt"],
    [rsa, "pkcs1", "rsa", "-traditional"],
  ] as const;
  for (const [certificate, form, command, ...options] of forms) {
    const der = `${certificate.keyPath}.${form}`;
    openssl(command, "-in", certificate.keyPath, "-outform", "DER", "-out", der, ...options);
    await using server = await ServerProcess.start({
      args: [
        ...tlsArguments({ ...certificate, keyPath: der }, "ssl_keyformat=2"),
        ...["--admin", "0", "--io", "native"],
      ],
      permissions: PERMISSIONS,
    });
    const reply = await ask(await portOf(server), "/health", { ca: certificate.cert });
    assertEquals(statusOf(reply), 200, form);
    await server.stop();
  }
  await Deno.writeTextFile(`${rsa.keyPath}.none`, "no key\n");
  const { code, stderr } = await runToEnd({
    args: [
      ...tlsArguments({ ...rsa, keyPath: `${rsa.keyPath}.none` }, "ssl_keyformat=2"),
      ...["--admin", "0", "-l", "notls:127.0.0.1", "-p", "-1", "--io", "native"],
    ],
    permissions: PERMISSIONS,
  });
  assertEquals(code, 64);
  assertStringIncludes(stderr, `${rsa.keyPath}.none`);
});

Deno.test("native: SIGHUP gives the admin port the new certificate", async () => {
  using certificates = new Certificates();
  const own = certificates.make("own");
  const other = certificates.make("other");
  await using server = await ServerProcess.start({
    args: [...tlsArguments(own), "--admin", "0", "--io", "native"],
    permissions: PERMISSIONS,
  });
  const port = await portOf(server);
  const fingerprint = async (): Promise<string> =>
    (await ask(port, "/health", { ca: own.cert + other.cert }) as Reply).fingerprint;
  const first = await fingerprint();
  await Deno.copyFile(other.certPath, own.certPath);
  await Deno.copyFile(other.keyPath, own.keyPath);
  server.signal("SIGHUP");
  await until(async () => await fingerprint() !== first);
  await server.stop();
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

Deno.test("refresh_certs gives the admin port the new certificate; a wrong file leaves the old one", async () => {
  using certificates = new Certificates();
  const own = certificates.make("own");
  const other = certificates.make("other");
  const ca = own.cert + other.cert;
  await using server = await ServerProcess.start({
    args: [...tlsArguments(own), "-l", "notls:127.0.0.1", "--admin", "0", "--io", "native"],
    permissions: PERMISSIONS,
  });
  const port = await portOf(server);
  const fingerprint = async (): Promise<string> =>
    (await ask(port, "/health", { ca }) as Reply).fingerprint;
  const first = await fingerprint();
  using client = await server.connect();
  await Deno.writeTextFile(own.certPath, "no certificate\n");
  await client.send("refresh_certs\r\n");
  assertMatch(await client.until("\r\n"), /Error loading the certificate chain/);
  assertEquals(await fingerprint(), first);
  await Deno.copyFile(other.certPath, own.certPath);
  await Deno.copyFile(other.keyPath, own.keyPath);
  await client.ask("refresh_certs\r\n", "OK\r\n");
  assertEquals(await fingerprint() === first, false);
  await server.stop();
});

Deno.test("1,000 connections that never finish a handshake stall neither the admin port nor the cache", async () => {
  using certificates = new Certificates();
  const own = certificates.make("own");
  await using server = await ServerProcess.start({
    args: [...tlsArguments(own), "-l", "notls:127.0.0.1", "--admin", "0"],
    permissions: PERMISSIONS,
  });
  const port = await portOf(server);
  using client = await server.connect();
  const open: Deno.TcpConn[] = [];
  for (let round = 0; round < 20; round++) {
    for (let index = 0; index < 50; index++) {
      const socket = await Deno.connect({ hostname: "127.0.0.1", port });
      // Nothing, the begin of a record, a record that is none.
      const bytes = [[], [22, 3, 1, 2, 0, 1], [
        ...new TextEncoder().encode("GET / HTTP/1.1\r\n\r\n"),
      ]];
      await socket.write(new Uint8Array(bytes[index % 3]!)).catch(() => {});
      open.push(socket);
    }
    await client.ask("get a\r\n", "END\r\n");
    assertEquals(statusOf(await ask(port, "/health", { ca: own.cert })), 200);
  }
  for (const socket of open) socket.close();
  await server.stop();
});

Deno.test("a stream over TLS goes on, and frees its place when its client leaves", async () => {
  using certificates = new Certificates();
  const own = certificates.make("own");
  await using server = await ServerProcess.start({
    args: [...tlsArguments(own), "-l", "notls:127.0.0.1", "--admin", "0"],
    permissions: PERMISSIONS,
  });
  const port = await portOf(server);
  const connect = (): Promise<Deno.TlsConn> =>
    Deno.connectTls({ hostname: "127.0.0.1", port, caCerts: [own.cert] });
  const request = "GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (let round = 0; round < 40; round++) {
    using client = new Client(await connect());
    await client.send(request);
    // More than 32 one after the other: the place of one that has left is free.
    await until(async () => {
      using another = new Client(await connect());
      await another.send(request);
      return (await another.until("\r\n\r\n")).includes("200 OK");
    });
    assertStringIncludes(await client.until("\r\n\r\n"), "200 OK");
    if (round === 0) await client.until("data: [");
  }
  await server.stop();
});
