import type { Part, TranscriptCase, TranscriptEvent } from "../sessions/transcript.ts";
import type { Block } from "./markdown.ts";

const SPOKEN = /^([A-Z]?)([<>]) ?(.*)$/;
/** A value's line, with flags that mark a lease in the documents (`-z 3333`). */
const LEASE_LINE = /^VALUE \S+ 13107 /;
/** Ids and fencing numbers, which no document can know. The same number means the same id throughout. */
const ID = /\d{13,}|…/g;
/** The same, and the seconds that are left in a reply of the meta protocol: one may pass between two requests. */
const ID_OR_SECONDS = /\d{13,}|…|(?<=^(?:VA|HD) .* t)[1-9]\d*(?= |$)/g;

/** Whether a block is a session of the text protocol: lines start with `>` or `<`, or with a client's letter too. */
export function isTranscript({ language, lines }: Block): boolean {
  return language === "text" && lines.some((line) => SPOKEN.test(line));
}

/**
 * The session of a block, to be played to a server:
 *
 *     $ deno task start -z 3333       starts the server; not part of the session
 *     A> getss 30 k                   A sends a line; three spaces or more start a remark
 *     A< VALUE k 13107 1 1843200000000001
 *     A: disconnects
 *
 * Learns numbers of 13 digits or more, and the seconds that another client's lease lasts. `…` matches the rest of the
 * line.
 */
export function sessionOf({ lines, line }: Block): TranscriptCase {
  const events: TranscriptEvent[] = [];
  let isLease = false;
  for (const [index, raw] of lines.entries()) {
    const at = { line: line + index };
    const text = raw.replace(/ {3,}.*$/, "").trimEnd();
    if (text === "" || raw.startsWith("$ ")) continue;
    const ending = /^([A-Z]): disconnects$/.exec(text);
    if (ending !== null) {
      events.push({ ...at, kind: "disconnect", connection: ending[1]! });
      continue;
    }
    const spoken = SPOKEN.exec(text);
    if (spoken === null) {
      throw new SyntaxError(`line ${at.line}: "${raw}" is not part of a session`);
    }
    const [, letter, direction, said] = spoken;
    const connection = letter || "A";
    if (direction === ">") events.push({ ...at, kind: "send", connection, text: partsOf(said!) });
    else {
      const seconds = isLease && /^[1-9]\d*$/.test(said!);
      const hole = `seconds${index}`;
      const parts = seconds ? [{ hole }, "\r\n"] : partsOf(said!, ID_OR_SECONDS, hole);
      events.push({ ...at, kind: "reply", connection, text: parts });
      isLease = LEASE_LINE.test(said!);
    }
  }
  const name = `line ${line}`;
  return { name, line, sharedSince: undefined, yrmcds: false, secondsMatter: false, events };
}

/** @param secondsHole The name of the hole for seconds. */
function partsOf(said: string, pattern: RegExp = ID, secondsHole = ""): Part[] {
  const parts: Part[] = [];
  let end = 0;
  for (const match of said.matchAll(pattern)) {
    const [text] = match;
    parts.push(said.slice(end, match.index));
    parts.push({ hole: text === "…" ? "*" : text.length < 13 ? secondsHole : `id${text}` });
    end = match.index + match[0].length;
  }
  return [...parts, `${said.slice(end)}\r\n`];
}
