// A file system that is soon full, for tests.
import { isInstalled } from "./servers/peers.ts";

/** Whether this process may mount; the right is tried in a namespace of its own. */
export const CAN_MOUNT = isInstalled(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/tmp"]);

/** Mounts a file system of so many bytes. @throws Error when mounting is not allowed. */
export function mountTinyDisk(path: string, bytes: number): Disposable {
  Deno.mkdirSync(path);
  const mount = ["mount", "-t", "tmpfs", "-o", `size=${bytes}`, "none", path];
  if (!isInstalled(mount)) throw new Error(`cannot mount a file system at ${path}`);
  return { [Symbol.dispose]: () => void isInstalled(["umount", path]) };
}

/** Makes a mounted file system read only until the end of the scope. No file of it may be open for writing. */
export function makeReadOnly(path: string): Disposable {
  const remount = (mode: string): boolean => isInstalled(["mount", "-o", `remount,${mode}`, path]);
  if (!remount("ro")) throw new Error(`cannot make ${path} read only`);
  return { [Symbol.dispose]: () => void remount("rw") };
}

/** Fills the disk. @returns The file that does it. */
export function fillDisk(path: string): string {
  const ballast = `${path}/ballast`;
  Deno.writeFileSync(ballast, new Uint8Array());
  try {
    for (;;) Deno.writeFileSync(ballast, new Uint8Array(1024), { append: true });
  } catch {
    return ballast;
  }
}
