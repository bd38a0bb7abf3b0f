/** Positions begin here; those of another server go on from where they were. */
const FIRST_POSITION = 0x1_0000_0000;
/** Longest record, and shortest. */
const RECORD_BYTES = 100;
/** Numbers of transactions begin below 2^32: what the log has of them is the lower half. */
const FIRST_XID = 2 ** 32 - 40;
const FIRST_OID = 16_400;
/** Share of confirmations that are on the disk at once: a slot goes back to the last of them after a crash. */
const SAVED_SHARE = 0.3;

/** A committed transaction in the log. */
export interface LogRecord {
  readonly xid: number;
  /** The position after it. */
  readonly end: number;
  /** Of the rows that it has changed, in the published table. */
  readonly keys: readonly string[];
  /** The table as it was then: its number, and how often it was altered. */
  readonly oid: number;
  readonly catalog: number;
  /** Whether the event trigger has noted DDL. */
  readonly hasDdl: boolean;
}

/** What keeps the log for a reader. */
export interface Slot {
  confirmed: number;
  /** What a crash leaves of `confirmed`. */
  saved: number;
  /** The log has grown beyond its bound. */
  isLost: boolean;
  /** The session that reads it; 0: none does. */
  active: number;
}

/** The log of a server, its slots and its catalog: they outlive the process. */
export class Wal {
  readonly records: LogRecord[] = [];
  end = FIRST_POSITION;
  nextXid = FIRST_XID;
  readonly slots = new Map<string, Slot>();
  /** Of the server: a failover makes another one. */
  timeline = 1;
  /** The table of rows. */
  oid = FIRST_OID;
  isPublished = true;
  /** How often the table, and how often the publication, was altered. */
  catalog = 0;
  publication = 0;
  /** The row of `leased_follow`. */
  place: string | null = null;
  /** Nothing of the log is sent, for so many reasons. */
  delays = 0;
  readonly #choose: (count: number) => number;

  constructor(choose: (count: number) => number) {
    this.#choose = choose;
  }

  /** As `pg_walfile_name` and `pg_control_system` name the server and its timeline. */
  get server(): string {
    return `7300000000000000001 ${this.timeline.toString(16).padStart(8, "0")}`;
  }

  /** Adds a transaction. */
  append(xid: number, keys: readonly string[], hasDdl = false): void {
    this.end += RECORD_BYTES + this.#choose(RECORD_BYTES);
    const { end, oid, catalog, isPublished } = this;
    this.records.push({ xid, end, keys: isPublished ? keys : [], oid, catalog, hasDdl });
  }

  /** Returns the first transaction behind a position. */
  after(position: number): LogRecord | undefined {
    const { records } = this;
    let [low, high] = [0, records.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (records[middle]!.end > position) high = middle;
      else low = middle + 1;
    }
    return records[low];
  }

  makeSlot(name: string): Slot {
    const slot = { confirmed: this.end, saved: this.end, isLost: false, active: 0 };
    this.slots.set(name, slot);
    return slot;
  }

  confirm(slot: Slot, position: number): void {
    slot.confirmed = Math.max(slot.confirmed, position);
    if (this.#choose(100) < 100 * SAVED_SHARE) slot.saved = slot.confirmed;
  }

  /** An operator drops the slots, or the log has grown beyond its bound. */
  loseSlots(areDropped: boolean): void {
    if (areDropped) this.slots.clear();
    for (const slot of this.slots.values()) slot.isLost = true;
  }

  /** The server has crashed, or was ended. */
  recover(): void {
    for (const slot of this.slots.values()) {
      slot.confirmed = slot.saved;
      slot.active = 0;
    }
  }

  /** A stand-by that has every commit takes the server's place. @param hasSlots Whether it has the slots, too. */
  failOver(hasSlots: boolean): void {
    this.timeline++;
    if (!hasSlots) this.slots.clear();
    this.recover();
  }

  /** A migration alters the table of rows, or another one. */
  alter(isRows: boolean): void {
    if (isRows) this.catalog++;
    this.append(this.nextXid++, [], true);
  }

  /** A migration puts a copy into the table's place, which is not published. */
  rebuild(): void {
    this.oid++;
    this.publication++;
    this.isPublished = false;
    this.alter(true);
  }

  /** `init --follow` */
  publish(): void {
    if (this.isPublished) return;
    this.publication++;
    this.isPublished = true;
    this.append(this.nextXid++, []);
  }
}
