/**
 * Drives the server, over each transport, with clients that others wrote: `deno task clients
 * [name]...`. First each alone, then all at the same time. One that is not installed is a failure:
 * its package is named.
 */
import { Certificates, tlsArguments } from "../support/servers/certificates.ts";
import { newerPeers } from "../support/servers/peers.ts";
import {
  leastPermissions,
  path,
  ServerProcess,
  TRANSPORTS,
} from "../support/servers/server_process.ts";

interface ClientRun {
  readonly name: string;
  /** Its origin, if it is not part of this repository. */
  readonly packages: string;
  /** Ends with status 0 where the client is installed. */
  readonly probe: readonly string[];
  /** @param alone Whether it may flush, and count on what is in the store. */
  command(port: number, prefix: string, alone: boolean): string[];
  /** Whether it cannot be run beside others. */
  readonly onlyAlone?: boolean;
  /** Whether it speaks TLS when LEASED_TLS_CA names the authorities to trust. */
  readonly speaksTls?: boolean;
  /** Judges what it printed, where its status does not tell; null when all is well, else what is not. */
  judge?(output: string, withRows: boolean): string | null;
}

/** A client that is not done by then never will be. */
const CLIENT_SEC_MAX = 40;
/** Exit code of `timeout` when it expires: it kills the client and all that this has started. */
const KILLED = 137;

const PYTHON = "/usr/bin/python3";
const here = (name: string): string => decodeURIComponent(new URL(name, import.meta.url).pathname);
/** Names the packages that only tests need. */
const TESTS_LOCK = `--lock=${path("tests/deno.lock")}`;
const aloneArgs = (alone: boolean): string[] => alone ? ["alone"] : [];

/** Its names go to stdout and its verdicts to stderr, so a shell brings them together. */
function memccapable(name: string, flag: string): ClientRun {
  return {
    name,
    packages: "Debian's libmemcached-tools",
    probe: ["sh", "-c", "command -v memccapable"],
    command: (port) => ["sh", "-c", `memccapable -h 127.0.0.1 -p ${port} ${flag} 2>&1`],
    onlyAlone: true,
    judge: judgeMemccapable,
  };
}

function script(
  name: string,
  packages: string,
  probe: readonly string[],
  command: readonly string[],
): ClientRun {
  return {
    name,
    packages,
    probe,
    command: (port, prefix, alone) => [...command, `${port}`, prefix, ...aloneArgs(alone)],
  };
}

function python(library: string, module: string, packages: string): ClientRun {
  return script(
    library,
    packages,
    [PYTHON, "-c", `import ${module}`],
    [PYTHON, here("python_clients.py"), library],
  );
}

/**
 * Dalli, with a client and with the example of leases.
 *
 * @param from Names it: what of Debian it comes from, or the folder that it is in.
 */
function dalli(protocol: "binary" | "meta", from: string, include: readonly string[]): ClientRun[] {
  const ruby = ["ruby", ...include];
  return [
    {
      ...script(
        `dalli-${protocol}${from}`,
        "Debian's ruby and ruby-dalli",
        [...ruby, "-e", 'require "dalli"'],
        [...ruby, here("dalli.rb"), protocol],
      ),
      // Dalli 3.0.6 loses its own server in get_multi over TLS, with any server.
      speaksTls: protocol === "meta",
    },
    script(
      `lease-example-dalli${from}`,
      "Debian's ruby, ruby-dalli and ruby-sqlite3",
      [...ruby, "-e", 'require "dalli"; require "sqlite3"'],
      [...ruby, path("examples/leases_dalli.rb")],
    ),
  ];
}

const NEWER_DALLIS = newerPeers(".", /^dalli-/).flatMap((folder) =>
  dalli("meta", folder.replace(/.*dalli/, ""), ["-I", folder])
);

