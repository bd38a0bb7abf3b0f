import {
  HAS_SASL_TOOLS,
  type Memcached,
  MEMCACHEDS,
  startMemcached as startSide,
  startMemcachedWithSasl,
} from "../../support/servers/memcached.ts";
import {
  type Certificate,
  type Certificates,
  tlsArguments,
} from "../../support/servers/certificates.ts";
import {
  leastPermissions,
  ServerProcess,
  TRANSPORTS,
} from "../../support/servers/server_process.ts";
import { needs } from "../../support/needs/needs.ts";

/** A server of a test, and the address that clients are given. */
export interface TestServer extends AsyncDisposable {
  readonly address: string;
}

export const LEASE_FLAG = 0x3333;

/** Starts leased with leases and update tokens. */
export async function startLeased(args: readonly string[] = []): Promise<ServerProcess> {
  return await ServerProcess.start({
    io: TRANSPORTS.at(-1)!,
    args: ["-z", "3333", "--tokens", "volatile", "--token-quarantine", "0", ...args],
  });
}

/** Starts leased with TLS. Clients need its own certificate, and the login of anna with the password secret. */
export async function startSecured(
  certificates: Certificates,
): Promise<TestServer & Certificate & { readonly port: number }> {
  const certificate = certificates.make("localhost");
  const users = `${certificates.folder}/users`;
  await Deno.writeTextFile(users, "anna:secret\n");
  await Deno.chmod(users, 0o600);
  const io = TRANSPORTS.at(-1)!;
  const server = await ServerProcess.start({
    io,
    args: [
      ...tlsArguments(certificate),
      ...["--ssl-verify-mode", "2", "--ssl-ca-cert", certificate.certPath, "-Y", users],
    ],
    permissions: [...leastPermissions(io), `--allow-read=${certificates.folder}`],
  });
  const { port } = server;
  return {
    ...certificate,
    port,
    address: `127.0.0.1:${port}`,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

/** A test with leased, and one with every memcached of this machine. */
export function testServers(
  name: string,
  body: (address: string, isLeased: boolean) => Promise<void>,
): void {
  Deno.test(`${name}; leased`, async () => {
    await using server = await startLeased();
    await body(`127.0.0.1:${server.port}`, true);
  });
  for (const memcached of MEMCACHEDS) {
    Deno.test(`${name}; memcached ${memcached.version}`, async () => {
      await using server = await startMemcached(memcached);
      await body(server.address, false);
    });
  }
}

/** A user by SASL PLAIN. */
export const SASL_LOGIN = { user: "anna", password: "two words", mechanism: "PLAIN" } as const;

/** A test with leased with `-S`, and one with every memcached of this machine that can have users. */
export function testSaslServers(name: string, body: (address: string) => Promise<void>): void {
  Deno.test(`${name}; leased`, async () => {
    await using server = await startLeasedWithSasl();
    await body(server.address);
  });
  for (const memcached of MEMCACHEDS) {
    Deno.test(
      `${name}; memcached ${memcached.version}`,
      needs("saslpasswd2", HAS_SASL_TOOLS),
      async () => {
        const folder = await Deno.makeTempDir({ prefix: "leased-test-" });
        const side = await startMemcachedWithSasl(memcached, folder, SASL_LOGIN);
        try {
          await body((side.address as Deno.UnixConnectOptions).path);
        } finally {
          await side.close();
          await Deno.remove(folder, { recursive: true });
        }
      },
    );
  }
}

/** Starts leased with update tokens, a login by SASL and by text, and the user anna. */
export async function startLeasedWithSasl(): Promise<TestServer> {
  const folder = await Deno.makeTempDir({ prefix: "leased-test-" });
  const users = `${folder}/users`;
  await Deno.writeTextFile(users, `${SASL_LOGIN.user}:${SASL_LOGIN.password}\ntext:text\n`);
  await Deno.chmod(users, 0o600);
  const io = TRANSPORTS.at(-1)!;
  const server = await ServerProcess.start({
    io,
    args: [
      ...["-z", "3333", "--tokens", "volatile", "--token-quarantine", "0"],
      ...["-S", "-Y", users, "-B", "auto"],
    ],
    permissions: [...leastPermissions(io), `--allow-read=${folder}`],
  });
  return {
    address: `127.0.0.1:${server.port}`,
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

/** Starts memcached on a Unix socket. */
export async function startMemcached(
  memcached: Memcached,
  options: readonly string[] = [],
): Promise<TestServer> {
  const side = await startSide(memcached, options);
  const { path } = side.address as Deno.UnixConnectOptions;
  return { address: path, [Symbol.asyncDispose]: () => side.close() };
}
