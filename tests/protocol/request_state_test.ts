import { assertEquals } from "@std/assert";
import { OPCODES } from "../../protocol/binary_opcodes.ts";
import { numberBytes, packetText } from "../support/sessions/binary_text.ts";
import { ConversationSide } from "../support/sessions/conversation_side.ts";

// One parser serves all requests of a thread: nothing of a request may be left for the next one.

const OPTIONS = ["-z", "80", "--tokens", "volatile", "--token-quarantine", "0"];
const LARGE = 2n ** 64n - 1n;

/** Requests that change no item named `k` or `n`, and set whatever a request can set. */
const STRANGERS: Readonly<Record<string, string>> = {
  "mg with every flag": `mg s v k s c f t h l q u Oother T7 N8 R9 C${LARGE} E${LARGE}\r\n`,
  "mg that is refused": "mg s v q u I x T7 N8 R9 C5 E6 F5 MD J7 D9 Tx\r\n",
  "mg in base64": "mg czE= b v q\r\n",
  "ms with every flag":
    `ms s 1 I x v q b c s k Oother T7 N8 R9 F4294967295 C${LARGE} E${LARGE} MR\r\nx\r\n`,
  "ma with every flag": `ma s MD q v c t k Oo T7 N0 D${LARGE} J${LARGE} C${LARGE} E${LARGE}\r\n`,
  "md with every flag": `md s I x q k Oo T7 C${LARGE} E${LARGE}\r\n`,
  "ms without a frame": "ms s 1 !\r\n",
  "cas": `cas s 4294967295 7 1 ${LARGE} noreply\r\nx\r\n`,
  "lease-set": `lease-set s ${LARGE} 4294967295 7 1 noreply\r\nx\r\n`,
  "incr": `incr s ${LARGE} noreply\r\n`,
  "gats": "gats 7 s\r\n",
  "getss": "getss 7 s\r\n",
  "deletess": "deletess 7 s noreply\r\n",
  "lock with a fence": "lock s 0 fence\r\n",
  "a long line of many words": `get ${"s ".repeat(40)}\r\nset s 0 0 1 ${"w ".repeat(40)}\r\nx\r\n`,
  "a get line that is refused": `get s ${"s".repeat(251)} s\r\n`,
  "a set that is refused": "set s 1 7 1 noreply x\r\nxx\r\n",
  "a long value": `set s 4294967295 7 9000 noreply\r\n${"x".repeat(9000)}\r\n`,
};

type Name = keyof typeof OPCODES;

function packet(
  name: Name,
  fields: Partial<Parameters<typeof packetText>[0]>,
  quiet = false,
): string {
  return packetText({ opcode: OPCODES[name][quiet ? 1 : 0]!, key: "s", opaque: 99, ...fields });
}

const SEVEN = numberBytes(0xffffffff, 4) + numberBytes(7, 4);
const BINARY_STRANGERS: Readonly<Record<string, string>> = {
  "SetQ with an id": packet("Set", { extras: SEVEN, value: "x", cas: `${LARGE}` }, true),
  "IncrementQ": packet("Increment", {
    extras: numberBytes(LARGE, 8) + numberBytes(LARGE, 8) + numberBytes(0xffffffff, 4),
  }, true),
  "GetKQ": packet("GetK", {}, true),
  "GaT": packet("GaT", { extras: numberBytes(7, 4) }),
  "RaU": packet("RaU", { extras: SEVEN, value: "x" }),
  "GetSSK": packet("GetSSK", { extras: numberBytes(7, 4) }),
  "DeleteSSQ": packet("DeleteSS", { extras: numberBytes(7, 4) }, true),
  "Flush in 100 seconds": packet("Flush", { key: "", extras: numberBytes(100, 4) }, true),
  "an unknown opcode": packetText({ opcode: 0x77, key: "s", opaque: 98 }),
};

