import { assert, assertEquals, assertMatch } from "@std/assert";
import {
  Client,
  leastPermissions,
  runToEnd,
  testTransports as test,
} from "../../support/servers/server_process.ts";
import { waitingFor } from "../../support/waiting.ts";

const ALL = { permissions: ["--allow-all"] };

test(
  "a Unix socket has the mode of -a, replaces a stale file, and is gone at the end",
  async (start, io) => {
    const folder = await Deno.makeTempDir();
    const path = `${folder}/s`;
    const permissions = [
      ...leastPermissions(io),
      ...(io === "portable"
        ? [`--allow-net=unix:${path}`, `--allow-read=${path}`, `--allow-write=${path}`]
        : []),
    ];
    const options = { args: ["-s", path, "-a", "770"], permissions };
    {
      // Killed, so that the file stays.
      await using stale = await start(options);
      stale.signal("SIGKILL");
      await stale.ended();
    }
    assert(Deno.lstatSync(path).isSocket);
    await using server = await start(options);
    assertEquals(Deno.lstatSync(path).mode! & 0o777, 0o770);
    using client = await Client.connectUnix(path);
    await client.ask("set a 0 0 1\r\n1\r\nget a\r\n", "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n");
    await server.stop();
    assertEquals([...Deno.readDirSync(folder)], []);
    await Deno.remove(folder);
  },
);

test(
  "a Unix socket that another server has, or a file that is none, is left alone",
  async (start, io) => {
    const folder = await Deno.makeTempDir();
    const path = `${folder}/s`;
    await using server = await start({ args: ["-s", path], permissions: ["--allow-all"] });
    const second = await start({ args: ["-s", path], permissions: ["--allow-all"] }).catch((
      error,
    ) => error);
    assertMatch(String(second), /another server/);
    using client = await Client.connectUnix(path);
    await client.ping();
    await server.stop();
    Deno.writeTextFileSync(path, "mine");
    const third = await runToEnd({ args: ["--io", io, "-s", path], permissions: ["--allow-all"] });
    assertEquals(third.code, 71, third.stderr);
    assertMatch(
      third.stderr,
      /cannot listen on .*: another server listens on this path, or the file is no socket \(/,
    );
    assertEquals(Deno.readTextFileSync(path), "mine");
    await Deno.remove(folder, { recursive: true });
  },
);

test("the file of a Unix socket appears when the server listens", async (start, io) => {
  // The runtime's bind and listen are a few microseconds apart.
  if (io === "portable") return;
  const folder = await Deno.makeTempDir();
  const path = `${folder}/s`;
  using watcher = Deno.watchFs(folder);
  const changes = watcher[Symbol.asyncIterator]();
  const starting = start({ ...ALL, args: ["-s", path] });
  while (!Array.from(Deno.readDirSync(folder)).some(({ name }) => name === "s")) {
    await waitingFor("the file of the socket", changes.next());
  }
  using client = await Client.connectUnix(path);
  await client.ping();
  await using server = await starting;
  await server.stop();
  assertEquals([...Deno.readDirSync(folder)], []);
  await Deno.remove(folder);
});

test("a server leaves the socket file of another one that took its path", async (start, io) => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/s`;
  await using first = await start({ ...ALL, args: ["-s", path] });
  await Deno.remove(path);
  await using second = await start({ ...ALL, args: ["-s", path] });
  await first.stop();
  using client = await Client.connectUnix(path);
  await client.ping();
  await second.stop();
  assertEquals([...Deno.readDirSync(folder)], [], io);
  await Deno.remove(folder);
});

test("a server leaves a file that took the path of its socket", async (start) => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/s`;
  await using server = await start({ ...ALL, args: ["-s", path] });
  await Deno.remove(path);
  await Deno.writeTextFile(path, "mine");
  assertEquals((await server.stop()).code, 0);
  assertEquals(await Deno.readTextFile(path), "mine");
  await Deno.remove(folder, { recursive: true });
});

test("a folder in which no socket file can be made is refused at once", async (start) => {
  const folder = await Deno.makeTempDir();
  await Deno.writeTextFile(`${folder}/file`, "");
  for (const [path, reason] of [["none/s", "does not exist"], ["file/s", "is not a folder"]]) {
    const error = await start({ ...ALL, args: ["-s", `${folder}/${path}`] }).catch((error) =>
      error
    );
    assertMatch(String(error), new RegExp(reason!));
  }
  await Deno.remove(folder, { recursive: true });
});
