// A snapshot from its opening to its end, in process: what is in the store, which files there are, what the log says.
import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { configureLog } from "../../../lib/process/log.ts";
import { Snapshot } from "../../../lib/snapshot/snapshot.ts";
import { SnapshotError } from "../../../lib/snapshot/snapshot_format.ts";
import { checkStore } from "../../../store/check/check.ts";
import { StoreMode } from "../../../store/operation.ts";
import { type Captured, captured } from "../../support/sessions/captured.ts";
import { type ChangedOptions, storeOptions, TestStore } from "../../support/store.ts";

/** Of another program. */
const OTHER = "a customer's orders";
/** Another layout than the default: the items are stored as new ones. */
const LAYOUT: ChangedOptions = { growthFactor: 1.5 };
const KEYS = ["a:1", "a:2", "b:1"];

class Folder implements Disposable {
  readonly path = Deno.makeTempDirSync();
  readonly file = `${this.path}/items`;

  get names(): string[] {
    return [...Deno.readDirSync(this.path)].map(({ name }) => name).sort();
  }

  open(snapshotRequired = false, onProgress = (): void => {}): Snapshot {
    return new Snapshot({ snapshotPath: this.file, snapshotRequired }, onProgress);
  }

  /** Makes a snapshot with the keys. */
  async save(): Promise<void> {
    using store = new TestStore();
    for (const key of KEYS) store.store(StoreMode.SET, key, key);
    const snapshot = this.open();
    await logged(() => snapshot.save(store.cache, "1.2.3", null, []));
    snapshot.close();
  }

