import { assert, assertEquals } from "@std/assert";
import { BINARY_COMMANDS, Part } from "../../protocol/binary/table.ts";
import { OPCODES } from "../../protocol/binary_opcodes.ts";
import { KEY_LENGTH_MAX, LOCK_WAIT_MS_MAX } from "../../store/limits.ts";
import {
  binaryReplies,
  rowRequests,
  saslLogin,
  textLogin,
  USER_LINES,
} from "../support/sessions/auth_requests.ts";
import { numberBytes, packetText } from "../support/sessions/binary_text.ts";
import { type ConversationPeer, ConversationSide } from "../support/sessions/conversation_side.ts";

// The last value that a request may have, and the first one that it may not.

const OPTIONS = [
  ...["-z", "80", "--tokens", "volatile", "--token-quarantine", "0", "--allow-token-drop"],
];
const BAD_FORMAT = "CLIENT_ERROR bad command line format\r\n";
const INVALID = 0x04;

/** Asks on a connection of its own, of a server of its own. */
function ask(request: string, before = "", options: readonly string[] = []): string {
  using side = new ConversationSide([...OPTIONS, ...options]);
  side.connect().ask(before);
  return side.connect().ask(request);
}

const HAS_NO_KEY =
  /^(?:getss$|stats|lease list|lock list|token list|token drop_all|quarantine|flush_all|ver|refresh|mn|quit|cache|unlock_all|keys|shutdown|debug|watch|slabs|lru|nodes|node|follow|u)/;
const TEXT_REQUESTS = rowRequests().filter(({ name, isBinary }) =>
  !isBinary && !HAS_NO_KEY.test(name)
);

for (const { name, text } of TEXT_REQUESTS) {
  Deno.test(`a key may have 250 bytes: ${name}`, () => {
    const key = "k".repeat(KEY_LENGTH_MAX);
    const withKey = (word: string): string => text.replace("secret-key", () => word);
    const shown = (reply: string): string => reply.replaceAll(/\d{15,16}/g, "id");
    assertEquals(shown(ask(withKey(key))).replaceAll(key, "k"), shown(ask(withKey("k"))));
    const refused = ask(`${withKey(`${key}k`)}mn\r\n`);
    // As in memcached, ma has but one word for all that is wrong.
    const refusal = name.startsWith("ma ")
      ? "CLIENT_ERROR invalid or duplicate flag\r\n"
      : BAD_FORMAT;
    assertEquals(refused, `${refusal}MN\r\n`);
  });
}

for (const { name, opcode, extras, key, value } of BINARY_COMMANDS) {
  if (key !== Part.SOME || name.startsWith("Sasl")) continue;
  Deno.test(`a key may have 250 bytes: ${name}`, () => {
    const statusOf = (length: number): number[] => {
      const fields = { opcode, extras: "\0".repeat(Math.max(...extras)) };
      const packet = packetText({
        ...fields,
        key: "k".repeat(length),
        value: value === Part.NONE ? "" : "1",
      });
      return binaryReplies(ask(packet)).map(({ status }) => status);
    };
    assertEquals(statusOf(KEY_LENGTH_MAX), statusOf(1));
    for (const length of [251, 255, 256, 500]) assertEquals(statusOf(length), [INVALID]);
  });
}

const ID_HIGH = 2n ** 32n;