const RUNS: readonly ClientRun[] = [
  { ...python("pymemcache", "pymemcache", "Debian's python3-pymemcache"), speaksTls: true },
  python("pylibmc-text", "pylibmc", "Debian's python3-pylibmc"),
  python("pylibmc-binary", "pylibmc", "Debian's python3-pylibmc"),
  {
    ...python("bmemcached", "bmemcached", "Debian's python3-binary-memcached"),
    speaksTls: true,
  },
  script(
    "raw-sessions",
    "Debian's python3",
    [PYTHON, "-c", ""],
    [PYTHON, here("raw_sessions.py")],
  ),
  ...dalli("binary", "", []),
  ...NEWER_DALLIS,
  script(
    "memjs",
    "npm's memjs, which the runtime fetches",
    [Deno.execPath(), "cache", TESTS_LOCK, here("memjs_client.ts")],
    [Deno.execPath(), "run", TESTS_LOCK, "--no-check", "--allow-all", here("memjs_client.ts")],
  ),
  script(
    "libmemcached-tools",
    "Debian's libmemcached-tools",
    ["sh", "-c", "command -v memccp"],
    ["sh", here("libmemcached.sh")],
  ),
  script(
    "lease-example-pymemcache",
    "Debian's python3-pymemcache",
    [PYTHON, "-c", "import pymemcache, sqlite3"],
    [PYTHON, path("examples/leases_pymemcache.py")],
  ),
  script(
    "lease-example-raw",
    "the runtime",
    [Deno.execPath(), "eval", 'import "node:sqlite"'],
    [Deno.execPath(), "run", "--allow-net=127.0.0.1", path("examples/leases_raw.ts")],
  ),
  memccapable("memccapable-ascii", "-a"),
  memccapable("memccapable-binary", "-b"),
];

/** Clients of a server with `-o lock_reply=client_error`. */
const LOCK_RUNS: readonly ClientRun[] = [
  script(
    "locked-npm",
    "npm's memcached and memjs, which the runtime fetches",
    [Deno.execPath(), "cache", TESTS_LOCK, here("locked_npm.ts")],
    [
      Deno.execPath(),
      "run",
      TESTS_LOCK,
      "--no-check",
      "--allow-all",
      "--unsafe-proto",
      here("locked_npm.ts"),
    ],
  ),
];

/** The user of the server that asks for passwords. */
const LOGIN = ["ann", "a secret"] as const;

/** A client of the server that asks for passwords. */
function login(
  name: string,
  packages: string,
  probe: readonly string[],
  command: readonly string[],
): ClientRun {
  return { name, packages, probe, command: (port) => [...command, `${port}`, ...LOGIN] };
}

function pythonLogin(library: string): ClientRun {
  return login(
    `login-${library}`,
    `Debian's python3-${library === "bmemcached" ? "binary-memcached" : library}`,
    [PYTHON, "-c", `import ${library}`],
    [PYTHON, here("auth.py"), library],
  );
}

const LOGIN_RUNS: readonly ClientRun[] = [
  pythonLogin("pymemcache"),
  pythonLogin("pylibmc"),
  pythonLogin("bmemcached"),
  login(
    "login-dalli",
    "Debian's ruby and ruby-dalli",
    ["ruby", "-e", 'require "dalli"'],
    ["ruby", here("auth_dalli.rb")],
  ),
  login(
    "login-php-memcached",
    "Debian's php-cli and php-memcached",
    ["php", "-r", "exit(class_exists('Memcached') ? 0 : 1);"],
    ["php", here("auth.php")],
  ),
  login(
    "login-libmemcached-tools",
    "Debian's libmemcached-tools and libsasl2-modules",
    ["sh", "-c", "command -v memccp"],
    ["sh", here("auth_libmemcached.sh")],
  ),
];

/** memccapable's cases that memcached 1.6.45 fails too: they want errors that it does not give. */
const MEMCCAPABLE_KNOWN = ["ascii delete", "ascii delete noreply"];

/** Those that fail with rows: flush_all empties the cache, not the table. */
const MEMCCAPABLE_FLUSHES = [
  "ascii flush",
  "ascii flush noreply",
  "binary flush",
  "binary flushq",
];

function judgeMemccapable(output: string, withRows: boolean): string | null {
  const known = withRows ? [...MEMCCAPABLE_KNOWN, ...MEMCCAPABLE_FLUSHES] : MEMCCAPABLE_KNOWN;
  const surprises = output.split("\n").filter((line) =>
    line.includes("[FAIL]") && !known.some((name) => line.startsWith(`${name} `))
  );
  if (!output.includes("[pass]")) return output;
  return surprises.length === 0 ? null : surprises.join("\n");
}

