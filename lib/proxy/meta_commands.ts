import { changeOf, type Edit, type Row } from "../rows/databases/backend.ts";
import { Arithmetic, extending, readU64 } from "../rows/databases/edits.ts";
import { latin1Bytes } from "../rows/bytes.ts";
import type { Value } from "./flows.ts";
import { REPLY, unsupportedFlagLine } from "./replies.ts";
import {
  answerUnfinished,
  idOf,
  keyOf,
  numberOf,
  type ProxyRequest,
  type ProxySession,
  Refusal,
  requireNoExpiry,
  UINT32_MAX,
} from "./request.ts";

/** The flags of a meta request: letter and argument, in the request's order. */
type Flags = readonly (readonly [letter: string, text: string])[];

/** Flags of every command: k and O repeat key and opaque in the reply, q suppresses the expected reply. */
const ECHOED = "kOq";

/** Reads the flags. @throws Refusal at a flag that is not among `allowed`. */
function flagsOf(words: readonly string[], allowed: string): Flags {
  return words.map((word) => {
    const letter = word[0]!;
    if (!allowed.includes(letter) && !ECHOED.includes(letter)) {
      throw new Refusal(unsupportedFlagLine(letter));
    }
    return [letter, word.slice(1)];
  });
}

function has(flags: Flags, letter: string): boolean {
  return flags.some(([each]) => each === letter);
}

function textOf(flags: Flags, letter: string): string | undefined {
  return flags.find(([each]) => each === letter)?.[1];
}

/** The flags of a reply that repeat the request. */
function echoed(flags: Flags, key: string): string {
  return flags.map(([letter, text]) =>
    letter === "k" ? ` k${key}` : letter === "O" ? ` O${text}` : ""
  )
    .join("");
}

/** `mg <key> [v k f s c t O q]`: through the cache; with c from the database, c is the row's version. */
export async function metaGet(session: ProxySession, { words }: ProxyRequest): Promise<void> {
  const key = keyOf(words[0]!);
  const flags = flagsOf(words.slice(1), "vfsct");
  const value = has(flags, "c")
    ? (await session.proxy.read(key)).row
    : await session.proxy.get(key);
  if (value === null) {
    if (!has(flags, "q")) session.line(`EN${echoed(flags, key)}`);
    return;
  }
  const facts = flags.map(([letter, text]) => metaFact(letter, text, key, value)).join("");
  if (!has(flags, "v")) return session.line(`HD${facts}`);
  session.line(`VA ${value.data.length}${facts}`);
  session.block(value.data);
}

function metaFact(
  letter: string,
  text: string,
  key: string,
  value: { flags: number; data: Uint8Array; version?: number },
): string {
  switch (letter) {
    case "f":
      return ` f${value.flags}`;
    case "s":
      return ` s${value.data.length}`;
    case "c":
      return ` c${value.version}`;
    case "t":
      return " t-1";
    case "k":
      return ` k${key}`;
    case "O":
      return ` O${text}`;
    default:
      return "";
  }
}

/** The edit that `ms` makes for each mode of its flag M. */
const MODES: Readonly<Record<string, (change: Value) => Edit>> = {
  S: (change) => change,
  E: (change) => (row) => row === null ? change : null,
  R: (change) => (row) => row === null ? null : change,
  A: ({ data }) => extending(data, false),
  P: ({ data }) => extending(data, true),
};

/** `ms <key> <bytes> [F C M T c k O q]`: T must be 0, C compares the row's version. */
export async function metaSet(
  session: ProxySession,
  { words, data }: ProxyRequest,
): Promise<void> {
  const key = keyOf(words[0]!);
  const flags = flagsOf(words.slice(2), "FCMTc");
  requireNoExpiry(textOf(flags, "T") ?? "0");
  const mode = MODES[(textOf(flags, "M") ?? "S").toUpperCase()];
  if (mode === undefined) throw new Refusal(REPLY.BAD_FORMAT);
  const change = {
    flags: numberOf(textOf(flags, "F") ?? "0", UINT32_MAX),
    data: data!,
  };
  const compared = textOf(flags, "C");
  const version = compared === undefined ? null : idOf(compared);
  const made = mode(change);
  const edit: Edit = version === null
    ? made
    : (row) => row?.version === version ? changeOf(made, row) : null;
  const reply = await session.proxy.write(key, edit);
  if (answerUnfinished(session, reply)) return;
  const id = reply.kind === "committed" && has(flags, "c") ? ` c${reply.version}` : "";
  answerMeta(session, flags, key, reply.kind === "committed", refusedCode(reply, version), id);
}