/** Requests, and their replies. `before` is a request of another connection. */
const CASES: readonly (readonly [request: string, reply: string, before?: string])[] = [
  [`lock k ${LOCK_WAIT_MS_MAX}`, "OK", "set k 0 0 1\r\n1\r\n"],
  [`lock k ${LOCK_WAIT_MS_MAX + 1}`, "CLIENT_ERROR invalid wait argument"],
  ["lock k 4294967295", "CLIENT_ERROR invalid wait argument"],
  ["lock k 4294967301", "CLIENT_ERROR invalid wait argument"],
  ["lock k 18446744073709551615", "CLIENT_ERROR invalid wait argument"],
  ["lock k 18446744073709551616", "ERROR"],
  ["slabs automove 2", "OK"],
  ["slabs automove window 3", "OK"],
  ["slabs automove window 1800", "OK"],
  ["lru tune 20 60 1 1", "OK"],
  ["lru tune 20 61 1 1", "ERROR hot and warm pcts must not exceed 80"],
  ["lru tune 80 0 1 0.01", "OK"],
  ["lru temp_ttl 0", "OK"],
  ["lru_crawler sleep 1000000", "OK"],
  ["lru_crawler sleep 0", "OK"],
  ["cache_memlimit 8", "OK"],
  ["cache_memlimit 1000000000", "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust"],
  ["cache_memlimit 4294967304", "OK"],
  [`mg k O${"o".repeat(31)}`, `EN O${"o".repeat(31)}`],
  [`mg k O${"o".repeat(32)}`, "CLIENT_ERROR opaque token too long"],
  // Twenty words, and one more.
  ["mg k v f s c t h l k b q u N9 T9 R9 C1 E1 Oo I", "CLIENT_ERROR error decoding key"],
  ["mg k v f s c t h l k q u N9 T9 R9 C1 E1 Oo I x", "HD f0 s0 c1 t-1 h0 l0 kk Oo W"],
  [
    "mg k v f s c t h l k q u N9 T9 R9 C1 E1 Oo I x L",
    "CLIENT_ERROR options flags are too long",
  ],
  ["ms k 1 F4294967295\r\n1\r\nmg k f", "HD\r\nHD f4294967295"],
  ["ms k 1 F4294967296\r\n1", BAD_FORMAT.trim()],
  ["ms k 1 F18446744073709551615\r\n1", BAD_FORMAT.trim()],
  [`ms k 1 E${ID_HIGH}\r\n1\r\nmg k c`, `HD\r\nHD c${ID_HIGH}`],
  [`ms k 1 E${ID_HIGH} c\r\n1`, `HD c${ID_HIGH}`],
  [`ma k C${ID_HIGH}`, "EX", "ms k 1 E1\r\n1\r\n"],
  ["ma k C0", "HD", "ms k 1 E1\r\n1\r\n"],
  [`ms k 1 C${ID_HIGH}\r\n2`, "EX", "ms k 1 E1\r\n1\r\n"],
  [`md k C${ID_HIGH + 1n}`, "EX", "ms k 1 E1\r\n1\r\n"],
  [`mg k v C${ID_HIGH + 1n}`, "VA 1\r\n1", "ms k 1 E1\r\n1\r\n"],
  ["mg k v C1", "HD", "ms k 1 E1\r\n1\r\n"],
  [`mg k N9 E${ID_HIGH + 5n} c`, `HD c${ID_HIGH + 5n} W`],
  [`ma k N0 J${2n ** 63n} v`, `VA 19\r\n${2n ** 63n}`],
  [`ma k D${ID_HIGH} v`, `VA 10\r\n${ID_HIGH + 1n}`, "set k 0 0 1\r\n1\r\n"],
  [`mg ${btoa("k".repeat(186))} b k`, `EN k${btoa("k".repeat(186))} b`],
  ["mg ==== b", "CLIENT_ERROR error decoding key"],
  ["mg =g== b", "CLIENT_ERROR error decoding key"],
  ["mg Zm9vZ=== b", "CLIENT_ERROR error decoding key"],
  // Of a line's words 23 are looked at.
  [`set k 0 0 1${" w".repeat(17)} noreply\r\n1\r\nmn`, "MN"],
  [`set k 0 0 1${" w".repeat(18)} noreply\r\n1\r\nmn`, "STORED\r\nMN"],
  ["me ==== b", BAD_FORMAT.trim()],
];

for (const [request, reply, before] of CASES) {
  Deno.test(`bounds: ${request.slice(0, 60).replaceAll("\r\n", " | ")}`, () => {
    assertEquals(ask(`${request}\r\n`, before), `${reply}\r\n`);
  });
}

Deno.test("the verbosity is cut to 2, whatever number is asked for", () => {
  using side = new ConversationSide();
  const peer = side.connect();
  for (const level of ["2", "3", "2147483648", "4294967295"]) {
    assertEquals(peer.ask(`verbosity ${level}\r\n`), "OK\r\n");
    assertEquals(side.thread.tunables.get("verbosity"), 2, level);
  }
});

