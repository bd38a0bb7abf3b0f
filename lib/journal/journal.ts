import { Memory, TokenQueue } from "../../store/setup.ts";
import type { TransportEvent } from "../net/transport.ts";
import type { JournalMessage, JournalStart } from "./journal_messages.ts";
import { StateError } from "./state_folder.ts";

/** Events of the journal. */
interface JournalEvents {
  event(event: TransportEvent): void;
  died(reason: string): void;
}

/** The main thread's side of the thread that writes the journal of update tokens. */
export class Journal {
  readonly #queue: TokenQueue;
  readonly #ended = Promise.withResolvers<void>();

  private constructor(queue: TokenQueue) {
    this.#queue = queue;
  }

  /**
   * Starts the thread.
   *
   * @returns A promise that resolves when the journal's tokens are in the table.
   * @throws StateError when the state directory, or the journal in it, cannot be used.
   */
  static async start(start: JournalStart, events: JournalEvents): Promise<Journal> {
    const journal = new Journal(new TokenQueue(new Memory(start.shared)));
    const ready = Promise.withResolvers<void>();
    const worker = new Worker(new URL("./journal_worker.ts", import.meta.url), {
      type: "module",
      name: "leased-journal",
    });
    worker.onmessage = ({ data }: MessageEvent<JournalMessage>) => {
      switch (data.kind) {
        case "ready":
          return ready.resolve();
        case "refused":
          worker.terminate();
          return ready.reject(new StateError(data.reason));
        case "ended":
          return journal.#ended.resolve();
        case "event":
          return events.event(data.event);
      }
    };
    worker.onerror = (event) => {
      event.preventDefault();
      events.died(event.message);
    };
    worker.postMessage(start);
    await ready.promise;
    return journal;
  }

  /** Writes the remaining records and ends the thread. Call it after all threads that serve connections have ended. */
  async stop(): Promise<void> {
    this.#queue.stop();
    await this.#ended.promise;
  }
}
