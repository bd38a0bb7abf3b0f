import type { Access } from "../../../protocol/auth/access.ts";
import { BINARY_COMMANDS, Part } from "../../../protocol/binary/table.ts";
import { COMMANDS } from "../../../protocol/text/table.ts";
import { packetText } from "./binary_text.ts";

/** Lines of a user file, one user a level; each password is the name backwards. */
export const USER_LINES = "ann:nna\nbob write:bob\ncarl read:lrac\n";
/** The key that requests are about. */
const KEY = "secret-key";

/** A request for one row of a table of commands. Characters below 256. */
export interface RowRequest {
  readonly name: string;
  readonly isBinary: boolean;
  readonly text: string;
  /** The access it needs; null: that depends on its words. */
  readonly access: Access | null;
}

/** Further words of commands whose first word is not a key. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  stats: ["", "reset", "settings", "conns", "detail on", "cachedump 1 1"],
  token: [`get ${KEY}`, `release ${KEY} 1`, "list", `drop ${KEY} unsafe`, "drop_all unsafe"],
  lock: [KEY, "list"],
  lease: ["list"],
  quarantine: ["on"],
  "flush_all": [""],
  verbosity: ["1"],
  shutdown: [""],
  watch: [""],
  slabs: ["reassign 1 2"],
  lru: ["mode flat"],
  "lru_crawler": ["metadump all", "disable"],
  "cache_memlimit": ["8"],
  gat: [`60 ${KEY}`],
  gats: [`60 ${KEY}`],
  getss: [`10 ${KEY}`],
  "lease-set": [`${KEY} 1 0 0 1`],
  cas: [`${KEY} 0 0 1 1`],
  mg: [`${KEY} v`, `${KEY} N60 v`, `${KEY} T60`],
  ms: [`${KEY} 1`],
  uput: [`${KEY} 0 1 1`],
  caches: [""],
  nodes: ["", "forget one"],
};

/** Requests for every row of both tables, in every protocol. */
export function rowRequests(): RowRequest[] {
  const text = COMMANDS.flatMap(({ name, wordsMin, lengthWord, access }) => {
    const general = [KEY, "0", "0", "1"].slice(0, Math.max(1, wordsMin - 1)).join(" ");
    return (WORDS[name] ?? [general]).map((words) => ({
      name: `${name} ${words}`.trim(),
      isBinary: false,
      text: `${name} ${words}`.trim() + (lengthWord > 0 ? "\r\nx\r\n" : "\r\n"),
      access: typeof access === "number" ? access : null,
    }));
  });
  const binary = BINARY_COMMANDS.map(({ name, opcode, extras, key, value, access }) => ({
    name: `binary ${name}`,
    isBinary: true,
    text: packetText({
      opcode,
      key: key === Part.SOME ? KEY : "",
      extras: "\0".repeat(Math.max(...extras)),
      value: value === Part.SOME ? "1" : "",
    }),
    access: typeof access === "number" ? access : null,
  }));
  return [...text, ...binary];
}

/** An authentication by text. */
export function textLogin(user: string, password: string): string {
  const block = `${user} ${password}`;
  return `set x 0 0 ${block.length}\r\n${block}\r\n`;
}

/** An authentication by SASL PLAIN. */
export function saslLogin(user: string, password: string): string {
  return packetText({ opcode: 0x21, key: "PLAIN", extras: "", value: `\0${user}\0${password}` });
}

/** The status and the body of every reply in a binary stream. */
export function binaryReplies(stream: string): { opcode: number; status: number; body: string }[] {
  const replies = [];
  for (let at = 0; at + 24 <= stream.length;) {
    const byte = (offset: number): number => stream.charCodeAt(at + offset);
    const length = byte(8) * 2 ** 24 + byte(9) * 2 ** 16 + byte(10) * 2 ** 8 + byte(11);
    replies.push({
      opcode: byte(1),
      status: byte(6) * 256 + byte(7),
      body: stream.slice(at + 24, at + 24 + length),
    });
    at += 24 + length;
  }
  return replies;
}

/** The reply of the text protocol before authentication, also to a `set` that is none. */
const REFUSALS = [
  "CLIENT_ERROR unauthenticated\r\n",
  "CLIENT_ERROR bad authentication token format\r\n",
  "CLIENT_ERROR authentication failure\r\n",
];

/** The replies that are no refusals of authentication. */
export function withoutRefusals(reply: string): string {
  return REFUSALS.reduce((rest, refusal) => rest.replaceAll(refusal, ""), reply);
}