function statusesOf(request: string): [statuses: number[], closed: boolean] {
  const peer = new ConversationSide(OPTIONS).connect();
  const statuses = binaryReplies(peer.ask(request)).map(({ status }) => status);
  return [statuses, peer.closed];
}

const BODY_MAX = 1024 * 1024 * 1024;

Deno.test("a binary body may have 1 GiB, and not less than its parts", () => {
  const set = { opcode: OPCODES.Set[0], key: "k", extras: "\0".repeat(8) };
  const unknown = { opcode: 0x77 };
  const length = (fields: typeof set | typeof unknown, bodyLength: number) =>
    statusesOf(packetText({ ...fields, bodyLength }));
  assertEquals(length(set, BODY_MAX), [[0x03], false]);
  assertEquals(length(set, BODY_MAX + 1), [[INVALID], true]);
  assertEquals(length(set, 0xffffffff), [[INVALID], true]);
  assertEquals(length(set, 9), [[0], false]);
  assertEquals(length(set, 8), [[0x81], true]);
  assertEquals(length(set, 0), [[0x81], true]);
  assertEquals(length(unknown, BODY_MAX), [[0x81], false]);
  assertEquals(length(unknown, BODY_MAX + 1), [[INVALID], true]);
});

Deno.test("a binary lease may be asked for until 2038", () => {
  for (const name of ["GetSS", "DeleteSS"] as const) {
    const status = (seconds: number): number[] =>
      statusesOf(
        packetText({ opcode: OPCODES[name][0], key: "k", extras: numberBytes(seconds, 4) }),
      )[0];
    assertEquals(status(0x7fffffff), [name === "GetSS" ? 0x12 : 0x01]);
    assertEquals(status(0x80000000), [INVALID]);
    assertEquals(status(0xffffffff), [INVALID]);
  }
});

Deno.test("a lease that would end now is refused", () => {
  using side = new ConversationSide(OPTIONS);
  side.advanceNow(5);
  const time = /STAT time (\d+)/.exec(side.connect().ask("stats\r\n"))![1]!;
  for (const command of ["getss", "deletess"]) {
    const reply = (seconds: number): string => side.connect().ask(`${command} ${seconds} k\r\n`);
    assertEquals(reply(Number(time)), "CLIENT_ERROR invalid exptime argument\r\n", command);
    assert(!reply(Number(time) + 1).startsWith("CLIENT_ERROR"), command);
  }
});

// --- authentication ------------------------------------------------------------------------------

const UNAUTHENTICATED = "CLIENT_ERROR unauthenticated\r\n";
const FAILED = "CLIENT_ERROR authentication failure\r\n";

/** Runs a test with a server that knows users, and a connection that has not authenticated. */
function withGate(run: (peer: ConversationPeer, side: ConversationSide) => void): void {
  const file = Deno.makeTempFileSync({ prefix: "leased-test-" });
  try {
    Deno.writeTextFileSync(file, USER_LINES);
    using side = new ConversationSide(["-Y", file, "-S", "-B", "auto"]);
    run(side.connect(), side);
  } finally {
    Deno.removeSync(file);
  }
}

