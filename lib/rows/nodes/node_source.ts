import { assert } from "../../../store/base/assert.ts";
import { latin1Bytes } from "../../../store/base/bytes.ts";
import { runFlow } from "../../flow/flow.ts";
import { reasonOf } from "../../process/reason.ts";
import type { Read } from "../flows/flows.ts";
import type { RowWrite, WriteReply } from "../flows/row_write.ts";
import type { NodeFlows, NodeStep } from "../flows/node_flows.ts";
import type { RowSource } from "../row_source.ts";
import { isOutcomeUnknown, LongReplyError, type OriginClient } from "./origin_client.ts";
import * as wire from "./wire.ts";

const STATS = "stats ";
const NODE = "node ";
const NO_ORIGIN = "this server is a node, and no origin";
const TOO_LONG = "the row is larger than this node can hold (-I)";
const [CR, LF] = [0x0d, 0x0a];

/** The origin that a node speaks to now. */
export interface NodeLink {
  readonly client: OriginClient | null;
  readonly flows: NodeFlows;
  /** Why there is no membership, as errors say it. */
  readonly problem: string;
}

/** Counters of a node. */
export interface NodeCounts {
  reads: number;
  writes: number;
  failures: number;
}

/** The rows of an origin, for its node. */
export class NodeSource implements RowSource {
  readonly endText = null;
  /** The origin makes its own groups of them. */
  readonly groupsMax = 4;
  readonly counts: NodeCounts = { reads: 0, writes: 0, failures: 0 };
  readonly #link: NodeLink;
  readonly #stats: () => string;
  /** Longest reply of the origin. */
  readonly #bytesMax: number;

  /**
   * @param stats Returns the reply of `stats rows`.
   * @param itemBytesMax The largest item of this node.
   */
  constructor(link: NodeLink, stats: () => string, itemBytesMax: number) {
    this.#link = link;
    this.#stats = stats;
    this.#bytesMax = itemBytesMax + wire.REPLY_BYTES_MORE;
  }

  isSlow(): boolean {
    return false;
  }

  /** The origin refuses. */
  refusalOf(): null {
    return null;
  }

  async read(keys: readonly string[]): Promise<readonly Read[]> {
    const reads = await runFlow(this.#link.flows.read(keys), (step) => {
      const { session } = step as NodeStep & { kind: "read" };
      return this.#fetch(keys, session);
    });
    this.counts.reads += keys.length;
    return reads;
  }

  /** Reads rows; each block of the origin has as many as fit. */
  async #fetch(keys: readonly string[], session: string): Promise<readonly Read[]> {
    const reads: Read[] = [];
    while (reads.length < keys.length) {
      const asked = keys.slice(reads.length, reads.length + wire.RECORDS_MAX);
      const found = await this.#fetchSome(asked, session);
      if (found.length !== asked.length || found[0] === null) {
        throw new wire.WireError("the origin answers other keys than were asked for");
      }
      for (const read of found) {
        if (read === null) break;
        reads.push({ ...read, epoch: 0 });
      }
    }
    return reads;
  }

  /** Reads the first keys, as many as one block has; null: the others. */
  async #fetchSome(keys: readonly string[], session: string): Promise<readonly wire.SentRead[]> {
    try {
      return wire.unpackReads(await this.#ask("read", session, wire.packKeys(keys)));
    } catch (error) {
      if (!(error instanceof LongReplyError)) throw error;
      // A block with a long row has no other one behind it.
      const tooLong = { row: null, version: 0, cacheable: false, problem: TOO_LONG };
      return keys.map((_, index) => index === 0 ? tooLong : null);
    }
  }

  async write(group: readonly RowWrite[]): Promise<readonly WriteReply[]> {
    const { session } = this.#link.flows;
    const replies: WriteReply[] = [];
    this.counts.writes += group.length;
    try {
      for (const { block, writes } of wire.packWrites(group.map(({ work }) => work!))) {
        const sent = wire.unpackReplies(await this.#ask("write", session, block), writes);
        for (const { reply, outcome, number, row } of sent) {
          group[replies.length]!.work!.settle(outcome, number, row);
          replies.push(reply);
        }
      }
    } catch (error) {
      const kind = isOutcomeUnknown(error) ? "unknown" : "failed";
      const left = group.length - replies.length;
      replies.push(...new Array(left).fill({ kind, reason: reasonOf(error) }));
    }
    assert(replies.length === group.length, "every write of a group has a reply");
    return replies;
  }

  async command(
    request: Uint8Array,
    _addWrite: (write: RowWrite) => void,
    signal: AbortSignal,
  ): Promise<Uint8Array<ArrayBuffer>> {
    const begins = (word: string): boolean =>
      latin1Bytes(word).every((byte, index) => request[index] === byte);
    if (begins(STATS)) return latin1Bytes(this.#stats());
    if (begins(NODE)) throw new Error(NO_ORIGIN);
    try {
      const reply = (await this.#ask("command", this.#link.flows.session, request, signal)).slice();
      // Its client would wait for the rest.
      if (reply.at(-2) === CR && reply.at(-1) === LF) return reply;
      throw new wire.WireError("the origin answers a command without a line end");
    } catch (error) {
      // The client must ask again, or it would take what the origin may have executed for refused.
      if (isOutcomeUnknown(error)) throw new Error(`outcome unknown: ${reasonOf(error)}`);
      throw error;
    }
  }

  stop(): void {}

  async #ask(
    verb: string,
    session: string,
    block: Uint8Array,
    signal?: AbortSignal,
  ): Promise<Uint8Array> {
    const { client, problem } = this.#link;
    if (client === null) throw new Error(problem);
    try {
      return await client.ask(verb, session, 0, block, this.#bytesMax, signal);
    } catch (error) {
      this.counts.failures++;
      throw error;
    }
  }
}
