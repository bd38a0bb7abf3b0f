import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import tls from "node:tls";
import {
  type Certificate,
  Certificates,
  tlsArguments,
} from "../../support/servers/certificates.ts";
import {
  Client,
  leastPermissions,
  runToEnd,
  ServerProcess,
  type Start,
  testTransports as test,
  TRANSPORTS,
  until,
} from "../../support/servers/server_process.ts";

const NATIVE = TRANSPORTS.includes("native");

/** Starts a server that has what its transport needs for TLS. */
function startTls(
  start: Start,
  io: "portable" | "native",
  certificate: Certificate,
  { args = [], words = [] }: { args?: readonly string[]; words?: readonly string[] } = {},
): Promise<ServerProcess> {
  const { certPath, keyPath } = certificate;
  const permissions = io === "native"
    ? leastPermissions(io)
    : [...leastPermissions(io), `--allow-read=${certPath},${keyPath}`];
  return start({ permissions, args: [...tlsArguments(certificate, ...words), ...args] });
}

/** Connects as a client that trusts `certificate`. */
async function connectTls(
  port: number,
  certificate: Certificate,
  own?: Certificate,
): Promise<Client> {
  const options = { hostname: "127.0.0.1", port, caCerts: [certificate.cert] };
  const socket = own === undefined
    ? await Deno.connectTls(options)
    : await Deno.connectTls({ ...options, cert: own.cert, key: own.key });
  try {
    await socket.handshake();
  } catch (error) {
    socket.close();
    throw error;
  }
  return new Client(socket);
}

/** The name in the certificate that a server shows. */
function subjectOf(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = tls.connect({ host: "127.0.0.1", port, rejectUnauthorized: false });
    socket.on("error", reject);
    socket.on("secureConnect", () => {
      const { CN } = socket.getPeerCertificate().subject;
      socket.destroy();
      resolve(String(CN));
    });
  });
}

test("TLS: requests and values of any length come back as they were", async (start, io) => {
  using certificates = new Certificates();
  const certificate = certificates.make("localhost");
  await using server = await startTls(start, io, certificate, { args: ["-I", "4m"] });
  using client = await connectTls(server.port, certificate);
  await client.ping();
  for (const byte of "set foo 5 0 3\r\nbar\r\n") await client.send(byte);
  await client.expect("STORED\r\n");
  await client.ask("get foo\r\n".repeat(3000), "VALUE foo 5 3\r\nbar\r\nEND\r\n".repeat(3000));
  for (const length of [0, 1, 16_383, 16_384, 16_385, 100_000, 2_000_000]) {
    const value = Array.from({ length }, (_, index) => String.fromCharCode(97 + index % 23)).join(
      "",
    );
    await client.ask(`set v 0 0 ${length}\r\n${value}\r\n`, "STORED\r\n");
    await client.ask(
      "get v foo v\r\n",
      `VALUE v 0 ${length}\r\n${value}\r\n` +
        `VALUE foo 5 3\r\nbar\r\nVALUE v 0 ${length}\r\n${value}\r\nEND\r\n`,
    );
  }
  await client.send("quit\r\n");
  assertEquals(await client.rest(), "");
  await server.stop();
});

test("TLS: clients that send much before they read get every reply", async (start, io) => {
  using certificates = new Certificates();
  const certificate = certificates.make("localhost");
  await using server = await startTls(start, io, certificate, { args: ["-t", "1"] });
  const value = "v".repeat(50_000);
  using writer = await connectTls(server.port, certificate);
  await writer.ask(`set v 0 0 ${value.length}\r\n${value}\r\n`, "STORED\r\n");
  const clients: Client[] = [];
  for (let count = 0; count < 20; count++) clients.push(await connectTls(server.port, certificate));
  // Beyond what sockets and records buffer: the server stops reading until the client reads.
  await Promise.all(clients.map((client) => client.send("get v\r\n".repeat(100))));
  await writer.ping();
  const reply = `VALUE v 0 ${value.length}\r\n${value}\r\nEND\r\n`.repeat(100);
  for (const client of clients) await client.expect(reply);
  for (const client of clients) {
    await client.ping();
    client[Symbol.dispose]();
  }
  await server.stop();
});