/** `md <key> [C k O q]` */
export async function metaDelete(session: ProxySession, { words }: ProxyRequest): Promise<void> {
  const key = keyOf(words[0]!);
  const flags = flagsOf(words.slice(1), "C");
  const compared = textOf(flags, "C");
  const version = compared === undefined ? null : idOf(compared);
  const edit: Edit = (row) =>
    row === null || (version !== null && row.version !== version) ? null : "delete";
  const reply = await session.proxy.write(key, edit);
  if (answerUnfinished(session, reply)) return;
  const isMissing = reply.kind === "refused" && reply.row === null;
  answerMeta(session, flags, key, reply.kind === "committed", isMissing ? "NF" : "EX", "");
}

/** Whether the mode of `ma` adds; undefined: there is no such mode. */
const ADDS: Readonly<Record<string, boolean>> = {
  ...{ I: true, INCR: true, "+": true, D: false, DECR: false, "-": false },
};

/** `ma <key> [D J N T M C v c k O q]`: N and T must be 0; with N, J is the value of a row that does not exist. */
export async function metaArithmetic(
  session: ProxySession,
  { words }: ProxyRequest,
): Promise<void> {
  const key = keyOf(words[0]!);
  const flags = flagsOf(words.slice(1), "DJNTMCvct");
  requireNoExpiry(textOf(flags, "T") ?? "0");
  requireNoExpiry(textOf(flags, "N") ?? "0");
  const increment = ADDS[(textOf(flags, "M") ?? "I").toUpperCase()];
  const delta = readU64(textOf(flags, "D") ?? "1");
  const initial = readU64(textOf(flags, "J") ?? "0");
  if (increment === undefined) throw new Refusal(REPLY.BAD_FORMAT);
  if (delta === null || initial === null) throw new Refusal(REPLY.BAD_DELTA);
  const compared = textOf(flags, "C");
  const version = compared === undefined ? null : idOf(compared);
  const work = new Arithmetic(delta, increment, has(flags, "N") ? initial : null);
  const reply = await session.proxy.write(
    key,
    (row) => version !== null && row !== null && row.version !== version ? null : work.edit(row),
  );
  if (answerUnfinished(session, reply)) return;
  if (!work.isNumeric) throw new Refusal(REPLY.NOT_NUMERIC);
  if (reply.kind !== "committed") {
    const isMissing = reply.kind === "refused" && reply.row === null;
    if (isMissing && has(flags, "q")) return;
    return session.line(`${isMissing ? "NF" : "EX"}${echoed(flags, key)}`);
  }
  if (has(flags, "q")) return;
  const data = latin1Bytes(String(work.value));
  const facts = flags.filter(([letter]) => "cktO".includes(letter)).map(([letter, text]) =>
    metaFact(letter, text, key, { flags: 0, data, version: reply.version })
  ).join("");
  if (!has(flags, "v")) return session.line(`HD${facts}`);
  session.line(`VA ${data.length}${facts}`);
  session.block(data);
}

function refusedCode(
  reply: { readonly kind: string; readonly row?: Row | null },
  version: number | null,
): string {
  if (version === null) return "NS";
  return reply.row === null ? "NF" : "EX";
}

/** Sends HD, or the code of the refusal. A quiet request gets no HD. */
function answerMeta(
  session: ProxySession,
  flags: Flags,
  key: string,
  isDone: boolean,
  refused: string,
  id: string,
): void {
  if (isDone && has(flags, "q")) return;
  session.line(`${isDone ? "HD" : refused}${id}${echoed(flags, key)}`);
}
