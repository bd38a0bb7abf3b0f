import { assert, assertEquals, assertLessOrEqual } from "@std/assert";
import { path, ServerProcess } from "./support/servers/server_process.ts";
import { hasProgram } from "./support/servers/peers.ts";
import { needs } from "./support/needs/needs.ts";

const UNIT = Deno.readTextFileSync(path("contrib/leased.service"));
/** The largest exposure that `systemd-analyze security` may report, in tenths: "OK" ends at 5. */
const EXPOSURE_TENTHS_MAX = 20;

/** Returns the value of a setting that the unit has once. */
function setting(name: string): string {
  const values = [...UNIT.matchAll(new RegExp(`^${name}=(.*)$`, "gm"))];
  assertEquals(values.length, 1, name);
  return values[0]![1]!;
}

/** The unit as it would be on a machine that has deno and the sources where they are here. */
function unitHere(): string {
  return UNIT.replaceAll("/usr/local/bin/deno", Deno.execPath())
    .replaceAll("/opt/leased", path("").replace(/\/$/, ""));
}

async function output(program: string, args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command(program, { args: [...args] }).output();
  const text = new TextDecoder().decode(stdout);
  assertEquals(code, 0, `${program} ${args.join(" ")}: ${text}${new TextDecoder().decode(stderr)}`);
  return text;
}

Deno.test("systemd finds nothing wrong with contrib/leased.service, and rates it OK", {
  ...needs("systemd-analyze", hasProgram("systemd-analyze")),
}, async (): Promise<void> => {
  const folder = Deno.makeTempDirSync();
  const file = `${folder}/leased.service`;
  Deno.writeTextFileSync(file, unitHere());
  const socket = `${folder}/leased.socket`;
  Deno.copyFileSync(path("contrib/leased.socket"), socket);
  const { code, stderr } = await new Deno.Command("systemd-analyze", {
    args: ["verify", "--man=no", "--recursive-errors=no", file, socket],
    stdout: "null",
  }).output();
  // Unknown settings are warnings only. systemd also reads units of this machine, and warns of them.
  const ours = new TextDecoder().decode(stderr).split("\n").filter((line) => /leased\./.test(line));
  assertEquals([code, ours], [0, []]);
  const rating = await output("systemd-analyze", [
    "security",
    "--offline=true",
    "--no-pager",
    file,
  ]);
  const [, exposure] = /Overall exposure level for leased\.service: ([\d.]+)/.exec(rating)!;
  assertLessOrEqual(Number(exposure) * 10, EXPOSURE_TENTHS_MAX);
  Deno.removeSync(folder, { recursive: true });
});

Deno.test("contrib/leased.service and deno task compile repeat the V8 flags of deno task start", () => {
  const { start, compile } = JSON.parse(Deno.readTextFileSync(path("deno.json"))).tasks;
  const [assignment] = /^\w+=\S+/.exec(start.command)!;
  const [flags] = /--v8-flags=\S+/.exec(start.command)!;
  assert(setting("ExecStart").includes(` ${flags} `));
  assert(setting("Environment").split(" ").includes(assignment));
  assert(compile.command.includes(` ${flags} `));
});

Deno.test("contrib/leased.service starts without credentials, and the documents name those that it takes", () => {
  const names = [...UNIT.matchAll(/^LoadCredential=(.*)$/gm)].map(([, name]) => name!);
  assertEquals(names, ["leased.users", "leased.pem", "leased.key"]);
  // Without an absolute path systemd looks into /etc/credstore, and goes on if the file is missing.
  for (const name of names) assertEquals(/[:/]/.test(name), false, name);
  const page = Deno.readTextFileSync(path("docs/running.md"));
  for (const name of names) assert(page.includes(name), name);
});

/** Flags of setpriv. Only root has capabilities to give up. */
const WITHOUT_CAPABILITIES = Deno.uid() === 0 ? ["--bounding-set=-all", "--inh-caps=-all"] : [];
const TOOLS = ["strace", "setpriv", "systemd-analyze"];

Deno.test({
  name: "the unit's command runs without privileges, and within its filters",
  ...needs("strace, setpriv and systemd-analyze", TOOLS.every(hasProgram)),
  async fn(): Promise<void> {
    const folder = Deno.makeTempDirSync();
    const trace = `${folder}/trace`;
    const here = unitHere();
    const [, line] = /^ExecStart=(.*) \$OPTIONS$/m.exec(here)!;
    // The packages of this machine: those of the unit are fetched when it is installed.
    const [program, ...args] = line!.split(" ");
    const server = await ServerProcess.spawn(
      new Deno.Command("strace", {
        // deno-fmt-ignore
        args: [
          "-f", "-qq", "-o", trace,
          "setpriv", "--no-new-privs", ...WITHOUT_CAPABILITIES,
          program!, ...args, "-p", "-1", "-U", "-1", "--counter-port", "-1", "-z", "3333",
          "-P", `${folder}/leased.pid`, "--state-dir", folder,
        ],
        cwd: path(""),
        env: { NO_COLOR: "1", MALLOC_ARENA_MAX: "1" },
        stdin: "null",
        stdout: "null",
        stderr: "piped",
      }),
    );
    using client = await server.connect();
    await client.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
    await client.ask(`set b 0 0 300000\r\n${"x".repeat(300_000)}\r\n`, "STORED\r\n");
    await client.send("token get a\r\n");
    await client.until("\r\n");
    await client.send("stats\r\n");
    await client.until("END\r\n");
    Deno.kill(Number(Deno.readTextFileSync(`${folder}/leased.pid`)), "SIGTERM");
    const { code, stderr } = await server.ended();
    assertEquals(code, 0, stderr);

    const text = Deno.readTextFileSync(trace);
    const called = new Set([...text.matchAll(/^\d+ +([a-z]\w*)\(/gm)].map(([, name]) => name!));
    assert(called.has("epoll_wait") || called.has("epoll_pwait"), [...called].join(" "));
    const allowed = await systemCalls(setting("SystemCallFilter").split(" "));
    assertEquals([...called].filter((name) => !allowed.has(name)), []);
    const families = new Set(
      [...text.matchAll(/^\d+ +socket\((AF_\w+)/gm)].map(([, name]) => name!),
    );
    const allowedFamilies = setting("RestrictAddressFamilies").split(" ");
    assertEquals([...families].filter((name) => !allowedFamilies.includes(name)), []);
    Deno.removeSync(folder, { recursive: true });
  },
});

/** Returns the names of system calls in groups like `@system-service`, and in the groups that these contain. */
async function systemCalls(groups: readonly string[]): Promise<Set<string>> {
  const names = new Set<string>();
  for (const group of groups) {
    const lines = (await output("systemd-analyze", ["syscall-filter", group])).split("\n").slice(1)
      .map((line) => line.trim()).filter((line) => line !== "" && !line.startsWith("#"));
    const nested = await systemCalls(lines.filter((line) => line.startsWith("@")));
    for (const name of [...lines, ...nested]) names.add(name);
  }
  return names;
}
