import { assertEquals } from "@std/assert";
import { OPCODES } from "../../../protocol/binary_opcodes.ts";
import type { ConnectionId } from "../../../store/connections.ts";
import { numberBytes, packetText } from "../../support/sessions/binary_text.ts";
import { ConversationSide } from "../../support/sessions/conversation_side.ts";

// Lists and walks that take several steps find everything once, whatever their length; so do waits that end together.

const OPTIONS = [
  ...["-z", "80", "--tokens", "volatile", "--token-quarantine", "0", "--allow-token-drop"],
  ...["--lock-limit", "2000", "--lock-limit-per-conn", "2000", "-c", "1000"],
];
/** Around the steps of walks. */
const COUNTS = [0, 1, 31, 32, 33, 64, 255, 256, 257, 513];

const LISTS: Readonly<
  Record<string, readonly [list: string, take: (key: string) => string, line: RegExp]>
> = {
  locks: ["lock list", (key) => `set ${key} 0 0 1\r\n1\r\nlock ${key}\r\n`, /^LOCK (\S+) /gm],
  leases: ["lease list", (key) => `getss 10 ${key}\r\n`, /^LEASE (\S+) /gm],
  tokens: ["token list", (key) => `token get ${key}\r\n`, /^TOKEN (\S+) /gm],
  keys: ["keys", (key) => `set ${key} 0 0 1\r\n1\r\n`, /^VALUE (\S+)/gm],
};

function keysOf(count: number, prefix: string): string[] {
  return Array.from({ length: count }, (_, n) => `${prefix}${n}`);
}

for (const [name, [list, take, line]] of Object.entries(LISTS)) {
  for (const [slice, counts] of [["1", [33, 257]], ["20", COUNTS]] as const) {
    Deno.test(`a list of ${name} has each once, with -R ${slice}`, () => {
      for (const count of counts) {
        using side = new ConversationSide([...OPTIONS, "-R", slice]);
        const peer = side.connect();
        for (const key of keysOf(count, "a:")) peer.ask(take(key));
        for (const key of keysOf(3, "b:")) peer.ask(take(key));
        for (
          const [prefix, keys] of [
            ["", [...keysOf(count, "a:"), ...keysOf(3, "b:")]],
            ["a:", keysOf(count, "a:")],
            ["b:", keysOf(3, "b:")],
            [`b:2${"x".repeat(260)}`, []],
            ["c", []],
          ] as const
        ) {
          const reply = side.connect().ask(`${list} ${prefix}\r\n`);
          const listed = [...reply.matchAll(line)].map(([, key]) => key!);
          assertEquals(listed.sort(), [...keys].sort(), `${count}, ${prefix}`);
          assertEquals(reply.endsWith("END\r\n"), true);
        }
      }
    });
  }
}

Deno.test("lock list tells how many connections wait for each lock", () => {
  using side = new ConversationSide(OPTIONS);
  const peer = side.connect();
  const waiting = (): string[] => {
    const lines = peer.ask("lock list\r\n").matchAll(/^LOCK (\S+) .* waiting=(\d+) /gm);
    return [...lines].map(([, key, count]) => `${key} ${count}`).sort();
  };
  for (const key of ["k", "l", "m"]) peer.ask(`set ${key} 0 0 1\r\n1\r\nlock ${key}\r\n`);
  assertEquals(waiting(), ["k 0", "l 0", "m 0"]);
  for (const key of ["k", "l", "l"]) side.connect().ask(`lock ${key} 60000\r\n`);
  assertEquals(waiting(), ["k 1", "l 2", "m 0"]);
  assertEquals(peer.ask("unlock l\r\n"), "OK\r\n");
  assertEquals(waiting(), ["k 1", "l 1", "m 0"]);
});

Deno.test("a prefix that is longer than any key finds none", () => {
  using side = new ConversationSide(OPTIONS);
  const peer = side.connect();
  const key = "k".repeat(250);
  peer.ask(`set ${key} 0 0 1\r\n1\r\nlock ${key}\r\n`);
  for (const [list, line] of [["keys", `VALUE ${key}`], ["lock list", `LOCK ${key} `]] as const) {
    assertEquals(peer.ask(`${list} ${key}\r\n`).startsWith(line), true);
    assertEquals(peer.ask(`${list} ${key}k\r\n`), "END\r\n");
    assertEquals(peer.ask(`${list} ${key}${key}\r\n`), "END\r\n");
  }
});

