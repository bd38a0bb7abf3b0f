import { assertEquals } from "@std/assert";
import { BINARY_COMMANDS, Part } from "../../protocol/binary/table.ts";
import { COMMANDS } from "../../protocol/text/table.ts";
import { packetText } from "../support/sessions/binary_text.ts";
import { ConversationSide } from "../support/sessions/conversation_side.ts";

const FLAGS = [
  ..."b c f h k l q s t u v I x".split(" "),
  ..."O1 P1 L1 T60 N60 R60 F9 F0 C1 C0 E900000000001 J900 D7 MI MD MA MP MR ME MS S1".split(" "),
];
/** Without these, which end the connection, or whose replies are not the same twice. */
const LEFT_OUT = /^(?:Quit|Stat|Version|Sasl|Keys|Flush|quit|shutdown|stats|version|watch|keys)/;

const meta = (command: string, key: string, flags = ""): string =>
  command === "ms" ? `ms ${key} 1 ${flags}\r\n5\r\n` : `${command} ${key} ${flags}\r\n`;

const binary = ({ opcode, key, value }: typeof BINARY_COMMANDS[number], fields: {
  readonly key: string;
  readonly extras: string;
  readonly cas?: string;
}): string =>
  packetText({
    ...fields,
    opcode,
    key: key === Part.NONE ? "" : fields.key,
    value: value === Part.NONE ? "" : "5",
    opaque: 7,
  });

const binaryRows = BINARY_COMMANDS.filter(({ name }) => !LEFT_OUT.test(name));

/** Each request as it may be: every meta command with every flag, every binary command with its extras and an id. */
const FULL_REQUESTS: string[] = [
  ...["mg", "ms", "md", "ma", "me"].flatMap((command) =>
    FLAGS.map((flag) => meta(command, flag === "b" ? "eDE=" : "x1", flag))
  ),
  ...binaryRows.flatMap((row) =>
    row.extras.flatMap((length) =>
      ["\x01", "\xff"].map((byte) =>
        binary(row, { key: "x1", extras: byte.repeat(length), cas: "900000000001" })
      )
    )
  ),
  ...["incr x1 41", "decr x1 41", "touch x1 60", "gat 60 x1", "gets x1", "getss x1 60", "lock x1"],
  ..."set add replace append prepend".split(" ").map((name) => `${name} x1 9 60 1 noreply\r\n4`),
  ...["cas x1 9 60 1 900000000001 noreply\r\n4", "delete x1 noreply", "incr x1 7 noreply"],
].map((request) =>
  request.endsWith("\n") || request.startsWith("\x80") ? request : `${request}\r\n`
);

/** The same commands with the least that they need. */
const BARE_REQUESTS: string[] = [
  ..."mg ms md ma me".split(" ").map((command) => meta(command, "y1")),
  "mg y1 k v f t s c\r\n",
  ..."mg y2|mg y2 N0 v t|ma y1 v|ma y2|ma y2 N0 v t|md y2|md y1 C5".split("|").map((line) =>
    `${line}\r\n`
  ),
  ...COMMANDS.filter(({ name }) => /^(?:get|gets|delete|getss|lock|unlock)$/.test(name))
    .map(({ name }) => `${name} y1\r\n`),
  ..."set add replace append prepend".split(" ").map((name) => `${name} y1 0 0 1\r\n6\r\n`),
  ...["incr y1 1\r\n", "decr y1 1\r\n", "touch y1 0\r\n", "gat 0 y1\r\n"],
  ...binaryRows.map((row) => binary(row, { key: "y1", extras: "\0".repeat(row.extras[0]!) })),
];

/** A reply's header up to its id, and one of the server's ids. */
const OWN_ID = new RegExp("(\x81.{15})\0\x08.{6}", "gs");

/** Leaves out the ids that the server gave; those that requests give are shorter. */
function withoutIds(reply: string): string {
  return reply.replace(/\b(c?)2\d{15}\b/g, "$1id").replace(OWN_ID, "$1");
}

/** The reply to a bare request after another one, on one thread, and the traces that it leaves. */
function played(side: ConversationSide, bare: string, full?: string): string[] {
  const ask = (request: string): string => {
    const peer = side.connect();
    const reply = peer.ask(request);
    if (!peer.closed) peer.disconnect();
    return withoutIds(reply);
  };
  for (const key of ["x1", "y1"]) ask(`delete ${key}\r\nset ${key} 3 900 1\r\n5\r\n`);
  ask("delete y2\r\n");
  if (full !== undefined) ask(full);
  return [ask(bare), ask("mg y1 v f t s c k h\r\n"), ask("gets y1 y2\r\n")];
}

Deno.test("no request leaves a trace in the next one of its thread", () => {
  const side = new ConversationSide();
  for (const bare of BARE_REQUESTS) {
    // On a thread that has no past: a trace may last.
    const expected = played(new ConversationSide(), bare);
    for (const full of FULL_REQUESTS) {
      assertEquals(played(side, bare, full), expected, JSON.stringify([full, bare]));
    }
  }
});
