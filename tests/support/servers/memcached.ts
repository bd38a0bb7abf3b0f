import { freePort } from "../free_ports.ts";
import { newerPeers } from "./peers.ts";
import { SocketSide } from "../sessions/socket_side.ts";
import { until } from "./server_process.ts";
import { needs, note } from "../needs/needs.ts";

/** A memcached that can be started. */
export interface Memcached {
  /** A path, or a name on the PATH. */
  readonly executable: string;
  /** Like `1.6.18`. */
  readonly version: string;
}

/** The memcacheds of this machine, the newest last: the installed one, and the one among the newer peers. */
export const MEMCACHEDS: readonly Memcached[] = ["memcached", ...newerPeers("bin", /^memcached$/)]
  .flatMap(memcachedOf);

/**
 * A test with every memcached that is at hand; without any, one that is ignored.
 *
 * @param obstacle Why the test is ignored on this machine; "" if it is not.
 */
export function testWithMemcached(
  name: string,
  body: (memcached: Memcached, t: Deno.TestContext) => Promise<void>,
  obstacle: string = MEMCACHEDS.length === 0 ? "memcached not installed" : "",
): void {
  if (obstacle !== "") {
    const tool = MEMCACHEDS.length === 0 ? "memcached" : obstacle;
    Deno.test(`${name}; ${obstacle}`, needs(tool, false), () => {});
    return;
  }
  note("memcached", true);
  for (const memcached of MEMCACHEDS) {
    Deno.test(`${name}; memcached ${memcached.version}`, (t) => body(memcached, t));
  }
}

/** None when there is no such executable. */
function memcachedOf(executable: string): Memcached[] {
  try {
    const { stdout } = new Deno.Command(executable, { args: ["-V"], stderr: "null" }).outputSync();
    const version = /\d+\.\d+\.\d+/.exec(new TextDecoder().decode(stdout))?.[0];
    return version === undefined ? [] : [{ executable, version }];
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** Returns whether version `have` is at least `wanted`. */
export function isAtLeast(have: string, wanted: string): boolean {
  const a = have.split(".").map(Number);
  const b = wanted.split(".").map(Number);
  for (let index = 0; index < b.length; index++) {
    if ((a[index] ?? 0) !== b[index]) return (a[index] ?? 0) > b[index]!;
  }
  return true;
}

/** Starts the real memcached on a port of 127.0.0.1. */
export async function startMemcachedTcp(
  { executable }: Memcached,
): Promise<AsyncDisposable & { readonly port: number }> {
  const port = freePort();
  const user = Deno.uid() === 0 ? ["-u", "root"] : [];
  const child = new Deno.Command(executable, {
    args: [...user, "-l", "127.0.0.1", "-p", `${port}`],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  await until(async () => {
    try {
      (await Deno.connect({ hostname: "127.0.0.1", port })).close();
      return true;
    } catch {
      return false;
    }
  });
  return {
    port,
    async [Symbol.asyncDispose](): Promise<void> {
      child.kill();
      await child.status;
    },
  };
}

/** Starts the real memcached on a Unix socket of its own. */
export async function startMemcached(
  { executable, version }: Memcached,
  options: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<SocketSide> {
  const folder = Deno.makeTempDirSync({ prefix: "leased-test-" });
  const path = `${folder}/memcached.sock`;
  const child = new Deno.Command(executable, {
    args: ["-u", "root", "-s", path, ...options],
    env,
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  const side = new SocketSide(
    `memcached ${version}`,
    { transport: "unix", path },
    async () => {
      child.kill("SIGKILL");
      await child.status;
      Deno.removeSync(folder, { recursive: true });
    },
  );
  await untilItListens(side, child.status);
  return side;
}

/** Waits until a connection succeeds. @throws Error when the server ends before. */
export async function untilItListens(
  side: SocketSide,
  ended: Promise<Deno.CommandStatus>,
): Promise<void> {
  let status: Deno.CommandStatus | undefined;
  ended.then((result) => status = result);
  await until(async () => {
    if (status !== undefined) throw new Error(`${side.name} ended with status ${status.code}`);
    try {
      (await side.open()).disconnect();
      return true;
    } catch {
      return false;
    }
  });
}

/** Whether users can be made for memcached's SASL. */
export const HAS_SASL_TOOLS = ((): boolean => {
  try {
    return new Deno.Command("saslpasswd2", { args: ["-h"], stdout: "null", stderr: "null" })
      .outputSync().code >= 0;
  } catch {
    return false;
  }
})();

/** Starts a memcached that knows one user by SASL PLAIN. @param folder For its files. */
export async function startMemcachedWithSasl(
  memcached: Memcached,
  folder: string,
  { user, password }: { readonly user: string; readonly password: string },
): Promise<SocketSide> {
  const database = `${folder}/sasldb`;
  Deno.writeTextFileSync(
    `${folder}/memcached.conf`,
    `mech_list: plain\npwcheck_method: auxprop\nauxprop_plugin: sasldb\nsasldb_path: ${database}\n`,
  );
  const child = new Deno.Command("saslpasswd2", {
    args: ["-p", "-c", "-f", database, "-a", "memcached", "-u", Deno.hostname(), user],
    stdin: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(password));
  await writer.close();
  const { code } = await child.status;
  if (code !== 0) throw new Error(`saslpasswd2 ended with ${code}`);
  return await startMemcached(memcached, ["-S"], { SASL_CONF_PATH: folder });
}
