import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import {
  type Client,
  leastPermissions,
  path,
  type ProcessOptions,
  runToEnd,
  type ServerProcess,
  type Start,
  testTransports,
  until,
} from "../../support/servers/server_process.ts";
import { isPasswordOf } from "../../../lib/auth/scrypt.ts";
import { needs } from "../../support/needs/needs.ts";
import { HAS_SCRIPT, Pty } from "../../support/sessions/pty.ts";
import {
  binaryReplies,
  saslLogin,
  textLogin,
  USER_LINES,
} from "../../support/sessions/auth_requests.ts";

const FAILED = "CLIENT_ERROR authentication failure\r\n";
const UNAUTHENTICATED = "CLIENT_ERROR unauthenticated\r\n";

/** The options and permissions of a server with this user file. */
function withUsers(
  io: "portable" | "native",
  file: string,
  ...args: string[]
): ProcessOptions {
  const [sources, ...rest] = leastPermissions(io);
  return { io, args: ["-Y", file, ...args], permissions: [`${sources},${file}`, ...rest] };
}

/** Runs a test with a server that asks for passwords. */
async function served(
  start: Start,
  io: "portable" | "native",
  args: readonly string[],
  run: (server: ServerProcess, file: string) => Promise<void>,
  users = USER_LINES,
): Promise<void> {
  const file = Deno.makeTempFileSync({ prefix: "leased-test-" });
  try {
    Deno.writeTextFileSync(file, users);
    await using server = await start(withUsers(io, file, ...args));
    await run(server, file);
    await server.stop();
  } finally {
    Deno.removeSync(file);
  }
}

async function passwd(password: string, ...words: string[]): Promise<Deno.CommandOutput> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", path("main.ts"), "passwd", ...words],
    env: { NO_COLOR: "1" },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(password));
  await writer.close().catch(() => {});
  return await child.output();
}

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

testTransports(
  "authentication by text, with hashed passwords, and a new file by SIGHUP",
  async (start, io) => {
    const { stdout, code } = await passwd("hidden\n", "dora", "write");
    assertEquals(code, 0);
    assertMatch(
      text(stdout),
      /^dora write:\$scrypt\$ln=14,r=8,p=5\$[A-Za-z0-9+/]+\$[A-Za-z0-9+/]+\n$/,
    );
    await served(start, io, ["-v"], async (server, file) => {
      using client = await server.connect();
      await client.ask("get a\r\n", UNAUTHENTICATED);
      await client.ask(textLogin("dora", "wrong"), FAILED);
      await client.ask(textLogin("nobody", "hidden"), FAILED);
      // Requests behind the password wait until it is checked.
      await client.ask(
        `${textLogin("dora", "hidden")}set a 0 0 1\r\nx\r\nget a\r\nflush_all\r\n`,
        "STORED\r\nSTORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n" +
          "CLIENT_ERROR not permitted: this user is no administrator\r\n",
      );
      assertEquals(await client.stat("auth_cmds"), "3");
      assertEquals(await client.stat("auth_errors"), "2");
      assertEquals(await client.stat("auth_enabled_ascii", "settings"), file);
      assertEquals(await client.stat("binding_protocol", "settings"), "ascii");
      Deno.writeTextFileSync(file, "eve:new\n");
      Deno.chmodSync(file, 0o644);
      server.signal("SIGHUP");
      await server.line(`every user of this host can read the user file ${file}`);
      await server.line("reloaded; users: 1");
      using next = await server.connect();
      await next.ask(textLogin("dora", "hidden"), FAILED);
      await next.ask(textLogin("eve", "new"), "STORED\r\n");
      await client.ping();
      Deno.writeTextFileSync(file, "eve:new\nbroken\n");
      server.signal("SIGHUP");
      await server.line(
        "line 2: must be user:password or user level:password; the previous users stay in force",
      );
      using last = await server.connect();
      await last.ask(textLogin("eve", "new"), "STORED\r\n");
      assertEquals(server.lines.filter((line) => line.includes("SIGHUP ignored")), []);
    }, text(stdout));
  },
);

testTransports("SASL, alone and beside text", async (start, io) => {
  await served(start, io, ["-S"], async (server) => {
    using client = await server.connect();
    await client.send(saslLogin("bob", "no"));
    assertEquals(binaryReplies(await client.take(24 + 13)).map(({ status }) => status), [0x20]);
    await client.send(saslLogin("bob", "bob"));
    assertEquals(binaryReplies(await client.take(24 + 13))[0]!.body, "Authenticated");
    using late = await server.connect();
    await late.send(`version\r\n${" ".repeat(40)}`);
    assertEquals(await late.rest(), "");
  });
  await served(start, io, ["-S", "-B", "auto"], async (server) => {
    using byText = await server.connect();
    await byText.ask(textLogin("carl", "lrac"), "STORED\r\n");
    await byText.ping();
    using bySasl = await server.connect();
    await bySasl.send(saslLogin("carl", "lrac"));
    assertEquals(binaryReplies(await bySasl.take(24 + 13))[0]!.body, "Authenticated");
  });
});

testTransports(
  "connections that do not authenticate are closed; others are not",
  async (start, io) => {
    await served(start, io, ["--auth-timeout", "5", "-v"], async (server) => {
      using good = await server.connect();
      await good.ask(textLogin("ann", "nna"), "STORED\r\n");
      using silent = await server.connect();
      using half = await server.connect();
      await half.send("set x 0 0 100\r\nann ");
      using wrong = await server.connect();
      await wrong.ask(textLogin("ann", "no"), FAILED);
      assertEquals(await silent.rest(), "");
      assertEquals(await half.rest(), "");
      assertEquals(await wrong.rest(), "");
      await server.line("did not authenticate within 5 s (--auth-timeout)");
      await good.ping();
    });
  },
);

