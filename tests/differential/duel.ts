import type { SocketPeer, SocketSide } from "../support/socket_side.ts";
import { type Holes, type Part, requestText, showText } from "../support/transcript.ts";
import type { RequestSource } from "./commands.ts";
import { equalReplies, IdPairs, splitReplies } from "./replies.ts";

/** Enough that nothing is evicted. */
export const OUR_OPTIONS = ["-m", "1024"];
/** memcached must not hold on to items in the background: incr treats those differently. */
export const THEIR_OPTIONS = ["-m", "1024", "-t", "1", "-o", "no_lru_maintainer,no_lru_crawler"];

const BATCH_MAX = 120;
const CONNECTIONS = 3;
/** Some batches come on a connection of their own and end with it. */
const CLOSING_SHARE = 0.05;
/** How requests begin that do arithmetic. */
const ARITHMETIC = [
  ...["incr ", "decr ", "ma "],
  ...["\x05", "\x06", "\x15", "\x16"].map((opcode) => `\x80${opcode}`),
];
/** How many replies in front of the first that differs are shown. */
const CONTEXT = 12;

interface Pair {
  readonly ours: SocketPeer;
  readonly theirs: SocketPeer;
}

/** The same commands to memcached and to us. */
export class Duel {
  readonly #ours: SocketSide;
  readonly #theirs: SocketSide;
  readonly #source: RequestSource;
  readonly #ids: IdPairs;
  readonly #pairs: Pair[] = [];
  #batch = 0;
  commands = 0;

  constructor(
    ours: SocketSide,
    theirs: SocketSide,
    source: RequestSource,
  ) {
    this.#ours = ours;
    this.#theirs = theirs;
    this.#source = source;
    this.#ids = new IdPairs((name) => source.learned(name));
  }

  /** @throws Error at the first reply that differs. */
  async run(commands: number): Promise<void> {
    await Promise.all([this.#ours, this.#theirs].map((side) => side.ask("flush_all\r\n", "\r\n")));
    try {
      for (let count = 0; count < CONNECTIONS; count++) this.#pairs.push(await this.#open());
      while (this.commands < commands) await this.#playBatch();
    } finally {
      for (const pair of this.#pairs) disconnect(pair);
    }
  }

  async #open(): Promise<Pair> {
    return { ours: await this.#ours.open(), theirs: await this.#theirs.open() };
  }

  async #playBatch(): Promise<void> {
    const { operations } = this.#source;
    const closing = operations.random() < CLOSING_SHARE;
    const pair = closing ? await this.#open() : operations.pick(this.#pairs);
    const length = operations.integer(1, BATCH_MAX);
    const batch = arithmeticFirst(Array.from({ length }, () => this.#source.next()));
    const fence = this.#source.fence(this.#batch++);
    batch.push([fence.request]);
    if (closing) batch.push(this.#source.closer());
    const last = closing ? undefined : fence.reply;
    const [ours, theirs] = await Promise.all([
      converse(pair.ours, textOf(batch, this.#ids.ours), last),
      converse(pair.theirs, textOf(batch, this.#ids.theirs), last),
    ]);
    this.#compare(batch, ours, theirs);
    this.commands += length;
    if (!closing) return;
    if (!await pair.ours.isClosed() || !await pair.theirs.isClosed()) {
      throw new Error(`${showText(textOf([batch.at(-1)!], this.#ids.ours))} did not close both`);
    }
    disconnect(pair);
  }

  #compare(batch: readonly (readonly Part[])[], ours: string, theirs: string): void {
    const a = [...splitReplies(ours)];
    const b = [...splitReplies(theirs)];
    for (let index = 0; index < Math.max(a.length, b.length); index++) {
      if (equalReplies(a[index] ?? "", b[index] ?? "", this.#ids)) continue;
      const shown = (texts: string[]): string =>
        texts.map((text) => `  ${showText(text)}\n`).join("");
      const start = Math.max(0, index - CONTEXT);
      const requests = batch.map((request) => requestText(request, this.#ids.ours));
      throw new Error(
        `reply ${index + 1} of a batch differs; ours:\n${
          shown(a.slice(start, index + 1))
        }theirs:\n` +
          `${shown(b.slice(start, index + 1))}after\n${shown(requests)}`,
      );
    }
  }
}

/** See differences.ts. */
function arithmeticFirst(batch: (readonly Part[])[]): (readonly Part[])[] {
  const isArithmetic = ([start]: readonly Part[]): boolean =>
    ARITHMETIC.some((text) => String(start).startsWith(text));
  return [...batch.filter(isArithmetic), ...batch.filter((request) => !isArithmetic(request))];
}

function disconnect(pair: Pair): void {
  pair.ours.disconnect();
  pair.theirs.disconnect();
}

function textOf(batch: readonly (readonly Part[])[], ids: Holes): string {
  return batch.map((request) => requestText(request, ids)).join("");
}

/** Sends, and returns what comes back up to `last` or, if that is not given, up to the end of the connection. */
async function converse(
  peer: SocketPeer,
  request: string,
  last: string | undefined,
): Promise<string> {
  // Replies must be taken while requests are still being sent, or both sides wait for each other.
  const sent = peer.send(request);
  let received = "";
  while (last === undefined || !received.endsWith(last)) {
    const { length } = received;
    received = await peer.receive(length);
    if (received.length === length) break;
  }
  await sent;
  peer.take(received.length);
  return received;
}
