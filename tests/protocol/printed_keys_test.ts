import { assert, assertEquals, assertMatch } from "@std/assert";
import { OPCODES } from "../../protocol/binary_opcodes.ts";
import { randomFrom } from "../support/random.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { numberBytes, packetText } from "../support/sessions/binary_text.ts";
import { type ConversationPeer, ConversationSide } from "../support/sessions/conversation_side.ts";
import { RowsSide } from "../support/sessions/rows_side.ts";
import { showText } from "../support/sessions/transcript.ts";

// No key, whatever its bytes, puts a line into a reply.

/** Pieces of keys: bytes that end words and lines, and lines of replies. */
const PIECES = [
  ..."\0\t\n\r %\x7f\x80\x85\xa0\xff:=ab".split(""),
  "\r\n",
  "\r\nEND\r\n",
  "\r\nEN\r\n",
  "\r\nHD\r\n",
  "\nkey=x exp=-1",
  "\r\nmg stolen\r\n",
  "%0D%0A",
  " b",
];
const KEYS = 40;
const ROUNDS = 3;
const VALUE = "v";

function randomKey(random: () => number): string {
  let key = "";
  const pieces = 1 + Math.floor(random() * 6);
  for (let piece = 0; piece < pieces; piece++) {
    key += PIECES[Math.floor(random() * PIECES.length)]!;
  }
  return key;
}

/** Whether a line of text can have the key. */
function isTextKey(key: string): boolean {
  return !/[ \n\0]/.test(key) && !key.endsWith("\r");
}

/** Sends one binary request. @returns The reply. */
function binary(
  side: ConversationSide,
  name: keyof typeof OPCODES,
  key: string,
  extras = "",
  value = "",
): string {
  const peer = side.connect();
  const reply = peer.ask(packetText({ opcode: OPCODES[name][0], key, extras, value }));
  for (let at = 0; at < reply.length;) {
    assertEquals(reply[at], "\x81", `${name}: ${showText(reply)}`);
    at += 24 +
      new DataView(Uint8Array.from(reply, (c) => c.charCodeAt(0)).buffer).getUint32(at + 8);
    assert(at <= reply.length, name);
  }
  peer.disconnect();
  return reply;
}

const BASE64 = String.raw`(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?`;
/** A key that stands in a line as it is: a byte that ends neither words nor lines. */
const WORD = String.raw`[^\0-\x20\x7f]+`;
/** A key with its odd bytes percent-encoded. */
const ENCODED = String.raw`(?:[^\0-\x20%\x7f]|%[\dA-F]{2})+`;
const URI = String.raw`(?:[A-Za-z0-9\-._~]|%[\dA-F]{2})+`;
const ERRORS = String.raw`ERROR|(?:CLIENT|SERVER)_ERROR [ -~]+`;
const FLAGS = String.raw`(?: (?:k(?:${BASE64}) b|k${WORD}|[a-z]-?\d+|O\d+|U|W|X|Z))*`;
const META = String.raw`(?:HD|EN|NF|NS|EX|VA \d+)${FLAGS}`;
const DEBUG = String
  .raw`ME (?:${BASE64}|${WORD}) exp=-?\d+ la=\d+ cas=\d+ fetch=(?:yes|no) cls=\d+ size=\d+(?: kind=lease| tokens=\d+)?`;
const PEER = String.raw`peer=\S+`;

/** Asserts that a reply consists of lines of one form, and then an end. */
function assertLines(reply: string, line: string, end: string, lineEnd = "\r\n"): string[] {
  assert(reply.endsWith(end), showText(reply));
  const body = reply.slice(0, reply.length - end.length);
  if (body === "") return [];
  assert(body.endsWith(lineEnd), showText(reply));
  const lines = body.slice(0, -lineEnd.length).split(lineEnd);
  // Anything but a line feed: a "." would leave out carriage returns, too.
  for (const each of lines) {
    assertMatch(each, new RegExp(`^(?:${line})$`, "s"), showText(reply));
    assert(!/[\r\n\0]/.test(each), showText(reply));
  }
  return lines;
}

function decoded(text: string): string {
  return text.replace(/%(..)/g, (_, digits) => String.fromCharCode(parseInt(digits, 16)));
}

function keyOfMgdump(line: string): string {
  const [, word, isBase64] = /^mg ([^ ]+)( b)?$/s.exec(line)!;
  return isBase64 === undefined ? word! : atob(word!);
}

