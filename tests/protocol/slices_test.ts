import { assertEquals, assertGreater } from "@std/assert";
import { OPCODES } from "../../protocol/binary_opcodes.ts";
import { packetText } from "../support/sessions/binary_text.ts";
import { ConversationSide } from "../support/sessions/conversation_side.ts";

// Parsers belong to their thread: between two slices of a request they serve other connections.

const KEYS = 2000;
const VALUE = "v".repeat(300_000);
const KEY_LIST = Array.from({ length: KEYS }, (_, n) => `key:${n}`).join(" ");

function packet(name: keyof typeof OPCODES, key: string, extras = "", value = ""): string {
  return packetText({ opcode: OPCODES[name][0], key, opaque: 7, extras, value });
}

/** Requests that take several slices, or several reads: their pieces. */
const REQUESTS: Readonly<Record<string, readonly string[]>> = {
  keys: ["keys key:1\r\n"],
  metadump: ["lru_crawler metadump all\r\n"],
  mgdump: ["lru_crawler mgdump all\r\n"],
  "stats detail dump": ["stats detail dump\r\n"],
  get: [`get ${KEY_LIST}\r\n`],
  gats: [`gats 100 ${KEY_LIST}\r\n`],
  "get of a long value": ["get long\r\n"],
  "mg of a long value": ["mg long v O7 k\r\n"],
  Keys: [packet("Keys", "key:1")],
  "Stat detail dump": [packet("Stat", "detail dump")],
  "GetK of a long value": [packet("GetK", "long")],
  "ms of a late value": [`ms late ${VALUE.length} O7 k c s b\r\n`, `${VALUE}\r\n`],
  "Set of a late value": [
    packet("Set", "late", "\0\0\0\x05\0\0\0\0", VALUE).slice(0, 40_000),
    VALUE.slice(39_964),
  ],
};

/** Connections of the same thread, whose requests change nothing. */
const STRANGERS = [
  "mg none v q O9 k u\r\nms none 1 MR O9 F9\r\nx\r\nmg bm9uZQ== b k O9\r\nget none key\r\n",
  packetText({ opcode: OPCODES.GetK[0], opaque: 9, key: "none" }) +
  packetText({ opcode: OPCODES.Noop[0], opaque: 9 }),
];

/** @returns The reply to a request, and how often strangers were served meanwhile. */
function answer(pieces: readonly string[], withStrangers: boolean): [text: string, times: number] {
  using side = new ConversationSide(["-R", "1"]);
  const filler = side.connect();
  filler.ask("stats detail on\r\n");
  for (let n = 0; n < KEYS; n++) filler.ask(`set key:${n} 0 0 1 noreply\r\n1\r\n`);
  filler.ask(`set long 5 0 ${VALUE.length} noreply\r\n${VALUE}\r\n`);
  for (let n = 0; n < KEYS; n++) filler.ask(`delete p${n}:\r\n`);
  filler.ask("stats detail off\r\n");
  const strangers = STRANGERS.map((requests) => ({ peer: side.connect(), requests }));
  let times = 0;
  const serveStrangers = (): void => {
    if (!withStrangers) return;
    times++;
    for (const { peer, requests } of strangers) peer.ask(requests);
  };
  const peer = side.connect();
  peer.between = serveStrangers;
  let text = "";
  for (const piece of pieces) {
    text += peer.ask(piece);
    serveStrangers();
  }
  return [text, times];
}

for (const [name, pieces] of Object.entries(REQUESTS)) {
  Deno.test(`requests of others between its slices do not change a reply: ${name}`, () => {
    const [text, times] = answer(pieces, true);
    assertGreater(times, 1);
    assertEquals(text, answer(pieces, false)[0]);
  });
}
