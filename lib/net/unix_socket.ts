import { ListenError, listenText, type UnixListen } from "./transport.ts";

/**
 * Frees the path of a Unix socket: removes the file of a server that has ended.
 *
 * @throws ListenError when a server answers there, when the file is no socket, or when there is no folder.
 */
export async function claimSocketPath(listen: UnixListen): Promise<void> {
  const { path } = listen;
  let file: Deno.FileInfo;
  try {
    file = Deno.lstatSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotADirectory) throw refusal(listen, "ENOTDIR", "no folder");
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    if (hasFolder(path)) return;
    throw refusal(listen, "ENOENT", "no folder");
  }
  if (!file.isSocket) {
    throw refusal(listen, "EEXIST", "there is a file that is no socket");
  }
  if (await answers(path)) {
    throw refusal(listen, "EADDRINUSE", "another server listens there");
  }
  Deno.removeSync(path);
}

function refusal(listen: UnixListen, code: string, cause: string): ListenError {
  return new ListenError(listen, code, `cannot listen on ${listenText(listen)}: ${cause}`);
}

/** Returns whether the file of a path could be created, as far as this process may know. */
function hasFolder(path: string): boolean {
  try {
    return Deno.statSync(path.slice(0, path.lastIndexOf("/") + 1) || ".").isDirectory;
  } catch (error) {
    return !(error instanceof Deno.errors.NotFound);
  }
}

async function answers(path: string): Promise<boolean> {
  try {
    const connection = await Deno.connect({ transport: "unix", path });
    connection.close();
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) throw error;
    // Anything else (a full queue, a descriptor too many) may be the answer of a server that lives.
    return !(error instanceof Deno.errors.ConnectionRefused ||
      error instanceof Deno.errors.NotFound);
  }
}

/** Gives the socket file its mode; between bind and here it has what the umask leaves. */
export function setSocketMode(listen: UnixListen): void {
  Deno.chmodSync(listen.path, listen.mode);
}

/** Returns the inode of the path's socket, or null without one. */
export function socketFileId({ path }: UnixListen): number | null {
  try {
    const { isSocket, ino } = Deno.lstatSync(path);
    return isSocket ? ino : null;
  } catch {
    return null;
  }
}

/** Returns whether any file has the path. */
export function hasPath({ path }: UnixListen): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch {
    return false;
  }
}

/**
 * Removes the socket file, unless it is another's.
 *
 * @param id The result of `socketFileId` when it was made.
 */
export function removeSocketFile(listen: UnixListen, id: number): void {
  if (socketFileId(listen) !== id) return;
  try {
    Deno.removeSync(listen.path);
  } catch {
    // Already removed, or not permitted.
  }
}
