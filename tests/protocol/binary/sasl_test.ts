import { assertEquals } from "@std/assert";
import { OPCODES } from "../../../protocol/binary_opcodes.ts";
import { binaryReplies, USER_LINES } from "../../support/sessions/auth_requests.ts";
import { packetText } from "../../support/sessions/binary_text.ts";
import { ConversationSide } from "../../support/sessions/conversation_side.ts";

const OK = 0x00;
const REFUSED = 0x20;
const CONTINUE = 0x21;

const CREDENTIALS = {
  right: "\0ann\0nna",
  wrong: "\0ann\0no",
  malformed: "ann",
  none: "",
} as const;

/** A message of a client. */
interface Message {
  readonly command: "SaslAuth" | "SaslStep";
  readonly mechanism: string;
  readonly credentials: keyof typeof CREDENTIALS;
}

const MESSAGES: readonly Message[] = (["SaslAuth", "SaslStep"] as const).flatMap((command) => [
  ...(["right", "wrong", "malformed", "none"] as const).map((credentials) => ({
    ...{ command, credentials, mechanism: "PLAIN" },
  })),
  { command, credentials: "right", mechanism: "CRAM-MD5" } as const,
]);

/** Returns the statuses that memcached gives: a step belongs to the message before it that has begun an exchange. */
function expectedOf(messages: readonly Message[]): number[] {
  let isStarted = false;
  return messages.map(({ command, mechanism, credentials }) => {
    const isPlain = mechanism === "PLAIN";
    if (command === "SaslAuth") {
      isStarted = isPlain && credentials === "none";
      if (isStarted) return CONTINUE;
      return isPlain && credentials === "right" ? OK : REFUSED;
    }
    return isStarted && isPlain && credentials === "right" ? OK : REFUSED;
  });
}

function sequencesOf(length: number): Message[][] {
  if (length === 0) return [[]];
  return sequencesOf(length - 1).flatMap((before) => MESSAGES.map((last) => [...before, last]));
}

Deno.test("messages of SASL in every order: each is answered as the ones before it allow", () => {
  const file = Deno.makeTempFileSync({ prefix: "leased-test-" });
  try {
    Deno.writeTextFileSync(file, USER_LINES);
    using side = new ConversationSide(["-Y", file, "-S"]);
    for (const messages of [1, 2, 3].flatMap(sequencesOf)) {
      const peer = side.connect();
      const statuses = messages.map(({ command, mechanism, credentials }) => {
        const [opcode] = OPCODES[command];
        const value = CREDENTIALS[credentials];
        return binaryReplies(peer.ask(packetText({ opcode, key: mechanism, value })))[0]!.status;
      });
      const name = messages.map((each) => Object.values(each).join(" ")).join(", ");
      assertEquals(statuses, expectedOf(messages), name);
      // The last one decides what the connection may do.
      const reply = peer.ask(packetText({ opcode: OPCODES.Get[0], key: "none" }));
      assertEquals(binaryReplies(reply)[0]!.status === REFUSED, statuses.at(-1) !== OK, name);
      peer.disconnect();
    }
  } finally {
    Deno.removeSync(file);
  }
});
