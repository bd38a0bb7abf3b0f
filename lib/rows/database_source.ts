import type { CacheClient } from "./caches/cache_client.ts";
import type { Flows, Read, WriteReply } from "./flows/flows.ts";
import type { NodeDesk } from "./nodes/node_desk.ts";
import { type Following, RowCommands } from "./row_commands.ts";
import type { RowSource } from "./row_source.ts";
import type { StepRunner } from "./step_runner.ts";
import type { QueuedWrite } from "./write_queue.ts";

/** The rows of a database, by the flows. */
export class DatabaseSource implements RowSource {
  readonly #flows: Flows<CacheClient>;
  readonly #runner: StepRunner;
  readonly #commands: RowCommands;
  readonly #desk: NodeDesk | null;

  /**
   * @param forgetCache `ListKeeper.forget`
   * @param desk Serves nodes; null: there are none.
   * @param following Null: the log is not followed.
   */
  constructor(
    flows: Flows<CacheClient>,
    runner: StepRunner,
    forgetCache: (name: string) => Promise<boolean>,
    desk: NodeDesk | null = null,
    following: Following | null = null,
  ) {
    this.#flows = flows;
    this.#runner = runner;
    this.#desk = desk;
    this.#commands = new RowCommands(flows, runner, forgetCache, desk, following);
  }

  get endText(): string | null {
    return this.#flows.isDeposed ? this.#flows.deposedText : null;
  }

  read(keys: readonly string[]): Promise<readonly Read[]> {
    return this.#runner.run(this.#flows.read(keys));
  }

  isSlow(key: string): boolean {
    return this.#runner.views.find(key) !== null;
  }

  refusalOf(key: string): string | null {
    return this.#runner.views.refusalOf(key);
  }

  write(group: readonly QueuedWrite[]): Promise<readonly WriteReply[]> {
    return this.#runner.run(this.#flows.write(group));
  }

  command(
    request: Uint8Array,
    addWrite: (write: QueuedWrite) => void,
  ): Promise<Uint8Array<ArrayBuffer>> {
    return this.#commands.execute(request, addWrite);
  }

  stop(): void {
    this.#desk?.stop();
  }
}
