import { latin1Text } from "../../../store/base/bytes.ts";
import type { KeyTemplate } from "../views/key_template.ts";
import { type ColumnValue, keyOf, type ViewMapping } from "../views/view_mapping.ts";
import { ChangedKeys } from "../base/changes.ts";
import { DDL_MARK, MESSAGE_PREFIX } from "./ddl_trigger.ts";

/** Letters with which messages of the plugin pgoutput, and parts of them, begin. */
const LETTER = {
  BEGIN: 0x42,
  COMMIT: 0x43,
  RELATION: 0x52,
  INSERT: 0x49,
  UPDATE: 0x55,
  DELETE: 0x44,
  TRUNCATE: 0x54,
  MESSAGE: 0x4d,
  OLD_KEY: 0x4b,
  OLD_ROW: 0x4f,
  NEW_ROW: 0x4e,
  TEXT: 0x74,
} as const;

/** Type of columns of bytes; their text form is `\x` and hexadecimal digits. */
const BYTEA_OID = 17;
const LSN_BYTES = 8;
const TIME_BYTES = 8;

/** Set in the flags of a message that is part of a transaction. */
const IS_TRANSACTIONAL = 1;
/** Set in the flags of a column that an update logs when it changes. */
const IN_IDENTITY = 1;

/** A table of the log. */
interface Relation {
  /** Its columns, in their order in rows. */
  readonly columns: readonly string[];
  /** Those whose old values an update logs, if one of them changes. */
  readonly identity: ReadonlySet<string>;
  /** Of the table of rows: where its key stands; else null. */
  readonly key: { readonly index: number; readonly isBytea: boolean } | null;
}

/** The table of rows. */
export interface RowTable {
  readonly oid: string;
  readonly keyName: string;
}

/** A transaction that is committed, and may not be visible yet. */
export interface Commit {
  readonly changed: ChangedKeys;
  /** Whether it has DDL, or describes a table, whose definition may have changed. */
  readonly concernsCatalog: boolean;
  /** The lower 32 bits of its number. */
  readonly xid: number;
  /** The position after it in the log. */
  readonly endPosition: bigint;
}

/** Reads messages of pgoutput, protocol version 1: which keys of rows and views each transaction has changed. */
export class PgoutputReader {
  readonly #rows: RowTable;
  /** Which keys of views other tables concern, by the tables' numbers. */
  readonly #mapping: () => ViewMapping;
  readonly #relations = new Map<number, Relation>();
  #changed = new ChangedKeys();
  #concernsCatalog = false;
  #xid = 0;
  #bytes: Uint8Array = new Uint8Array();
  #view: DataView = new DataView(this.#bytes.buffer);
  #at = 0;