testTransports("a client that ends its side behind its password is answered", async (start, io) => {
  await served(start, io, [], async (server) => {
    using client = await server.connect();
    await client.send(`${textLogin("ann", "nna")}get a\r\n`);
    await client.socket.closeWrite();
    assertEquals(await client.rest(), "STORED\r\nEND\r\n");
  });
});

testTransports("a server stops while passwords wait for their check", async (start, io) => {
  const clients: Client[] = [];
  await served(start, io, [], async (server) => {
    for (let index = 0; index < 40; index++) {
      const client = await server.connect();
      await client.send(textLogin("ann", `no${index}`));
      clients.push(client);
    }
    await server.line("127.0.0.1 sent several wrong passwords");
  });
  for (const client of clients) client[Symbol.dispose]();
});

testTransports(
  "a thousand connections that guess passwords do not stop other clients",
  async (start, io) => {
    await served(start, io, ["-c", "1500"], async (server) => {
      using worker = await server.connect();
      await worker.ask(textLogin("ann", "nna"), "STORED\r\n");
      let guesses = 0;
      const guessers: Client[] = [];
      const guess = async (client: Client, index: number): Promise<void> => {
        try {
          for (let round = 0;; round++) {
            await client.ask(textLogin("ann", `guess-${index}-${round}`), FAILED);
            guesses++;
          }
        } catch {
          // The test is over, or --auth-timeout has closed it.
        }
      };
      const running: Promise<void>[] = [];
      for (let index = 0; index < 1000; index++) {
        const client = await server.connect();
        guessers.push(client);
        running.push(guess(client, index));
      }
      for (let round = 0; round < 2000; round++) await worker.ping();
      await until(() => guesses > 10);
      const errors = Number(await worker.stat("auth_errors"));
      assert(errors >= 10);
      for (const client of guessers) client[Symbol.dispose]();
      await Promise.all(running);
      await worker.ping();
    });
  },
);

Deno.test("a bad user file ends the start with status 71, and a missing permission with 77", async () => {
  const file = Deno.makeTempFileSync({ prefix: "leased-test-" });
  try {
    Deno.writeTextFileSync(file, "a:1\nb\n");
    const bad = await runToEnd({ ...withUsers("portable", file, "-p", "-1") });
    assertEquals(bad.code, 71);
    assertStringIncludes(bad.stderr, `user file ${file}, line 2: must be user:password`);
    const denied = await runToEnd({ args: ["-Y", file, "-p", "-1"] });
    assertEquals(denied.code, 77);
    assertStringIncludes(
      denied.stderr,
      `not permitted to read the user file ${file} (-Y): add --allow-read=${file}`,
    );
  } finally {
    Deno.removeSync(file);
  }
});

Deno.test("leased passwd --help prints how to use it", async () => {
  const { code, stdout } = await passwd("", "--help");
  assertEquals(code, 0);
  assertMatch(text(stdout), /^usage: leased passwd <user> \[read\|write\|node\|admin\]/);
});

Deno.test("leased passwd refuses what no client could send", async () => {
  const cases: readonly (readonly [string, string[], string])[] = [
    ["x\n", [], "usage: leased passwd <user>"],
    ["x\n", ["--hlep"], "usage: leased passwd <user>"],
    [
      "x\n",
      ["ann", "reed"],
      "leased: the level of user ann must be read, write, node, admin or absent",
    ],
    ["\n", ["ann"], "the password must have 1 to 255 bytes"],
    [`${"x".repeat(256)}\n`, ["ann"], "the password must have 1 to 255 bytes"],
  ];
  for (const [input, words, message] of cases) {
    const { code, stderr, stdout } = await passwd(input, ...words);
    assertEquals([code, text(stdout)], [64, ""], message);
    assertStringIncludes(text(stderr), message);
  }
});

Deno.test(
  "a password that is typed is not shown, and is what the corrections have left of it",
  needs("script", HAS_SCRIPT),
  async () => {
    const args = ["run", "--no-prompt", path("main.ts"), "passwd", "ann"];
    await using pty = new Pty("cols 300 rows 12", args, { NO_COLOR: "1" });
    await pty.until("Password: ");
    await pty.press("hidx\x7fd\xe2\x82\xac\x7fen\r");
    await pty.until("Again: ");
    await pty.press("hidden\r");
    assertEquals(await pty.ended(), 0, pty.shown);
    const [, hash] = /^\r\nann:(\S+)\r\n$/.exec(pty.shown) ?? [];
    assert(hash !== undefined, pty.shown);
    assert(await isPasswordOf(new TextEncoder().encode("hidden"), hash));
  },
);

Deno.test(
  "a password whose repetition is another one is refused",
  needs("script", HAS_SCRIPT),
  async () => {
    const args = ["run", "--no-prompt", path("main.ts"), "passwd", "ann"];
    for (const [first, second] of [["hid", "hidden"], ["hidden", "hid"], ["hidden", "hiddon"]]) {
      await using pty = new Pty("cols 300 rows 12", args, { NO_COLOR: "1" });
      await pty.until("Password: ");
      await pty.press(`${first}\r`);
      await pty.until("Again: ");
      await pty.press(`${second}\r`);
      assertEquals(await pty.ended(), 64, pty.shown);
      assertStringIncludes(pty.shown, "the passwords differ");
    }
  },
);
