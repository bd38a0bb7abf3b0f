const LOCK_NAME = "lock";

/** The state directory cannot be used. */
export class StateError extends Error {
  override readonly name = "StateError";
}

/**
 * Makes the state directory if it is missing, and locks it, so that no two servers write the same journal. The lock
 * ends with the process.
 *
 * @throws StateError when another server has it, or the system refuses.
 */
export function lockStateFolder(folder: string): Deno.FsFile {
  try {
    Deno.mkdirSync(folder, { recursive: true, mode: 0o700 });
    const file = Deno.openSync(`${folder}/${LOCK_NAME}`, { write: true, create: true });
    if (file.tryLockSync(true)) return file;
    file.close();
  } catch (error) {
    throw new StateError(`cannot use the state directory ${folder}: ${reasonOf(error)}`);
  }
  throw new StateError(`the state directory ${folder} is in use by another server`);
}

/** Returns the message of an error. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
