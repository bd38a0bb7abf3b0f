import { assertEquals, assertStringIncludes } from "@std/assert";
import { OPCODES } from "../../../protocol/binary_opcodes.ts";
import { BUFFERED_VALUE_BYTES_MAX } from "../../../store/limits.ts";
import { numberBytes, packetText } from "../../support/sessions/binary_text.ts";
import {
  type ConversationPeer,
  ConversationSide,
} from "../../support/sessions/conversation_side.ts";

// A store is answered alike, whether its value comes with its line or in pieces: then the line is gone when the server
// answers, and the thread has had other requests.

const KEY = "k";
const VALUE = "v".repeat(2 * BUFFERED_VALUE_BYTES_MAX);

/** Returns a store: the bytes before its value and behind it. @param id Of the item that is there. */
type Store = (id: string) => readonly [head: string, tail: string];

/** Returns all selections, in the order of the items. */
function selectionsOf<Item>([first, ...others]: readonly Item[]): Item[][] {
  if (first === undefined) return [[]];
  const rest = selectionsOf(others);
  return [...rest, ...rest.map((each) => [first, ...each])];
}

function* metaStores(): Generator<Store> {
  for (const mode of ["S", "E", "A", "P", "R"]) {
    for (const selection of selectionsOf(["c", "s", "Oabc", "k", "q", "b"])) {
      for (const flags of [selection, selection.toReversed()]) {
        const key = flags.includes("b") ? btoa(KEY) : KEY;
        const compared = flags === selection ? ["", " C1"] : ["C"];
        for (const condition of compared) {
          yield (id) => {
            const words = condition === "C" ? ` C${id}` : condition;
            const line = [`ms ${key} ${VALUE.length} M${mode}${words}`, ...flags].join(" ");
            return [`${line}\r\n`, "\r\n"];
          };
        }
      }
    }
  }
}

function* textStores(): Generator<Store> {
  for (const command of ["set", "add", "replace", "append", "prepend", "cas", "cas 1"]) {
    for (const end of ["", " noreply"]) {
      yield (id) => {
        const [name, other] = command.split(" ");
        const compared = name === "cas" ? ` ${other ?? id}` : "";
        return [`${name} ${KEY} 5 0 ${VALUE.length}${compared}${end}\r\n`, "\r\n"];
      };
    }
  }
}

function* binaryStores(): Generator<Store> {
  for (const name of ["Set", "Add", "Replace", "Append", "Prepend"] as const) {
    const extras = name.endsWith("pend") ? "" : numberBytes(5, 4) + numberBytes(0, 4);
    for (const opcode of OPCODES[name]) {
      for (const compared of ["", "1", undefined]) {
        yield (id) => {
          const cas = compared ?? id;
          const packet = packetText({ opcode, opaque: 77, cas, extras, key: KEY, value: VALUE });
          return [packet.slice(0, -VALUE.length), ""];
        };
      }
    }
  }
}

const STORES = { text: [...textStores()], meta: [...metaStores()], binary: [...binaryStores()] };

/** Requests of another client on the same thread: with keys, flags and numbers of their own. */
function disturb({ text, binary }: { text: ConversationPeer; binary: ConversationPeer }): void {
  text.ask(
    "set other 9 0 1 noreply\r\n1\r\nmg other v s c O99 k q\r\nms b3RoZXI= 1 q b k O5\r\n1\r\n",
  );
  binary.ask(packetText({ opcode: OPCODES.GetK[0], opaque: 0x7fffffff, key: "other" }));
}

/** Executes each store, at once or in pieces. @returns Its reply, and what is left under the key. */
function repliesTo(stores: readonly Store[], isThere: boolean, isInPieces: boolean): string[] {
  using side = new ConversationSide();
  const [peer, reader] = [side.connect(), side.connect()];
  const others = { text: side.connect(), binary: side.connect() };
  return stores.map((store) => {
    reader.ask(isThere ? `set ${KEY} 3 0 3\r\nold\r\n` : `delete ${KEY}\r\n`);
    const id = /c(\d+)/.exec(reader.ask(`mg ${KEY} c\r\n`))?.[1] ?? "5";
    const [head, tail] = store(id);
    const middle = VALUE.length / 2;
    const begun = isInPieces ? peer.ask(head + VALUE.slice(0, middle)) : "";
    disturb(others);
    const rest = VALUE.slice(middle) + tail;
    const reply = begun + peer.ask(isInPieces ? rest : `${head}${VALUE.slice(0, middle)}${rest}`);
    return `${head}: ${reply}; then ${reader.ask(`mg ${KEY} s f t\r\n`)}`;
  });
}

for (const [protocol, stores] of Object.entries(STORES)) {
  for (const isThere of [false, true]) {
    const item = isThere ? "that is there" : "that is missing";
    Deno.test(`${protocol}: a store of a key ${item} is answered alike, at once and in pieces`, () => {
      const atOnce = repliesTo(stores, isThere, false);
      const inPieces = repliesTo(stores, isThere, true);
      for (const [index, expected] of atOnce.entries()) assertEquals(inPieces[index], expected);
      if (protocol === "meta") assertStringIncludes(atOnce.join(""), ` s${VALUE.length}`);
    });
  }
}