test(
  "TLS: requests behind one that waits are answered, in the same record too",
  async (start, io) => {
    using certificates = new Certificates();
    const certificate = certificates.make("localhost");
    await using server = await startTls(start, io, certificate, { args: ["-t", "1"] });
    using holder = await connectTls(server.port, certificate);
    await holder.ask("set k 0 0 1\r\n1\r\n", "STORED\r\n");
    await holder.ask("lock k\r\n", "OK\r\n");
    using client = await connectTls(server.port, certificate);
    // Short requests first: the next ones are read a kilobyte at a time.
    await client.ping();
    await client.ping();
    await client.send("lock k 60000\r\n" + "mn\r\n".repeat(2000));
    await until(async () => (await holder.stat("lock_waiting")) === "1");
    await holder.ask("unlock k\r\n", "OK\r\n");
    await client.expect("OK\r\n" + "MN\r\n".repeat(2000));
    await server.stop();
  },
);

test("TLS: what was sent before the server stops is answered", async (start, io) => {
  using certificates = new Certificates();
  const certificate = certificates.make("localhost");
  await using server = await startTls(start, io, certificate);
  using client = await connectTls(server.port, certificate);
  await client.ping();
  server.signal("SIGSTOP");
  const sent = client.send("set a 0 0 1\r\nx\r\n" + "get a\r\n".repeat(1000));
  await sent;
  server.signal("SIGTERM");
  server.signal("SIGCONT");
  await client.expect("STORED\r\n" + "VALUE a 0 1\r\nx\r\nEND\r\n".repeat(1000));
  assertEquals(await client.rest(), "");
  assertEquals((await server.ended()).code, 0);
});

test(
  "TLS: a port with notls: is plain, and plain requests to a TLS port are refused",
  async (start, io) => {
    using certificates = new Certificates();
    const certificate = certificates.make("localhost");
    await using server = await startTls(start, io, certificate, {
      args: ["-v", "-l", "notls:127.0.0.1,127.0.0.1:0"],
    });
    using plain = await server.connect();
    await plain.ping();
    const port = Number(/ 127\.0\.0\.1:(\d+) \(TLS\)/.exec(server.lines[0]!)![1]);
    using client = await connectTls(port, certificate);
    await client.ping();
    using lost = await server.connect(port);
    await lost.send("get foo\r\n".repeat(10));
    await lost.rest();
    assertMatch(await server.line("TLS handshake failed"), /127\.0\.0\.1:\d+: \S+/);
    assertEquals(await plain.stat("ssl_handshake_errors"), "1");
    await server.stop();
  },
);

test("TLS: a connection above -c is closed; a free place is given again", async (start, io) => {
  using certificates = new Certificates();
  const certificate = certificates.make("localhost");
  await using server = await startTls(start, io, certificate, { args: ["-c", "2"] });
  using first = await connectTls(server.port, certificate);
  using second = await connectTls(server.port, certificate);
  for (const client of [first, second]) await client.ping();
  const untilClosed = async (): Promise<string> => {
    using refused = await connectTls(server.port, certificate);
    return await refused.rest();
  };
  // Within the handshake, or behind it.
  assertEquals(await untilClosed().catch(() => ""), "");
  assertEquals(await first.stat("rejected_connections"), "1");
  second[Symbol.dispose]();
  await until(async () => await first.stat("curr_connections") === "1");
  using again = await connectTls(server.port, certificate);
  await again.ping();
  await server.stop();
});

Deno.test("portable: what the runtime's TLS cannot do is refused by name", async () => {
  const words = "ssl_chain_cert=/c,ssl_verify_mode=1,ssl_session_cache";
  const args = ["--io", "portable", "-Z", "-l", "mtls:127.0.0.1", "-o", words];
  const { code, stderr } = await runToEnd({ args });
  assertEquals(code, 64);
  for (const option of ["--ssl-verify-mode", "--ssl-session-cache", "-l mtls:"]) {
    assertStringIncludes(
      stderr,
      `${option}: the portable transport cannot do that; use --io native`,
    );
  }
});

test("TLS: a certificate that cannot be loaded ends the start with its reason", async (_, io) => {
  using certificates = new Certificates();
  const { certPath, keyPath } = certificates.make("localhost");
  const other = certificates.make("other", ["rsa:2048"]);
  const permissions = [...leastPermissions(io), `--allow-read=${certificates.folder}`];
  const start = async (cert: string, key: string): Promise<string> => {
    const args = ["--io", io, "-Z", "-o", `ssl_chain_cert=${cert},ssl_key=${key}`, "-p", "-1"];
    const { code, stderr } = await runToEnd({ io, args, permissions });
    assertEquals(code, 64);
    return stderr;
  };
  const missing = `${certificates.folder}/missing`;
  assertMatch(
    await start(missing, keyPath),
    /-Z .*Error loading the certificate chain: .*missing : .*No such file.*--ssl-chain-cert/,
  );
  assertMatch(
    await start(certPath, missing),
    /-Z .*Error loading the key: .*missing : .*No such file.*; .*missing \(--ssl-key\) must be a/,
  );
  assertMatch(
    await start(certPath, other.keyPath),
    /-Z .*Error validating the certificate: .*; .*--ssl-key/,
  );
  assertMatch(await start(certPath, certPath), /; name the file with the key of .*--ssl-key/);
  const garbage = `${certificates.folder}/garbage`;
  Deno.writeTextFileSync(garbage, "neither");
  assertMatch(
    await start(garbage, keyPath),
    /; \S*garbage \(--ssl-chain-cert\) must be a readable PEM file/,
  );
  for (const key of [garbage, other.keyPath]) {
    assertStringIncludes(await start(certPath, key), `; ${key} (--ssl-key) must be a key`);
  }
});

