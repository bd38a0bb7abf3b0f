import { latin1Text } from "../../../../store/base/bytes.ts";
import { ChangedKeys } from "../changes.ts";

/** Letters with which messages of the plugin pgoutput, and parts of them, begin. */
const LETTER = {
  BEGIN: 0x42,
  COMMIT: 0x43,
  RELATION: 0x52,
  INSERT: 0x49,
  UPDATE: 0x55,
  DELETE: 0x44,
  TRUNCATE: 0x54,
  OLD_KEY: 0x4b,
  OLD_ROW: 0x4f,
  NEW_ROW: 0x4e,
  TEXT: 0x74,
} as const;

/** Type of columns of bytes; their text form is `\x` and hexadecimal digits. */
const BYTEA_OID = 17;
const LSN_BYTES = 8;
const TIME_BYTES = 8;

/** Where the key stands in rows of a relation. */
interface KeyColumn {
  readonly index: number;
  readonly isBytea: boolean;
}

/** A transaction that is committed, and may not be visible yet. */
export interface Commit {
  readonly changed: ChangedKeys;
  /** The lower 32 bits of its number. */
  readonly xid: number;
  /** The position after it in the log. */
  readonly endPosition: bigint;
}

/** Reads messages of pgoutput, protocol version 1: which keys of the table of rows each transaction has changed. */
export class PgoutputReader {
  readonly #keyName: string;
  readonly #columns = new Map<number, KeyColumn>();
  #changed = new ChangedKeys();
  #xid = 0;
  #bytes: Uint8Array = new Uint8Array();
  #view: DataView = new DataView(this.#bytes.buffer);
  #at = 0;

  /** @param keyName The column of the key. */
  constructor(keyName: string) {
    this.#keyName = keyName;
  }

  /** Takes one message. @returns The transaction that it commits; null: it commits none. @throws RangeError */
  take(message: Uint8Array): Commit | null {
    this.#bytes = message;
    this.#view = new DataView(message.buffer, message.byteOffset, message.byteLength);
    this.#at = 1;
    switch (message[0]) {
      case LETTER.BEGIN:
        this.#at += LSN_BYTES + TIME_BYTES;
        this.#xid = this.#uint32();
        this.#changed = new ChangedKeys();
        return null;
      case LETTER.COMMIT:
        this.#at += 1 + LSN_BYTES;
        return {
          changed: this.#changed,
          xid: this.#xid,
          endPosition: this.#view.getBigUint64(this.#at),
        };
      case LETTER.RELATION:
        this.#relation();
        return null;
      case LETTER.INSERT:
      case LETTER.UPDATE:
      case LETTER.DELETE:
        this.#change();
        return null;
      case LETTER.TRUNCATE:
        this.#changed.count++;
        this.#changed.flood();
        return null;
      default:
        return null;
    }
  }

  #relation(): void {
    const relation = this.#uint32();
    this.#string();
    const table = this.#string();
    this.#at += 1;
    const count = this.#uint16();
    for (let index = 0; index < count; index++) {
      this.#at += 1;
      const name = this.#string();
      const isBytea = this.#uint32() === BYTEA_OID;
      this.#at += 4;
      if (name === this.#keyName) return void this.#columns.set(relation, { index, isBytea });
    }
    throw new RangeError(`table ${table} has no column ${this.#keyName}`);
  }

  /** Adds the keys of all rows that the message has: the old one stands there if the key has changed. */
  #change(): void {
    const column = this.#columns.get(this.#uint32());
    if (column === undefined) throw new RangeError("a change of a table that was not described");
    while (this.#at < this.#bytes.length) {
      const letter = this.#bytes[this.#at++]!;
      if (letter !== LETTER.OLD_KEY && letter !== LETTER.OLD_ROW && letter !== LETTER.NEW_ROW) {
        throw new RangeError(`a change with a part ${letter}`);
      }
      const key = this.#keyOfRow(column);
      // Not in the log: it has not changed, and another part has it.
      if (key !== null) this.#changed.add(key);
    }
  }

  #keyOfRow({ index, isBytea }: KeyColumn): string | null {
    let key: string | null = null;
    const count = this.#uint16();
    for (let each = 0; each < count; each++) {
      if (this.#bytes[this.#at++] !== LETTER.TEXT) continue;
      const length = this.#uint32();
      if (each === index) {
        key = latin1Text(this.#bytes, this.#at, length);
        if (isBytea) key = latin1Text(Uint8Array.fromHex(key.slice("\\x".length)));
      }
      this.#at += length;
    }
    return key;
  }

  #uint16(): number {
    this.#at += 2;
    return this.#view.getUint16(this.#at - 2);
  }

  #uint32(): number {
    this.#at += 4;
    return this.#view.getUint32(this.#at - 4);
  }

  /** Reads a name that a zero ends. */
  #string(): string {
    const start = this.#at;
    this.#at = this.#bytes.indexOf(0, start) + 1;
    return new TextDecoder().decode(this.#bytes.subarray(start, this.#at - 1));
  }
}
