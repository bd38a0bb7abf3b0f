import { assertEquals } from "@std/assert";
import { randomFrom } from "../support/random.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { binaryReplies, saslLogin, textLogin } from "../support/sessions/auth_requests.ts";
import { packetText } from "../support/sessions/binary_text.ts";
import { ConversationSide } from "../support/sessions/conversation_side.ts";
import { parseStats } from "../support/sessions/side.ts";
import type { SocketSide } from "../support/sessions/socket_side.ts";
import {
  HAS_SASL_TOOLS,
  isAtLeast,
  startMemcached,
  startMemcachedWithSasl,
  testWithMemcached,
} from "../support/servers/memcached.ts";
import { needs } from "../support/needs/needs.ts";

// Random authentications, and commands before and behind them, to memcached and to this server.

const CONNECTIONS = 300;
const USERS = "ann:nna\nbob:a b\ncarl:x:y\n";
/** memcached reads names and passwords byte by byte from here on; before, it splits them at blanks. */
const EXACT_VERSION = "1.6.45";

/** A request that is answered at most once; with the version from which on memcached does so. */
type Request = readonly [text: string, since?: string];

/** The line of an authentication with another data block. */
const block = (text: string, line = `set x 0 0 ${text.length}`): string => `${line}\r\n${text}\r\n`;

const TEXT_REQUESTS: readonly Request[] = [
  [textLogin("ann", "nna")],
  [textLogin("carl", "x:y")],
  [textLogin("ann", "wrong")],
  [textLogin("an", "nna")],
  [textLogin("ann", "nn")],
  [textLogin("ann", "nnaa")],
  [textLogin("nobody", "nna")],
  [block("ann")],
  [block("")],
  [block("ann\tnna")],
  [block("ann nna", "set x 0 0 7 noreply")],
  [block("ann nna", "set x what ever 7 further words")],
  [block("ann nna", `set ${"k".repeat(300)} 0 0 7`)],
  [block("ann nna", "set  x   0  0  7")],
  ["set x 0 0 7\r\nann nna\n\n"],
  ["get a b c\r\n"],
  ["verbosity 1\r\n"],
  ["stats\r\n", "never"],
  ["delete a\r\n"],
  ["set x\r\n"],
  ["set x 0 0\r\n"],
  ["set x 0 0 x\r\n"],
  ["SET x 0 0 7\r\n"],
  ["     \r\n", EXACT_VERSION],
  ["abcde\r\n", EXACT_VERSION],
  ["abcd\r\n", EXACT_VERSION],
  ["quit\r\n", EXACT_VERSION],
  ["mn\r\n", EXACT_VERSION],
  ["a\r\n", EXACT_VERSION],
  [textLogin("bob", "a b"), EXACT_VERSION],
  [textLogin("ann", "nna "), EXACT_VERSION],
  [textLogin("ann", " nna"), EXACT_VERSION],
  [textLogin("", "nna"), EXACT_VERSION],
  [textLogin("ann", "nna x"), EXACT_VERSION],
  [` ${block("ann nna", "et x 0 0 x")}`, "never"],
  ["set x 0 0 16385\r\n", EXACT_VERSION],
  ["set x 0 0 4294967295\r\n", EXACT_VERSION],
  // Longer lines: this server closes the connection.
  [`${"x".repeat(2040)}\r\n`],
];

const sasl = (opcode: number, key: string, value: string): string =>
  packetText({ opcode, key, extras: "", value });
const PLAIN = "PLAIN";

const SASL_REQUESTS: readonly Request[] = [
  [saslLogin("ann", "nna")],
  [saslLogin("ann", "no")],
  [saslLogin("nobody", "nna")],
  [sasl(0x20, "", "")],
  [sasl(0x20, "x", "")],
  [sasl(0x21, "plain", "\0ann\0nna")],
  [sasl(0x21, PLAIN, "ann\0ann\0nna")],
  [sasl(0x21, PLAIN, "bob\0ann\0nna")],
  [sasl(0x21, PLAIN, "ann nna")],
  [sasl(0x21, PLAIN, "\0ann")],
  [sasl(0x21, PLAIN, "\0ann\0nna\0")],
  [sasl(0x21, PLAIN, "\0\0nna")],
  [sasl(0x21, PLAIN, "\0ann\0")],
  [sasl(0x21, "CRAM-MD5", "")],
  [sasl(0x21, "", "\0ann\0nna")],
  [sasl(0x21, "M".repeat(33), "x")],
  [sasl(0x21, "M".repeat(32), "x")],
  [sasl(0x21, PLAIN, `\0ann\0${"x".repeat(5000)}`)],
  [sasl(0x22, PLAIN, "\0ann\0nna")],
  [sasl(0x22, PLAIN, "\0ann\0no")],
  [sasl(0x22, "", "\0ann\0nna")],
  [sasl(0x21, PLAIN, "")],
  [sasl(0x0a, "", "")],
  [sasl(0x00, "a", "")],
  [sasl(0x07, "", "")],
  [sasl(0x99, "a", "b")],
  [sasl(0x10, "", ""), "never"],
];
/** A protocol's reply of success, and a request behind it that both servers answer alike. */
interface Dialect {
  isLoggedIn(reply: string): boolean;
  readonly neutral: string;
}

