import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { entryAt } from "../../../lib/process/file_kinds.ts";
import { Snapshot } from "../../../lib/snapshot/snapshot.ts";
import { SnapshotError } from "../../../lib/snapshot/snapshot_format.ts";
import { deadlineSec } from "../../../store/clock.ts";
import { StoreMode } from "../../../store/operation.ts";
import { runToEnd } from "../../support/servers/server_process.ts";
import { held, TestStore } from "../../support/store.ts";

// Files in the place of a snapshot, or beside it, that are not this server's.

const OTHER = "SQLite format 3\0 and a customer's orders";

class Folder implements Disposable {
  readonly path = Deno.makeTempDirSync();
  readonly file = `${this.path}/items`;

  /** Everything in the folder, with what it is and contains. */
  get state(): string[] {
    return [...this.#stateOf(this.path)].sort();
  }

  *#stateOf(folder: string): Generator<string> {
    for (const { name } of Deno.readDirSync(folder)) {
      const path = `${folder}/${name}`;
      const info = Deno.lstatSync(path);
      if (info.isDirectory) {
        yield `${path}/`;
        yield* this.#stateOf(path);
      } else if (info.isFile) yield `${path}: ${Deno.readTextFileSync(path)}`;
      else if (info.isSymlink) yield `${path} -> ${Deno.readLinkSync(path)}`;
      else yield `${path} FIFO`;
    }
  }

  open(path = this.file): Snapshot {
    return new Snapshot({ snapshotPath: path, snapshotRequired: false }, () => {});
  }

