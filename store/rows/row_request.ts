import type { ConnectionId } from "../connections.ts";
import type { StoreMode } from "../operation.ts";
import type { RequestSlot, RowKind } from "./row_requests.ts";

/** A request as the database thread sees it: a copy, good after the mutex is released. */
export interface RowRequest {
  readonly slot: RequestSlot;
  readonly kind: RowKind;
  /** The key, a character a byte (ISO 8859-1). Of a COMMAND: "". */
  readonly key: string;
  /** The connection that asks, or 0 if it has ended since. */
  readonly owner: ConnectionId | 0;
  /** STORE: how it treats an existing and a missing row. FILL stands for a store under a lease: as CAS. */
  readonly mode: StoreMode;
  /** STORE: the client's 32 flag bits. */
  readonly flags: number;
  /** Length of the value in bytes: `RowOperations.valueOf` copies it. Of a COMMAND: its line and its value. */
  readonly valueLength: number;
  /** STORE, TOUCH, COUNT that vivifies: when the row shall expire, in Unix seconds; 0: never. */
  readonly expiresUnixSec: number;
  /** The version that the row must have; null: any. -1 stands for a number that no row can have. */
  readonly compare: number | null;
  /** append, prepend and COUNT create a missing row. */
  readonly vivify: boolean;
  readonly decrement: boolean;
  /** COUNT sets the expiry time of a row that is there, too. */
  readonly touches: boolean;
  /** COUNT: 64 bits. */
  readonly delta: bigint;
  /** COUNT that vivifies: the value of the row that it creates. */
  readonly initial: bigint;
  /**
   * READ: the id of the lease under which what is read may be filled, taken before this request was handed out; 0: it
   * may not be filled.
   */
  readonly leaseId: number;
}

/** A row, to answer with or to fill. */
export interface RowValue {
  /** 32 bits. */
  readonly flags: number;
  readonly data: Uint8Array;
  readonly version: number;
  /** When it expires, in Unix seconds; left out or 0: never. */
  readonly expiresUnixSec?: number;
}

/** A row in the cache. */
export interface CachedRow {
  /** 32 bits. */
  readonly flags: number;
  /** Null: it is too long to be copied. */
  readonly data: Uint8Array | null;
  readonly version: number;
  /** Seconds until it expires; 0: it does not. */
  readonly expiresInSec: number;
}

/** The result of a request that writes. */
export interface RowResult {
  /** The row's version after it; of a refused write, the version that the row has. */
  readonly version?: number;
  /** COUNT: the new number. */
  readonly number?: bigint;
  /** The value to answer with: a TOUCH's row, or a COMMAND's reply (its bytes are sent as they are). */
  readonly row?: RowValue;
}
