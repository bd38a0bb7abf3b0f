import { assert, assertEquals, assertMatch } from "@std/assert";
import { OPCODES } from "../../protocol/binary_opcodes.ts";
import { SavedStore } from "../support/saved_store.ts";
import { numberBytes, packetText } from "../support/sessions/binary_text.ts";
import type { ConversationSide } from "../support/sessions/conversation_side.ts";
import { RowsSide } from "../support/sessions/rows_side.ts";
import { held } from "../support/store.ts";

// A restart with a snapshot changes nothing that a client can ask for, whatever the options of the next process.

/** Keys with this prefix are rows. */
const OPTIONS = [
  "--rows",
  "row:",
  "-z",
  "0x3333",
  "--tokens",
  "volatile",
  "--token-quarantine",
  "0",
];
const BINARY_KEY = "a\r\nb \0\xff";

/** Options of the next process, and whether it can take the pages as they are. */
const NEXT: Readonly<Record<string, readonly [takesPages: boolean, options: readonly string[]]>> = {
  "the same options": [true, []],
  "more memory": [true, ["-m", "100"]],
  "less memory": [true, ["-m", "12"]],
  "two threads": [true, ["-t", "2"]],
  "another growth factor": [false, ["-f", "1.4"]],
  "larger small chunks": [false, ["-n", "96"]],
  "larger values": [true, ["-I", "4m"]],
  "all three": [false, ["-m", "50", "-f", "1.15", "-I", "2m"]],
  "memcached's classes": [false, ["-o", "slab_layout=memcached"]],
};

const LONG = "0123456789".repeat(6_000);
const SMALL = "s".repeat(3000);

/** Lines of text that make one item of each kind. A number in front lets so many seconds pass. */
const MAKING: readonly (string | number)[] = [
  "set plain 0 0 5\r\nhello",
  "set flags 4294967295 0 1\r\nf",
  "set empty 0 0 0\r\n",
  "set short 0 40 1\r\nt",
  "set long 0 3000 1\r\nt",
  "set past 0 3 1\r\nt",
  "set touched 0 10 1\r\nt",
  "touch touched 500",
  "set gat 0 10 1\r\nt",
  "gat 700 gat",
  `set small 0 0 ${SMALL.length}\r\n${SMALL}`,
  `set chunked 7 0 ${LONG.length}\r\n${LONG}`,
  `set joined 0 0 ${LONG.length}\r\n${LONG}`,
  "append joined 0 0 3\r\nend",
  "ms chosen 1 E77 F5 T900\r\nc",
  `ms chosenlong ${LONG.length} E78\r\n${LONG}`,
  "set counter 0 0 1\r\n9",
  "incr counter 1",
  "ma counted N0 J18446744073709551615",
  "ma counted",
  "set deleted 0 0 1\r\nd",
  "delete deleted",
  "set emptied 5 0 1\r\ne",
  "md emptied x T300",
  "set stale 0 0 5\r\nstale",
  "md stale I T600",
  "set stalechosen 0 0 5\r\nstale",
  "md stalechosen I E99",
  `set stalechain 0 0 ${LONG.length}\r\n${LONG}`,
  "md stalechain I",
  "set fetched 0 0 1\r\nf",
  "get fetched",
  "ms Zm9v 3 b\r\nfoo",
  `ms ${btoa("\r\n\r\n")} 3 b F9\r\nbin`,
  "append foo 0 0 1\r\n!",
  "set locked 0 0 1\r\nl",
  "lock locked",
  "set tokened 0 0 1\r\nt",
  "token get tokened me",
  "set row:a 3 0 3\r\nrow",
  "get row:a",
  `set row:long 3 0 ${LONG.length}\r\n${LONG}`,
  "get row:long row:none",
  5,
  "get plain chunked",
  2,
  "get fetched row:a",
  "flush_all 100",
  "set late 0 0 1\r\nl",
];
const KEYS = [
  ...new Set(MAKING.flatMap((each) => /^(?:set|ms|ma) (\S+)/.exec(`${each}`)?.[1] ?? [])),
  "foo",
  "row:none",
];

/** Fills a server. The same requests give the same ids. */
function fill(side: RowsSide): void {
  const peer = side.connect();
  for (const step of MAKING) {
    if (typeof step === "number") side.advanceNow(step);
    else assert(!/ERROR/.test(peer.ask(`${step}\r\n`)), step);
  }
  const binary = side.connect();
  const extras = numberBytes(6, 4) + numberBytes(0, 4);
  binary.ask(packetText({ opcode: OPCODES.Set[0], key: BINARY_KEY, value: "binary", extras }));
  binary.ask(packetText({ opcode: OPCODES.GetK[0], key: BINARY_KEY }));
  // Locks end with their connection.
  peer.disconnect();
  binary.disconnect();
}