/** Requests before authentication. Null: the connection is closed. */
const GATE: readonly (readonly [request: string, reply: string | null])[] = [
  ["\n\n", ""],
  ["x\r\n", null],
  ["xxxx\r\n", null],
  ["xxxxx\r\n", UNAUTHENTICATED],
  [`${"x".repeat(2047)}\r\n`, UNAUTHENTICATED],
  [`${"x".repeat(2048)}\r\n`, null],
  ["x".repeat(2048), ""],
  ["x".repeat(2049), null],
  ["get k\n", null],
  ["get kk\n", UNAUTHENTICATED],
  ["set x 0 0 7\n", UNAUTHENTICATED],
  ["set x 0 0 7\r\nann nna\r\n", "STORED\r\n"],
  ["set x 0 0 7 noreply\r\nann nna\r\n", "STORED\r\n"],
  ["set x 0 0 7\r\nann nnaxx", "CLIENT_ERROR bad command line termination\r\n"],
  ["set x 0 0 7\r\nann nna\rx", "CLIENT_ERROR bad command line termination\r\n"],
  ["set x 0 0 7\r\nann nnax\n", "CLIENT_ERROR bad command line termination\r\n"],
  ["set x 0 0 6\r\nannnna\r\n", "CLIENT_ERROR bad authentication token format\r\n"],
  ["set x 0 0 0\r\n\r\n", "CLIENT_ERROR bad authentication token format\r\n"],
  [textLogin("a".repeat(1024), "b"), FAILED],
  [textLogin("a", "b".repeat(1024)), FAILED],
  [textLogin("a", "b".repeat(1025)), FAILED],
  [textLogin("a", "b".repeat(2045)), FAILED],
  [textLogin("a", "b".repeat(16_382)), FAILED],
  ["set x 0 0 16385\r\n", "CLIENT_ERROR auth token too long\r\n"],
  ["set x 0 0 4294967295\r\n", "CLIENT_ERROR auth token too long\r\n"],
  ["set x 0 0 4294967296\r\n", UNAUTHENTICATED],
];

/** The whole request at once, and byte by byte. */
function askAll(peer: ConversationPeer, request: string, isCut: boolean): string {
  if (!isCut) return peer.ask(request);
  let reply = "";
  for (const byte of request) {
    if (!peer.closed) reply += peer.ask(byte);
  }
  return reply;
}

for (const isCut of [false, true]) {
  Deno.test(`lines and blocks before authentication${isCut ? ", byte by byte" : ""}`, () => {
    for (const [request, reply] of GATE) {
      withGate((peer) => {
        const what = `${request.slice(0, 30)} of ${request.length}`;
        assertEquals(askAll(peer, request, isCut), reply ?? "", what);
        assertEquals(peer.closed, reply === null, what);
        if (reply === null || reply === "") return;
        const follows = reply === "STORED\r\n" ? "get kk\r\n" : textLogin("ann", "nna");
        const next = askAll(peer, follows, isCut);
        assertEquals(next, reply === "STORED\r\n" ? "END\r\n" : "STORED\r\n", what);
      });
    }
  });
}

Deno.test("each authentication is counted, and each that fails", () => {
  for (const login of [textLogin, saslLogin]) {
    for (const [password, failures] of [["nna", 0], ["nnax", 1], ["x".repeat(2000), 1]] as const) {
      withGate((peer, side) => {
        peer.ask(login("ann", password));
        const { inspector } = side.thread.cache;
        assertEquals(inspector.stat("auth_cmds"), 1);
        assertEquals(inspector.stat("auth_errors"), failures);
        assertEquals(peer.unauthenticatedSinceSec === 0, failures === 0);
      });
    }
  }
});

Deno.test("a name of a mechanism has 32 bytes at most, a message of PLAIN 3072", () => {
  const sasl = (mechanism: string, value: string): number[] => {
    let statuses: number[] = [];
    withGate((peer) => {
      const noop = packetText({ opcode: OPCODES.Version[0] });
      const auth = packetText({ opcode: OPCODES.SaslAuth[0], key: mechanism, value });
      statuses = binaryReplies(peer.ask(auth + noop)).map(({ status }) => status);
    });
    return statuses;
  };
  assertEquals(sasl("M".repeat(32), "x"), [0x20, 0]);
  assertEquals(sasl("M".repeat(33), "x"), [INVALID, 0]);
  assertEquals(sasl("PLAIN", "\0ann\0nna"), [0, 0]);
  assertEquals(sasl("plain", "ann\0ann\0nna"), [0, 0]);
  assertEquals(sasl("PLAIN", "an\0ann\0nna"), [0x20, 0]);
  assertEquals(sasl("PLAIN", "\0ann\0nna\0"), [0x20, 0]);
  assertEquals(sasl("PLAIN", "\0ann\0"), [0x20, 0]);
  assertEquals(sasl("PLAIN", "\0\0nna"), [0x20, 0]);
  for (const length of [3072, 3073, 100_000]) {
    assertEquals(sasl("PLAIN", `\0ann\0${"x".repeat(length - 5)}`), [0x20, 0], `${length}`);
  }
});
