import { counter, gauge, type Stat, stat } from "../../../protocol/stats/entry.ts";
import type { Cache } from "../../../store/cache.ts";
import type { TransportEvent } from "../../net/transport.ts";
import { readDialOptions } from "../../peers/dial.ts";
import type { RowsMessage, RowsStart } from "../messages.ts";
import { openRowCache } from "../open_row_cache.ts";
import { RowLoop } from "../row_loop.ts";
import { RowsMeter } from "../meter/rows_meter.ts";
import { OwnRows } from "../own_rows.ts";
import { pause } from "../../process/pause.ts";
import { Membership } from "./membership.ts";
import { NodeSource } from "./node_source.ts";
import { NodeTruth } from "./node_truth.ts";
import type { NodeOptions } from "./options.ts";

const STATE_MS = 1000;
/** Longest wait of the meter for its origin. */
const ASK_MS = 60_000;

type Say = (message: RowsMessage) => void;

/** The database thread of a node, which speaks to an origin instead of a database. */
export class NodeThread {
  readonly #membership: Membership;
  readonly #source: NodeSource;
  readonly #loop: RowLoop;
  readonly #say: Say;
  /** Aborted at the end: the meter waits for its origin no longer. */
  readonly #ending = new AbortController();
  /** Null: nothing is compared with the database. */
  readonly #meter: RowsMeter | null;

  private constructor(cache: Cache, itemBytesMax: number, options: NodeOptions, say: Say) {
    const rows = cache.rows!;
    const { nodeName, prefixes, rowExpiry, dbTimeoutMs, originLogin, originCaCert } = options;
    const own = new OwnRows(cache, prefixes, pause);
    this.#say = say;
    this.#membership = new Membership(options.origins, {
      right: rows.right,
      name: nodeName,
      prefixes,
      expiry: rowExpiry,
      dial: readDialOptions(dbTimeoutMs, originLogin, originCaCert),
      delete: (deleted) => {
        this.#meter?.noteDeletion(deleted);
        return own.expel(deleted);
      },
      report: (event: TransportEvent) => say({ kind: "event", event }),
      sleep: pause,
    });
    this.#source = new NodeSource(
      this.#membership,
      () => `${this.#stats.map(({ name, value }) => `STAT ${name} ${value}\r\n`).join("")}END\r\n`,
      itemBytesMax,
    );
    this.#loop = new RowLoop(
      cache,
      this.#source,
      rowExpiry === "column",
      (key, kind) => this.#meter?.noteCached(key, kind),
    );
    this.#meter = options.verify === 0 ? null : new RowsMeter({
      ...{ cache, options },
      viewPrefixes: () => [],
      openTruth: () => Promise.resolve(new NodeTruth((request) => this.#askOrigin(request))),
      expel: async (key) => await own.expel({ keys: [key], prefixes: [] }),
      quarantine: null,
      report: (event) => say({ kind: "event", event }),
    });
  }

  /** Joins the first origin that answers. @throws When one will not take this node. */
  static async open(start: RowsStart, options: NodeOptions, say: Say): Promise<NodeThread> {
    const { itemSizeMaxBytes } = start.shared.options;
    const thread = new NodeThread(openRowCache(start), itemSizeMaxBytes, options, say);
    await thread.#membership.begin();
    return thread;
  }

  /** Serves requests until `stop`. @returns "": rows of a node are not saved. */
  async run(): Promise<string> {
    void this.#membership.run();
    const ticker = setInterval(() => this.#sendState(), STATE_MS);
    this.#sendState();
    this.#meter?.start();
    await this.#loop.run();
    clearInterval(ticker);
    this.#ending.abort();
    await this.#meter?.stop();
    await this.#membership.stop();
    return "";
  }

  stop(): void {
    this.#loop.stop();
  }

  /** A node has no file of views. */
  reload(): void {}

  #sendState(): void {
    const { client, problem } = this.#membership;
    const fault = client === null ? problem : this.#meter?.problem ?? null;
    this.#say({ kind: "state", stats: this.#stats, problem: fault, nodes: [], tokens: [] });
  }

  get #stats(): Stat[] {
    const { client, joins } = this.#membership;
    const { reads, writes, failures } = this.#source.counts;
    return [
      stat("node_member", client === null ? 0 : 1, gauge("", "1: member of an origin")),
      stat("node_joins", joins, counter("memberships", "that have begun")),
      stat("node_reads", reads, counter("rows", "read from the origin")),
      stat("node_writes", writes, counter("writes", "sent to the origin")),
      stat("node_failures", failures, counter("requests", "that the origin did not answer")),
      ...this.#meter?.stats ?? [],
    ];
  }

  #askOrigin(request: Uint8Array): Promise<Uint8Array> {
    const signal = AbortSignal.any([this.#ending.signal, AbortSignal.timeout(ASK_MS)]);
    return this.#source.command(request, () => {}, signal);
  }
}