/** Everything that a client can ask for, without classes and sizes, which depend on the classes' sizes. */
function ask(side: ConversationSide): string[] {
  const peer = side.connect();
  const replies: string[] = [];
  const add = (request: string): void => {
    const reply = peer.ask(`${request}\r\n`).replace(/ cls=\d+ size=\d+/g, "");
    replies.push(`${request}: ${reply}`);
  };
  const list = (request: string): void => {
    const lines = peer.ask(`${request}\r\n`).replace(/ cls=\d+ size=\d+/g, "").split("\n");
    replies.push(`${request}: ${lines.sort().join("\n")}`);
  };
  for (const request of ["lru_crawler metadump all", "lru_crawler mgdump all", "keys"]) {
    list(request);
  }
  for (const request of ["lock list", "lease list", "token list"]) list(request);
  for (const key of [...KEYS, `${btoa(BINARY_KEY)} b`]) {
    add(`me ${key}`);
    // Without a trace, then as a reader, who may win a stale item, then as the next one.
    add(`mg ${key} u v c f h k l s t`);
    add(`mg ${key} v c f h k l s t`);
    add(`mg ${key} v c f h k l s t`);
    if (key.includes(" ")) continue;
    add(`gets ${key}`);
    add(`gats 900 ${key}`);
    add(`mg ${key} R1000 t`);
  }
  for (const key of [BINARY_KEY, "plain"]) {
    const binary = side.connect();
    replies.push(binary.ask(packetText({ opcode: OPCODES.GetK[0], key })));
    binary.disconnect();
  }
  peer.disconnect();
  return replies;
}

for (const [name, [takesPages, options]] of Object.entries(NEXT)) {
  Deno.test(`what clients see after a restart with ${name}`, () => {
    using before = new RowsSide(OPTIONS);
    fill(before);
    const twin = new RowsSide(OPTIONS);
    fill(twin);
    using after = new RowsSide(
      [...OPTIONS, ...options],
      undefined,
      undefined,
      new SavedStore(twin.thread.cache),
    );
    assertEquals(after.tookPages, takesPages);
    for (const [key, row] of twin.rows) after.rows.set(key, row);
    // Update tokens end with a process without a journal.
    held(before.thread.cache, () => before.thread.cache.tokens.dropNewest(Infinity));
    // The flush comes after 100 seconds, also for items that are younger than the restart.
    for (const seconds of [0, 45, 53, 4, 1000]) {
      before.advanceNow(seconds);
      after.advanceNow(seconds);
      assertEquals(ask(after), ask(before), `${seconds} seconds later`);
    }
  });
}

/**
 * Rights to refill an item: the requests that make it, the one that takes the right, and the reply of one who gets it.
 */
const RIGHTS: Readonly<Record<string, readonly [making: string, taking: string, won: RegExp]>> = {
  stale: ["set stale 0 0 1\r\n1\r\nmd stale I\r\n", "mg stale c\r\n", /^HD c(\d+) X W\r\n$/],
  "about to expire": ["set old 0 100 1\r\n1\r\n", "mg old c R200\r\n", /^HD c(\d+) W\r\n$/],
  "stale, of many chunks": [
    `set long 0 0 ${LONG.length}\r\n${LONG}\r\nmd long I\r\n`,
    "mg long c\r\n",
    /^HD c(\d+) X W\r\n$/,
  ],
  leased: ["", "getss 60 leased\r\n", /^VALUE leased \d+ 1 (\d+)\r\n0\r\nEND\r\n$/],
  made: ["", "mg made c N60\r\n", /^HD c(\d+) W\r\n$/],
};

for (const [name, [, options]] of Object.entries(NEXT)) {
  // One alone, too: items that are looked at for another reason hide one that is not.
  for (const kinds of [...Object.keys(RIGHTS).map((kind) => [kind]), Object.keys(RIGHTS)]) {
    const which = kinds.length === 1 ? kinds[0] : "all kinds";
    Deno.test(`rights to refill end at a restart with ${name}: ${which}`, () => {
      using before = new RowsSide(OPTIONS);
      const rights = kinds.map((kind) => RIGHTS[kind]!);
      const peer = before.connect();
      const ids = rights.map(([making, taking, won]) => {
        peer.ask(making);
        const reply = peer.ask(taking);
        assertMatch(reply, won);
        assertEquals(won.test(peer.ask(taking)), false, "one client gets it");
        return won.exec(reply)![1];
      });
      peer.disconnect();
      const saved = new SavedStore(before.thread.cache);
      using after = new RowsSide([...OPTIONS, ...options], undefined, undefined, saved);
      const next = after.connect();
      for (const [index, [making, taking, won]] of rights.entries()) {
        const [, key] = / (?:60 )?([a-z]+)/.exec(taking)!;
        if (making === "") assertEquals(next.ask(`me ${key}\r\n`), "EN\r\n");
        const reply = next.ask(taking);
        assertMatch(reply, won);
        const id = won.exec(reply)![1];
        assert(Number(id) > Number(ids[index]), "the one that has won before must not fill");
        assertEquals(won.test(next.ask(taking)), false, "one client gets it");
      }
      next.disconnect();
    });
  }
}
