// Tells files from other things at a path, before this process reads, writes or renames them.

/** Returns the kind of a file, for messages: "a FIFO". */
export function kindOf(info: Deno.FileInfo): string {
  if (info.isFile) return "a file";
  if (info.isDirectory) return "a folder";
  if (info.isSymlink) return "a symbolic link";
  if (info.isFifo) return "a FIFO";
  if (info.isSocket) return "a socket";
  return "a device";
}

/** Returns the entry at a path, without following a symbolic link; null: there is none. @throws The system's error. */
export function entryAt(path: string): Deno.FileInfo | null {
  return orNull(() => Deno.lstatSync(path));
}

/** Returns the entry at a path, following symbolic links; null: there is none. @throws The system's error. */
export function targetAt(path: string): Deno.FileInfo | null {
  return orNull(() => Deno.statSync(path));
}

/**
 * Reads a whole file. Refuses a folder, a FIFO, a socket and a device before opening it: opening a FIFO waits until
 * another process writes, and no signal ends that. Pipes that a shell has opened for this process are allowed.
 *
 * @throws The system's error, or one that names the kind.
 */
export function readRegularFile(path: string): Uint8Array<ArrayBuffer> {
  const info = Deno.statSync(path);
  if (!info.isFile && !/^\/(?:dev|proc\/self)\/fd\/\d+$/.test(path)) {
    throw new Error(`it is ${kindOf(info)}, not a file`);
  }
  return Deno.readFileSync(path);
}

/** Reads a whole file as UTF-8. @throws As `readRegularFile`. */
export function readRegularTextFile(path: string): string {
  return new TextDecoder().decode(readRegularFile(path));
}

function orNull(stat: () => Deno.FileInfo): Deno.FileInfo | null {
  try {
    return stat();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}
