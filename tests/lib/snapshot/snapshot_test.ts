import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { randomFrom } from "../../support/random.ts";
import { roundsOf } from "../../support/rounds.ts";
import { drawSeed, withSeed } from "../../support/seed.ts";
import {
  leastPermissions,
  path,
  runToEnd,
  ServerProcess,
  TRANSPORTS,
  until,
} from "../../support/servers/server_process.ts";

import { decodeStart, encodeStart } from "../../../lib/snapshot/snapshot_format.ts";
import { tableBytes } from "../../../store/setup.ts";
import { CAN_MOUNT, mountTinyDisk } from "../../support/tiny_disk.ts";
import { needs } from "../../support/needs/needs.ts";

// A server with --snapshot, as users run it.

/** A folder with a snapshot, removed at the end. */
class SnapshotFolder implements Disposable {
  readonly folder = Deno.makeTempDirSync();
  readonly file = `${this.folder}/items`;

  async start(
    io: "portable" | "native",
    ...args: readonly string[]
  ): Promise<ServerProcess> {
    return await ServerProcess.start({
      io,
      permissions: this.permissions(io),
      args: ["--snapshot", this.file, "-vvv", ...args],
    });
  }

  permissions(io: "portable" | "native"): string[] {
    const [read, ...others] = leastPermissions(io);
    return [`${read},${this.folder}`, `--allow-write=${this.folder}`, ...others];
  }

  get names(): string[] {
    return [...Deno.readDirSync(this.folder)].map(({ name }) => name).sort();
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.folder, { recursive: true });
  }
}

const LONG = "x".repeat(300_000);

for (const [index, io] of TRANSPORTS.entries()) {
  const next = TRANSPORTS[(index + 1) % TRANSPORTS.length]!;

  Deno.test(`${io}: items survive a restart, with flags, ids and expiry times`, async () => {
    using folder = new SnapshotFolder();
    let id: string;
    {
      await using server = await folder.start(io);
      using client = await server.connect();
      await client.ask("set a 7 0 5\r\nhello\r\n", "STORED\r\n");
      await client.ask("set timed 0 1000 1\r\n1\r\n", "STORED\r\n");
      await client.ask("set past 0 1 1\r\n1\r\n", "STORED\r\n");
      await client.ask(`set long 0 0 ${LONG.length}\r\n${LONG}\r\n`, "STORED\r\n");
      await client.send("mg a c\r\n");
      id = await client.until("\r\n");
      await client.ask("mg stub s N30\r\n", "HD s0 W\r\n");
      const { stderr } = await server.stop();
      assertMatch(stderr, / written: [34] items/);
      assertStringIncludes(stderr, "store check passed");
    }
    assertEquals(folder.names, ["items", "items.lock"]);
    await using server = await folder.start(next, "-t", "3", "-m", "100");
    assertEquals(folder.names, ["items.loaded", "items.lock"]);
    await server.line(/loaded: [34] items/);
    using client = await server.connect();
    await client.ask("get a\r\n", "VALUE a 7 5\r\nhello\r\nEND\r\n");
    await client.ask("mg a c\r\n", id);
    await client.ask(`get long\r\n`, `VALUE long 0 ${LONG.length}\r\n${LONG}\r\nEND\r\n`);
    await client.ask("mg stub v\r\n", "EN\r\n");
    await client.send("mg timed t\r\n");
    const left = Number(/t(\d+)/.exec(await client.until("\r\n"))![1]);
    assert(left > 0 && left <= 1000, `${left}`);
    await until(async () => {
      await client.send("get past\r\n");
      return await client.until("END\r\n") === "END\r\n";
    });
    await server.stop();
  });
}

Deno.test("ids after a restart are larger than those before", async () => {
  using folder = new SnapshotFolder();
  const newId = async (): Promise<number> => {
    await using server = await folder.start("portable");
    using client = await server.connect();
    await client.send("ms k 1 c\r\n1\r\n");
    const id = Number(/c(\d+)/.exec(await client.until("\r\n"))![1]);
    await server.stop();
    return id;
  };
  const first = await newId();
  assert(await newId() > first);
});

/** Makes a snapshot older than it is. */
function age(file: string, seconds: number): void {
  const bytes = Deno.readFileSync(file);
  const { description, places, pieces } = decodeStart(
    (position, length) => bytes.slice(position, position + length),
    bytes.length,
  );
  const writtenUnixMs = description.writtenUnixMs - seconds * 1000;
  const tables = bytes.subarray(places.tables, places.tables + tableBytes(description.store));
  const pagesBytes = places.checksums - places.pages;
  bytes.set(encodeStart({ ...description, writtenUnixMs }, tables, pieces, pagesBytes));
  Deno.writeFileSync(file, bytes);
}