/** Runs a command to its end. */
async function runToEnd(
  command: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<{ status: number; output: string }> {
  const { code, stdout, stderr } = await new Deno.Command("timeout", {
    args: ["--signal=KILL", `${CLIENT_SEC_MAX}`, ...command],
    stdin: "null",
    env,
  }).output();
  const decoder = new TextDecoder();
  return { status: code, output: decoder.decode(stdout) + decoder.decode(stderr) };
}

let failures = 0;

function say(name: string, complaint: string | null): void {
  if (complaint !== null) failures++;
  // deno-lint-ignore no-console
  console.log(`${name}: ${complaint === null ? "ok" : `FAILED: ${complaint}`}`);
}

async function drive(
  client: ClientRun,
  port: number,
  io: string,
  alone: boolean,
  env: Readonly<Record<string, string>> = {},
): Promise<void> {
  const prefix = `${client.name}:${alone ? "alone" : "together"}:`;
  const { status, output } = await runToEnd(client.command(port, prefix, alone), env);
  const complaint = status === KILLED
    ? `not done after ${CLIENT_SEC_MAX} s\n${output}`
    : client.judge !== undefined
    ? client.judge(output, "LEASED_ROWS" in env)
    : status === 0
    ? null
    : `status ${status}\n${output}`;
  say(`${client.name}, ${io}, ${alone ? "alone" : "beside others"}`, complaint);
}

/** The runs that were asked for and whose clients are installed. */
async function installedOf(runs: readonly ClientRun[]): Promise<ClientRun[]> {
  const installed: ClientRun[] = [];
  for (const client of runs) {
    if (Deno.args.length > 0 && !Deno.args.includes(client.name)) continue;
    const { status } = await runToEnd(client.probe);
    if (status === 0) installed.push(client);
    else say(client.name, `not installed; it comes with ${client.packages}`);
  }
  return installed;
}

const installed = await installedOf(RUNS);
const logins = await installedOf(LOGIN_RUNS);
const lockers = await installedOf(LOCK_RUNS);
const userFile = Deno.makeTempFileSync({ prefix: "leased-test-" });
Deno.writeTextFileSync(userFile, `${LOGIN.join(":")}\n`);
for (const io of TRANSPORTS) {
  await using server = await ServerProcess.start({ io, args: ["-z", "3333"] });
  for (const client of installed) await drive(client, server.port, io, true);
  const beside = installed.filter(({ onlyAlone }) => onlyAlone !== true);
  await Promise.all(beside.map((client) => drive(client, server.port, io, false)));
}
for (const io of TRANSPORTS) {
  await using server = await ServerProcess.start({ io, args: ["-o", "lock_reply=client_error"] });
  for (const client of lockers) await drive(client, server.port, io, true);
}
for (const io of TRANSPORTS) {
  await using server = await ServerProcess.start({
    io,
    args: ["-Y", userFile, "-S", "-B", "auto"],
    permissions: [`--allow-read=${userFile}`, ...leastPermissions(io)],
  });
  for (const client of logins) await drive(client, server.port, io, true);
}
for (const io of TRANSPORTS) {
  const folder = Deno.makeTempDirSync({ prefix: "leased-test-" });
  await using server = await ServerProcess.start({
    io,
    args: ["-z", "3333", "--db", `sqlite:${folder}/rows.db`, "--row-expiry", "ignore"],
    permissions: [
      "--allow-ffi",
      `--allow-read=${folder}`,
      `--allow-write=${folder}`,
      ...leastPermissions(io),
    ],
  });
  const env = { LEASED_ROWS: "1" };
  const how = `${io} with rows`;
  await Promise.all(
    installed.filter(({ onlyAlone }) => onlyAlone !== true)
      .map((client) => drive(client, server.port, how, false, env)),
  );
  for (const client of installed.filter(({ onlyAlone }) => onlyAlone === true)) {
    await drive(client, server.port, how, true, env);
  }
  Deno.removeSync(folder, { recursive: true });
}
Deno.removeSync(userFile);
using certificates = new Certificates();
const certificate = certificates.make("localhost");
for (const io of TRANSPORTS) {
  const { certPath, keyPath } = certificate;
  const reading = io === "portable" ? [`--allow-read=${certPath},${keyPath}`] : [];
  await using server = await ServerProcess.start({
    io,
    args: tlsArguments(certificate),
    permissions: [...leastPermissions(io), ...reading],
  });
  const env = { LEASED_TLS_CA: certPath };
  for (const client of installed.filter(({ speaksTls }) => speaksTls === true)) {
    await drive(client, server.port, `${io} with TLS`, true, env);
  }
}
if (failures > 0) Deno.exit(1);
