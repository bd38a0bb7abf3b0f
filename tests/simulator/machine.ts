// Machines that stop, and their disks, which are in memory and fail.
import { CrashingFiles } from "../support/crashing_files.ts";
import type { World } from "./world.ts";

/** Paths below it are on virtual disks: `/simulated/<host>/<file>`. */
const ROOT = "/simulated/";
const BIT = 1;
/** Of each file, no bit is flipped before this byte: a server does not start with the file of another program. */
const HEAD_BYTES = 16;
const PAGE_BYTES = 4096;

/** A number below `bound`. */
type Below = (bound: number) => number;

/** What a name stands for. */
class Content {
  bytes = new Uint8Array(0);
  length = 0;
  /** Of these, on the disk. */
  synced = 0;
  /** Null: nobody has locked it. */
  lockedBy: VirtualFile | null = null;

  write(position: number, bytes: Uint8Array): void {
    const end = position + bytes.length;
    if (end > this.bytes.length) {
      const larger = new Uint8Array(Math.max(end, 2 * this.bytes.length));
      larger.set(this.bytes.subarray(0, this.length));
      this.bytes = larger;
    }
    this.bytes.set(bytes, position);
    this.length = Math.max(this.length, end);
  }
}

/** The disk of a machine. */
export class VirtualDisk {
  /** Whether writes fail. */
  isFailing = false;
  #names = new Map<string, Content>();
  #durableNames = new Map<string, Content>();
  readonly #below: Below;
  readonly #later: (resolve: () => void) => void;

  /** @param later Calls something when a sync is over. */
  constructor(below: Below, later: (resolve: () => void) => void) {
    this.#below = below;
    this.#later = later;
  }