  /** Makes a snapshot with one item. */
  async save(): Promise<void> {
    using store = new TestStore();
    store.store(StoreMode.SET, "k", "v");
    const snapshot = this.open();
    await snapshot.save(store.cache, "test", null, []);
    snapshot.close();
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}

/** Entries of other programs at a path. */
const FOREIGN: Readonly<Record<string, (path: string) => void>> = {
  "a folder": (path) => {
    Deno.mkdirSync(path);
    Deno.writeTextFileSync(`${path}/tokens.journal`, "precious");
  },
  "a FIFO": (path) => {
    new Deno.Command("mkfifo", { args: [path] }).outputSync();
  },
  "a file of another program": (path) => Deno.writeTextFileSync(path, OTHER),
};
/** Of which there must be no link beside a snapshot. */
const LINKS: Readonly<Record<string, (path: string) => void>> = {
  "a symbolic link to a file": (path) => {
    Deno.writeTextFileSync(`${path}.target`, OTHER);
    Deno.symlinkSync(`${path}.target`, path);
  },
  "a symbolic link to nothing": (path) => Deno.symlinkSync(`${path}.missing`, path),
};

for (const [what, make] of Object.entries(FOREIGN)) {
  Deno.test(`${what} in the place of a snapshot is refused, and left as it is`, () => {
    using folder = new Folder();
    make(folder.file);
    const before = folder.state;
    const error = assertThrows(() => folder.open(), SnapshotError);
    assertMatch(error.message, new RegExp(`^${folder.file} is ${what}, not a snapshot: move it`));
    assertEquals(folder.state, before);
  });

  for (const suffix of [".new", ".loaded", ".refused"]) {
    Deno.test(`${what} as ${suffix} is refused, and left as it is`, async () => {
      using folder = new Folder();
      await folder.save();
      make(folder.file + suffix);
      Deno.removeSync(`${folder.file}.lock`);
      const before = folder.state;
      const error = assertThrows(() => folder.open(), SnapshotError);
      assertStringIncludes(error.message, `${folder.file}${suffix} is ${what}, not a snapshot`);
      assertEquals(folder.state, [...before, `${folder.file}.lock: `].sort());
    });
  }
}

for (const [what, make] of Object.entries(LINKS)) {
  for (const suffix of [".new", ".loaded", ".refused", ".lock"]) {
    Deno.test(`${what} as ${suffix} is refused, and left as it is`, () => {
      using folder = new Folder();
      make(folder.file + suffix);
      const before = folder.state;
      const error = assertThrows(() => folder.open(), SnapshotError);
      assertStringIncludes(error.message, `${folder.file}${suffix} is a symbolic link, not a`);
      assertEquals(folder.state.filter((each) => !each.endsWith(".lock: ")), before);
    });
  }
}

Deno.test("a device and an empty file are no snapshots, and a lock is a file", () => {
  using folder = new Folder();
  assertThrows(() => folder.open("/dev/zero"), SnapshotError, "/dev/zero is a device");
  Deno.writeTextFileSync(folder.file, "");
  assertThrows(() => folder.open(), SnapshotError, "is empty, not a snapshot");
  Deno.writeTextFileSync(folder.file, "leased");
  assertThrows(() => folder.open(), SnapshotError, "is a file of another program");
  assertEquals(Deno.readTextFileSync(folder.file), "leased");
  Deno.removeSync(folder.file);
  FOREIGN["a FIFO"]!(`${folder.file}.lock`);
  assertThrows(() => folder.open(), SnapshotError, ".lock is a FIFO, not a lock file");
  assertThrows(() => folder.open(`${folder.path}/none/items`), SnapshotError, "cannot use");
  Deno.symlinkSync("circle", `${folder.path}/circle`);
  assertThrows(() => folder.open(`${folder.path}/circle`), SnapshotError, "symbolic links");
});

Deno.test("an unfinished file of a killed process is removed: an empty one, or its first bytes", async () => {
  using folder = new Folder();
  await folder.save();
  const whole = Deno.readFileSync(folder.file);
  for (const length of [0, 1, 16, 1000, whole.length]) {
    Deno.writeFileSync(`${folder.file}.new`, whole.subarray(0, length));
    const snapshot = folder.open();
    assert(!folder.state.some((each) => each.includes(".new")), `${length}`);
    snapshot.close();
  }
});

Deno.test("a file is written for its user only, and no other file is replaced", async () => {
  using folder = new Folder();
  using store = new TestStore();
  store.store(StoreMode.SET, "k", "v");
  const snapshot = folder.open();
  // Made by another program while the server runs.
  for (const [what, make] of Object.entries({ ...FOREIGN, ...LINKS })) {
    for (const suffix of ["", ".new", ".loaded"]) {
      const path = folder.file + suffix;
      make(path);
      const before = folder.state;
      await snapshot.save(store.cache, "test", null, []);
      assertEquals(folder.state, before, `${what}${suffix}`);
      Deno.removeSync(path, { recursive: true });
    }
  }
  await snapshot.save(store.cache, "test", null, []);
  assertEquals(Deno.lstatSync(folder.file).mode! & 0o777, 0o600);
  snapshot.close();
});

Deno.test("one snapshot has one lock, whatever its name", async () => {
  using folder = new Folder();
  Deno.mkdirSync(`${folder.path}/real`);
  Deno.symlinkSync("real", `${folder.path}/folder`);
  Deno.symlinkSync("real/items", `${folder.path}/link`);
  Deno.symlinkSync("link", `${folder.path}/link2`);
  const names = ["real/items", "folder/items", "link", "link2", "./real/../real//items"];
  for (const first of names) {
    for (const second of names) {
      const snapshot = folder.open(`${folder.path}/${first}`);
      const again = (): Snapshot => folder.open(`${folder.path}/${second}`);
      assertThrows(again, SnapshotError, "in use by another server");
      snapshot.close();
    }
  }
  // A link stays, and its file is written, loaded and renamed.
  using store = new TestStore();
  const snapshot = folder.open(`${folder.path}/link`);
  await snapshot.save(store.cache, "test", null, []);
  snapshot.close();
  assert(Deno.lstatSync(`${folder.path}/link`).isSymlink);
  assert(Deno.lstatSync(`${folder.path}/real/items`).isFile);
});

Deno.test("a server with a foreign file in place of its snapshot exits with 71", async () => {
  for (const [what, make] of Object.entries(FOREIGN)) {
    using folder = new Folder();
    make(folder.file);
    const before = folder.state;
    for (const required of [[], ["--snapshot-required"]]) {
      const { code, stderr } = await runToEnd({
        permissions: ["--allow-all"],
        args: ["--io", "portable", "-p", "-1", "-e", folder.file, ...required],
      });
      assertEquals(code, 71, stderr);
      assertStringIncludes(stderr, `${folder.file} is ${what}, not a snapshot`);
      assertEquals(folder.state, before);
    }
  }
});

Deno.test("no snapshot is kept of a store that changes while it is written", async () => {
  using folder = new Folder();
  const changes: Record<string, (store: TestStore) => void> = {
    "a new item": (store) => store.store(StoreMode.SET, "new", "v"),
    "a clock that goes on": (store) => store.clock(60_000),
    "the sweep of an item that has expired": (store) => {
      held(store.cache, () => {
        while (store.cache.maintain());
      });
    },
  };
  for (const [what, change] of Object.entries(changes)) {
    using store = new TestStore();
    store.store(StoreMode.SET, "kept", "v");
    store.store(StoreMode.SET, "timed", "v", { deadlineSec: deadlineSec(store.memory, 1) });
    store.clock(50_000);
    let isChanged = false;
    const snapshot = new Snapshot({ snapshotPath: folder.file, snapshotRequired: false }, () => {
      if (isChanged || entryAt(`${folder.file}.new`) === null) return;
      change(store);
      isChanged = true;
    });
    await snapshot.save(store.cache, "test", null, []);
    snapshot.close();
    const kept = folder.state.filter((each) => !each.includes(".lock"));
    assertEquals([what, isChanged, kept], [what, true, []]);
  }
});

Deno.test("a machine's clock that was set back does not set the store's clock back", async () => {
  using folder = new Folder();
  const { now } = Date;
  for (const [setBackMs, isLater] of [[3_600_000, false], [-3_600_000, true]] as const) {
    Date.now = () => now() + setBackMs;
    try {
      using store = new TestStore();
      store.store(StoreMode.SET, "k", "v");
      store.clock(50_000);
      const snapshot = folder.open();
      await snapshot.save(store.cache, "test", null, []);
      snapshot.close();
    } finally {
      Date.now = now;
    }
    const snapshot = folder.open();
    if (isLater) assert(snapshot.clockMs >= 50_000 - setBackMs, "the hour has passed");
    else assertEquals(snapshot.clockMs, 50_000);
    snapshot.close();
  }
});