/** Asserts that all commands that list keys give only lines of theirs. @param live Null: any keys. */
function assertDumps(side: ConversationSide, live: ReadonlySet<string> | null): void {
  const isRows = side instanceof RowsSide;
  const ask = (line: string): string => {
    const peer = side.connect();
    const reply = peer.ask(`${line}\r\n`);
    peer.disconnect();
    return reply;
  };
  const meta = assertLines(
    ask("lru_crawler metadump all").slice("OK\r\n".length),
    `key=${URI} exp=-?\\d+ la=\\d+ cas=\\d+ fetch=(?:yes|no) cls=\\d+ size=\\d+ flags=\\d+ `,
    "END\r\n",
    "\n",
  );
  const keys = meta.map((line) => decoded(/^key=(\S+)/.exec(line)![1]!));
  const mgdump = ask("lru_crawler mgdump all").slice("OK\r\n".length);
  const mg = assertLines(mgdump, `mg (?:${BASE64} b|${WORD})`, "EN\r\n");
  assertEquals(new Set(mg.map(keyOfMgdump)), new Set(keys));
  if (live !== null) assertEquals(new Set(keys), live);
  // Each line of mgdump is a request, and finds its item.
  for (const line of mg) assertMatch(ask(line), new RegExp(`^HD\r\n$|^${ERRORS}\r\n$`), line);
  for (let classId = 1; classId < 64; classId++) {
    const item = `ITEM ${WORD} \\[\\d+ b; \\d+ s\\]`;
    assertLines(ask(`stats cachedump ${classId} 0`), item, "END\r\n");
  }
  const detail = ask("stats detail dump");
  assertLines(detail, `PREFIX (?:${WORD})? get \\d+ hit \\d+ set \\d+ del \\d+`, "END\r\n");
  const packet = binary(side, "Stat", "detail dump");
  if (live !== null) {
    assertEquals(packet.slice(24 + "detailed".length).slice(0, detail.length), detail);
  }
  const hot = ask("stats hotkeys");
  assertLines(hot, `STAT (?:\\d+:key ${URI}|[\\w:]+ [\\d.]+)`, "END\r\n");
  for (const kind of ["", " items", " slabs", " sizes", " conns", " threads", " ops", " latency"]) {
    assertLines(ask(`stats${kind}`), "STAT [^ ]+ [ -~]*", "END\r\n");
  }
  const lock = `LOCK ${ENCODED} conn=\\d+ ${PEER} age=\\d+ waiting=\\d+ fence=\\d+`;
  const locks = assertLines(ask("lock list"), lock, "END\r\n");
  assertEquals(locks.length, side.thread.cache.inspector.lockCount);
  const leases = assertLines(ask("lease list"), `LEASE ${ENCODED} \\d+ \\d+`, "END\r\n");
  const line = `TOKEN ${ENCODED} \\d+ \\d+ \\S+ \\S+|${ERRORS}`;
  const tokens = assertLines(ask("token list"), line, isRows ? "" : "END\r\n");
  if (!isRows) assert(locks.length > 0 && leases.length > 0 && tokens.length > 0);
  assertLines(ask("keys"), `VALUE ${WORD}`, "END\r\n");
  const packets = binary(side, "Keys", "");
  for (const key of live ?? []) assert(packets.includes(key));
}

/** Sends requests that name one key in base64, and as a word if it is one. */
function assertRequests(peer: ConversationPeer, key: string): void {
  const base64 = btoa(key);
  const ask = (request: string): string => peer.ask(`${request}\r\n`);
  const word = "HD|EN|NF|NS|EX";
  for (
    const flags of ["k", "k c f s t", "O1 k", "k N30 t", "k T60 t", "k R60", "k u", "E7 k N30"]
  ) {
    const reply = ask(`mg ${base64} b ${flags}`);
    assertLines(reply, `(?:${word})${FLAGS}|${ERRORS}`, "");
    assertKey(reply, key);
  }
  const got = ask(`mg ${base64} b k v`);
  assertMatch(got, new RegExp(`^(?:EN${FLAGS}\r\n|VA \\d+${FLAGS}\r\n[v0-9]*\r\n|${ERRORS}\r\n)$`));
  assertKey(got, key);
  for (const flags of [" b", " b v", ""]) {
    assertLines(ask(`me ${base64}${flags}`), `${DEBUG}|EN|${ERRORS}`, "");
  }
  for (const mode of ["S", "A", "P", "R", "E"]) {
    assertLines(ask(`ms ${base64} 1 b k M${mode}\r\n${VALUE}`), `${META}|${ERRORS}`, "");
  }
  assertLines(ask(`ma ${base64} b k`), `${META}|${ERRORS}`, "");
  if (!isTextKey(key)) return;
  // A key that came in a line goes back as it came, or in base64.
  const bare = `[^ \\n]+`;
  const found = ask(`mg ${key} k`);
  assertMatch(found, new RegExp(`^(?:HD|EN) k(?:${bare}|${BASE64} b)(?: [WXZ])*\r\n$`, "s"));
  assertMatch(ask(`me ${key}`), new RegExp(`^(?:ME ${bare} [ -~]+|EN|${ERRORS})\r\n$`, "s"));
}

