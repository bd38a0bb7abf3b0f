import { assertEquals } from "@std/assert";
import {
  folderOf,
  PidFile,
  PORT_FILE_VARIABLE,
  portFilePath,
  readVariable,
  writePortFile,
} from "../../../lib/server/files.ts";
import type { Listen } from "../../../lib/net/transport.ts";

/** Runs `use` with a folder that is removed afterwards. */
function inFolder(use: (folder: string) => void): void {
  const folder = Deno.makeTempDirSync();
  try {
    use(folder);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

function namesIn(folder: string): string[] {
  return [...Deno.readDirSync(folder)].map(({ name }) => name).toSorted();
}

const LISTENS: readonly Listen[] = [
  { kind: "tcp", hostname: "127.0.0.1", port: 5, protocol: "auto" },
  { kind: "tcp", hostname: "::1", port: 6, protocol: "auto" },
  { kind: "udp", hostname: "0.0.0.0", port: 7, protocol: "auto" },
  { kind: "unix", path: "/s", mode: 0o700, protocol: "auto" },
];
const PORTS = "TCP INET: 5\nTCP INET6: 6\nUDP INET: 7\n";

Deno.test("folderOf() names the folder of a path, also the root and the current one", () => {
  const paths = ["/run/leased.pid", "/leased.pid", "leased.pid", "./leased.pid", "a/b/c"];
  assertEquals(paths.map(folderOf), ["/run", "/", ".", ".", "a/b"]);
});

Deno.test("the pid file has the pid and a line end, and goes only with the process that wrote it", () => {
  inFolder((folder) => {
    const path = `${folder}/pid`;
    const file = new PidFile(path);
    Deno.writeTextFileSync(path, "99\n");
    Deno.writeTextFileSync(`${path}.tmp`, "4");
    file.remove();
    assertEquals(Deno.readTextFileSync(path), "99\n");
    assertEquals(file.write(1234), null);
    assertEquals(Deno.readTextFileSync(path), "1234\n");
    assertEquals(namesIn(folder), ["pid"]);
    file.remove();
    assertEquals(namesIn(folder), []);
    // Another process has the path now.
    Deno.writeTextFileSync(path, "5\n");
    file.remove();
    assertEquals(namesIn(folder), ["pid"]);
    Deno.removeSync(path);
    assertEquals(file.write(6), null);
    Deno.removeSync(path);
    file.remove();
  });
  const none = new PidFile("");
  assertEquals(none.write(1), null);
  none.remove();
});

Deno.test("the port file has a line for each socket with a port, and replaces one of an earlier server", () => {
  inFolder((folder) => {
    const path = `${folder}/ports`;
    assertEquals(writePortFile(path, LISTENS), null);
    assertEquals(Deno.readTextFileSync(path), PORTS);
    // As memcached writes it, and as a server leaves it that is killed meanwhile.
    for (const text of ["TCP INET: 11211\nTCP INET6: 11211\n", "", "TCP INET: 1\nUDP IN"]) {
      Deno.writeTextFileSync(path, text);
      Deno.writeTextFileSync(`${path}.lck`, text);
      assertEquals(writePortFile(path, LISTENS), null, text);
      assertEquals(Deno.readTextFileSync(path), PORTS);
      assertEquals(namesIn(folder), ["ports"]);
    }
  });
});

Deno.test("files and other things of others are neither replaced nor removed", () => {
  inFolder((folder) => {
    const path = `${folder}/file`;
    const foreign = `${path} is a file of another program; choose another path`;
    const cases: readonly (readonly [text: string, isPid: boolean])[] = [
      ["a diary\n", false],
      ["12 a\n", false],
      ["TCP INET: x\n", false],
      [PORTS, false],
      ["12\n", true],
    ];
    for (const [text, isPid] of cases) {
      const file = new PidFile(path);
      for (const at of [path, `${path}.tmp`]) {
        Deno.writeTextFileSync(at, text);
        const problem = file.write(1);
        assertEquals(problem === null, isPid, text);
        if (problem !== null) {
          assertEquals(problem, {
            message: `cannot write the pid file ${path}: ${foreign.replace(path, at)}`,
            path,
            reason: foreign.replace(path, at),
          });
          assertEquals(Deno.readTextFileSync(at), text);
          file.remove();
          assertEquals(Deno.readTextFileSync(at), text);
        }
        for (const name of namesIn(folder)) Deno.removeSync(`${folder}/${name}`);
      }
    }
    Deno.writeTextFileSync(path, "1".repeat(64 * 1024 + 1));
    assertEquals(new PidFile(path).write(1)!.reason, foreign);
    Deno.writeTextFileSync(path, "1".repeat(64 * 1024));
    assertEquals(new PidFile(path).write(1), null);
    Deno.writeTextFileSync(path, "12\n");
    assertEquals(writePortFile(path, LISTENS)!.reason, foreign);
    assertEquals(Deno.readTextFileSync(path), "12\n");
    assertEquals(
      new PidFile(folder).write(1)!.reason,
      `${folder} is a folder; choose another path`,
    );
    Deno.removeSync(path);
    Deno.symlinkSync("/nowhere", path);
    assertEquals(
      writePortFile(path, LISTENS)!.message,
      `cannot write the port file ${path}: ${path} is a symbolic link; choose another path`,
    );
  });
});

Deno.test("a folder that is missing is named, with what to do", () => {
  inFolder((folder) => {
    const path = `${folder}/none/pid`;
    const reason = `the folder ${folder}/none does not exist; create it, or choose another path`;
    const problem = new PidFile(path).write(1);
    assertEquals(problem, {
      message: `cannot write the pid file ${path}: ${reason}`,
      path,
      reason,
    });
  });
});

Deno.test("a variable that is not set, or may not be read, is empty", () => {
  const before = Deno.env.get(PORT_FILE_VARIABLE);
  const query = Deno.permissions.querySync;
  try {
    Deno.env.delete(PORT_FILE_VARIABLE);
    assertEquals(portFilePath(), "");
    Deno.env.set(PORT_FILE_VARIABLE, "/ports");
    assertEquals([portFilePath(), readVariable(PORT_FILE_VARIABLE)], ["/ports", "/ports"]);
    Deno.permissions.querySync = () => ({ state: "prompt" }) as Deno.PermissionStatus;
    assertEquals(portFilePath(), "");
  } finally {
    Deno.permissions.querySync = query;
    if (before === undefined) Deno.env.delete(PORT_FILE_VARIABLE);
    else Deno.env.set(PORT_FILE_VARIABLE, before);
  }
});