const TEXT: Dialect = { isLoggedIn: (reply) => reply === "STORED\r\n", neutral: "get a\r\n" };
const SASL: Dialect = {
  isLoggedIn: (reply) => binaryReplies(reply)[0]?.body === "Authenticated",
  neutral: sasl(0x0a, "", ""),
};

/** Plays random requests to both servers, one at a time: memcached answers pipelined ones with the last reply only. */
async function duel(
  ours: ConversationSide,
  theirs: SocketSide,
  requests: readonly string[],
  seed: number,
  { isLoggedIn, neutral }: Dialect,
): Promise<void> {
  const random = randomFrom(seed);
  for (let connection = 0; connection < CONNECTIONS; connection++) {
    const our = ours.connect();
    const their = await theirs.open();
    const said: string[] = [];
    let isIn = false;
    for (let step = 0; step < 5 && !our.closed; step++) {
      // A client that is in is not let in again: memcached refuses that in the binary protocol.
      const request = isIn ? neutral : requests[Math.floor(random() * requests.length)]!;
      said.push(request);
      const expected = our.ask(request);
      await their.send(request);
      let received = "";
      while (received.length < expected.length) {
        const length = received.length;
        received = await their.receive(length);
        if (received.length === length) break;
      }
      their.take(received.length);
      assertEquals(expected, received, JSON.stringify(said));
      if (our.closed) assertEquals(await their.isClosed(), true, JSON.stringify(said));
      isIn ||= isLoggedIn(expected);
    }
    if (!our.closed) our.disconnect();
    their.disconnect();
  }
}

function chosen(requests: readonly Request[], version: string): string[] {
  return requests.filter(([, since]) =>
    since === undefined || (since !== "never" && isAtLeast(version, since))
  )
    .map(([text]) => text);
}

async function inFolder(run: (folder: string) => Promise<void>): Promise<void> {
  const folder = Deno.makeTempDirSync({ prefix: "leased-test-" });
  try {
    await run(folder);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

testWithMemcached(
  "authentication by text gets memcached's replies and counts",
  async (memcached) => {
    await inFolder(async (folder) => {
      const file = `${folder}/users`;
      Deno.writeTextFileSync(file, USERS);
      const ours = new ConversationSide(["-Y", file]);
      await using theirs = await startMemcached(memcached, ["-Y", file]);
      await withSeed(drawSeed(), async (seed) => {
        await duel(ours, theirs, chosen(TEXT_REQUESTS, memcached.version), seed, TEXT);
      });
      const login = textLogin("ann", "nna");
      const our = parseStats(ours.connect().ask(`${login}stats\r\n`));
      const their = parseStats(await theirs.ask(`${login}stats\r\n`, "END\r\n"));
      for (const name of ["auth_cmds", "auth_errors"]) {
        assertEquals(our.get(name), their.get(name), name);
      }
    });
  },
);

if (!HAS_SASL_TOOLS) {
  Deno.test(
    "SASL gets memcached's replies; saslpasswd2 not installed",
    needs("saslpasswd2", false),
    () => {},
  );
} else {
  testWithMemcached("SASL gets memcached's replies", async (memcached) => {
    await inFolder(async (folder) => {
      const file = `${folder}/users`;
      Deno.writeTextFileSync(file, USERS);
      const ours = new ConversationSide(["-Y", file, "-S"]);
      await using theirs = await startMemcachedWithSasl(memcached, folder, {
        user: "ann",
        password: "nna",
      });
      await withSeed(drawSeed(), async (seed) => {
        await duel(ours, theirs, chosen(SASL_REQUESTS, memcached.version), seed, SASL);
      });
    });
  });
}