for (const count of [0, 1, 31, 32, 33, 100, 1000]) {
  Deno.test(`${count} update tokens are dropped, and told once each`, () => {
    const tokens = (side: ConversationSide): void => {
      const peer = side.connect();
      peer.ask("token get other\r\ntoken get key\r\n");
      for (let n = 0; n < count; n++) peer.ask("token get k\r\n");
      for (let n = 0; n < count; n++) assertEquals(peer.ask("touch k 0\r\n"), "NOT_FOUND\r\n");
    };
    using side = new ConversationSide([...OPTIONS, "-R", "1", "--token-entries", "2000"]);
    tokens(side);
    assertEquals(side.connect().ask("token drop k unsafe\r\n"), `OK ${count}\r\n`);
    assertEquals(side.drops.map(({ token, count }) => [token?.key, count]), [
      ...Array.from({ length: count }, () => ["k", 1]),
    ]);
    assertEquals(side.statsNow().get("token_curr"), 2);
    assertEquals(side.connect().ask("token drop k unsafe\r\n"), "OK 0\r\n");
    tokens(side);
    side.drops.length = 0;
    assertEquals(side.connect().ask("token drop_all unsafe\r\n"), `OK ${count + 4}\r\n`);
    assertEquals(side.drops.map(({ token, count }) => [token, count]), [[null, count + 4]]);
    assertEquals(side.connect().ask("token drop_all unsafe\r\n"), "OK 0\r\n");
    assertEquals(side.drops.length, 1);
    assertEquals(side.statsNow().get("token_curr"), 0);
  });
}

Deno.test("token drop with an id that is none drops nothing", () => {
  using side = new ConversationSide(OPTIONS);
  const peer = side.connect();
  const [, id] = /TOKEN (\d+)/.exec(peer.ask("token get k\r\n"))!;
  for (const word of ["x", "-1", "18446744073709551616"]) {
    assertEquals(
      peer.ask(`token drop k ${word} unsafe\r\n`),
      "CLIENT_ERROR bad command line format\r\n",
    );
  }
  assertEquals(peer.ask(`token drop k ${BigInt(id!) + 2n ** 32n} unsafe\r\n`), "OK 0\r\n");
  assertEquals(peer.ask(`token drop k ${id} unsafe\r\n`), "OK 1\r\n");
});

Deno.test("quarantine takes all locked items, however many", () => {
  for (const count of [1, 256, 513]) {
    using side = new ConversationSide([...OPTIONS, "-R", "1"]);
    const peer = side.connect();
    for (const key of keysOf(count, "k")) peer.ask(`set ${key} 0 0 1\r\n1\r\nlock ${key}\r\n`);
    assertEquals(side.connect().ask("quarantine on\r\nquarantine off\r\n"), "OK\r\nOK\r\n");
    assertEquals(side.connect().ask(`get ${keysOf(count, "k").join(" ")} k\r\n`), "END\r\n");
    assertEquals(side.connect().ask("keys\r\n"), "END\r\n");
  }
});

Deno.test("connections whose waits end together are named once each", () => {
  for (const count of [1, 255, 256, 257, 600]) {
    using side = new ConversationSide(OPTIONS);
    const { thread } = side;
    const holder = side.protocols.open(1_000_000 as ConnectionId, { protocol: "ascii" });
    const ask = (text: string): void => {
      thread.input.bytes.set(new TextEncoder().encode(text));
      thread.reply.reset();
      holder.feed(0, text.length);
    };
    const waiting = keysOf(count, "k").map((key) => {
      ask(`set ${key} 0 0 1\r\n1\r\nlock ${key}\r\n`);
      const peer = side.connect();
      assertEquals(peer.ask(`lock ${key} 60000\r\n`), "");
      return peer;
    });
    ask("unlock_all\r\n");
    const ready: number[] = [];
    thread.takeReady(0, (owner) => ready.push(owner));
    assertEquals(
      ready.sort((a, b) => a - b),
      waiting.map(({ owner }) => owner as number).sort((a, b) => a - b),
    );
    thread.takeReady(0, (owner) => ready.push(owner));
    assertEquals(ready.length, count);
    for (const peer of waiting) assertEquals(peer.resume(), "OK\r\n");
    holder.end();
  }
});