Deno.test("time passes while the server is down: items expire, and uptime and quarantine begin anew", async () => {
  using folder = new SnapshotFolder();
  {
    await using server = await folder.start("portable");
    using client = await server.connect();
    await client.ask("set short 0 1000 1\r\n1\r\n", "STORED\r\n");
    await client.ask("set long 0 7200 1\r\n1\r\n", "STORED\r\n");
    await client.ask("set unix 0 2000000000 1\r\n1\r\n", "STORED\r\n");
    await server.stop();
  }
  age(folder.file, 3600);
  const quarantine = ["--tokens", "volatile", "--token-quarantine", "600"];
  await using server = await folder.start("portable", ...quarantine);
  using client = await server.connect();
  await client.ask("get short\r\n", "END\r\n");
  await client.ask("get unix\r\n", "VALUE unix 0 1\r\n1\r\nEND\r\n");
  await client.send("mg long t\r\n");
  const left = Number(/t(\d+)/.exec(await client.until("\r\n"))![1]);
  assert(left <= 3600 && left > 3000, `${left}`);
  // As far in the future as before.
  await client.send("mg unix t\r\n");
  const unixLeft = Number(/t(\d+)/.exec(await client.until("\r\n"))![1]);
  assert(Math.abs(2_000_000_000 - Date.now() / 1000 - 3600 - unixLeft) < 60, `${unixLeft}`);
  await client.ask("set new 0 0 1\r\n1\r\n", "NOT_STORED\r\n");
  await client.send("stats\r\n");
  const stats = await client.until("END\r\n");
  assert(Number(/STAT uptime (\d+)/.exec(stats)![1]) < 600, stats);
  assert(Math.abs(Number(/STAT time (\d+)/.exec(stats)![1]) - Date.now() / 1000) < 60, stats);
  await server.stop();
});

Deno.test("a file that was loaded does not come back after a crash", async () => {
  using folder = new SnapshotFolder();
  {
    await using server = await folder.start("portable");
    using client = await server.connect();
    await client.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
    await server.stop();
  }
  {
    await using server = await folder.start("portable");
    server.signal("SIGKILL");
    await server.ended();
  }
  await using server = await folder.start("portable");
  using client = await server.connect();
  await client.ask("get a\r\n", "END\r\n");
  await server.stop();
});

Deno.test("a smaller memory keeps the items read last, another layout all", async () => {
  using folder = new SnapshotFolder();
  const value = "v".repeat(1000);
  const count = 5000;
  {
    await using server = await folder.start("portable", "-m", "20");
    using client = await server.connect();
    for (let key = 0; key < count; key++) {
      await client.ask(`set key${key} 3 0 1000\r\n${value}\r\n`, "STORED\r\n");
    }
    await client.ask(`set long 0 0 ${LONG.length}\r\n${LONG}\r\n`, "STORED\r\n");
    await server.stop();
  }
  {
    await using server = await folder.start("portable", "-m", "20", "-o", "slab_layout=memcached");
    await server.line(`loaded: ${count + 1} items`);
    using client = await server.connect();
    await client.ask(`get long\r\n`, `VALUE long 0 ${LONG.length}\r\n${LONG}\r\nEND\r\n`);
    await client.ask("get key17\r\n", `VALUE key17 3 1000\r\n${value}\r\nEND\r\n`);
    await server.stop();
  }
  await using server = await folder.start("portable", "-m", "2");
  await server.line(/loaded: \d+ items.*items left out/);
  await server.stop();
});

Deno.test("a damaged, truncated or newer file is refused, and the cache starts empty", async () => {
  using folder = new SnapshotFolder();
  {
    await using server = await folder.start("portable");
    using client = await server.connect();
    await client.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
    await server.stop();
  }
  const whole = Deno.readFileSync(folder.file);
  const changed = (at: number): Uint8Array => whole.with(at, whole[at]! ^ 1);
  const damages: readonly [reason: string, file: Uint8Array][] = [
    ["it is truncated", whole.slice(0, 20)],
    ["it has format 0, and this version reads format 1", changed(16)],
    ["its start is damaged", changed(60)],
    ["it is truncated", whole.slice(0, -1)],
    ["its tables are damaged", changed(3000)],
    ["the pages at byte", changed(whole.length - 100_000)],
    ["its checksums are damaged", changed(whole.length - 1)],
  ];
  for (const [reason, file] of damages) {
    Deno.writeFileSync(folder.file, file);
    await using server = await folder.start("portable");
    const line = await server.line("snapshot not loaded");
    assertStringIncludes(line, reason);
    assertEquals(folder.names, ["items.lock", "items.refused"]);
    using client = await server.connect();
    await client.ask("get a\r\n", "END\r\n");
    await client.ask("set b 0 0 1\r\n1\r\n", "STORED\r\n");
    server.signal("SIGKILL");
    await server.ended();
    Deno.writeFileSync(folder.file, file);
    const { code, stderr } = await runToEnd({
      permissions: folder.permissions("portable"),
      args: ["--io", "portable", "-p", "-1", "-e", folder.file, "--snapshot-required"],
    });
    assertEquals(code, 71, stderr);
    assertStringIncludes(stderr, reason);
    assertStringIncludes(`${folder.names}`, "items,");
  }
});

