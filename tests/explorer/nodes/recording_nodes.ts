import type { KeySet } from "../../../lib/databases/views/key_set.ts";
import { type Deletion, NodeList } from "../../../lib/rows/flows/node_list.ts";
import { waitFor } from "../../../lib/rows/flows/takeover.ts";

/** The real list of nodes, which tells what the explorer compares. */
export class RecordingNodes extends NodeList {
  readonly #memberMs: number;
  /** By session: when its time is over, before any margin is left out. */
  readonly #untilMs = new Map<string, number>();
  readonly #deletedMs: number[] = [];

  /** @param epoch Of the origin: its sessions differ from those of others. */
  constructor(epoch: number, memberMs: number, driftShare: number) {
    super(() => String(epoch), memberMs, driftShare);
    this.#memberMs = memberMs;
  }

  override renew(session: string, mostMs: number, nowMs: number): number | null {
    const grantedMs = super.renew(session, mostMs, nowMs);
    if (grantedMs !== null) {
      const untilMs = nowMs + waitFor(grantedMs);
      this.#untilMs.set(session, Math.max(untilMs, this.#untilMs.get(session) ?? 0));
    }
    return grantedMs;
  }

  override delete(rows: KeySet, nowMs: number): Deletion {
    this.#deletedMs.push(nowMs);
    return super.delete(rows, nowMs);
  }

  /** A fault: takes what a node is to delete for deleted. */
  confirmAll(session: string): void {
    this.confirm(session, this.send(session, Infinity).seq);
  }

  text(nowMs: number): string {
    let text = `${this.#deletedMs.map((atMs) => Math.min(nowMs - atMs, this.#memberMs + 1))}`;
    for (const [session, untilMs] of this.#untilMs) {
      const left = Math.max(0, untilMs - nowMs);
      const { seq, keys } = this.due(session, Infinity);
      text += `/${session}${this.isReadable(session)}${left}.${seq}.${keys.length}`;
    }
    return text;
  }
}
