import {
  assert,
  assertEquals,
  assertGreater,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { StateFolder } from "../../../lib/journal/state_folder.ts";
import {
  DAMAGED_JOURNAL_NAME,
  JOURNAL_NAME,
  readJournal,
  TokenJournal,
} from "../../../lib/journal/token_journal.ts";
import { encodeRecord } from "../../../lib/journal/token_records.ts";
import { firstIdAt, TokenRecordType } from "../../../store/setup.ts";
import { CAN_MOUNT, fillDisk, mountTinyDisk } from "../../support/tiny_disk.ts";
import {
  type Client,
  leastPermissions,
  runToEnd,
  ServerProcess,
  testTransports,
} from "../../support/servers/server_process.ts";
import { needs } from "../../support/needs/needs.ts";

// The journal of update tokens of whole servers, on a real disk.

/** Used where the transport makes no difference. */
const IO = "portable";
const OS_ERROR = 71;
const NOT_PERSISTED = "SERVER_ERROR cannot persist update token\r\n";

/** A folder that is gone afterwards. */
class Folder implements Disposable {
  readonly path = Deno.makeTempDirSync();
  readonly state = `${this.path}/state`;
  readonly journal = `${this.state}/${JOURNAL_NAME}`;

  /** Starts a server with the least permissions it needs. */
  start(io: "portable" | "native", ...args: string[]): Promise<ServerProcess> {
    return ServerProcess.start({
      io,
      args: ["--state-dir", this.state, "-vvv", ...args],
      permissions: this.permissions(io),
    });
  }

  permissions(io: "portable" | "native"): string[] {
    const [read, own] = leastPermissions(io);
    return [`${read},${this.state}`, own!, `--allow-write=${this.state}`];
  }

  /** Changes a byte of the journal, before its last frame. */
  damage(): void {
    const bytes = Deno.readFileSync(this.journal);
    bytes[90]! ^= 1;
    Deno.writeFileSync(this.journal, bytes);
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}

async function getToken(client: Client, key: string, owner = ""): Promise<string> {
  await client.send(`token get ${key}${owner && ` ${owner}`}\r\n`);
  const reply = await client.until("\r\n");
  assertMatch(reply, /^TOKEN \d+\r\n$/);
  return reply.slice("TOKEN ".length, -"\r\n".length);
}

/** Two tokens in a journal. @returns Their ids. */
async function twoTokens(folder: Folder, io: "portable" | "native"): Promise<string[]> {
  await using server = await folder.start(io);
  using client = await server.connect();
  const ids = [await getToken(client, "a"), await getToken(client, "b", "host:1:uuid")];
  await server.stop();
  return ids;
}

testTransports("update tokens outlive a stop, and the store is whole", async (_start, io) => {
  using folder = new Folder();
  const [a, b] = await twoTokens(folder, io);
  await using server = await folder.start(io);
  using client = await server.connect();
  await client.send("token list b\r\n");
  assertMatch(await client.until("END\r\n"), RegExp(`^TOKEN b ${b} \\d+ host:1:uuid \\S+\r\nEND`));
  await client.ask("set a 0 0 1\r\n1\r\n", "NOT_STORED\r\n");
  await client.ask("token get b host:1:uuid\r\n", `TOKEN ${b}\r\n`);
  await client.ask(`token release a ${a}\r\nset a 0 0 1\r\n1\r\n`, "OK\r\nSTORED\r\n");
  assert(Number(await getToken(client, "c")) > Number(b));
  await server.stop();
  await server.line("store check passed");
});

Deno.test("a second server on the same state directory is refused", async () => {
  using folder = new Folder();
  await using _server = await folder.start(IO);
  const { code, stderr } = await runToEnd({
    io: IO,
    args: ["--io", IO, "-p", "-1", "--state-dir", folder.state],
    permissions: folder.permissions(IO),
  });
  assertEquals(code, OS_ERROR, stderr);
  assertStringIncludes(stderr, `the state directory ${folder.state} is in use by another server`);
});

Deno.test("a state directory that cannot be used is refused, and why", async () => {
  using folder = new Folder();
  const refused = async (text: string, ...args: string[]): Promise<void> => {
    const { code, stderr } = await runToEnd({
      args: ["--io", IO, "-p", "-1", "--state-dir", folder.state, ...args],
      permissions: folder.permissions(IO),
    });
    assertEquals(code, OS_ERROR, stderr);
    assertStringIncludes(stderr, text);
  };
  Deno.writeTextFileSync(folder.state, "");
  await refused(`cannot use the state directory ${folder.state}: it is a file, not a folder`);
  Deno.removeSync(folder.state);
  Deno.mkdirSync(`${folder.journal}.new`, { recursive: true });
  await refused(`${folder.journal}.new is a folder: move it away`);
  Deno.removeSync(folder.state, { recursive: true });
  await using server = await folder.start(IO);
  using client = await server.connect();
  for (let count = 0; count < 20; count++) await getToken(client, `key${count}`);
  await server.stop();
  await refused(
    "the journal has 20 update tokens, more than fit into --token-entries 16",
    "--token-entries=16",
  );
});

Deno.test(
  "a damaged journal: nothing is stored until the operator decides",
  async () => {
    using folder = new Folder();
    const [, b] = await twoTokens(folder, IO);
    folder.damage();
    await using refusing = await folder.start(IO);
    await refusing.line("start again with --token-recover=quarantine, or =drop");
    using client = await refusing.connect();
    await client.ask("token get a\r\n", NOT_PERSISTED);
    await client.send("quarantine off\r\n");
    assertStringIncludes(await client.until("\r\n"), "start again with --token-recover");
    await client.ask("set other 0 0 1\r\n1\r\n", "NOT_STORED\r\n");
    await client.ask("get other\r\n", "END\r\n");
    await refusing.stop();
    // Quarantine outlives a restart without the option.
    for (const option of [["--token-recover=quarantine"], []]) {
      await using server = await folder.start(IO, ...option);
      using operator = await server.connect();
      await operator.ask("set other 0 0 1\r\n1\r\n", "NOT_STORED\r\n");
      assert(Number(await getToken(operator, "a")) > Number(b));
      await server.stop();
    }
    assert(Deno.statSync(`${folder.state}/${DAMAGED_JOURNAL_NAME}`).size > 0);
    await using server = await folder.start(IO);
    using operator = await server.connect();
    await operator.ask("quarantine off\r\nset other 0 0 1\r\n1\r\n", "OK\r\nSTORED\r\n");
    await server.stop();
  },
);

for (const recovery of ["quarantine", "drop"]) {
  Deno.test(`--token-recover=${recovery} gives no id again, also when the clock was ahead before`, async () => {
    using folder = new Folder();
    await twoTokens(folder, IO);
    // An hour ahead: a start by the clock of now has lower ids.
    const ahead = firstIdAt(Date.now() + 3_600_000, 0);
    const files = new StateFolder(folder.state);
    const journal = new TokenJournal(files, readJournal(files), "");
    const key = new TextEncoder().encode("a");
    const [owner, peer] = [new Uint8Array(), new Uint8Array()];
    journal.append(
      encodeRecord(TokenRecordType.GET, { id: ahead, key, owner, peer, sinceUnixSec: 1 }),
      true,
    );
    journal.close();
    files.close();
    folder.damage();
    await using server = await folder.start(IO, `--token-recover=${recovery}`);
    await server.line(`kept as ${DAMAGED_JOURNAL_NAME}`);
    using client = await server.connect();
    assertGreater(Number(await getToken(client, "a")), ahead);
    await server.stop();
  });
}

Deno.test("a journal of a newer version is refused like a damaged one; =drop forgets its tokens", async () => {
  using folder = new Folder();
  const [, b] = await twoTokens(folder, IO);
  const bytes = Deno.readFileSync(folder.journal);
  bytes["leased update tokens ".length] = "9".charCodeAt(0);
  Deno.writeFileSync(folder.journal, bytes);
  await using refusing = await folder.start(IO);
  await refusing.line("has version 9; this program understands version 1");
  await refusing.stop();
  await using server = await folder.start(IO, "--token-recover=drop");
  using client = await server.connect();
  await client.ask("set a 0 0 1\r\n1\r\n", "STORED\r\n");
  assert(Number(await getToken(client, "c")) > Number(b));
  await server.stop();
});

Deno.test(
  "without its state directory the server gives no token, and still serves reads",
  async () => {
    using folder = new Folder();
    await using server = await folder.start(IO);
    using client = await server.connect();
    await client.ask("set k 0 0 1\r\n1\r\n", "STORED\r\n");
    await getToken(client, "a");
    Deno.removeSync(folder.state, { recursive: true });
    await client.ask("token get b\r\n", NOT_PERSISTED);
    await server.line("cannot write the journal of update tokens: ");
    await client.ask("get k\r\n", "VALUE k 0 1\r\n1\r\nEND\r\n");
    // One that is made anew may be of another disk.
    Deno.mkdirSync(folder.state);
    await client.ask("token get b\r\n", NOT_PERSISTED);
    assertEquals([...Deno.readDirSync(folder.state)], []);
    await server.stop();
  },
);

Deno.test("a full disk: token get is refused, reads and stores go on, and it recovers", {
  ...needs("mount", CAN_MOUNT),
}, async () => {
  using folder = new Folder();
  using _disk = mountTinyDisk(folder.state, 64 * 1024);
  await using server = await folder.start(IO);
  using client = await server.connect();
  await client.ask("set k 0 0 1\r\n1\r\n", "STORED\r\n");
  const first = await getToken(client, "first");
  const ballast = fillDisk(folder.state);
  // A record that fits into the last page is still accepted.
  let reply = "";
  const got: string[] = [];
  for (let count = 0; count < 1000 && !reply.startsWith("SERVER_ERROR"); count++) {
    await client.send(`token get key${count}\r\n`);
    reply = await client.until("\r\n");
    if (reply.startsWith("TOKEN ")) got.push(`key${count}`);
  }
  assertEquals(reply, NOT_PERSISTED);
  await server.line("cannot write the journal of update tokens: No space left on device");
  await client.ask("get k\r\n", "VALUE k 0 1\r\n1\r\nEND\r\n");
  await client.ask("set k 0 0 1\r\n2\r\n", "STORED\r\n");
  await client.ask(`token release first ${first}\r\n`, "OK\r\n");
  Deno.removeSync(ballast);
  await server.line("the journal of update tokens can be written again");
  await getToken(client, "last");
  await server.stop();
  await using again = await folder.start(IO);
  using reader = await again.connect();
  await reader.send("token list\r\n");
  const list = await reader.until("END\r\n");
  const keys = [...list.matchAll(/^TOKEN (\S+)/gm)].map(([, key]) => key!);
  assertEquals(keys.sort(), [...got, "last"].sort());
  await again.stop();
});

Deno.test(
  "a restart on a full disk continues in the old journal, and makes a new one when there is room",
  needs("mount", CAN_MOUNT),
  async () => {
    using folder = new Folder();
    using _disk = mountTinyDisk(folder.state, 1280 * 1024);
    const [a] = await twoTokens(folder, IO);
    fillDisk(folder.state);
    for (const key of ["c", "d"]) {
      await using server = await folder.start(IO);
      await server.line(`cannot write a new ${folder.journal}: No space left on device`);
      using client = await server.connect();
      await client.ask("set a 0 0 1\r\n1\r\nset other 0 0 1\r\n1\r\n", "NOT_STORED\r\nSTORED\r\n");
      await client.send("token list a\r\n");
      assertStringIncludes(await client.until("END\r\n"), `TOKEN a ${a} `);
      await getToken(client, key);
      await server.stop();
    }
    Deno.removeSync(`${folder.state}/ballast`);
    const { ino } = Deno.statSync(folder.journal);
    await using server = await folder.start(IO);
    assert(Deno.statSync(folder.journal).ino !== ino);
    using client = await server.connect();
    await client.send("token list\r\n");
    const list = await client.until("END\r\n");
    assertEquals(
      [...list.matchAll(/^TOKEN (\S+)/gm)].map(([, key]) => key).sort().join(),
      "a,b,c,d",
    );
    await server.stop();
  },
);

Deno.test(
  "--token-recover on a full disk refuses to start and leaves the damaged journal where it was",
  {
    ...needs("mount", CAN_MOUNT),
  },
  async () => {
    using folder = new Folder();
    using _disk = mountTinyDisk(folder.state, 1280 * 1024);
    await twoTokens(folder, IO);
    folder.damage();
    const damaged = Deno.readFileSync(folder.journal);
    const ballast = fillDisk(folder.state);
    const error = await folder.start(IO, "--token-recover=quarantine").catch((error) => error);
    assertStringIncludes(`${error}`, "cannot write the journal of update tokens: No space left");
    assertEquals(Deno.readFileSync(folder.journal), damaged);
    Deno.removeSync(ballast);
    await using server = await folder.start(IO, "--token-recover=quarantine");
    await server.line(`kept as ${DAMAGED_JOURNAL_NAME}`);
    await server.stop();
  },
);

Deno.test("an unfinished record at the end of the journal is dropped, and the log says so", async () => {
  using folder = new Folder();
  const [a] = await twoTokens(folder, IO);
  const bytes = Deno.readFileSync(folder.journal);
  const end = bytes.findLastIndex((byte) => byte !== 0) + 1;
  bytes.fill(7, end, end + 5);
  Deno.writeFileSync(folder.journal, bytes);
  await using server = await folder.start(IO);
  await server.line(`${folder.journal}: `);
  await server.line("are no record, dropped");
  using client = await server.connect();
  await client.send("token list a\r\n");
  assertStringIncludes(await client.until("END\r\n"), `TOKEN a ${a} `);
  await server.stop();
});
