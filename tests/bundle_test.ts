import { assertEquals, assertMatch } from "@std/assert";
import { path, ServerProcess } from "./support/servers/server_process.ts";
import { bytesOf, textOf } from "./support/sessions/side.ts";

/** What the file's own script runs, on a machine that has nothing else. */
const PROGRAMS = "sh tail tar gzip mktemp mkdir mv rm".split(" ");

function run(program: string, args: readonly string[]): string {
  const { code, stdout, stderr } = new Deno.Command(program, { args: [...args] }).outputSync();
  assertEquals(code, 0, `${program} ${args.join(" ")}: ${textOf(stderr)}`);
  return textOf(stdout);
}

/** Makes a root folder with those programs, the C library and no Deno. */
function makeMachine(root: string): void {
  for (const name of ["bin", "dev", "proc", "home", "tmp"]) {
    Deno.mkdirSync(`${root}/${name}`, { recursive: true });
  }
  const places = PROGRAMS.map((name) => run("sh", ["-c", `command -v ${name}`]).trim());
  for (const place of places) Deno.copyFileSync(place, `${root}/bin/${place.split("/").at(-1)}`);
  for (const program of [...places, Deno.execPath()]) {
    for (const [library] of run("ldd", [program]).matchAll(/(?<=\s)\/\S+(?= \()/g)) {
      Deno.mkdirSync(`${root}${library.slice(0, library.lastIndexOf("/"))}`, { recursive: true });
      Deno.copyFileSync(library, `${root}${library}`);
    }
  }
}

Deno.test({
  name: "deno task bundle makes one file that runs on a bare machine without a network",
  ignore: Deno.build.os !== "linux" || Deno.uid() !== 0,
  async fn(): Promise<void> {
    const folder = Deno.makeTempDirSync();
    const root = `${folder}/machine`;
    makeMachine(root);
    const { bundle } = JSON.parse(Deno.readTextFileSync(path("deno.json"))).tasks;
    const [deno, ...args] = bundle.command.split(" ");
    assertEquals(deno, "deno");
    const made = await new Deno.Command(Deno.execPath(), {
      args: [...args, `${root}/leased`],
      cwd: path(""),
    }).output();
    assertEquals(made.code, 0, textOf(made.stderr));

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
    const client = await Deno.connect({ transport: "unix", path: `${root}/tmp/socket` });
    await client.write(bytesOf("set row 0 0 1\r\n1\r\nget row\r\nquit\r\n"));
    const replies = await new Response(client.readable).text();
    assertEquals(replies, "STORED\r\nVALUE row 0 1\r\n1\r\nEND\r\n");
    await server.stop();
    Deno.removeSync(folder, { recursive: true });
  },
});