/** Requests on `k`, a word of 1 byte with flags 5 that lives 100 seconds, and on `n`, which is missing. */
const REQUESTS: readonly string[] = [
  ...[
    "mg k",
    "mg k v",
    "mg k v k f s c t h l",
    "mg n",
    "mg n k",
    "mg n N9 t c",
    "mg k T50",
    "mg k R200",
  ],
  ...["mg k C5 v", "me k", "md k", "md n", "md k I", "md k x", "md k T9", "md k I T9"],
  ...[
    "ma k",
    "ma k v c t",
    "ma k N9",
    "ma n",
    "ma n N9 v",
    "ma n N9 J5 v",
    "ma k D2 v",
    "ma k MD v",
  ],
  ...["incr k 1", "decr k 1", "touch k 50", "delete k", "get k", "gets k n", "gat 50 k", "get n"],
  ...["getss 10 n", "getss 10 k", "deletess k", "lease-get n", "lock k", "unlock k", "token get n"],
  ...[
    "cas k 0 0 1",
    "touch k",
    "incr k",
    "token release k",
    "lease-set n 1 0",
    "mn",
    "stats nothing",
  ],
  ...["keys", "lease list", "lock list", "token list", "flush_all", "verbosity", "lru_crawler"],
].map((line) => `${line}\r\n`).concat(
  [
    ...[
      "ms k 1",
      "ms n 1",
      "ms k 1 c s k f t",
      "ms k 1 MA",
      "ms n 1 MA",
      "ms n 1 MA N9",
      "ms n 1 ME",
    ],
    ...["ms n 1 MR", "ms k 1 I", "ms k 1 T50", "ms k 1 F9", "ms k 1 E4294967296 c"],
    ...["set k 0 0 1", "add n 0 0 1", "replace k 0 0 1", "append k 0 0 1", "prepend n 0 0 1"],
    ...["set  k 0 0 1", "cas k 0 0 1 1", "lease-set n 1 0 0 1"],
  ].map((line) => `${line}\r\n3\r\n`),
  [
    `ms k 9000 c s\r\n${"x".repeat(9000)}\r\n`,
    `append k 0 0 9000\r\n${"x".repeat(9000)}\r\n`,
  ],
);

const ITEM = { key: "k", opaque: 3 };
const MISSING = { key: "n", opaque: 3 };
const BINARY_REQUESTS: readonly string[] = [
  packet("Get", ITEM),
  packet("Get", MISSING),
  packet("GetK", ITEM),
  packet("GetK", MISSING),
  packet("Set", { ...ITEM, extras: "\0".repeat(8), value: "3" }),
  packet("Add", { ...MISSING, extras: "\0".repeat(8), value: "3" }),
  packet("Replace", { ...ITEM, extras: "\0".repeat(8), value: "3" }),
  packet("Append", { ...ITEM, value: "3" }),
  packet("Prepend", { ...MISSING, value: "3" }),
  packet("Increment", { ...ITEM, extras: numberBytes(1, 8) + "\0".repeat(12) }),
  packet("Decrement", { ...MISSING, extras: numberBytes(1, 8) + "\0".repeat(12) }),
  packet("Delete", ITEM),
  packet("Touch", { ...ITEM, extras: numberBytes(50, 4) }),
  packet("GaTK", { ...MISSING, extras: numberBytes(50, 4) }),
  packet("Lock", ITEM),
  packet("LaG", ITEM),
  packet("Unlock", ITEM),
  packet("GetSS", { ...MISSING, extras: numberBytes(10, 4) }),
  packet("DeleteSS", { ...ITEM, extras: numberBytes(10, 4) }),
  packet("TokenGet", MISSING),
  packet("Flush", { key: "", opaque: 3 }),
  packet("Noop", { key: "", opaque: 3 }),
  packet("Keys", { key: "k", opaque: 3 }),
];

/** Text and binary requests that show what a request has left. */
const LOOK =
  "me k\r\nmg k v k f s c t u\r\nme n\r\nmg n v k f s c t u\r\nlease list\r\nlock list\r\n";

/** The reply to requests on a connection, and what they have left, in a server with `k`. */
function answer(requests: string): readonly [reply: string, left: string] {
  using side = new ConversationSide(OPTIONS);
  side.connect().ask("set k 5 100 1\r\n7\r\n");
  return [side.connect().ask(requests), side.connect().ask(LOOK)];
}

/** The first bytes of the ids of such a server, in a binary reply. */
const ID_START = "\0\b\0\x80\0\0\0";

/** Takes out the ids, of which others may have taken some, and the lines on the strangers' key. */
function ownPart(text: string): string {
  const [first, ...others] = text.split(ID_START);
  return [first, ...others.map((part) => part.slice(1))].join("id").replaceAll(/\d{15,16}/g, "id")
    .replaceAll(/^(?:LEASE|LOCK|VALUE) s.*\r\n/gm, "");
}

for (
  const [protocol, strangers, requests] of [
    ["text", STRANGERS, REQUESTS],
    ["binary", BINARY_STRANGERS, BINARY_REQUESTS],
  ] as const
) {
  const expected = new Map(requests.map((request) => [request, answer(request)]));
  for (const [name, stranger] of Object.entries(strangers)) {
    Deno.test(`nothing of a request is left for the next one: ${protocol}, ${name}`, () => {
      const { length } = answer(stranger)[0];
      for (const request of requests) {
        const [reply, left] = answer(stranger + request);
        const [alone, leftAlone] = expected.get(request)!;
        const what = JSON.stringify(request.slice(0, 60));
        assertEquals(ownPart(reply.slice(length)), ownPart(alone), what);
        assertEquals(ownPart(left), ownPart(leftAlone), what);
      }
    });
  }
}
