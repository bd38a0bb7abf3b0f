import { ListenError, listenText, type UnixListen } from "./transport.ts";

/**
 * Frees the path of a Unix socket: removes the file of a server that has ended.
 *
 * @throws ListenError when a server answers there, or when the file is no socket.
 */
export async function claimSocketPath(listen: UnixListen): Promise<void> {
  const { path } = listen;
  let file: Deno.FileInfo;
  try {
    file = Deno.lstatSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    throw error;
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

/** Removes the socket file at exit, unless another process has removed it. */
export function removeSocketFile(listen: UnixListen): void {
  try {
    if (Deno.lstatSync(listen.path).isSocket) Deno.removeSync(listen.path);
  } catch {
    // Already removed, or not permitted.
  }
}