/** Asserts that the flag k of a reply has the key. */
function assertKey(reply: string, key: string): void {
  const [, word, isBase64] = / k([^ \r]+)( b)?/s.exec(reply) ?? [];
  if (word === undefined) return;
  assertEquals(isBase64 === undefined ? word : atob(word), key, showText(reply));
}

function randomKeys(random: () => number): Set<string> {
  const keys = new Set<string>();
  while (keys.size < KEYS) keys.add(randomKey(random).slice(0, 250));
  return keys;
}

const OPTIONS = ["-z", "0x3333", "--tokens", "volatile", "--token-quarantine", "0", "-D", ":"];
const WATCHED = "fetchers mutations evictions deletions tokens";

/** Asserts that each line that a watcher has got is one of the log. */
function assertWatched(watcher: ConversationPeer): void {
  const line = String.raw`ts=[\d.]+ gid=\d+ type=\w+ [!-~]+(?: [a-z_]+=[!-~]*)*|skipped=\d+`;
  assert(assertLines(watcher.resume(), line, "", "\n").length > 0);
}

Deno.test("no key puts a line into a reply: items, locks, leases and update tokens", async () => {
  await withSeed(drawSeed(), (seed) => {
    const random = randomFrom(seed);
    for (let round = 0; round < ROUNDS; round++) {
      using side = new ConversationSide(OPTIONS);
      const peer = side.connect();
      const watcher = side.connect();
      assertEquals(watcher.ask(`watch ${WATCHED}\r\n`), "OK\r\n");
      const owner = side.connect();
      const live = new Set<string>();
      for (const key of randomKeys(random)) {
        const way = live.size < 3 ? live.size % 3 : Math.floor(random() * 5);
        if (way === 0) binary(side, "Set", key, numberBytes(0, 8), VALUE);
        if (way === 1) assertEquals(peer.ask(`ms ${btoa(key)} 1 b\r\n${VALUE}\r\n`), "HD\r\n");
        if (way === 2) {
          binary(side, "Set", key, numberBytes(0, 8), VALUE);
          const lock = packetText({ opcode: OPCODES.Lock[0], key });
          assertEquals(owner.ask(lock).slice(6, 8), "\0\0");
        }
        if (way === 3) binary(side, "GetSSK", key, numberBytes(60, 4));
        if (way === 4) binary(side, "TokenGet", key);
        if (way < 3) live.add(key);
        binary(side, "GetK", key);
        binary(side, "GaTK", key, numberBytes(0, 4));
      }
      assertDumps(side, live);
      for (const key of live) assertRequests(peer, key);
      for (const key of randomKeys(random)) assertRequests(peer, key);
      assertDumps(side, null);
      assertWatched(watcher);
    }
  });
});

Deno.test("no key puts a line into a reply: rows", async () => {
  await withSeed(drawSeed(), (seed) => {
    const random = randomFrom(seed);
    for (let round = 0; round < ROUNDS; round++) {
      using side = new RowsSide(["-z", "0x3333", "-D", ":"]);
      const peer = side.connect();
      const watcher = side.connect();
      assertEquals(watcher.ask(`watch ${WATCHED}\r\n`), "OK\r\n");
      const keys = randomKeys(random);
      for (const key of keys) {
        if (random() < 0.5) binary(side, "Set", key, numberBytes(0, 8), VALUE);
        else assertEquals(peer.ask(`ms ${btoa(key)} 1 b\r\n${VALUE}\r\n`), "HD\r\n");
        binary(side, "GetK", key);
      }
      assertDumps(side, null);
      for (const key of keys) assertRequests(peer, key);
      assertDumps(side, null);
      assertWatched(watcher);
    }
  });
});
