/// <reference lib="deno.worker" />
// One of the threads that read and write the same store.
import { ThreadProtocols } from "../../protocol/thread_protocols.ts";
import { ByteClient } from "./byte_client.ts";
import { Ledger } from "./ledger.ts";
import { Reader } from "./reader.ts";
import type { Scenario } from "./scenario.ts";
import { ThreadParts } from "./thread_parts.ts";
import { Writer } from "./writer.ts";
import { joinThread, type Shared } from "../support/threads.ts";

export interface ParallelOrder extends Shared {
  readonly scenario: Scenario;
  readonly ledger: SharedArrayBuffer;
  /** From 1; 0 is the thread that started them. */
  readonly threadIndex: number;
  /** How many threads there are beside it: each owns as many keys. */
  readonly threads: number;
  readonly seed: number;
  /** Keys that this thread shall read. */
  readonly reads: number;
}

export interface ParallelReport {
  readonly reads: number;
  readonly hits: number;
  readonly changes: number;
  readonly error: string | undefined;
}

self.onmessage = ({ data }: MessageEvent<ParallelOrder>) => {
  const ledger = new Ledger(data.scenario.keys, data.ledger);
  const counts = { reads: 0, hits: 0, changes: 0 };
  let error: string | undefined;
  try {
    run(data, ledger, counts);
  } catch (caught) {
    error = caught instanceof Error ? caught.message : String(caught);
  }
  ledger.end(error !== undefined);
  self.postMessage({ ...counts, error } satisfies ParallelReport);
};

self.postMessage("ready");

type Counts = { -readonly [Name in "reads" | "hits" | "changes"]: number };

function run(order: ParallelOrder, ledger: Ledger, counts: Counts): void {
  const { scenario, threads, threadIndex, seed } = order;
  const thread = joinThread(order, threadIndex);
  const protocols = new ThreadProtocols(thread);
  const connect = (): ByteClient => new ByteClient(protocols, () => {}, threadIndex);
  const parts = new ThreadParts(scenario, ledger, seed);
  const own: number[] = [];
  for (let key = 0; key < scenario.keys; key++) {
    if (Math.floor(key / scenario.kinds.length) % threads === threadIndex - 1) own.push(key);
  }
  const writer = new Writer(parts, thread.memory, connect(), own);
  const reader = new Reader(parts, thread.memory, connect);
  try {
    while (reader.reads < order.reads && !ledger.hasFailed) {
      if (parts.chance(scenario.changeShare)) writer.round();
      else reader.round();
    }
    writer.close();
    reader.close();
  } finally {
    counts.reads = reader.reads;
    counts.hits = reader.hits;
    counts.changes = writer.changes;
  }
}
