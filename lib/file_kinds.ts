// What lies at a path, for files that this process reads, writes or renames.

/** Returns what a file is, in words. */
export function kindOf(info: Deno.FileInfo): string {
  if (info.isFile) return "a file";
  if (info.isDirectory) return "a folder";
  if (info.isSymlink) return "a symbolic link";
  if (info.isFifo) return "a FIFO";
  if (info.isSocket) return "a socket";
  return "a device";
}

/** Returns what lies at a path, a symbolic link itself; null: nothing. @throws The system's error. */
export function entryAt(path: string): Deno.FileInfo | null {
  return orNull(() => Deno.lstatSync(path));
}

/** Returns what a path leads to, through symbolic links; null: nothing. @throws The system's error. */
export function targetAt(path: string): Deno.FileInfo | null {
  return orNull(() => Deno.statSync(path));
}

/**
 * Reads a whole file. Refuses everything else, before it is opened: to open a FIFO waits until another process writes,
 * and no signal ends that. Pipes that a shell has opened for this process are allowed.
 *
 * @throws The system's error, or one that says what the path is.
 */
export function readRegularFile(path: string): Uint8Array<ArrayBuffer> {
  const info = Deno.statSync(path);
  if (!info.isFile && !/^\/(?:dev|proc\/self)\/fd\/\d+$/.test(path)) {
    throw new Error(`it is ${kindOf(info)}, not a file`);
  }
  return Deno.readFileSync(path);
}

function orNull(stat: () => Deno.FileInfo): Deno.FileInfo | null {
  try {
    return stat();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}