if (NATIVE) {
  const start: Start = (options = {}) => ServerProcess.start({ io: "native", ...options });

  Deno.test("native: refresh_certs and SIGHUP load certificates for new connections", async () => {
    using certificates = new Certificates();
    const certificate = certificates.make("before");
    await using server = await startTls(start, "native", certificate);
    using client = await connectTls(server.port, certificate);
    assertEquals(await subjectOf(server.port), "before");
    Deno.writeTextFileSync(certificate.certPath, "junk");
    await client.send("refresh_certs\r\n");
    assertMatch(
      await client.until("\r\n"),
      /^Error loading the certificate chain: .*no start line\r\n$/,
    );
    server.signal("SIGHUP");
    await server.line("certificates not loaded, the previous ones stay in use: Error loading");
    assertEquals(await subjectOf(server.port), "before");
    certificates.make("before"); // Another key.
    const { cert, key } = certificates.make("after");
    Deno.writeTextFileSync(certificate.certPath, cert);
    await client.send("refresh_certs\r\n");
    assertMatch(
      await client.until("\r\n"),
      /^Error (?:loading the key|validating the certificate): /,
    );
    Deno.writeTextFileSync(certificate.keyPath, key);
    await client.ask("refresh_certs\r\n", "OK\r\n");
    for (let count = 0; count < 8; count++) assertEquals(await subjectOf(server.port), "after");
    const third = certificates.make("third");
    Deno.writeTextFileSync(certificate.certPath, third.cert);
    Deno.writeTextFileSync(certificate.keyPath, third.key);
    server.signal("SIGHUP");
    await server.line("certificates loaded for new connections");
    for (let count = 0; count < 8; count++) assertEquals(await subjectOf(server.port), "third");
    await client.ping();
    assert(Number(await client.stat("time_since_server_cert_refresh")) < 600);
    await server.stop();
  });

  Deno.test("native: client certificates are asked for as --ssl-verify-mode and the prefix say", async () => {
    using certificates = new Certificates();
    const certificate = certificates.make("localhost");
    const [known, unknown] = [certificates.make("known"), certificates.make("unknown")];
    await using server = await startTls(start, "native", certificate, {
      args: ["-p", "-1", "-l", "127.0.0.1,mtls:127.0.0.1:0,btls:127.0.0.1:0"],
      words: ["ssl_verify_mode=1", `ssl_ca_cert=${known.certPath}`],
    });
    const ports = [...server.lines[0]!.matchAll(/:(\d+) \(TLS\)/g)].map(([, port]) => Number(port));
    const [asked, required, basic] = ports as [number, number, number];
    const ping = async (port: number, own?: Certificate): Promise<void> => {
      using client = await connectTls(port, certificate, own);
      await client.ping();
    };
    for (const port of ports) await ping(port, known);
    await ping(asked);
    await ping(basic);
    await ping(basic, unknown);
    await assertRejects(() => ping(asked, unknown));
    await assertRejects(() => ping(required, unknown));
    await assertRejects(() => ping(required));
    const { stdout } = await new Deno.Command("openssl", {
      args: ["s_client", "-connect", `127.0.0.1:${required}`],
      ...{ stdin: "null", stderr: "null" },
    }).output();
    assertMatch(
      new TextDecoder().decode(stdout),
      /^Acceptable client certificate CA names\nCN ?= ?known\n(?!CN)/m,
    );
    using client = await connectTls(basic, certificate);
    assertEquals(await client.stat("ssl_handshake_errors"), "4");
    await server.stop();
  });

  Deno.test("native: the oldest protocol and the ciphers are as -o says", async () => {
    using certificates = new Certificates();
    const certificate = certificates.make("localhost");
    const version = async (port: number, ...options: string[]): Promise<string> => {
      const child = new Deno.Command("openssl", {
        args: ["s_client", "-connect", `127.0.0.1:${port}`, "-brief", ...options],
        stdin: "null",
        stdout: "null",
        stderr: "piped",
      });
      const text = new TextDecoder().decode((await child.output()).stderr);
      const protocol = /Protocol version: (\S+)/.exec(text)?.[1] ?? "refused";
      return `${protocol} ${/Ciphersuite: (\S+)/.exec(text)?.[1] ?? ""}`.trim();
    };
    {
      await using server = await startTls(start, "native", certificate, {
        words: ["ssl_ciphers=ECDHE-ECDSA-AES128-GCM-SHA256"],
      });
      assertMatch(await version(server.port), /^TLSv1\.3 /);
      assertEquals(await version(server.port, "-tls1_2"), "TLSv1.2 ECDHE-ECDSA-AES128-GCM-SHA256");
      assertEquals(await version(server.port, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"), "refused");
    }
    {
      await using server = await startTls(start, "native", certificate, {
        words: ["ssl_min_version=3"],
      });
      assertEquals(await version(server.port, "-tls1_2"), "refused");
    }
    {
      await using server = await startTls(start, "native", certificate, {
        words: ["ssl_min_version=0", "ssl_ciphers=ALL:@SECLEVEL=0"],
      });
      const found = await version(server.port, "-tls1", "-cipher", "ALL:@SECLEVEL=0");
      assertMatch(found, /^TLSv1 /);
    }
  });

  Deno.test("native: sessions are resumed on any thread", async () => {
    using certificates = new Certificates();
    const certificate = certificates.make("localhost");
    await using server = await startTls(start, "native", certificate, {
      args: ["-t", "4"],
      words: ["ssl_session_cache"],
    });
    for (const version of ["-tls1_2", "-tls1_3"]) {
      const { stdout } = await new Deno.Command("sh", {
        // deno-fmt-ignore
        args: ["-c", `sleep 0.3 | openssl s_client -connect 127.0.0.1:${server.port} ${version} -sess_out $0; ` +
          `sleep 0.3 | openssl s_client -connect 127.0.0.1:${server.port} ${version} -sess_in $0`,
          `${certificates.folder}/session`],
        stderr: "null",
      }).output();
      assertMatch(new TextDecoder().decode(stdout), /\nReused, TLSv1/);
    }
    using client = await connectTls(server.port, certificate);
    // Of TLS 1.2: a ticket for the full handshake. Of 1.3: two, one for the resumed one, and two for this client.
    assertEquals(await client.stat("ssl_new_sessions"), "6");
    await server.stop();
  });

  Deno.test("native: without tickets sessions are resumed with --ssl-session-cache only", async () => {
    using certificates = new Certificates();
    const certificate = certificates.make("localhost");
    for (
      const [word, expected] of [["ssl_session_cache", "Reused"], ["ssl_min_version=2", "New"]]
    ) {
      await using server = await startTls(start, "native", certificate, { words: [word!] });
      const { stdout } = await new Deno.Command("sh", {
        // deno-fmt-ignore
        args: ["-c", `openssl s_client -connect 127.0.0.1:${server.port} -tls1_2 -no_ticket -sess_out $0; ` +
          `openssl s_client -connect 127.0.0.1:${server.port} -tls1_2 -no_ticket -sess_in $0`,
          `${certificates.folder}/session`],
        stdin: "null",
        stderr: "null",
      }).output();
      const how = [...new TextDecoder().decode(stdout).matchAll(/^(New|Reused), TLS/gm)];
      assertEquals(how.map(([, each]) => each), ["New", expected!]);
      await server.stop();
    }
  });

  Deno.test("native: a handshake that takes too long is given up", async () => {
    using certificates = new Certificates();
    const certificate = certificates.make("localhost");
    await using server = await startTls(start, "native", certificate, {
      words: ["ssl_handshake_timeout=5"],
    });
    using silent = await server.connect();
    using begun = await server.connect();
    await begun.send("\x16\x03\x01\x02\x00");
    assertEquals(await silent.rest(), "");
    assertEquals(await begun.rest(), "");
    using client = await connectTls(server.port, certificate);
    assertEquals(await client.stat("ssl_handshake_errors"), "2");
    await server.stop();
  });

  Deno.test("native: the Unix socket stays plain under -Z", async () => {
    using certificates = new Certificates();
    const certificate = certificates.make("localhost");
    const path = `${certificates.folder}/socket`;
    await using server = await startTls(start, "native", certificate, { args: ["-s", path] });
    using client = await Client.connectUnix(path);
    await client.ping();
    await server.stop();
  });
}
