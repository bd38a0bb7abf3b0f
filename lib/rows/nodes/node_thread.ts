import { counter, gauge, type Stat } from "../../../protocol/stats/entry.ts";
import type { Cache } from "../../../store/cache.ts";
import { openCache } from "../../../store/row_cache.ts";
import { databaseRow, Memory } from "../../../store/setup.ts";
import { readLoginFile } from "../../auth/user_file.ts";
import { Lifecycle } from "../../lifecycle.ts";
import type { TransportEvent } from "../../net/transport.ts";
import { createClock, createWaker } from "../../net/transports.ts";
import { readCaCert } from "../caches/dial.ts";
import type { RowsMessage, RowsStart } from "../messages.ts";
import { RowLoop } from "../row_loop.ts";
import { Membership } from "./membership.ts";
import { NodeSource } from "./node_source.ts";
import type { NodeOptions } from "./options.ts";

const STATE_MS = 1000;

type Say = (message: RowsMessage) => void;

/** The database thread of a node, which speaks to an origin instead of a database. */
export class NodeThread {
  readonly #membership: Membership;
  readonly #source: NodeSource;
  readonly #loop: RowLoop;
  readonly #say: Say;

  private constructor(cache: Cache, options: NodeOptions, say: Say) {
    const rows = cache.rows!;
    const { name, prefixes, expiry, timeoutMs, loginFile, caCertPath } = options;
    this.#say = say;
    this.#membership = new Membership(options.origins, {
      right: rows.right,
      name,
      prefixes,
      expiry,
      dial: {
        timeoutMs,
        login: loginFile === "" ? null : readLoginFile(loginFile),
        caCert: readCaCert(caCertPath),
      },
      dropRows: async () => {
        for (const walk = rows.dropRows(prefixes); !walk.next().done;) await pause(0);
      },
      deleteRows: (keys) => {
        cache.enter();
        for (const key of keys) rows.invalidate(key, 0);
        cache.leave();
      },
      report: (event: TransportEvent) => say({ kind: "event", event }),
      sleep: pause,
    });
    this.#source = new NodeSource(
      this.#membership,
      () => `${this.#stats.map(({ name, value }) => `STAT ${name} ${value}\r\n`).join("")}END\r\n`,
    );
    this.#loop = new RowLoop(cache, this.#source, expiry === "column");
  }

  /** Joins the first origin that answers. @throws When one will not take this node. */
  static async open(
    { shared, lifecycle, member }: RowsStart,
    options: NodeOptions,
    say: Say,
  ): Promise<NodeThread> {
    const cache = openCache(new Memory(shared, databaseRow(shared.options)));
    cache.mutex.nowMs = () => performance.now();
    cache.onReady = createWaker(member, new Lifecycle(lifecycle));
    cache.rows!.right.nowMs = createClock(member.transport);
    const thread = new NodeThread(cache, options, say);
    await thread.#membership.begin();
    return thread;
  }

  /** Serves requests until `stop`. */
  async run(): Promise<void> {
    void this.#membership.run();
    const ticker = setInterval(() => this.#sendState(), STATE_MS);
    this.#sendState();
    await this.#loop.run();
    clearInterval(ticker);
    this.#membership.stop();
  }

  stop(): void {
    this.#loop.stop();
  }

  /** A node has no file of caches. */
  reload(): void {}

  #sendState(): void {
    const { client, problem } = this.#membership;
    this.#say({ kind: "state", stats: this.#stats, problem: client === null ? problem : null });
  }

  get #stats(): Stat[] {
    const { client, joins } = this.#membership;
    const { reads, writes, failures } = this.#source.counts;
    const stat = (name: string, value: number, meaning: Stat["meaning"]): Stat => ({
      name,
      value,
      meaning,
      of: "",
    });
    return [
      stat("node_member", client === null ? 0 : 1, gauge("", "1: member of an origin")),
      stat("node_joins", joins, counter("memberships", "that have begun")),
      stat("node_reads", reads, counter("rows", "read from the origin")),
      stat("node_writes", writes, counter("writes", "sent to the origin")),
      stat("node_failures", failures, counter("requests", "that the origin did not answer")),
    ];
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
