import { numberBytes, numberOf, parseBinary } from "./binary_text.ts";

/**
 * Transcripts: what clients send, what they must get back, and what happens beside it. One file holds many cases:
 *
 *     # A comment.
 *     options: -F                       what the server of this file is started with (optional, before the first case)
 *
 *     == add keeps what is there [shared]
 *     A> add k 0 0 1|x       A< STORED          stats: cmd_set +1
 *     A> gets k              A< VALUE k 0 1 {id}|x|END
 *     B> cas k 0 0 1 {id}|y  B< STORED
 *     clock +5
 *     A: disconnects
 *     B: is closed
 *
 * Events stand one a line, or side by side with two spaces or more between them. `A>` sends on
 * connection A (connections open when they first speak), `A<` is all that A gets back, `|` is a
 * line end (CR LF), and one more line end is understood at the end of each text unless it ends in
 * `\`. A connection that is sent something and has no `A<` must get nothing.
 *
 * `stats:` names by how much counters grew since the `stats:` before it or the start of the case;
 * of the counters of commands those not named must stay. `clock +n` moves the server's clock by n
 * seconds.
 *
 * Escapes: `\s` space (needed only where two in a row or one at an end matter), `\r`, `\n`, `\t`,
 * `\\`, `\|`, `\{`, `\xNN`. `{text*n}` is the text n times. In a reply `{name}` is a number that is
 * learned there and meant by every later `{name}`, `{*}` is anything up to the line's end.
 *
 * Text that starts with `!` is of the binary protocol, see `binary_text.ts`.
 *
 * Tags: `[shared]`: memcached answers the same, and the case is played to it too; `[shared since 1.6.40]`: from that
 * version on. `[yrmcds]`: yrmcds answers the same. `[seconds matter]`: replies tell how much time is left, so it is not
 * played where the clock runs.
 */
export interface Transcript {
  readonly name: string;
  /** Command line options of the server. */
  readonly options: readonly string[];
  readonly cases: readonly TranscriptCase[];
}

export interface TranscriptCase {
  readonly name: string;
  /** Number of its first line in the file. */
  readonly line: number;
  /** The first memcached version that plays it the same; undefined: ours alone. */
  readonly sharedSince: string | undefined;
  /** yrmcds gives the same replies. */
  readonly yrmcds: boolean;
  readonly secondsMatter: boolean;
  readonly events: readonly TranscriptEvent[];
}

export type TranscriptEvent =
  & { readonly line: number }
  & (
    | { readonly kind: "send"; readonly connection: string; readonly text: Part[] }
    | { readonly kind: "reply"; readonly connection: string; readonly text: Part[] }
    | { readonly kind: "disconnect" | "closed"; readonly connection: string }
    | { readonly kind: "stats"; readonly deltas: ReadonlyMap<string, number> }
    | { readonly kind: "clock"; readonly seconds: number }
  );

/** A stretch of fixed bytes (one character each), or a hole: of digits, or of the 8 bytes of a number. */
export type Part = string | { readonly hole: string; readonly binary?: boolean };

const EVENT_START =
  /^(?:([A-Z])([<>])(?: |$)|([A-Z]): (disconnects|is closed)$|(stats): |(clock) \+)/;
const EVENT_GAP = /\s{2,}(?=[A-Z][<>](?: |$)|[A-Z]: |stats: |clock \+)/;
const CASE_HEAD = /^== (.+?)((?: \[[^\]]+\])*)$/;

/** @throws SyntaxError naming file and line when the text is no transcript. */
export function parseTranscript(name: string, text: string): Transcript {
  const options: string[] = [];
  const cases: TranscriptCase[] = [];
  let events: TranscriptEvent[] | undefined;
  for (const [index, raw] of text.split("\n").entries()) {
    const line = index + 1;
    const trimmed = raw.trim();
    if (trimmed === "" || trimmed.startsWith("# ")) continue;
    try {
      if (trimmed.startsWith("== ")) {
        events = [];
        cases.push({ ...parseHead(trimmed), line, events });
      } else if (events === undefined) {
        if (!trimmed.startsWith("options: ")) throw new SyntaxError("no case has begun");
        options.push(...trimmed.slice("options: ".length).split(/\s+/));
      } else {
        for (const part of trimmed.split(EVENT_GAP)) events.push(parseEvent(part, line));
      }
    } catch (error) {
      throw new SyntaxError(`Cannot parse ${name}:${line}: ${(error as Error).message}`);
    }
  }
  return { name, options, cases };
}

function parseHead(head: string): Omit<TranscriptCase, "line" | "events"> {
  const [, name, tagText] = CASE_HEAD.exec(head)!;
  let sharedSince: string | undefined;
  let yrmcds = false;
  let secondsMatter = false;
  for (const [, tag] of tagText!.matchAll(/\[([^\]]+)\]/g)) {
    const shared = /^shared(?: since ([\d.]+))?$/.exec(tag!);
    if (shared) sharedSince = shared[1] ?? "0";
    else if (tag === "yrmcds") yrmcds = true;
    else if (tag === "seconds matter") secondsMatter = true;
    else throw new SyntaxError(`unknown tag "${tag}"`);
  }
  return { name: name!, sharedSince, yrmcds, secondsMatter };
}