// --- stats detail --------------------------------------------------------------------------------

function packet(name: keyof typeof OPCODES, quiet: number, extras = "", value = ""): string {
  return packetText({ opcode: OPCODES[name][quiet]!, key: "p:k", extras, value });
}

const LONG = "v".repeat(20_000);
const STORE_EXTRAS = "\0".repeat(8);

/** Requests in each protocol, and what they count: gets, hits, sets, deletions. */
const DETAIL: readonly (readonly [requests: readonly string[], counts: readonly number[]])[] = [
  ...["1", LONG].map((value) =>
    [[
      `set p:k 0 0 ${value.length}\r\n${value}\r\n`,
      `set p:k 0 0 ${value.length} noreply\r\n${value}\r\n`,
      `cas p:k 0 0 ${value.length} 1\r\n${value}\r\n`,
      `append p:k 0 0 ${value.length}\r\n${value}\r\n`,
      `ms p:k ${value.length} q\r\n${value}\r\n`,
      `lease-set p:k 1 0 0 ${value.length}\r\n${value}\r\n`,
      packet("Set", 0, STORE_EXTRAS, value),
      packet("Set", 1, STORE_EXTRAS, value),
      packet("Append", 1, "", value),
    ], [0, 0, 1, 0]] as const
  ),
  [[
    "get p:k\r\n",
    "get  p:k\r\n",
    "gets p:k\r\n",
    "gat 9 p:k\r\n",
    "mg p:k v\r\n",
    "mg p:k T9\r\n",
    "getss 9 p:k\r\n",
    "lease-get p:k\r\n",
    packet("Get", 0),
    packet("GetK", 1),
    packet("GaT", 0, numberBytes(9, 4)),
    packet("Touch", 0, numberBytes(9, 4)),
    packet("GetSS", 0, numberBytes(9, 4)),
  ], [1, 0, 0, 0]],
  [["delete p:k\r\n", "md p:k\r\n", "md p:k I\r\n", "deletess p:k\r\n", packet("Delete", 1)], [
    0,
    0,
    0,
    1,
  ]],
  [["incr p:k 1\r\n", "ma p:k\r\n", "touch p:k 1\r\n", "me p:k\r\n", packet("Lock", 0)], [
    0,
    0,
    0,
    0,
  ]],
];

Deno.test("stats detail counts a request once, in each protocol, whole and in pieces", () => {
  for (const exists of [false, true]) {
    for (const [requests, [get, , set, removed]] of DETAIL) {
      for (const request of requests) {
        for (const cut of [Infinity, request.length - 1]) {
          using side = new ConversationSide(OPTIONS);
          if (exists) side.connect().ask("set p:k 0 0 1\r\n1\r\n");
          side.connect().ask("stats detail on\r\n");
          const peer = side.connect();
          for (let at = 0; at < request.length; at += cut) peer.ask(request.slice(at, at + cut));
          const hit = exists ? get : 0;
          const none = get! + set! + removed! === 0;
          const line = `PREFIX p get ${get} hit ${hit} set ${set} del ${removed}\r\n`;
          assertEquals(
            side.connect().ask("stats detail dump\r\n"),
            `${none ? "" : line}END\r\n`,
            JSON.stringify(request.slice(0, 40)),
          );
        }
      }
    }
  }
});

Deno.test("a flush that is refused or over counts as one", () => {
  const flushed = (request: string, ...options: string[]): number => {
    using side = new ConversationSide(options);
    side.advanceNow(5);
    side.connect().ask(request);
    return side.statsNow().get("cmd_flush")!;
  };
  for (
    const request of [
      "flush_all\r\n",
      "flush_all 5\r\n",
      "flush_all x\r\n",
      "flush_all 1600000000\r\n",
      packetText({ opcode: OPCODES.Flush[0] }),
      packetText({ opcode: OPCODES.Flush[1], extras: numberBytes(5, 4) }),
      packetText({ opcode: OPCODES.Flush[0], extras: numberBytes(0xffffffff, 4) }),
    ]
  ) {
    assertEquals(flushed(request), 1, JSON.stringify(request));
    assertEquals(flushed(request, "-F"), 1, `-F, ${JSON.stringify(request)}`);
  }
});
