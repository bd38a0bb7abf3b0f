import { assertEquals, assertMatch } from "@std/assert";
import { path, ServerProcess } from "./support/servers/server_process.ts";
import { bytesOf, textOf } from "./support/sessions/side.ts";
import { hasProgram } from "./support/servers/peers.ts";
import { needs } from "./support/needs/needs.ts";

/** The programs that the file's own script runs. */
const PROGRAMS = "sh tail tar gzip mktemp mkdir mv rm".split(" ");
/** The programs that the container needs beside it: for its build, and for its health check. */
const CONTAINER_PROGRAMS = ["chmod", "bash"];
const IS_ROOT = Deno.build.os === "linux" && Deno.uid() === 0;

function run(program: string, args: readonly string[], env = {}): string {
  const { code, stdout, stderr } = new Deno.Command(program, {
    args: [...args],
    env,
    cwd: path(""),
  })
    .outputSync();
  assertEquals(code, 0, `${program} ${args.join(" ")}: ${textOf(stderr)}`);
  return textOf(stdout).trim();
}

/** Makes a root folder with those programs, the C library and no Deno. */
function makeMachine(root: string, programs: readonly string[]): void {
  for (const name of ["bin", "dev", "proc", "home", "tmp"]) {
    Deno.mkdirSync(`${root}/${name}`, { recursive: true });
  }
  Deno.chmodSync(`${root}/tmp`, 0o1777);
  const places = programs.map((name) => run("sh", ["-c", `command -v ${name}`]));
  for (const place of places) Deno.copyFileSync(place, `${root}/bin/${place.split("/").at(-1)}`);
  for (const program of [...places, Deno.execPath()]) {
    for (const [library] of run("ldd", [program]).matchAll(/(?<=\s)\/\S+(?= \()/g)) {
      Deno.mkdirSync(`${root}${library.slice(0, library.lastIndexOf("/"))}`, { recursive: true });
      Deno.copyFileSync(library, `${root}${library}`);
    }
  }
}

let bundled = "";

/** Runs `deno task bundle`, once for all tests, and copies the file. */
function bundle(target: string): void {
  bundled ||= makeBundle(`${Deno.makeTempDirSync()}/leased`);
  Deno.copyFileSync(bundled, target);
}

Deno.test.afterAll(() => {
  if (bundled !== "") Deno.removeSync(bundled);
});

function makeBundle(target: string): string {
  const { command } = JSON.parse(Deno.readTextFileSync(path("deno.json"))).tasks.bundle;
  const [deno, ...args] = command.split(" ");
  assertEquals(deno, "deno");
  run(Deno.execPath(), [...args, target]);
  return target;
}

async function askRow(connection: Deno.Conn): Promise<void> {
  await connection.write(bytesOf("set row 0 0 1\r\n1\r\nget row\r\nquit\r\n"));
  const replies = await new Response(connection.readable).text();
  assertEquals(replies, "STORED\r\nVALUE row 0 1\r\n1\r\nEND\r\n");
}

Deno.test("deno task bundle makes one file that runs on a bare machine without a network", {
  ...needs("root", IS_ROOT),
}, async (): Promise<void> => {
  const folder = Deno.makeTempDirSync();
  const root = `${folder}/machine`;
  makeMachine(root, PROGRAMS);
  bundle(`${root}/leased`);
  // A network and mounts of its own; Deno asks /proc for its path.
  const mounts = `mount --bind /proc ${root}/proc && mount --bind /dev ${root}/dev`;
  const inside = (args: string): Deno.Command =>
    new Deno.Command("unshare", {
      args: ["--net", "--mount", "sh", "-c", `${mounts} && exec chroot ${root} ${args}`],
      clearEnv: true,
      env: { PATH: "/bin:/usr/bin:/usr/sbin", HOME: "/home", NO_COLOR: "1" },
      stderr: "piped",
    });
  // Two first starts at once: one of them unpacks in vain.
  const versions = await Promise.all([1, 2].map(() => inside("/leased --version").output()));
  for (const { code, stdout, stderr } of versions) {
    assertEquals(code, 0, textOf(stderr));
    assertMatch(textOf(stdout), /^leased \d+\.\d+\.\d+ /);
  }
  assertEquals([...Deno.readDirSync(`${root}/home/.cache/leased`)].length, 1);

  const options = "-p -1 -s /tmp/socket --state-dir /home/state --db sqlite:/home/rows.db";
  await using server = await ServerProcess.spawn(inside(`/leased ${options}`));
  await askRow(await Deno.connect({ transport: "unix", path: `${root}/tmp/socket` }));
  await server.stop();
  Deno.removeSync(folder, { recursive: true });
});

Deno.test("contrib/Containerfile builds, and its server runs as nobody with nothing to write to", {
  ...(IS_ROOT ? needs("buildah", hasProgram("buildah")) : needs("root", false)),
}, async (): Promise<void> => {
  const folder = Deno.makeTempDirSync();
  makeMachine(`${folder}/machine`, [...PROGRAMS, ...CONTAINER_PROGRAMS]);
  Deno.mkdirSync(`${folder}/context`);
  bundle(`${folder}/context/leased`);
  const env = { BUILDAH_ISOLATION: "chroot", STORAGE_DRIVER: "vfs" };
  const storage = ["--root", `${folder}/storage`, "--runroot", `${folder}/run`];
  const buildah = (...args: string[]): string => run("buildah", [...storage, ...args], env);

  const bare = buildah("from", "scratch");
  buildah("add", bare, `${folder}/machine`, "/");
  buildah("commit", "--quiet", bare, "base");
  const file = path("contrib/Containerfile");
  const build = "build --format docker --pull-never --build-arg BASE=localhost/base -t leased";
  buildah(...build.split(" "), "-f", file, `${folder}/context`);

  const container = buildah("from", "--pull-never", "localhost/leased");
  const config = JSON.parse(buildah("inspect", container)).Docker.config;
  assertEquals(config.User, "65532:65532");
  assertEquals([...config.Entrypoint, ...config.Cmd], ["leased", "-l", "*"]);
  const options = ["-p", "-1", "--db", "sqlite:/tmp/rows.db"];
  await using server = await ServerProcess.spawn(
    new Deno.Command("buildah", {
      args: [...storage, "run", container, "--", ...config.Entrypoint, ...options],
      env,
      stderr: "piped",
    }),
  );
  await askRow(await Deno.connect({ port: server.port }));
  const [kind, ...check]: string[] = config.Healthcheck.Test;
  assertEquals(kind, "CMD");
  const here = check.map((word) => word.replace("11211", `${server.port}`));
  buildah("run", container, "--", ...here);
  // buildah does not pass signals on.
  Deno.kill(Number(/ pid (\d+)/.exec(server.lines.join())![1]), "SIGTERM");
  const { code, stderr } = await server.ended();
  assertEquals(code, 0, stderr);
  run("buildah", [...storage, "rm", "--all"], env);
  Deno.removeSync(folder, { recursive: true });
});
