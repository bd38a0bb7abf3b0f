import { latin1Bytes } from "../../../store/base/bytes.ts";
import { reasonOf } from "../../reason.ts";
import { PeerError } from "../../peers/peer.ts";
import type { Read, WriteReply } from "../flows/flows.ts";
import type { NodeFlows, NodeStep } from "../flows/node_flows.ts";
import type { RowSource } from "../row_source.ts";
import type { QueuedWrite } from "../write_queue.ts";
import type { OriginClient } from "./origin_client.ts";
import * as wire from "./wire.ts";

const STATS = "stats ";
const NODE = "node ";
const NO_ORIGIN = "this server is a node, and no origin";

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
  readonly counts: NodeCounts = { reads: 0, writes: 0, failures: 0 };
  readonly #link: NodeLink;
  readonly #stats: () => string;

  /** @param stats Returns the reply of `stats rows`. */
  constructor(link: NodeLink, stats: () => string) {
    this.#link = link;
    this.#stats = stats;
  }

  isSlow(): boolean {
    return false;
  }

  /** The origin refuses. */
  refusalOf(): null {
    return null;
  }

  async read(keys: readonly string[]): Promise<readonly Read[]> {
    const flow = this.#link.flows.read(keys);
    let yielded = flow.next();
    while (!yielded.done) {
      const { session } = yielded.value as NodeStep & { kind: "read" };
      yielded = flow.next(await this.#fetch(keys, session));
    }
    this.counts.reads += keys.length;
    return yielded.value;
  }

  /** Reads rows; each block of the origin has as many as fit. */
  async #fetch(keys: readonly string[], session: string): Promise<readonly Read[]> {
    const reads: Read[] = [];
    while (reads.length < keys.length) {
      const asked = keys.slice(reads.length, reads.length + wire.RECORDS_MAX);
      const block = await this.#ask("read", session, wire.packKeys(asked));
      const found = wire.unpackReads(block);
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

  async write(group: readonly QueuedWrite[]): Promise<readonly WriteReply[]> {
    const { session } = this.#link.flows;
    const replies: WriteReply[] = [];
    const blocks = wire.packWrites(group.map(({ work }) => work!));
    this.counts.writes += group.length;
    try {
      for (const block of blocks) {
        for (const sent of wire.unpackReplies(await this.#ask("write", session, block))) {
          group[replies.length]!.work!.settle(sent.outcome, sent.number, sent.row);
          replies.push(sent.reply);
        }
      }
    } catch (error) {
      const kind = error instanceof PeerError || error instanceof wire.WireError
        ? "unknown"
        : "failed";
      const left = group.length - replies.length;
      replies.push(...new Array(left).fill({ kind, reason: reasonOf(error) }));
    }
    return replies;
  }

  async command(
    request: Uint8Array,
    _addWrite: (write: QueuedWrite) => void,
    signal: AbortSignal,
  ): Promise<Uint8Array<ArrayBuffer>> {
    const begins = (word: string): boolean =>
      latin1Bytes(word).every((byte, index) => request[index] === byte);
    if (begins(STATS)) return latin1Bytes(this.#stats());
    if (begins(NODE)) throw new Error(NO_ORIGIN);
    try {
      return (await this.#ask("command", this.#link.flows.session, request, signal)).slice();
    } catch (error) {
      // The client must ask again, or it would take what the origin may have executed for refused.
      if (error instanceof PeerError) throw new Error(`outcome unknown: ${error.message}`);
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
      return await client.ask(verb, session, 0, block, signal);
    } catch (error) {
      this.counts.failures++;
      throw error;
    }
  }
}