  /** Changes a byte of the file. @param at From its end. */
  damage(at: number): void {
    const bytes = Deno.readFileSync(this.file);
    bytes[bytes.length - at]! ^= 1;
    Deno.writeFileSync(this.file, bytes);
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}

/** Calls a function, and keeps what it logs. */
function logged<Result>(run: () => Result | Promise<Result>): Promise<Captured<Result>> {
  configureLog("text", () => 0);
  return captured(run);
}

function keysIn(store: TestStore): string[] {
  return KEYS.filter((key) => store.get(key) !== undefined);
}

/** Loads the snapshot into a store of these options. */
async function load(
  snapshot: Snapshot,
  options: ChangedOptions,
  removed: readonly string[] = [],
): Promise<{ store: TestStore; stderr: string }> {
  const store = new TestStore(snapshot.storeOptions(storeOptions(options)));
  const { stderr } = await logged(() => snapshot.load(store.cache, removed));
  checkStore(store.memory);
  return { store, stderr };
}

for (const [layout, options] of [["the same layout", {}], ["another layout", LAYOUT]] as const) {
  Deno.test(`items of a snapshot are loaded into ${layout}, without those of the prefixes left out`, async () => {
    for (const [removed, kept] of [[[], KEYS], [["a:"], ["b:1"]], [["a:", "b:"], []]] as const) {
      using folder = new Folder();
      await folder.save();
      const snapshot = folder.open();
      const { store, stderr } = await load(snapshot, options, removed);
      using _ = store;
      assertEquals(keysIn(store), kept);
      assertEquals(snapshot.isLoaded, true);
      assertStringIncludes(stderr, `loaded: ${kept.length} items`);
      assertStringIncludes(stderr, "written 0 s ago by leased 1.2.3");
      assertEquals(stderr.includes("left out"), false, stderr);
      snapshot.retire();
      assertEquals(folder.names, ["items.loaded", "items.lock"]);
      await logged(() => snapshot.save(store.cache, "1.2.3", null, []));
      assertEquals(folder.names, ["items", "items.lock"], "the next start has the new one");
      const { stderr: after } = await logged(() => snapshot.close());
      assertEquals(after, "");
    }
  });

  Deno.test(`a damaged snapshot leaves an empty store of ${layout}; it is kept, and a new one is written`, async () => {
    using folder = new Folder();
    await folder.save();
    folder.damage(100_000);
    const snapshot = folder.open();
    const { store, stderr } = await load(snapshot, options);
    using _ = store;
    assertEquals([keysIn(store), snapshot.isLoaded], [[], false]);
    assertStringIncludes(stderr, "snapshot not loaded, the cache starts empty");
    assertStringIncludes(stderr, "the pages at byte");
    snapshot.retire();
    assertEquals(folder.names, ["items.lock", "items.refused"]);
    store.store(StoreMode.SET, "b:1", "new");
    await logged(() => snapshot.save(store.cache, "1.2.3", null, []));
    snapshot.close();
    assertEquals(folder.names, ["items", "items.lock", "items.refused"]);
    const again = folder.open();
    const { store: next } = await load(again, options);
    using __ = next;
    assertEquals(keysIn(next), ["b:1"]);
    again.close();
  });
}

Deno.test("a required snapshot that is damaged ends the start, stays in its place and is not in use", async () => {
  using folder = new Folder();
  await folder.save();
  folder.damage(100_000);
  const snapshot = folder.open(true);
  using store = new TestStore(snapshot.storeOptions(storeOptions()));
  const message = "cannot load the snapshot";
  await assertRejects(() => snapshot.load(store.cache, []), SnapshotError, message);
  snapshot.close();
  folder.damage(1);
  for (let time = 0; time < 2; time++) {
    assertThrows(() => folder.open(true), SnapshotError, message);
  }
  assertEquals(folder.names, ["items", "items.lock"]);
});

Deno.test("a file that cannot be read at the start is kept, also when nothing is loaded", async () => {
  using folder = new Folder();
  await folder.save();
  folder.damage(1);
  const { result: snapshot, stderr } = await logged(() => folder.open());
  assertStringIncludes(stderr, `kept as ${folder.file}.refused`);
  assertEquals([snapshot.rows, snapshot.clockMs, snapshot.isLoaded], [null, 0, false]);
  using store = new TestStore();
  await snapshot.load(store.cache, []);
  assertEquals(snapshot.isLoaded, false);
  snapshot.retire();
  assertEquals(folder.names, ["items.lock", "items.refused"]);
  snapshot.close();
});

Deno.test("without a file nothing is loaded or renamed; one that is not loaded stays", async () => {
  using folder = new Folder();
  const first = folder.open(true);
  using store = new TestStore();
  await first.load(store.cache, []);
  first.retire();
  assertEquals([first.isLoaded, first.rows, folder.names], [false, null, ["items.lock"]]);
  first.close();
  await folder.save();
  // A server that is stopped during its start.
  const second = folder.open();
  second.retire();
  second.close();
  assertEquals(folder.names, ["items", "items.lock"]);
});

Deno.test("a file that another program makes while a snapshot is written stays, and nothing else does", async () => {
  for (const name of ["items", "items.loaded"]) {
    using folder = new Folder();
    using store = new TestStore();
    store.store(StoreMode.SET, "k", "v");
    const snapshot = folder.open(false, () => {
      if (folder.names.includes("items.new")) {
        Deno.writeTextFileSync(`${folder.path}/${name}`, OTHER);
      }
    });
    const { stderr } = await logged(() => snapshot.save(store.cache, "1.2.3", null, []));
    assertStringIncludes(stderr, `${name} is a file of another program`);
    assertEquals(folder.names, [name, "items.lock"].sort());
    assertEquals(Deno.readTextFileSync(`${folder.path}/${name}`), OTHER);
    const { stderr: after } = await logged(() => snapshot.close());
    assertEquals(after, "", "nothing is given up");
  }
});

Deno.test("a loaded or refused snapshot replaces no file of another program", async () => {
  for (const [damage, name] of [[null, "items.loaded"], [100_000, "items.refused"]] as const) {
    using folder = new Folder();
    await folder.save();
    if (damage !== null) folder.damage(damage);
    const snapshot = folder.open();
    const { store } = await load(snapshot, {});
    using _ = store;
    Deno.writeTextFileSync(`${folder.path}/${name}`, OTHER);
    assertThrows(() => snapshot.retire(), SnapshotError, `${name} is a file of another program`);
    snapshot.close();
    assertEquals(folder.names, ["items", "items.lock", name].sort());
    assertEquals(Deno.readTextFileSync(`${folder.path}/${name}`), OTHER);
  }
});

Deno.test("a snapshot that is closed while it is written is given up, and its lock is free", async () => {
  using folder = new Folder();
  using store = new TestStore();
  store.store(StoreMode.SET, "k", "v");
  let isClosed = false;
  const snapshot = folder.open(false, () => {
    if (isClosed || !folder.names.includes("items.new")) return;
    isClosed = true;
    snapshot.close();
    assertEquals(folder.names, ["items.lock"]);
  });
  const { stderr } = await logged(() => snapshot.save(store.cache, "1.2.3", null, []));
  assert(isClosed);
  assertStringIncludes(stderr, `snapshot ${folder.file} given up`);
  assertEquals(folder.names, ["items.lock"]);
  folder.open().close();
});

Deno.test("items that have no place in another store are counted in the log", async () => {
  using folder = new Folder();
  {
    using store = new TestStore();
    store.store(StoreMode.SET, "a:1", "small");
    for (const key of ["a:2", "b:1"]) store.store(StoreMode.SET, key, "v".repeat(20_000));
    const snapshot = folder.open();
    await logged(() => snapshot.save(store.cache, "1.2.3", null, []));
    snapshot.close();
  }
  const snapshot = folder.open();
  const { store, stderr } = await load(snapshot, { ...LAYOUT, itemSizeMaxBytes: 10_000 });
  using _ = store;
  snapshot.close();
  assertEquals(keysIn(store), ["a:1"]);
  assertStringIncludes(stderr, "loaded: 1 items, ");
  assertStringIncludes(stderr, ", 2 items left out: no room for them");
});