  /** Files that programs see. */
  get names(): readonly string[] {
    return [...this.#names.keys()];
  }

  /** The machine stops. Bytes that were not synced survive in whole, in part or with holes; names perhaps. */
  crash(): void {
    const below = this.#below;
    if (below(2) === 0) this.#names = this.#durableNames;
    this.#durableNames = new Map(this.#names);
    for (const content of this.#names.values()) {
      const { synced, length } = content;
      content.length = synced + below(length - synced + 1);
      if (content.length > synced && below(3) === 0) {
        const from = synced + below(content.length - synced);
        content.bytes.fill(0, from, Math.min(content.length, from + PAGE_BYTES));
      }
      content.synced = content.length;
    }
  }

  /** Flips a bit of a file. @returns Its name; null: there is no file with more than its head. */
  rot(): string | null {
    const files = [...this.#names].filter(([, { length }]) => length > HEAD_BYTES);
    const [name, content] = files[this.#below(files.length)] ?? [];
    if (content === undefined) return null;
    const at = HEAD_BYTES + this.#below(content.length - HEAD_BYTES);
    content.bytes[at]! ^= BIT << this.#below(8);
    return name!;
  }

  requireWorking(): void {
    if (this.isFailing) throw new Error("No space left on device (os error 28)");
  }

  content(name: string): Content {
    const content = this.#names.get(name);
    if (content === undefined) throw new Deno.errors.NotFound(`${name}: No such file or directory`);
    return content;
  }

  has(name: string): boolean {
    return this.#names.has(name);
  }

  create(name: string): Content {
    this.requireWorking();
    const content = new Content();
    this.#names.set(name, content);
    return content;
  }

  rename(from: string, to: string): void {
    const content = this.content(from);
    this.requireWorking();
    this.#names.delete(from);
    this.#names.set(to, content);
  }

  remove(name: string): void {
    this.content(name);
    this.requireWorking();
    this.#names.delete(name);
  }

  syncNames(): void {
    this.requireWorking();
    this.#durableNames = new Map(this.#names);
  }

  /** Syncs a file; that takes a time. @throws As the disk. */
  async sync(content: Content): Promise<void> {
    const { length } = content;
    await new Promise<void>((resolve) => this.#later(resolve));
    this.requireWorking();
    content.synced = Math.max(content.synced, length);
  }
}

/** An open file. Has what the server uses of `Deno.FsFile`. */
class VirtualFile {
  readonly #disk: VirtualDisk;
  readonly #content: Content;
  #position = 0;
  #isOpen = true;

  constructor(disk: VirtualDisk, content: Content) {
    this.#disk = disk;
    this.#content = content;
  }

  statSync(): Partial<Deno.FileInfo> {
    return infoOf(this.#content);
  }

  seekSync(position: number): number {
    return this.#position = position;
  }

  readSync(to: Uint8Array): number | null {
    const { bytes, length } = this.#content;
    const count = Math.min(to.length, length - this.#position);
    if (count <= 0) return null;
    to.set(bytes.subarray(this.#position, this.#position + count));
    this.#position += count;
    return count;
  }

  writeSync(bytes: Uint8Array): number {
    this.#disk.requireWorking();
    this.#content.write(this.#position, bytes);
    this.#position += bytes.length;
    return bytes.length;
  }

  sync(): Promise<void> {
    return this.#disk.sync(this.#content);
  }

  syncData(): Promise<void> {
    return this.sync();
  }

  tryLockSync(): boolean {
    if (this.#content.lockedBy !== null) return false;
    this.#content.lockedBy = this;
    return true;
  }

  close(): void {
    if (!this.#isOpen) throw new Deno.errors.BadResource("it is closed");
    this.#isOpen = false;
    if (this.#content.lockedBy === this) this.#content.lockedBy = null;
  }

  [Symbol.dispose](): void {
    if (this.#isOpen) this.close();
  }
}

/** A folder that is open, to be synced. */
class VirtualFolder {
  readonly #disk: VirtualDisk;

  constructor(disk: VirtualDisk) {
    this.#disk = disk;
  }

  syncSync(): void {
    this.#disk.syncNames();
  }

  close(): void {}
}

function infoOf({ length }: Content): Partial<Deno.FileInfo> {
  return { isFile: true, isDirectory: false, isSymlink: false, size: length };
}

/** Functions of the runtime that take paths; those of other paths go to the real ones. */
export interface FileFunctions {
  openSync(path: string, options?: Deno.OpenOptions): { close(): void };
  lstatSync(path: string): Partial<Deno.FileInfo>;
  renameSync(from: string, to: string): void;
  removeSync(path: string): void;
}

/** @param disks By the names of their hosts. */
export function withVirtualDisks(
  disks: ReadonlyMap<string, VirtualDisk>,
  real: FileFunctions,
): FileFunctions {
  const placeOf = (path: string): readonly [disk: VirtualDisk, name: string] | null => {
    if (!path.startsWith(ROOT)) return null;
    const [host = "", name = ""] = path.slice(ROOT.length).split("/");
    return [disks.get(host)!, name];
  };
  return {
    openSync(path, options = {}): { close(): void } {
      const place = placeOf(path);
      if (place === null) return real.openSync(path, options);
      const [disk, name] = place;
      if (name === "") return new VirtualFolder(disk);
      const { create = false, createNew = false } = options;
      if (createNew && disk.has(name)) throw new Deno.errors.AlreadyExists(`${path}: File exists`);
      const isNew = (create || createNew) && !disk.has(name);
      return new VirtualFile(disk, isNew ? disk.create(name) : disk.content(name));
    },
    lstatSync(path): Partial<Deno.FileInfo> {
      const place = placeOf(path);
      if (place === null) return real.lstatSync(path);
      const [disk, name] = place;
      return infoOf(disk.content(name));
    },
    renameSync(from, to): void {
      const place = placeOf(from);
      if (place === null) return real.renameSync(from, to);
      place[0].rename(place[1], placeOf(to)![1]);
    },
    removeSync(path): void {
      const place = placeOf(path);
      if (place === null) return real.removeSync(path);
      place[0].remove(place[1]);
    },
  };
}

/** The path of a file on the disk of a host. */
export function pathOn(host: string, name: string): string {
  return `${ROOT}${host}/${name}`;
}

/** Name of the file of `--snapshot`. */
export const SNAPSHOT = "items";
/** Longest time of a sync of a file. */
const SYNC_MS = 200;

/** What outlives the processes of a host. */
export class Machine {
  /** Has the state directory. */
  readonly disk = new CrashingFiles();
  readonly #world: World;
  readonly #host: string;
  /** Has the snapshot. */
  readonly #snapshots: VirtualDisk;

  constructor(world: World, host: string) {
    this.#world = world;
    this.#host = host;
    this.#snapshots = new VirtualDisk(
      (bound) => world.choose(bound),
      (resolve) => world.after(SYNC_MS * world.random(), world.current, resolve),
    );
    world.disks.set(host, this.#snapshots);
  }

  /** Its disks fail from here on, or work again. */
  setFailing(isFailing: boolean): void {
    const world = this.#world;
    world.note(this.#host, `has a disk that ${isFailing ? "fails" : "works"}`);
    this.disk.failAfter(isFailing ? 0 : Infinity, (bound) => world.choose(bound));
    this.#snapshots.isFailing = isFailing;
  }

  /** It stops: bytes that were written and not synced are lost. */
  crash(): void {
    this.disk.crash((bound) => this.#world.choose(bound));
    this.#snapshots.crash();
  }

  /** Whether the next start loads a snapshot, if it is intact. */
  get hasSnapshot(): boolean {
    return this.#snapshots.has(SNAPSHOT);
  }

  /** A bit of a snapshot changes. */
  rot(): void {
    const name = this.#snapshots.rot();
    if (name !== null) this.#world.note(this.#host, `has a bit flipped in its file ${name}`);
  }
}
