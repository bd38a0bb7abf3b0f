import { assertEquals } from "@std/assert";
import { OPCODES } from "../../protocol/binary_opcodes.ts";
import { numberBytes, packetText } from "../support/sessions/binary_text.ts";
import { type ConversationPeer, ConversationSide } from "../support/sessions/conversation_side.ts";
import { RowsSide } from "../support/sessions/rows_side.ts";

// A change leaves the same item in every protocol, in its silent form, and however its bytes arrive.

const KEY = "foo";
const OPTIONS = ["-z", "80", "--tokens", "volatile", "--token-quarantine", "0"];
/** Of one chunk, and of a chain whose value is filled as it arrives. */
const VALUES = ["12", "7".repeat(20_000)];

/** A change in each protocol, loud and silent. A missing form does not exist. */
interface Change {
  readonly name: string;
  readonly text: string;
  readonly textSilent?: string;
  readonly meta?: string;
  readonly metaSilent?: string;
  readonly binary: string;
  readonly binarySilent?: string;
}

type Name = keyof typeof OPCODES;

function packet(name: Name, isQuiet: boolean, extras = "", value = "", cas = ""): string {
  return packetText({ opcode: OPCODES[name][isQuiet ? 1 : 0]!, key: KEY, extras, value, cas });
}

/** A storage command. @param extras Whether the binary one has flags and an expiry time. */
function storing(text: string, mode: string, binary: Name, value: string, id = ""): Change {
  const extras = binary === "Append" || binary === "Prepend"
    ? ""
    : numberBytes(7, 4) + numberBytes(100, 4);
  const word = id === "" ? "" : ` ${id}`;
  const flag = id === "" ? "" : ` C${id}`;
  const end = `\r\n${value}\r\n`;
  return {
    name: `${text}${word} of ${value.length} bytes`,
    text: `${text} ${KEY} 7 100 ${value.length}${word}${end}`,
    textSilent: `${text} ${KEY} 7 100 ${value.length}${word} noreply${end}`,
    meta: `ms ${KEY} ${value.length} F7 T100 M${mode}${flag}${end}`,
    metaSilent: `ms ${KEY} ${value.length} F7 T100 M${mode}${flag} q${end}`,
    binary: packet(binary, false, extras, value, id),
    binarySilent: packet(binary, true, extras, value, id),
  };
}

const NOTHING_MADE = numberBytes(0, 8) + numberBytes(0xffffffff, 4);

function counting(text: string, mode: string, binary: Name, delta: bigint): Change {
  const extras = numberBytes(delta, 8) + NOTHING_MADE;
  return {
    name: `${text} by ${delta}`,
    text: `${text} ${KEY} ${delta}\r\n`,
    textSilent: `${text} ${KEY} ${delta} noreply\r\n`,
    meta: `ma ${KEY} M${mode} D${delta}\r\n`,
    metaSilent: `ma ${KEY} D${delta} M${mode} q\r\n`,
    binary: packet(binary, false, extras),
    binarySilent: packet(binary, true, extras),
  };
}

/** The id that is given to the first item of a server, and ids that differ from it in one half only. */
const FIRST_ID = firstId();
const HALF = 2n ** 32n;

const CHANGES: readonly Change[] = [
  ...VALUES.flatMap((value) => [
    storing("set", "S", "Set", value),
    storing("add", "E", "Add", value),
    storing("replace", "R", "Replace", value),
    storing("append", "A", "Append", value),
    storing("prepend", "P", "Prepend", value),
    storing("cas", "S", "Set", value, `${FIRST_ID}`),
    storing("cas", "S", "Set", value, `${FIRST_ID + HALF}`),
  ]),
  storing("cas", "S", "Set", VALUES[0]!, `${FIRST_ID + 1n}`),
  counting("incr", "I", "Increment", 3n),
  counting("incr", "+", "Increment", HALF),
  counting("decr", "D", "Decrement", 3n),
  counting("decr", "-", "Decrement", 2n ** 64n - 1n),
  {
    name: "delete",
    text: `delete ${KEY}\r\n`,
    textSilent: `delete ${KEY} noreply\r\n`,
    meta: `md ${KEY}\r\n`,
    metaSilent: `md ${KEY} q\r\n`,
    binary: packet("Delete", false),
    binarySilent: packet("Delete", true),
  },
  {
    name: "touch",
    text: `touch ${KEY} 100\r\n`,
    textSilent: `touch ${KEY} 100 noreply\r\n`,
    binary: packet("Touch", false, numberBytes(100, 4)),
  },
  {
    // mg wins a stale item; with T it counts another miss, and reads a locked item.
    name: "gat",
    text: `gat 100 ${KEY}\r\n`,
    binary: packet("GaT", false, numberBytes(100, 4)),
    binarySilent: packet("GaTK", true, numberBytes(100, 4)),
  },
  {
    name: "get",
    text: `gets ${KEY}\r\n`,
    binary: packet("Get", false),
    binarySilent: packet("GetK", true),
  },
];

