import { assert, assertEquals } from "@std/assert";
import { LINE_LENGTH_MAX } from "../../../store/limits.ts";
import { ConversationSide } from "../../support/sessions/conversation_side.ts";

// Keys of about the longest length in lines of many keys, which arrive in one piece and in two.

const REFUSAL = "CLIENT_ERROR bad command line format\r\n";
const KEY_LENGTH_MAX = 250;

/** The commands that read several keys of a line, and whether the line may be of any length. */
const COMMANDS: Readonly<Record<string, boolean>> = {
  "get": true,
  "gets": true,
  "gat 0": false,
  "gats 0": false,
  "getss 10": false,
  "lease-get": false,
};
const PLACES = ["first", "middle", "last"] as const;

/** Other keys of the line: more than one group. @param bytes Of their part of the line, at least. */
function shortKeys(bytes: number): string[] {
  const count = Math.ceil(bytes / 12);
  return Array.from({ length: count }, (_, index) => `key-${index}`.padEnd(11, "x"));
}

function lineOf(
  command: string,
  place: typeof PLACES[number],
  key: string,
  others: string[],
): string[] {
  const at = { first: 0, middle: others.length >> 1, last: others.length }[place];
  return [command, ...others.slice(0, at), key, ...others.slice(at)];
}

/** The reply with a `0` for every cas id. */
function withoutIds(reply: string): string {
  return reply.replace(/^(VALUE \S+ \d+ \d+) \d+\r$/gm, "$1\r");
}

for (const [command, isUnbounded] of Object.entries(COMMANDS)) {
  for (const place of PLACES) {
    Deno.test(`${command}: a key of 249, 250 or 251 bytes, ${place} of many`, () => {
      using side = new ConversationSide(["-z", "0x3333"]);
      const others = shortKeys(isUnbounded ? 2 * LINE_LENGTH_MAX : LINE_LENGTH_MAX - 300);
      for (let length = KEY_LENGTH_MAX - 1; length <= KEY_LENGTH_MAX + 1; length++) {
        const key = "k".repeat(length);
        const words = lineOf(command, place, key, others);
        const keys = words.slice(1);
        const writer = side.connect();
        for (const each of keys) writer.ask(`set ${each} 0 0 1\r\nv\r\n`);
        writer.disconnect();
        const values = keys.map((each) => `VALUE ${each} 0 1\r\nv\r\n`);
        const line = words.join(" ") + "\r\n";
        const keyStart = line.indexOf(key);
        // Within the key, at its end, and within the line's end.
        const cuts = new Set([0, line.length - 2, line.length - 1]);
        for (const start of [keyStart, keyStart + KEY_LENGTH_MAX]) {
          for (let cut = start - 3; cut <= start + 4 && cut < line.length; cut++) cuts.add(cut);
        }
        for (const cut of cuts) {
          const peer = side.connect();
          const first = peer.ask(line.slice(0, cut));
          const reply = withoutIds(first + peer.ask(line.slice(cut)));
          if (length <= KEY_LENGTH_MAX) assertEquals(reply, `${values.join("")}END\r\n`, `${cut}`);
          else {
            // The values of a long line may have been sent before its last key arrives.
            assert(reply.endsWith(REFUSAL), `${cut}: ${reply}`);
            assert(values.join("").startsWith(reply.slice(0, -REFUSAL.length)), `${cut}: ${reply}`);
          }
          assertEquals(peer.ask("mn\r\n"), "MN\r\n");
          peer.disconnect();
        }
      }
    });
  }
}
