import { assertEquals, assertRejects } from "@std/assert";
import { ListenError, type UnixListen } from "../../../lib/net/transport.ts";
import {
  claimSocketPath,
  hasPath,
  removeSocketFile,
  setSocketMode,
  socketFileId,
} from "../../../lib/net/unix_socket.ts";

async function inFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await use(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

function listenAt(path: string): UnixListen {
  return { kind: "unix", path, mode: 0o640, protocol: "auto" };
}

/** Leaves a socket file as a killed server does. */
function leaveSocket(path: string): void {
  const other = `${path}.made`;
  const listener = Deno.listen({ transport: "unix", path: other });
  Deno.renameSync(other, path);
  // The runtime removes the file of the path that it knows.
  listener.close();
}

Deno.test("a path that is free, or has a dead server's socket, is claimed", () =>
  inFolder(async (folder) => {
    const path = `${folder}/sock`;
    await claimSocketPath(listenAt(path));
    leaveSocket(path);
    assertEquals(hasPath(listenAt(path)), true);
    await claimSocketPath(listenAt(path));
    assertEquals(hasPath(listenAt(path)), false);
  }));

Deno.test("a path of a living server, of another file, or without a folder is refused by its code", () =>
  inFolder(async (folder) => {
    const path = `${folder}/sock`;
    const refused = async (at: string): Promise<string> => {
      const claimed = assertRejects(() => claimSocketPath(listenAt(at)), ListenError);
      const error = await claimed as ListenError;
      return `${error.code} ${error.message}`;
    };
    const listener = Deno.listen({ transport: "unix", path });
    assertEquals(
      await refused(path),
      `EADDRINUSE cannot listen on ${path}: another server listens there`,
    );
    assertEquals(Deno.lstatSync(path).isSocket, true);
    listener.close();
    const file = `${folder}/file`;
    Deno.writeTextFileSync(file, "x");
    const noSocket = "there is a file that is no socket";
    assertEquals(await refused(file), `EEXIST cannot listen on ${file}: ${noSocket}`);
    assertEquals(await refused(folder), `EEXIST cannot listen on ${folder}: ${noSocket}`);
    assertEquals(Deno.readTextFileSync(file), "x");
    const link = `${folder}/link`;
    Deno.symlinkSync(path, link);
    assertEquals((await refused(link)).split(" ")[0], "EEXIST");
    assertEquals((await refused(`${folder}/none/sock`)).split(" ")[0], "ENOENT");
    assertEquals((await refused(`${file}/sock`)).split(" ")[0], "ENOTDIR");
  }));

Deno.test("a server removes its own socket file only, and gives it the mode of -a", () =>
  inFolder(async (folder) => {
    const listen = listenAt(`${folder}/sock`);
    assertEquals(socketFileId(listen), null);
    const listener = Deno.listen({ transport: "unix", path: listen.path });
    setSocketMode(listen);
    assertEquals(Deno.lstatSync(listen.path).mode! & 0o777, 0o640);
    const id = socketFileId(listen)!;
    assertEquals(id, Deno.lstatSync(listen.path).ino);
    removeSocketFile(listen, id + 1);
    assertEquals(hasPath(listen), true);
    removeSocketFile(listen, id);
    assertEquals(hasPath(listen), false);
    removeSocketFile(listen, id);
    Deno.writeTextFileSync(listen.path, "x");
    assertEquals([socketFileId(listen), hasPath(listen)], [null, true]);
    removeSocketFile(listen, Deno.lstatSync(listen.path).ino!);
    assertEquals(hasPath(listen), true);
    listener.close();
    await Promise.resolve();
  }));
