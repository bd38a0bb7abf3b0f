import type { Peer, Side } from "./side.ts";
import {
  type Holes,
  matchReply,
  type Part,
  requestText,
  showText,
  type TranscriptCase,
  type TranscriptEvent,
} from "./transcript.ts";

/** Counters that a `stats:` without their name says have not moved. */
const COMMAND_COUNTERS =
  /^(cmd_(get|set|flush|touch)|(get|delete|incr|decr|cas|touch)_(hits|misses)|cas_badval)$/;
const STATS_TRIES = 20;
/** A request of the binary protocol that does nothing. */
const NOOP = `\x80\x0a${"\0".repeat(22)}`;

/** How much time has to pass on the server's clock in a case: none may, or that much. */
export function secondsOf({ events, secondsMatter }: TranscriptCase): number {
  let seconds = secondsMatter ? 1 : 0;
  for (const event of events) if (event.kind === "clock") seconds += event.seconds;
  return seconds;
}

/** A transcript that did not go as written. */
export class TranscriptError extends Error {
  override readonly name = "TranscriptError";
  /** Of the transcript file; 0: behind the last one. */
  readonly line: number;

  constructor(message: string, line = 0) {
    super(message);
    this.line = line;
  }
}

/**
 * Plays one case.
 *
 * @param send How the bytes of a request go out: whole, unless a test cuts them.
 * @throws TranscriptError at the first reply that differs.
 */
export async function play(
  side: Side,
  transcriptCase: TranscriptCase,
  send: (peer: Peer, text: string) => Promise<void> = (peer, text) => peer.send(text),
): Promise<void> {
  const game = new Game(side, send);
  try {
    await game.begin(transcriptCase);
    for (const event of transcriptCase.events) {
      try {
        await game.step(event);
      } catch (error) {
        if (!(error instanceof TranscriptError)) throw error;
        const place = `line ${event.line} on ${side.name}`;
        throw new TranscriptError(`${place}: ${error.message}`, event.line);
      }
    }
    await game.end();
  } finally {
    game.disconnect();
  }
}

class Game {
  readonly #side: Side;
  readonly #send: (peer: Peer, text: string) => Promise<void>;
  readonly #peers = new Map<string, Peer>();
  readonly #holes: Holes = new Map();
  /** Connections that speak the binary protocol. */
  readonly #binary = new Set<string>();
  #stats = new Map<string, number>();

  constructor(side: Side, send: (peer: Peer, text: string) => Promise<void>) {
    this.#side = side;
    this.#send = send;
  }

  async begin(transcriptCase: TranscriptCase): Promise<void> {
    if (transcriptCase.events.some(({ kind }) => kind === "stats")) {
      await this.#side.settle();
      this.#stats = await this.#side.stats();
    }
  }

  async step(event: TranscriptEvent): Promise<void> {
    switch (event.kind) {
      case "send": {
        const peer = await this.#peer(event.connection);
        if (String(event.text[0]).startsWith("\x80")) this.#binary.add(event.connection);
        await this.#send(peer, requestText(event.text, this.#holes));
        break;
      }
      case "reply":
        await this.#expectReply(await this.#peer(event.connection), event.text);
        break;
      case "disconnect":
        (await this.#peer(event.connection)).disconnect();
        this.#forget(event.connection);
        break;
      case "closed":
        await this.#expectClosed(event.connection);
        break;
      case "stats":
        await this.#expectStats(event.deltas);
        break;
      case "clock":
        await this.#side.advance(event.seconds);
    }
  }

  /** Nothing may be left: whatever else a connection got stands before the reply to one more request. */
  async end(): Promise<void> {
    for (const [name, peer] of this.#peers) {
      try {
        if (this.#binary.has(name)) {
          await peer.send(NOOP);
          await this.#expectReply(peer, [NOOP.replace("\x80", "\x81")]);
        } else {
          await peer.send("version\r\n");
          await this.#expectReply(peer, ["VERSION ", { hole: "*" }, "\r\n"]);
        }
      } catch (error) {
        throw new TranscriptError(`at the end, connection ${name}: ${(error as Error).message}`);
      }
    }
  }

  disconnect(): void {
    for (const peer of this.#peers.values()) peer.disconnect();
  }

  async #peer(name: string): Promise<Peer> {
    let peer = this.#peers.get(name);
    if (peer === undefined) {
      peer = await this.#side.open();
      this.#peers.set(name, peer);
    }
    return peer;
  }

  async #expectReply(peer: Peer, expected: Part[]): Promise<void> {
    let received = "";
    for (;;) {
      const before = received.length;
      received = await peer.receive(before);
      const length = matchReply(expected, this.#holes, received);
      if (length !== undefined) {
        peer.take(length);
        return;
      }
      if (received.length === before || differs(expected, received)) {
        const wanted = expected.map((part) => typeof part === "string" ? part : `{${part.hole}}`);
        throw new TranscriptError(describeDifference(received, wanted.join("")));
      }
    }
  }

  async #expectClosed(name: string): Promise<void> {
    const peer = await this.#peer(name);
    if (!await peer.isClosed()) throw new TranscriptError(`connection ${name} is not closed`);
    const rest = await peer.receive(0);
    if (rest !== "") throw new TranscriptError(`before it closed, ${name} got ${showText(rest)}`);
    peer.disconnect();
    this.#forget(name);
  }

  #forget(name: string): void {
    this.#peers.delete(name);
    this.#binary.delete(name);
  }

  async #expectStats(deltas: ReadonlyMap<string, number>): Promise<void> {
    let wrong: string[] = [];
    let stats = this.#stats;
    // Over sockets a connection's end is noticed a little later.
    for (let count = 0; count < STATS_TRIES; count++) {
      stats = await this.#side.stats();
      wrong = wrongDeltas(this.#stats, stats, deltas, this.#side.unsteadyStats);
      if (wrong.length === 0) break;
    }
    this.#stats = stats;
    if (wrong.length > 0) throw new TranscriptError(`stats: ${wrong.join(", ")}`);
  }
}

function wrongDeltas(
  before: ReadonlyMap<string, number>,
  after: ReadonlyMap<string, number>,
  expected: ReadonlyMap<string, number>,
  unsteady: ReadonlySet<string>,
): string[] {
  const names = new Set(expected.keys());
  for (const name of after.keys()) if (COMMAND_COUNTERS.test(name)) names.add(name);
  const wrong: string[] = [];
  for (const name of names) {
    if (unsteady.has(name)) continue;
    const delta = (after.get(name) ?? NaN) - (before.get(name) ?? NaN);
    const wanted = expected.get(name) ?? 0;
    if (delta !== wanted) wrong.push(`${name} ${delta < 0 ? "" : "+"}${delta}, expected ${wanted}`);
  }
  return wrong;
}

/** Shows two texts from shortly before their first difference. */
function describeDifference(received: string, wanted: string): string {
  let same = 0;
  while (same < wanted.length && received[same] === wanted[same]) same++;
  const start = Math.max(0, same - 60);
  const from = start === 0 ? "" : ` from byte ${start} of ${received.length} and ${wanted.length}`;
  return `differs${from}:\ngot      ${showText(received.slice(start))}` +
    `\nexpected ${showText(wanted.slice(start))}`;
}

/** Returns whether `received` can no longer become the expected reply, so that waiting is useless. */
function differs(expected: readonly Part[], received: string): boolean {
  const start = expected[0];
  if (typeof start !== "string") return false;
  const length = Math.min(start.length, received.length);
  return start.slice(0, length) !== received.slice(0, length);
}
