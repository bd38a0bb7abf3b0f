/** Threads that feed conversations over one store, beside threads with a store each. */
import v8 from "node:v8";
import { ConversationSide } from "../../support/sessions/conversation_side.ts";
import { textOf } from "../../support/sessions/side.ts";
import { Workers } from "../clients/workers.ts";
import { say, serverEngineFlags } from "../processes.ts";
import { type BenchRow, preloadShort } from "../rows.ts";
import { alternate, ranged, ratios, Table, whole } from "../table.ts";
import type { FedStore, FeedOrder } from "./worker.ts";

const STORE_OPTIONS = ["-m", "64"];
const WARM_UP_SEC = 0.5;

/** Some threads, and how many of them share a store: all or none. */
interface Team {
  readonly count: number;
  readonly sharing: number;
}

export class ThreadsInProcess {
  readonly #workers: Workers<FeedOrder>;
  readonly #counts: readonly number[];

  private constructor(workers: Workers<FeedOrder>, counts: readonly number[]) {
    this.#workers = workers;
    this.#counts = counts;
  }

  /** Makes the stores and threads. @param counts How many threads to measure. */
  static async open(counts: readonly number[]): Promise<ThreadsInProcess> {
    for (const flag of serverEngineFlags()) v8.setFlagsFromString(flag);
    const several = counts.filter((count) => count > 1);
    const shared = several.map((count): [number, FedStore] => [count, fed(count)]);
    const workers = new Workers<FeedOrder>(
      new URL("./worker.ts", import.meta.url),
      Math.max(...counts),
    );
    await workers.ask((index) => ({
      kind: "open",
      index,
      stores: [fed(1), ...shared.filter(([count]) => count > index).map(([, store]) => store)],
    }));
    return new ThreadsInProcess(workers, several);
  }

  /** Measures a row in alternating rounds and prints it. */
  async measure(row: BenchRow, rounds: number, seconds: number): Promise<void> {
    await this.#workers.ask(() => ({ kind: "load", row: row.name }));
    const teams = [1, ...this.#counts].flatMap((count): Team[] =>
      count === 1 ? [{ count, sharing: 1 }] : [{ count, sharing: count }, { count, sharing: 1 }]
    );
    const run = (team: Team, sec: number): Promise<number> => this.#run(team, sec);
    await alternate(teams, 1, (team) => run(team, WARM_UP_SEC));
    const rates = await alternate(teams, rounds, (team) => run(team, seconds));
    say(`\n${row.name}: ${row.title}`);
    const table = new Table("threads", `${row.unit}s/s`, "÷ one thread's", "÷ separate stores'");
    table.row("1", whole(rates[0]!));
    for (let at = 1; at < teams.length; at += 2) {
      const [together, apart] = [rates[at]!, rates[at + 1]!];
      const figures = [rates[0]!, apart].map((others) => ranged(ratios(together, others)));
      table.row(String(teams[at]!.count), whole(together), ...figures);
    }
  }

  close(): void {
    this.#workers.close();
  }

  /** Returns what a team does together, a second. */
  async #run({ count, sharing }: Team, seconds: number): Promise<number> {
    const ready = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
    const order: FeedOrder = { kind: "run", store: sharing, seconds, ready, parties: count };
    const rates = await this.#workers.ask(() => order, count);
    return rates.reduce((sum, rate) => sum + rate, 0);
  }
}

/** A store with all keys, for so many threads. */
function fed(threads: number): FedStore {
  const side = new ConversationSide([...STORE_OPTIONS, "-t", String(threads)]);
  const peer = side.connect();
  for (const { bytes, reply } of preloadShort()) {
    if (peer.ask(textOf(bytes)) !== reply) throw new Error("Cannot measure: a key was not stored");
  }
  peer.disconnect();
  return { shared: side.shared, settings: side.thread.settings };
}
