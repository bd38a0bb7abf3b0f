import { entryAt, kindOf } from "../process/file_kinds.ts";
import { reasonOf } from "../process/reason.ts";
import { MAGIC, SnapshotError } from "./snapshot_format.ts";

// Checks a snapshot and the files beside it: no file of another program is renamed, replaced or removed.

/** Names of files beside the snapshot. */
export const SUFFIX = {
  WRITING: ".new",
  LOADED: ".loaded",
  REFUSED: ".refused",
  LOCK: ".lock",
} as const;
/** Most symbolic links that are followed, as on Linux. */
const LINKS_MAX = 40;

/**
 * Follows symbolic links at the end of a path. So all names of a snapshot have the same lock, and a link stays when
 * the file is renamed. Links to folders are left to the system.
 *
 * @returns The path of the file, which may not exist.
 * @throws SnapshotError after LINKS_MAX links.
 */
export function resolvedPath(path: string): string {
  let at = path;
  for (let links = 0; links < LINKS_MAX; links++) {
    if (!entry(at)?.isSymlink) return at;
    const target = Deno.readLinkSync(at);
    at = target.startsWith("/") ? target : at.replace(/[^/]*$/, "") + target;
  }
  throw new SnapshotError(`cannot use the snapshot ${path}: too many symbolic links`);
}

/**
 * Checks that a path is free, or has a snapshot, however damaged.
 *
 * @param mayBeTorn Whether an empty file is one, too, and one that ends within the first bytes of a snapshot.
 * @throws SnapshotError
 */
export function requireOwn(path: string, mayBeTorn: boolean): void {
  const info = entry(path);
  if (info === null) return;
  if (!info.isFile) refuse(path, `is ${kindOf(info)}`);
  if (info.size === 0 && !mayBeTorn) refuse(path, "is empty");
  const isOwn = info.size >= MAGIC.length || mayBeTorn;
  if (info.size > 0 && !(isOwn && beginsAsSnapshot(path))) {
    refuse(path, "is a file of another program");
  }
}

function refuse(path: string, what: string): never {
  throw new SnapshotError(
    `${path} ${what}, not a snapshot: move it away, or choose another path with --snapshot`,
  );
}

function beginsAsSnapshot(path: string): boolean {
  const head = new Uint8Array(MAGIC.length);
  let length: number;
  try {
    using file = Deno.openSync(path);
    length = file.readSync(head) ?? 0;
  } catch (error) {
    throw new SnapshotError(`cannot read the snapshot ${path}: ${reasonOf(error)}`);
  }
  return length > 0 && head.subarray(0, length).every((byte, at) => byte === MAGIC[at]);
}

/** Locks the snapshot for this process. @throws SnapshotError when another server has it. */
export function lock(path: string): Deno.FsFile {
  const lockPath = path + SUFFIX.LOCK;
  const info = entry(lockPath);
  if (info !== null && !info.isFile) {
    throw new SnapshotError(
      `${lockPath} is ${
        kindOf(info)
      }, not a lock file: move it away, or choose another path with --snapshot`,
    );
  }
  let file;
  try {
    file = Deno.openSync(lockPath, { write: true, create: true, mode: 0o600 });
    if (file.tryLockSync(true)) return file;
  } catch (error) {
    throw new SnapshotError(`cannot use the snapshot ${path}: ${reasonOf(error)}`);
  }
  file.close();
  throw new SnapshotError(`the snapshot ${path} is in use by another server`);
}

/** Returns `entryAt` of a path. @throws SnapshotError */
function entry(path: string): Deno.FileInfo | null {
  try {
    return entryAt(path);
  } catch (error) {
    throw new SnapshotError(`cannot use the snapshot ${path}: ${reasonOf(error)}`);
  }
}
