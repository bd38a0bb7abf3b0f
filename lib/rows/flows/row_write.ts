import type { Edit, Write, WriteResult } from "../../databases/base/backend.ts";
import type { RowEdit } from "./row_edit.ts";
import type { PutStart } from "./token_states.ts";

/** How a write ended. */
export type WriteReply =
  /** After `unknown`, the token stays out. */
  | Exclude<WriteResult, { readonly kind: "fenced" }>
  /** Another connection holds the row's lock; nothing was written. */
  | { readonly kind: "locked" }
  /** The token's state forbids the write; nothing was written. */
  | { readonly kind: "revoked" | "none" | "busy" };

/** The parts of a write that its maker knows. */
export interface WriteParts {
  readonly key: string;
  readonly edit: Edit;
  /** The update token of its writer; left out or 0: it has none. */
  readonly writerTokenId?: number;
  /** The connection that writes, which may hold the row's lock; left out or 0: none. */
  readonly connection?: number;
  /** Length of its value; left out: 0. */
  readonly bytes?: number;
  /** When it arrived, on the clock of the database's time-outs; left out: now. */
  readonly sinceMs?: number | undefined;
  /** The command of a client of the cache; left out: it is a write under a token. */
  readonly work?: RowEdit;
  answer?(reply: WriteReply): void;
}

/**
 * A write of a row, from its arrival to its answer. The loop makes it and puts it in a group, a flow gives it a token
 * and a reply, and the database reads it.
 */
export class RowWrite implements Write {
  readonly key: string;
  readonly edit: Edit;
  readonly writerTokenId: number;
  readonly connection: number;
  readonly bytes: number;
  readonly sinceMs: number | undefined;
  readonly work: RowEdit | null;
  readonly answer: (reply: WriteReply) => void;
  /** The token under which it is made: of its writer, or taken for it. */
  tokenId = 0;
  owner = "";
  /** Whether its token let it begin. */
  start: PutStart["kind"] | "refused" = "none";
  /** Undefined: it has not ended. */
  reply: WriteReply | undefined = undefined;

  constructor(parts: WriteParts) {
    this.key = parts.key;
    this.edit = parts.edit;
    this.writerTokenId = parts.writerTokenId ?? 0;
    this.connection = parts.connection ?? 0;
    this.bytes = parts.bytes ?? 0;
    this.sinceMs = parts.sinceMs;
    this.work = parts.work ?? null;
    this.answer = (reply) => parts.answer?.(reply);
  }
}