function parseEvent(text: string, line: number): TranscriptEvent {
  const match = EVENT_START.exec(text);
  if (!match) throw new SyntaxError(`"${text}" is no event`);
  const [head, speaker, direction, subject, what, stats] = match;
  if (speaker !== undefined) {
    if (/ [A-Z][<>] /.test(text)) throw new SyntaxError(`"${text}": two spaces go between events`);
    const kind = direction === ">" ? "send" : "reply";
    const body = text.slice(head.length);
    const parts = body.startsWith("!")
      ? parseBinary(body.slice(1), kind, unescape)
      : parseText(body);
    return { kind, connection: speaker, text: parts, line };
  }
  if (subject !== undefined) {
    return { kind: what === "disconnects" ? "disconnect" : "closed", connection: subject, line };
  }
  if (stats !== undefined) return { kind: "stats", deltas: parseDeltas(text.slice(7)), line };
  return { kind: "clock", seconds: Number(text.slice("clock +".length)), line };
}

function parseDeltas(text: string): Map<string, number> {
  const deltas = new Map<string, number>();
  for (const entry of text.split(",")) {
    if (entry.trim() === "none") continue;
    const match = /^\s*(\w+) ([+-]\d+)\s*$/.exec(entry);
    if (!match) throw new SyntaxError(`"${entry}" is no change of a counter`);
    deltas.set(match[1]!, Number(match[2]));
  }
  return deltas;
}

const TOKEN = /\\x([0-9a-f]{2})|\\([srnt\\|{])|\{([^{}*]+)\*(\d+)\}|\{(\*|[a-z]\w*)\}|\||[^\\{]/gy;
const ESCAPES: Record<string, string> = {
  s: " ",
  r: "\r",
  n: "\n",
  t: "\t",
  "\\": "\\",
  "|": "|",
  "{": "{",
};

function parseText(text: string): Part[] {
  const open = /(?:^|[^\\])(?:\\\\)*\\$/.test(text);
  const parts = unescape(open ? text.slice(0, -1) : text);
  if (!open) append(parts, "\r\n");
  return parts;
}

function unescape(text: string): Part[] {
  const parts: Part[] = [];
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    end = match.index + match[0].length;
    const [whole, hex, escape, repeated, count, hole] = match;
    if (hex !== undefined) append(parts, String.fromCharCode(parseInt(hex, 16)));
    else if (escape !== undefined) append(parts, ESCAPES[escape]!);
    else if (repeated !== undefined) {
      append(parts, fixedText(unescape(repeated)).repeat(Number(count)));
    } else if (hole !== undefined) parts.push({ hole });
    else append(parts, whole === "|" ? "\r\n" : whole);
  }
  if (end !== text.length) throw new SyntaxError(`"${text.slice(end)}" is no text`);
  return parts;
}

function append(parts: Part[], text: string): void {
  const last = parts.at(-1);
  if (typeof last === "string") parts[parts.length - 1] = last + text;
  else parts.push(text);
}

function fixedText(parts: readonly Part[]): string {
  return parts.map((part) => {
    if (typeof part !== "string") throw new SyntaxError("a hole cannot be repeated");
    return part;
  }).join("");
}

/** Values of the holes that have been met. */
export type Holes = Map<string, string>;

/** The bytes to send, one a character. */
export function requestText(parts: readonly Part[], holes: Holes): string {
  return parts.map((part) => {
    if (typeof part === "string") return part;
    const value = holes.get(part.hole);
    if (value === undefined) throw new SyntaxError(`{${part.hole}} was never learned`);
    return part.binary ? numberBytes(BigInt(value), 8) : value;
  }).join("");
}

/**
 * How many characters at the start of `received` are the reply; the holes in it are learned.
 *
 * @returns undefined when `received` does not start with the whole reply.
 */
export function matchReply(
  parts: readonly Part[],
  holes: Holes,
  received: string,
): number | undefined {
  const learned: Holes = new Map();
  let at = 0;
  for (const part of parts) {
    const value = typeof part === "string" ? part : holes.get(part.hole) ?? learned.get(part.hole);
    const isBinary = typeof part !== "string" && part.binary;
    if (value !== undefined) {
      const known = isBinary ? numberBytes(BigInt(value), 8) : value;
      if (!received.startsWith(known, at)) return undefined;
      at += known.length;
      continue;
    }
    const { hole } = part as { hole: string };
    if (isBinary) {
      if (received.length < at + 8) return undefined;
      learned.set(hole, String(numberOf(received.slice(at, at + 8))));
      at += 8;
      continue;
    }
    const end = endOf(hole === "*" ? ANYTHING : DIGITS, received, at);
    if (end === undefined) return undefined;
    if (hole !== "*") learned.set(hole, received.slice(at, end));
    at = end;
  }
  for (const [hole, value] of learned) holes.set(hole, value);
  return at;
}

const ANYTHING = /[^\r\n]*/y;
const DIGITS = /\d+/y;

/** Returns the end of the longest match at `at`; undefined without a match, or if further bytes may extend it. */
function endOf(pattern: RegExp, received: string, at: number): number | undefined {
  pattern.lastIndex = at;
  const match = pattern.exec(received);
  return match && pattern.lastIndex < received.length ? pattern.lastIndex : undefined;
}

/** Bytes as they would stand in a transcript, shortened in the middle. */
export function showText(text: string): string {
  const escaped = text.replaceAll("\\", "\\\\").replaceAll("|", "\\|").replaceAll("\r\n", "|")
    .replaceAll("\r", "\\r").replaceAll("\n", "\\n")
    .replace(
      /[^ -~]/g,
      (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`,
    );
  return escaped.length <= 400 ? escaped : `${escaped.slice(0, 200)} … ${escaped.slice(-150)}`;
}
