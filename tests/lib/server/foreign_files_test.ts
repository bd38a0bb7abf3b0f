import { assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { StateError, StateFolder } from "../../../lib/journal/state_folder.ts";
import { runToEnd, ServerProcess } from "../../support/servers/server_process.ts";

// Paths that options name, and that have something else than this server's files: nothing of others is changed, and
// no start waits for a FIFO.

const OTHER = "SQLite format 3\0 and a customer's orders\n";

class Folder implements Disposable {
  readonly path = Deno.makeTempDirSync();

  fifo(name: string): string {
    const path = `${this.path}/${name}`;
    new Deno.Command("mkfifo", { args: [path] }).outputSync();
    return path;
  }

  file(name: string, text = OTHER): string {
    const path = `${this.path}/${name}`;
    Deno.writeTextFileSync(path, text);
    return path;
  }

  folder(name: string): string {
    const path = `${this.path}/${name}`;
    Deno.mkdirSync(path);
    return path;
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}

/** Starts a server that must refuse. */
async function assertRefused(
  args: readonly string[],
  code: number,
  message: string | RegExp,
): Promise<void> {
  const ended = await runToEnd({
    permissions: ["--allow-all"],
    args: ["--io", "portable", "-p", "-1", ...args],
  });
  assertEquals(ended.code, code, ended.stderr);
  if (typeof message === "string") assertStringIncludes(ended.stderr, message);
  else assertMatch(ended.stderr, message);
}

Deno.test("a user file that is a FIFO or a folder is refused at once", async () => {
  using folder = new Folder();
  await assertRefused(["-Y", folder.fifo("fifo")], 71, "it is a FIFO, not a file");
  await assertRefused(["-Y", folder.folder("folder")], 71, "it is a folder, not a file");
});

Deno.test("a state directory that is a file or a FIFO, or has files of others, is refused at once", async () => {
  using folder = new Folder();
  await assertRefused(["--state-dir", folder.fifo("fifo")], 71, "it is a FIFO, not a folder");
  const file = folder.file("file");
  await assertRefused(["--state-dir", file], 71, "it is a file, not a folder");
  assertEquals(Deno.readTextFileSync(file), OTHER);
  for (const name of ["lock", "tokens.journal", "tokens.journal.new", "tokens.journal.damaged"]) {
    const state = folder.folder(`fifo-${name}`);
    folder.fifo(`fifo-${name}/${name}`);
    const open = (): StateFolder => new StateFolder(state);
    assertThrows(open, StateError, `${state}/${name} is a FIFO: move it away`);
  }
  const state = folder.folder("state");
  const lock = folder.file("state/lock");
  await assertRefused(["--state-dir", state], 71, `${lock} is a file of another program`);
  assertEquals(Deno.readTextFileSync(lock), OTHER);
  assertEquals([...Deno.readDirSync(state)].length, 1);
});

Deno.test("a database that is another file, a folder or a FIFO is refused at once", async () => {
  using folder = new Folder();
  const file = folder.file("file", "x".repeat(5000));
  await assertRefused(["--db", `sqlite:${file}`], 71, "not a database");
  assertEquals(Deno.readTextFileSync(file), "x".repeat(5000));
  const [other, fifo] = [folder.folder("folder"), folder.fifo("fifo")];
  await assertRefused(["--db", `sqlite:${other}`], 71, `${other} is a folder, not a file`);
  await assertRefused(["--db", `sqlite:${fifo}`], 71, `${fifo} is a FIFO, not a file`);
  const database = `${folder.path}/database`;
  folder.fifo("database-origin");
  await assertRefused(["--db", `sqlite:${database}`], 71, "is a FIFO");
});

Deno.test("a FIFO instead of a file of views is refused at once", async () => {
  using folder = new Folder();
  const db = ["--db", `sqlite:${folder.path}/database`];
  const fifo = folder.fifo("fifo");
  await assertRefused([...db, "--follow", "--views", fifo], 64, "it is a FIFO, not a file");
});

Deno.test("a certificate that is a FIFO is refused at once", async () => {
  using folder = new Folder();
  const fifo = folder.fifo("fifo");
  const tls = ["--ssl-chain-cert", fifo, "--ssl-key", fifo];
  await assertRefused(["-Z", ...tls], 64, "it is a FIFO, not a file");
  const plain = ["-l", "notls:127.0.0.1", "--admin", "tls:0"];
  await assertRefused(["-Z", ...tls, ...plain], 64, "it is a FIFO, not a file");
});

Deno.test("pid file and port file replace nothing of others", async () => {
  using folder = new Folder();
  const started = async (path: string, portPath: string): Promise<string> => {
    await using server = await ServerProcess.start({
      permissions: ["--allow-all"],
      args: ["-P", path],
      env: { MEMCACHED_PORT_FILENAME: portPath },
    });
    const { stderr } = await server.stop();
    return stderr;
  };
  const [file, other] = [folder.file("file"), folder.file("other")];
  const stderr = await started(file, other);
  assertStringIncludes(
    stderr,
    `cannot write the pid file ${file}: ${file} is a file of another program`,
  );
  assertStringIncludes(
    stderr,
    `cannot write the port file ${other}: ${other} is a file of another`,
  );
  assertEquals(Deno.readTextFileSync(file), OTHER);
  assertEquals(Deno.readTextFileSync(other), OTHER);

  const pid = `${folder.path}/pid`;
  const ports = `${folder.path}/ports`;
  folder.fifo("pid.tmp");
  Deno.symlinkSync(file, `${ports}.lck`);
  const links = await started(pid, ports);
  assertStringIncludes(links, `${pid}.tmp is a FIFO; choose another path`);
  assertStringIncludes(links, `${ports}.lck is a symbolic link; choose another path`);
  assertEquals(Deno.readTextFileSync(file), OTHER);

  // Files of an earlier process are replaced.
  for (const name of ["pid.tmp", "ports.lck"]) Deno.removeSync(`${folder.path}/${name}`);
  folder.file("pid", "12345\n");
  folder.file("pid.tmp", "123");
  folder.file("ports", "TCP INET: 1\nTCP INET6: 2\n");
  folder.file("ports.lck", "TCP INET: 1\nUD");
  assertEquals((await started(pid, ports)).includes("cannot write"), false);
  assertMatch(Deno.readTextFileSync(ports), /^TCP INET: \d+\n$/);
});