Deno.test("two servers do not share a snapshot", async () => {
  using folder = new SnapshotFolder();
  await using server = await folder.start("portable");
  const { code, stderr } = await runToEnd({
    permissions: folder.permissions("portable"),
    args: ["--io", "portable", "-p", "-1", "-e", folder.file],
  });
  assertEquals(code, 71);
  assertStringIncludes(stderr, "is in use by another server");
  await server.stop();
});

Deno.test("a second signal gives the snapshot up", async () => {
  using folder = new SnapshotFolder();
  await using server = await ServerProcess.start({
    main: path("tests/lib/snapshot/held_snapshot.ts"),
    permissions: ["--allow-all"],
    args: ["--snapshot", folder.file],
  });
  using client = await server.connect();
  await client.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
  server.signal("SIGTERM");
  await server.line("the snapshot is held");
  assertEquals(folder.names, ["items.lock", "items.new"]);
  // The server takes a second signal within 250 ms for the first one.
  const again = setInterval(() => {
    try {
      server.signal("SIGTERM");
    } catch {
      // It has ended.
    }
  }, 50);
  const { code, stderr } = await server.ended();
  clearInterval(again);
  assertStringIncludes(stderr, "given up, the next start is with an empty cache");
  assertEquals(code, 128 + 15);
  assertEquals(folder.names, ["items.lock"]);
});

Deno.test("a server that is killed at any moment of its stop starts empty, or with all items", () =>
  withSeed(drawSeed(), async (seed) => {
    const random = randomFrom(seed);
    const count = 60;
    const value = "v".repeat(1_000_000);
    for (let round = 0; round < roundsOf(3); round++) {
      using folder = new SnapshotFolder();
      {
        await using server = await folder.start("portable", "-m", "1g");
        using client = await server.connect();
        for (let key = 0; key < count; key++) {
          await client.ask(`set ${key} 0 0 1000000\r\n${value}\r\n`, "STORED\r\n");
        }
        server.signal("SIGTERM");
        await until(() => folder.names.some((name) => name !== "items.lock"), 1);
        await new Promise((resolve) => setTimeout(resolve, random() * 200));
        try {
          server.signal("SIGKILL");
        } catch {
          // It has ended.
        }
        await server.ended();
      }
      const isWritten = folder.names.includes("items");
      await using server = await folder.start("portable", "-m", "1g");
      using client = await server.connect();
      for (let key = 0; key < count; key++) {
        const reply = isWritten ? `VALUE ${key} 0 1000000\r\n${value}\r\nEND\r\n` : "END\r\n";
        await client.ask(`get ${key}\r\n`, reply);
      }
      assertEquals(folder.names, [...isWritten ? ["items.loaded"] : [], "items.lock"]);
      server.signal("SIGKILL");
      await server.ended();
    }
  }));

Deno.test({
  name: "a full disk: the server ends, the last file stays, and the next start is empty",
  ...needs("mount", CAN_MOUNT),
  fn: async () => {
    using folder = new SnapshotFolder();
    const disk = `${folder.folder}/disk`;
    using _mounted = mountTinyDisk(disk, 3_000_000);
    const start = (): Promise<ServerProcess> =>
      ServerProcess.start({
        io: "portable",
        permissions: folder.permissions("portable"),
        args: ["--snapshot", `${disk}/items`],
      });
    {
      await using server = await start();
      using client = await server.connect();
      await client.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
      await server.stop();
    }
    {
      await using server = await start();
      using client = await server.connect();
      await client.ask("get a\r\n", "VALUE a 0 1\r\n1\r\nEND\r\n");
      const value = "v".repeat(900_000);
      for (let key = 0; key < 5; key++) {
        await client.ask(`set ${key} 0 0 900000\r\n${value}\r\n`, "STORED\r\n");
      }
      const { stderr } = await server.stop();
      assertStringIncludes(stderr, "not written, the next start is with an empty cache: No space");
    }
    const names = [...Deno.readDirSync(disk)].map(({ name }) => name).sort();
    assertEquals(names, ["items.loaded", "items.lock"]);
    await using server = await start();
    using client = await server.connect();
    await client.ask("get a\r\n", "END\r\n");
    await server.stop();
  },
});
