import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { crc32 } from "node:zlib";
import { readAt } from "../../../lib/snapshot/page_reading.ts";
import { SnapshotError } from "../../../lib/snapshot/snapshot_format.ts";
import { SnapshotReader } from "../../../lib/snapshot/snapshot_reader.ts";
import { createFile, writeStore } from "../../../lib/snapshot/snapshot_writer.ts";
import { MIB } from "../../../store/limits.ts";
import type { PagePiece } from "../../../store/setup.ts";
import { StoreMode } from "../../../store/operation.ts";
import { TestStore } from "../../support/store.ts";

const nothing = (): Promise<void> => Promise.resolve();

/** A snapshot of some pieces, its reader, and shared memory for its pages. */
class Saved implements Disposable {
  readonly path = Deno.makeTempFileSync();
  readonly #store = new TestStore({ memoryLimitBytes: 64 * MIB });
  pieces: PagePiece[] = [];
  #memory = new Map<PagePiece, Uint8Array>();

  static async make(): Promise<Saved> {
    const saved = new Saved();
    const store = saved.#store;
    for (let key = 0; key < 2000; key++) {
      store.store(StoreMode.SET, `key${key}`, `${key} `.repeat(2000));
    }
    Deno.removeSync(saved.path);
    await writeStore(store.cache, createFile(saved.path), saved.path, "test", null, nothing);
    return saved;
  }

  /** Reads the file. @returns The bytes that were reported. */
  async read(threads: number): Promise<number> {
    const reader = SnapshotReader.open(this.path)!;
    const { snapshots } = this.#store.cache;
    this.pieces = snapshots.pieces(reader.store, reader.tables);
    this.#memory = new Map(
      this.pieces.map((piece) => [piece, new Uint8Array(new SharedArrayBuffer(piece.bytes))]),
    );
    let bytes = 0;
    try {
      await reader.readPieces(this.pieces, (piece) => this.#memory.get(piece)!, threads, (read) => {
        bytes += read;
        return nothing();
      });
    } finally {
      reader.close();
    }
    assertEquals(bytes, reader.pagesBytes);
    return bytes;
  }

  /** Asserts that all pages are as in the store. */
  compare(): void {
    for (const [piece, bytes] of this.#memory) {
      assertEquals(crc32(bytes), crc32(this.#store.cache.snapshots.bytesOf(piece)));
    }
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.path);
  }
}

for (const threads of [1, 3]) {
  Deno.test(`pages are read whole by ${threads} threads, and damage is found`, async () => {
    using saved = await Saved.make();
    await saved.read(threads);
    assertEquals(saved.pieces.length > 3, true, "there are several pieces");
    saved.compare();
    const whole = Deno.readFileSync(saved.path);
    for (const share of [0.3, 0.6, 0.9]) {
      const at = Math.floor(whole.length * share);
      Deno.writeFileSync(saved.path, whole.with(at, whole[at]! ^ 1));
      await assertRejects(() => saved.read(threads), SnapshotError, "are damaged");
    }
    Deno.writeFileSync(saved.path, whole);
    await saved.read(threads);
    saved.compare();
  });
}

Deno.test("a file that ends early is truncated, not read for ever", async () => {
  using saved = await Saved.make();
  const { size } = Deno.statSync(saved.path);
  using file = Deno.openSync(saved.path);
  readAt(file, size - 4, new Uint8Array(4));
  assertThrows(() => readAt(file, size - 4, new Uint8Array(5)), Error, "it is truncated");
});