/** What was before: requests of another connection, which stays. */
const BEFORE: Readonly<Record<string, readonly string[]>> = {
  nothing: [],
  "a number": ["set foo 5 50 1\r\n9\r\n"],
  "a number that was read": ["set foo 5 50 1\r\n9\r\n", "get foo\r\n"],
  "a long value": [`set foo 5 50 30000\r\n${"8".repeat(30_000)}\r\n`],
  "a stale number": ["set foo 5 50 1\r\n9\r\n", "md foo I T30\r\n"],
  "a stale number that is being fetched": ["set foo 5 50 1\r\n9\r\n", "md foo I\r\n", "mg foo\r\n"],
  "an emptied item": ["set foo 5 50 1\r\n9\r\n", "md foo x\r\n"],
  "a placeholder": ["mg foo N30\r\n"],
  "a lease": ["getss 10 foo\r\n"],
  "a key in base64": ["ms Zm9v 1 b T50\r\n9\r\n"],
  "a lock of another connection": ["set foo 5 50 1\r\n9\r\n", "lock foo\r\n"],
  "an update token": ["set foo 5 50 1\r\n9\r\n", "token get foo\r\n"],
  quarantine: ["quarantine on\r\n"],
};

/** Those before which every change is cut. */
const CUT_BEFORE = ["nothing", "a number", "a long value", "a lease", "a key in base64"];

/** Those for the other sides: rows have neither marks nor leases. */
const ROWS_BEFORE = ["nothing", "a number", "a number that was read", "a long value"];

const SIDES: Readonly<Record<string, () => ConversationSide>> = {
  "": () => new ConversationSide(OPTIONS),
  ", two threads": () => new ConversationSide([...OPTIONS, "-t", "2"]),
  ", rows": () => new RowsSide([...OPTIONS, "--row-expiry", "column"]),
};

function firstId(): bigint {
  const peer = new ConversationSide(OPTIONS).connect();
  return BigInt(/c(\d+)/.exec(peer.ask("ms foo 1 c\r\n9\r\n"))![1]!);
}

/** Sends a request in pieces that end at `cuts`, and returns the reply. */
function askCut(peer: ConversationPeer, request: string, cuts: readonly number[]): string {
  let reply = "";
  let start = 0;
  for (const end of [...cuts, request.length]) {
    reply += peer.ask(request.slice(start, end));
    start = end;
  }
  return reply;
}

/** Ways to cut a request. Long values are cut near their ends only. */
function cutsOf(request: string): readonly (readonly number[])[] {
  const last = request.length - 1;
  const near = (at: number): boolean => at < 150 || at > last - 30 || at % 3000 === 0;
  const bytes = [...request].map((_, at) => at).slice(1);
  return request.length < 150 ? [bytes] : [bytes.filter(near), [last >> 1, last]];
}

interface After {
  readonly reply: string;
  /** All that can be known of the item and of claims, and what the server holds. */
  readonly state: readonly string[];
}

/** Executes a request after others, on a connection of its own, and looks at the item. */
function afterwards(
  open: () => ConversationSide,
  before: readonly string[],
  request: string,
  cuts: readonly number[] = [],
): After {
  using side = open();
  const owner = side.connect();
  for (const each of before) owner.ask(each);
  const reply = askCut(side.connect(), request, cuts);
  const looker = side.connect();
  const ask = (question: string): string => looker.ask(question);
  const stats = side.statsNow();
  const held = [
    ...["curr_items", "total_items", "bytes", "values_arriving", "values_arriving_bytes"],
    ...["lock_curr", "lease_curr", "token_curr", "cmd_set", "cmd_touch", "get_hits", "get_misses"],
    ...["delete_hits", "delete_misses", "incr_hits", "incr_misses", "cas_hits", "cas_badval"],
    ...["cas_misses", "touch_hits", "touch_misses"],
  ];
  const state = [
    ask("me foo\r\n"),
    ask("mg foo u h l f s t c k v\r\n"),
    ask("mg foo v\r\n"),
    ask("lease list\r\nlock list\r\ntoken list\r\n"),
    held.map((name) => `${name} ${stats.get(name)}`).join(" "),
  ];
  side.advanceNow(60);
  state.push(ask("mg foo v t\r\n"));
  side.advanceNow(60);
  state.push(ask("mg foo v t\r\n"));
  return { reply, state };
}

for (const [title, open] of Object.entries(SIDES)) {
  const names = title === "" ? Object.keys(BEFORE) : ROWS_BEFORE;
  for (const name of names) {
    const before = BEFORE[name]!;
    Deno.test(`the same item in every protocol, loud or not, after ${name}${title}`, () => {
      for (const change of CHANGES) {
        const { text, textSilent, meta, metaSilent, binary, binarySilent } = change;
        const { state } = afterwards(open, before, text);
        for (const other of [textSilent, meta, metaSilent, binary, binarySilent]) {
          if (other === undefined) continue;
          const what = `${change.name}: ${other.slice(0, 40)}`;
          assertEquals(afterwards(open, before, other).state, state, what);
        }
      }
    });
    if (!CUT_BEFORE.includes(name)) continue;
    Deno.test(`the same item and reply however a change arrives, after ${name}${title}`, () => {
      for (const { text, meta, binary, binarySilent } of CHANGES) {
        for (const request of [text, meta, binary, binarySilent]) {
          if (request === undefined) continue;
          const whole = afterwards(open, before, request);
          for (const cuts of cutsOf(request)) {
            const what = `${request.slice(0, 40)} cut at ${cuts.slice(-4)}`;
            assertEquals(afterwards(open, before, request, cuts), whole, what);
          }
        }
      }
    });
  }
}
