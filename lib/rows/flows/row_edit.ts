import { RowKind, type RowRequest } from "../../../store/row_cache.ts";
import { StoreMode } from "../../../store/operation.ts";
import { Outcome } from "../../../store/outcome.ts";
import { ByteRegion, latin1Bytes } from "../../../store/base/bytes.ts";
import { Decimal } from "../../../store/base/decimal.ts";
import { u64ToBigInt } from "../../../store/base/u64.ts";
import type { Change, Edit, Row } from "../../databases/base/backend.ts";

const NO_DATA = new Uint8Array();

/** A client's write, at the origin or at a node. */
export type ClientWrite = Omit<RowRequest, "slot" | "owner" | "leaseId">;

/** The effect of a client's write on a row, and its outcome. */
export class RowEdit {
  readonly #request: ClientWrite;
  readonly #data: Uint8Array;
  readonly #fits: (valueLength: number) => boolean;
  /** The outcome, if the write is committed, or refused. */
  outcome: Outcome = Outcome.OK;
  /** COUNT: the new number. */
  number = 0n;
  /** TOUCH: the row. */
  row: Row | null = null;

  /**
   * @param data The value of a STORE.
   * @param fits Whether a value of this length can be a row's.
   */
  constructor(
    request: ClientWrite,
    data: Uint8Array = NO_DATA,
    fits: (valueLength: number) => boolean = () => true,
  ) {
    this.#request = request;
    this.#data = data;
    this.#fits = fits;
  }

  get request(): ClientWrite {
    return this.#request;
  }

  /** The value of a STORE. */
  get data(): Uint8Array {
    return this.#data;
  }

  /** For the database. A change that does not depend on the row is written with one statement. */
  get edit(): Edit {
    const { kind, mode, compare } = this.#request;
    if (kind !== RowKind.STORE || mode !== StoreMode.SET || compare !== null) {
      return (row) => this.#change(row);
    }
    this.outcome = Outcome.STORED;
    return this.#stored;
  }

  /** Sets how it ended elsewhere. */
  settle(outcome: Outcome, number: bigint, row: Row | null): void {
    this.outcome = outcome;
    this.number = number;
    this.row = row;
  }

  get #stored(): Change {
    const { flags, expiresUnixSec } = this.#request;
    return { flags, data: this.#data, expiresUnixSec };
  }

  #change(row: Row | null): Change | null {
    const change = this.#changeOf(row);
    if (change === null || change === "delete" || this.#fits(change.data.length)) return change;
    return this.#refuse(Outcome.TOO_LARGE);
  }

  #changeOf(row: Row | null): Change | null {
    const { kind } = this.#request;
    if (kind === RowKind.COUNT && row?.data.length === 0) return this.#refuse(Outcome.NOT_NUMERIC);
    if (row !== null && !this.#hasVersion(row) && !this.#isAdd) return this.#refuse(Outcome.EXISTS);
    if (kind === RowKind.STORE) return this.#store(row);
    if (kind === RowKind.COUNT) return this.#count(row);
    if (row === null) return this.#refuse(Outcome.NOT_FOUND);
    if (kind === RowKind.TOUCH) {
      this.outcome = Outcome.TOUCHED;
      return this.row = { ...row, expiresUnixSec: this.#request.expiresUnixSec };
    }
    this.outcome = Outcome.DELETED;
    return "delete";
  }

  get #isAdd(): boolean {
    return this.#request.kind === RowKind.STORE && this.#request.mode === StoreMode.ADD;
  }

  #hasVersion({ version }: Row): boolean {
    const { compare } = this.#request;
    return compare === null || compare === version;
  }

  #store(row: Row | null): Change | null {
    const { mode, compare, vivify } = this.#request;
    this.outcome = Outcome.STORED;
    switch (mode) {
      case StoreMode.ADD:
        return row === null ? this.#stored : this.#refuse(Outcome.NOT_STORED);
      case StoreMode.REPLACE:
        return row === null ? this.#refuse(Outcome.NOT_STORED) : this.#stored;
      case StoreMode.APPEND:
      case StoreMode.PREPEND: {
        if (row === null) return vivify ? this.#stored : this.#refuse(Outcome.NOT_STORED);
        const isAppend = mode === StoreMode.APPEND;
        const [first, second] = isAppend ? [row.data, this.#data] : [this.#data, row.data];
        return { ...row, data: joined(first, second) };
      }
      default:
        if (row === null && (compare !== null || mode !== StoreMode.SET)) {
          return this.#refuse(Outcome.NOT_FOUND);
        }
        return this.#stored;
    }
  }

  /** Adds with 64-bit wraparound, or subtracts down to 0, as memcached does. */
  #count(row: Row | null): Change | null {
    const { vivify, initial, decrement, delta, touches, expiresUnixSec } = this.#request;
    if (row === null) {
      if (!vivify) return this.#refuse(Outcome.NOT_FOUND);
      this.outcome = Outcome.STORED;
      this.number = initial;
      return { flags: 0, data: latin1Bytes(String(initial)), expiresUnixSec };
    }
    const old = readNumber(row.data);
    if (old === null) return this.#refuse(Outcome.NOT_NUMERIC);
    const less = delta > old ? 0n : old - delta;
    this.outcome = Outcome.OK;
    this.number = decrement ? less : BigInt.asUintN(64, old + delta);
    const data = latin1Bytes(String(this.number));
    return touches ? { ...row, data, expiresUnixSec } : { ...row, data };
  }

  #refuse(outcome: Outcome): null {
    this.outcome = outcome;
    return null;
  }
}

/** Reads a number as `incr` does. @returns Null: it is none. */
function readNumber({ buffer, byteOffset, length }: Uint8Array): bigint | null {
  const decimal = new Decimal();
  const isNumber = decimal.parse(new ByteRegion(buffer, byteOffset, length), 0, length);
  return isNumber ? u64ToBigInt(decimal.low, decimal.high) : null;
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array {
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}
