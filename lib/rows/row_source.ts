import type { Read } from "./flows/flows.ts";
import type { RowWrite, WriteReply } from "./flows/row_write.ts";

/** The source of rows, which also writes them: a database, or the origin of a node. */
export interface RowSource {
  /** Why no row may be answered any more; null: rows may be answered. */
  readonly endText: string | null;
  /** Groups of writes that it executes side by side now: more would only be smaller. */
  readonly groupsMax: number;
  /** @returns The rows in the order of the keys. @throws When they cannot be read. */
  read(keys: readonly string[]): Promise<readonly Read[]>;
  /** Whether a key is read by a query that may be slow: others do not wait for it. */
  isSlow(key: string): boolean;
  /** Why a key cannot be written; null: it can. */
  refusalOf(key: string): string | null;
  /** Executes writes together. @returns The replies, in the order of the writes. */
  write(group: readonly RowWrite[]): Promise<readonly WriteReply[]>;
  /**
   * Executes a command of update tokens, caches or nodes.
   *
   * @param request The line without CR LF, LF, and the value if the command has one.
   * @param addWrite Executes a write in the next group.
   * @param signal Aborted when the connection that waits for the reply has ended.
   * @returns The reply, with CR LF.
   */
  command(
    request: Uint8Array,
    addWrite: (write: RowWrite) => void,
    signal: AbortSignal,
  ): Promise<Uint8Array<ArrayBuffer>>;
  /** Answers commands that wait for something to happen: the loop stops. */
  stop(): void;
}
