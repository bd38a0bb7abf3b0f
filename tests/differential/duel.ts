import type { OperationSource } from "../support/models/operations.ts";
import type { SocketPeer, SocketSide } from "../support/sessions/socket_side.ts";
import { type Holes, type Part, requestText, showText } from "../support/sessions/transcript.ts";
import type { RequestSource } from "./commands.ts";
import { equalReplies, IdPairs, type Ids, splitReplies } from "./replies.ts";

/** Enough that nothing is evicted. */
export const OUR_OPTIONS = ["-m", "1024"];
/** memcached must not hold on to items in the background: incr treats those differently. */
export const THEIR_OPTIONS = ["-m", "1024", "-t", "1", "-o", "no_lru_maintainer,no_lru_crawler"];

/** Beginnings of requests that do arithmetic. */
const ARITHMETIC = [
  ...["incr ", "decr ", "ma "],
  ...["\x05", "\x06", "\x15", "\x16"].map((opcode) => `\x80${opcode}`),
];
/** Replies shown before the first that differs. */
const CONTEXT = 12;

/** Rules of a duel: its sizes, and which replies count as equal. */
export interface DuelRules {
  /** Connections at the same time. */
  readonly connections: number;
  /** Most requests in one batch. */
  readonly batchMax: number;
  /** Share of batches that end their connection. */
  readonly closingShare: number;
  /** Knows which cas ids belong together. */
  ids(learned: (name: string) => void): Ids;
  /** Returns the replies without known differences, for comparison. */
  comparable(replies: readonly string[]): readonly string[];
}

/** memcached's thread for pages may hold its lock while it starts, on a busy machine. */
const BUSY = "BUSY currently processing reassign request";
/** The answer to the only request of the duels that is answered by BUSY then. */
const SAME_CLASS = "SAME src and dst class are identical";

export const MEMCACHED_RULES: DuelRules = {
  connections: 3,
  batchMax: 120,
  closingShare: 0.05,
  ids: (learned) => new IdPairs(learned),
  comparable: (replies) => replies.map((reply) => reply.replace(BUSY, SAME_CLASS)),
};

interface Pair {
  readonly ours: SocketPeer;
  readonly theirs: SocketPeer;
  readonly source: RequestSource;
}

/** The same commands to another server and to us. */
export class Duel {
  readonly #ours: SocketSide;
  readonly #theirs: SocketSide;
  readonly #sources: readonly RequestSource[];
  readonly #operations: OperationSource;
  readonly #rules: DuelRules;
  readonly #ids: Ids;
  readonly #pairs: Pair[] = [];
  #batch = 0;
  commands = 0;

  /** @param sources Each serves some of the connections. */
  constructor(
    ours: SocketSide,
    theirs: SocketSide,
    sources: readonly RequestSource[],
    rules: DuelRules = MEMCACHED_RULES,
  ) {
    this.#ours = ours;
    this.#theirs = theirs;
    this.#sources = sources;
    this.#operations = sources[0]!.operations;
    this.#rules = rules;
    this.#ids = rules.ids((name) => {
      for (const source of sources) source.learned(name);
    });
  }

  /** Afterwards nothing is locked. @throws Error at the first reply that differs. */
  async run(commands: number): Promise<void> {
    const { connections } = this.#rules;
    try {
      for (let count = 0; count < connections; count++) this.#pairs.push(await this.#open(count));
      while (this.commands < commands) await this.#playBatch();
      for (const { ours, theirs } of this.#pairs) {
        for (const peer of [ours, theirs]) {
          await peer.endSending();
          await peer.isClosed();
        }
      }
    } finally {
      for (const pair of this.#pairs) disconnect(pair);
    }
  }

  async #open(index: number): Promise<Pair> {
    const source = this.#sources[index % this.#sources.length]!;
    return { ours: await this.#ours.open(), theirs: await this.#theirs.open(), source };
  }

  async #playBatch(): Promise<void> {
    const operations = this.#operations;
    const closing = operations.random() < this.#rules.closingShare;
    const index = operations.integer(0, this.#pairs.length);
    const pair = this.#pairs[index]!;
    const { source } = pair;
    const length = operations.integer(1, this.#rules.batchMax);
    const batch = arithmeticFirst(Array.from({ length }, () => source.next()));
    const fence = source.fence(this.#batch++);
    batch.push([fence.request]);
    const closer = closing ? source.closer() : [];
    batch.push(closer);
    const last = closing ? undefined : fence.reply;
    const halfClose = closing && closer.length === 0;
    const [ours, theirs] = await Promise.all([
      converse(pair.ours, textOf(batch, this.#ids.ours), last, halfClose),
      converse(pair.theirs, textOf(batch, this.#ids.theirs), last, halfClose),
    ]);
    this.#compare(batch, ours, theirs);
    // Or the rest of the run would compare nothing with nothing.
    if (last !== undefined && !ours.endsWith(last)) {
      const requests = batch.map((request) => requestText(request, this.#ids.ours));
      throw new Error(`one of these ended both connections:\n${requests.map(showText).join("\n")}`);
    }
    this.commands += length;
    if (!closing) return;
    if (!await pair.ours.isClosed() || !await pair.theirs.isClosed()) {
      throw new Error(`${showText(textOf([closer], this.#ids.ours))} did not close both`);
    }
    disconnect(pair);
    this.#pairs[index] = await this.#open(index);
  }

  #compare(batch: readonly (readonly Part[])[], ours: string, theirs: string): void {
    const a = this.#rules.comparable([...splitReplies(ours)]);
    const b = this.#rules.comparable([...splitReplies(theirs)]);
    for (let index = 0; index < Math.max(a.length, b.length); index++) {
      if (equalReplies(a[index] ?? "", b[index] ?? "", this.#ids)) continue;
      const shown = (texts: readonly string[]): string =>
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

/** Empties both servers. */
export async function emptyBoth(ours: SocketSide, theirs: SocketSide): Promise<void> {
  await Promise.all([ours, theirs].map((side) => side.ask("flush_all\r\n", "\r\n")));
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

/**
 * Sends, and returns what comes back up to `last` or, if that is not given, up to the end of the connection.
 *
 * @param halfClose Nothing more will be sent: that shall end the connection.
 */
async function converse(
  peer: SocketPeer,
  request: string,
  last: string | undefined,
  halfClose: boolean,
): Promise<string> {
  // Replies must be taken while requests are still being sent, or both sides wait for each other.
  const sent = peer.send(request).then(() => halfClose ? peer.endSending() : undefined);
  // The reader learns of the failure first; that error is the one to show.
  sent.catch(() => {});
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
