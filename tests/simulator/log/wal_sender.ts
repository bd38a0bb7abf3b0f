import type { Process, World } from "../world.ts";
import { messagesOf } from "./pgoutput_messages.ts";
import type { LogLine } from "./virtual_session.ts";
import type { LogRecord, Slot, Wal } from "./wal.ts";

/** Longest time until a transaction is decoded, in milliseconds. */
const DECODE_MS = 0.5;
/** A reader that says nothing for so long is gone. */
const SILENCE_MS = 10_000;

/** The server's process that sends the log to one reader, from the position that its slot has confirmed. */
export class WalSender {
  readonly #world: World;
  readonly #process: Process;
  readonly #wal: Wal;
  readonly #slot: Slot;
  readonly #say: (line: LogLine) => void;
  readonly #end: () => void;
  /** The position after what was sent. */
  #at: number;
  #heardMs: number;
  #isSending = false;
  #isEnded = false;
  /** The table as it was described last. */
  #described = "";

  /** @param end Ends its session. */
  constructor(
    world: World,
    process: Process,
    wal: Wal,
    slot: Slot,
    say: (line: LogLine) => void,
    end: () => void,
  ) {
    this.#world = world;
    this.#process = process;
    this.#wal = wal;
    this.#slot = slot;
    this.#say = say;
    this.#end = end;
    this.#at = slot.confirmed;
    this.#heardMs = world.nowMs;
    this.#watch();
    this.wake();
  }

  /** Sends what the log has more. */
  wake(): void {
    if (this.#isSending || this.#isEnded || this.#wal.delays > 0) return;
    const record = this.#wal.after(this.#at);
    if (record === undefined) return;
    this.#isSending = true;
    this.#world.after(DECODE_MS * this.#world.random(), this.#process, () => {
      this.#isSending = false;
      if (this.#isEnded || this.#wal.delays > 0) return;
      this.#send(record);
      this.wake();
    });
  }

  #send(record: LogRecord): void {
    const description = `${record.oid} ${record.catalog}`;
    const describes = record.keys.length > 0 && description !== this.#described;
    if (describes) this.#described = description;
    for (const message of messagesOf(record, describes)) this.#say({ message: message.toHex() });
    this.#at = record.end;
  }

  /** The reader has applied everything before the position. @param asks Whether it wants to know how far it is. */
  status(position: number, asks: boolean): void {
    this.#heardMs = this.#world.nowMs;
    this.#wal.confirm(this.#slot, position);
    if (!asks) return;
    // What is left has no transaction of its own: it counts as sent.
    if (this.#wal.after(this.#at) === undefined) this.#at = this.#wal.end;
    this.#say({ position: this.#at });
  }

  #watch(): void {
    this.#world.after(SILENCE_MS / 4, this.#process, () => {
      if (this.#isEnded) return;
      if (this.#world.nowMs - this.#heardMs > SILENCE_MS) this.#end();
      else this.#watch();
    });
  }

  ended(): void {
    this.#isEnded = true;
    this.#slot.active = 0;
  }
}