  /** @param mapping Asked for every change: it may become another one. */
  constructor(rows: RowTable, mapping: () => ViewMapping) {
    this.#rows = rows;
    this.#mapping = mapping;
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
        this.#concernsCatalog = false;
        return null;
      case LETTER.COMMIT:
        this.#at += 1 + LSN_BYTES;
        return {
          changed: this.#changed,
          concernsCatalog: this.#concernsCatalog,
          xid: this.#xid,
          endPosition: this.#view.getBigUint64(this.#at),
        };
      case LETTER.RELATION:
        this.#relation();
        return null;
      case LETTER.INSERT:
      case LETTER.UPDATE:
      case LETTER.DELETE:
        this.#change(message[0] === LETTER.UPDATE);
        return null;
      case LETTER.TRUNCATE:
        this.#truncate();
        return null;
      case LETTER.MESSAGE:
        this.#concernsCatalog ||= this.#isDdlMark();
        return null;
      default:
        return null;
    }
  }

  #relation(): void {
    const oid = this.#uint32();
    this.#string();
    const table = this.#string();
    this.#at += 1;
    const count = this.#uint16();
    const columns: string[] = [];
    const identity = new Set<string>();
    let key: Relation["key"] = null;
    for (let index = 0; index < count; index++) {
      const flags = this.#bytes[this.#at++]!;
      const name = this.#string();
      const isBytea = this.#uint32() === BYTEA_OID;
      this.#at += 4;
      columns.push(name);
      if (flags & IN_IDENTITY) identity.add(name);
      if (this.#isRows(oid) && name === this.#rows.keyName) key = { index, isBytea };
    }
    if (this.#isRows(oid) && key === null) {
      throw new RangeError(`table ${table} has no column ${this.#rows.keyName}`);
    }
    this.#relations.set(oid, { columns, identity, key });
    this.#concernsCatalog = true;
  }

  /** Whether a message is that of the event trigger. Other programs write messages, too, some of them long ones. */
  #isDdlMark(): boolean {
    if ((this.#bytes[this.#at]! & IS_TRANSACTIONAL) === 0) return false;
    this.#at += 1 + LSN_BYTES;
    if (this.#string() !== MESSAGE_PREFIX || this.#uint32() !== DDL_MARK.length) return false;
    return latin1Text(this.#bytes, this.#at, DDL_MARK.length) === DDL_MARK;
  }

  #isRows(oid: number): boolean {
    return String(oid) === this.#rows.oid;
  }

  #truncate(): void {
    const count = this.#uint32();
    this.#at += 1;
    for (let index = 0; index < count; index++) {
      const oid = this.#uint32();
      this.#changed.count++;
      if (this.#isRows(oid)) this.#changed.flood();
      for (const { prefix } of this.#mapping().templatesOf(String(oid))) {
        this.#changed.addPrefix(prefix);
      }
    }
  }

  /** Adds the keys of all rows that the message has: the old one stands there if its identity has changed. */
  #change(isUpdate: boolean): void {
    const oid = this.#uint32();
    const relation = this.#relations.get(oid);
    if (relation === undefined) throw new RangeError("a change of a table that was not described");
    const mapping = this.#mapping();
    const templates = mapping.templatesOf(String(oid));
    if (relation.key !== null || templates.length > 0) this.#changed.count++;
    // Rows of a large transaction need no look.
    const isCovered = (relation.key === null || this.#changed.covers("")) &&
      templates.every(({ prefix }) => this.#changed.covers(prefix));
    if (isCovered) return;
    let hasOld = !isUpdate;
    while (this.#at < this.#bytes.length) {
      const letter = this.#bytes[this.#at++]!;
      if (letter !== LETTER.OLD_KEY && letter !== LETTER.OLD_ROW && letter !== LETTER.NEW_ROW) {
        throw new RangeError(`a change with a part ${letter}`);
      }
      hasOld ||= letter !== LETTER.NEW_ROW;
      const values = this.#values();
      if (relation.key !== null) {
        const key = keyIn(values, relation.key);
        // Not in the log: it has not changed, and another part has it.
        if (key !== null) this.#changed.add({ text: key, isPrefix: false }, "");
      }
      const valueOf = (name: string): string | null => {
        const text = values[relation.columns.indexOf(name)] ?? null;
        return text === null ? null : mapping.textInKey(String(oid), name, text);
      };
      for (const template of templates) this.#addKey(template, valueOf);
    }
    if (hasOld) return;
    // The old value of a column outside the identity is not in the log, which a start refuses; the identity is smaller
    // since then.
    for (const template of templates) {
      if (template.names.every((name) => relation.identity.has(name))) continue;
      this.#changed.addPrefix(template.prefix);
    }
  }

  #addKey(template: KeyTemplate, valueOf: ColumnValue): void {
    const key = keyOf(template, valueOf);
    if (key !== null) this.#changed.add(key, template.prefix);
  }

  /** Returns the values of a row, a character a byte; null: NULL, or not in the log. */
  #values(): (string | null)[] {
    const values: (string | null)[] = [];
    const count = this.#uint16();
    for (let each = 0; each < count; each++) {
      if (this.#bytes[this.#at++] !== LETTER.TEXT) {
        values.push(null);
        continue;
      }
      const length = this.#uint32();
      values.push(latin1Text(this.#bytes, this.#at, length));
      this.#at += length;
    }
    return values;
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

function keyIn(
  values: readonly (string | null)[],
  { index, isBytea }: NonNullable<Relation["key"]>,
): string | null {
  const text = values[index] ?? null;
  return isBytea && text !== null ? latin1Text(Uint8Array.fromHex(text.slice("\\x".length))) : text;
}
