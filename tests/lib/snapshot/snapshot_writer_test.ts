import { assert, assertEquals, assertRejects } from "@std/assert";
import { createFile, writeStore } from "../../../lib/snapshot/snapshot_writer.ts";
import type { Cache } from "../../../store/cache.ts";
import { MIB } from "../../../store/limits.ts";
import type { PagePiece } from "../../../store/setup.ts";
import { StoreMode } from "../../../store/operation.ts";
import { TestStore } from "../../support/store.ts";

// A snapshot on a disk that takes a part of each write, or refuses.

/** What the disk does with a file. */
interface Disk {
  /** The most bytes of one write. */
  readonly writeMax?: number;
  readonly write?: (writtenBytes: number) => void;
  readonly sync?: (syncs: number) => void;
}

/** The store's file, and what was reported while it was written. */
interface Written {
  readonly bytes: Uint8Array;
  readonly length: number;
  readonly reported: readonly (readonly [bytes: number, allBytes: number])[];
}

function storeOfSome(): TestStore {
  const store = new TestStore();
  for (let key = 0; key < 500; key++) {
    store.store(StoreMode.SET, `key${key}`, `${key} `.repeat(2000));
  }
  return store;
}

/** Writes a store to a file of this disk, and asserts that the file is closed. */
async function written(
  store: TestStore,
  { writeMax = Infinity, write = () => {}, sync = () => {} }: Disk = {},
  onPiece: () => void = () => {},
): Promise<Written> {
  const path = Deno.makeTempFileSync();
  Deno.removeSync(path);
  const file = createFile(path);
  const reported: [number, number][] = [];
  let writtenBytes = 0;
  let syncs = 0;
  let closed = 0;
  const { now } = Date;
  // The file has the time.
  Date.now = () => 1_700_000_000_000;
  try {
    const length = await writeStore(
      store.cache,
      {
        writeSync: (bytes: Uint8Array) => {
          write(writtenBytes);
          const count = file.writeSync(bytes.subarray(0, writeMax));
          writtenBytes += count;
          return count;
        },
        sync: () => {
          sync(++syncs);
          return file.sync();
        },
        close: () => closed++,
      } as unknown as Deno.FsFile,
      path,
      "test",
      null,
      (bytes, allBytes) => {
        reported.push([bytes, allBytes]);
        onPiece();
        return Promise.resolve();
      },
    );
    assertEquals(syncs, 2, "the start, and the whole, are synced");
    return { bytes: Deno.readFileSync(path), length, reported };
  } finally {
    Date.now = now;
    file.close();
    Deno.removeSync(path);
    assertEquals(closed, 1);
  }
}

Deno.test("a file is the same on a disk that takes a part of each write", async () => {
  using store = storeOfSome();
  const whole = await written(store);
  assertEquals(whole.length, whole.bytes.length);
  assert(whole.reported.length > 1, "there are several pieces");
  const sum = whole.reported.reduce((bytes, [piece]) => bytes + piece, 0);
  assertEquals(new Set(whole.reported.map(([, all]) => all)), new Set([sum]));
  const parts = await written(store, { writeMax: 100_000 });
  assertEquals(parts.reported, whole.reported);
  assertEquals(parts.length, whole.length);
  assert(parts.bytes.every((byte, at) => byte === whole.bytes[at]), "the same bytes");
});

Deno.test("each failure of the disk ends the writing with its reason", async () => {
  using store = storeOfSome();
  const fail = (isNow: boolean): void => {
    if (isNow) throw new Error("no space left");
  };
  const disks: Disk[] = [
    { write: (bytes) => fail(bytes >= 0) },
    { write: (bytes) => fail(bytes > 1_000_000) },
    { sync: (syncs) => fail(syncs === 1) },
    { sync: (syncs) => fail(syncs === 2) },
  ];
  for (const disk of disks) {
    await assertRejects(() => written(store, disk), Error, "no space left");
  }
});

Deno.test("a store that changes while it is written is no snapshot", async () => {
  using store = storeOfSome();
  let pieces = 0;
  const change = (): void => {
    if (++pieces === 2) store.store(StoreMode.SET, "key7", "other");
  };
  await assertRejects(() => written(store, {}, change), Error, "the store has changed");
  await written(store);
});

Deno.test("the disk syncs while more is written; 256 MiB that are not synced wait for it", async () => {
  using store = storeOfSome();
  const path = Deno.makeTempFileSync();
  const PIECE = new Uint8Array(32 * MIB);
  const pieces = new Array<PagePiece>(12).fill({ bytes: PIECE.length } as PagePiece);
  const { snapshots } = store.cache;
  const cache = {
    snapshots: {
      describe: () => snapshots.describe(),
      saveTables: (header: Parameters<typeof snapshots.saveTables>[0]) =>
        snapshots.saveTables(header),
      pieces: () => pieces,
      bytesOf: () => PIECE,
    },
  } as unknown as Cache;
  const { openSync } = Deno;
  for (const fails of [false, true]) {
    let written = 0;
    const syncs: PromiseWithResolvers<void>[] = [];
    const closed: string[] = [];
    Deno.openSync = () =>
      ({
        syncData: () => {
          syncs.push(Promise.withResolvers<void>());
          return syncs.at(-1)!.promise;
        },
        close: () => closed.push("synced"),
      }) as unknown as Deno.FsFile;
    const file = {
      writeSync: ({ length }: Uint8Array) => length,
      sync: () => Promise.resolve(),
      close: () => closed.push("file"),
    } as unknown as Deno.FsFile;
    const onWritten = (): Promise<void> => Promise.resolve(void written++);
    const ended = writeStore(cache, file, path, "test", null, onWritten)
      .then(() => "written", (error) => error.message);
    const stalled = async (): Promise<number[]> => {
      await new Promise((resolve) => setTimeout(resolve, 0));
      return [written, syncs.length];
    };
    try {
      // The first sync has 64 MiB, the second one 256, the third one 320.
      assertEquals(await stalled(), [7, 1]);
      syncs[0]!.resolve();
      assertEquals(await stalled(), [9, 2]);
      if (fails) syncs[1]!.reject(new Error("the disk is gone"));
      else syncs[1]!.resolve();
      assertEquals(await stalled(), fails ? [9, 2] : [12, 3]);
      syncs[2]?.resolve();
      assertEquals(await ended, fails ? "the disk is gone" : "written");
      assertEquals(closed, ["file", "synced"]);
    } finally {
      Deno.openSync = openSync;
    }
  }
  Deno.removeSync(path);
});
