import type { Answer, Statement } from "../database.ts";
import type { LogRow } from "./statements.ts";
import type { Slot, Wal } from "./wal.ts";

/** The name of the slot of this database. */
const SLOT = "leased_5";
/** The server's codes of errors. */
const OBJECT_IN_USE = "55006";
const DUPLICATE_OBJECT = "42710";
const UNDEFINED_OBJECT = "42704";

/** What statements of the log ask the server. */
interface Server {
  /** Numbers of transactions that reads do not see, although they may be in the log. */
  running(): readonly number[];
  /** Those of them that are not in the log. */
  writing(): readonly { readonly xid: number }[];
  endSession(id: number): void;
  /** Calls a function until it returns true, as long as the session lives. */
  wait(session: number, act: () => boolean): void;
}

/** The reply to a statement. */
type Reply = Pick<Answer, "result" | "error">;

/** Executes the statements that the real backend of PostgreSQL has for the log. */
export class LogStatements {
  readonly #wal: Wal;
  readonly #server: Server;

  constructor(wal: Wal, server: Server) {
    this.#wal = wal;
    this.#server = server;
  }

  /** @param say Gets the reply, perhaps later. */
  execute(
    statement: Statement & { readonly kind: "log" },
    session: number,
    say: (reply: Reply) => void,
  ): void {
    if (statement.name === "makeSlot") return this.#makeSlot(statement.parameters, session, say);
    if (statement.name === "dropSlot") return say(this.#dropSlot(statement.parameters));
    const row = this.#executeNow(statement);
    say({ result: row === null ? [] : [row] });
  }

  /** @returns The row of the result; null: it has none. */
  #executeNow(
    { name, parameters: [parameter = ""] }: Statement & { readonly kind: "log" },
  ): LogRow | null {
    const wal = this.#wal;
    const slot = wal.slots.get(parameter);
    switch (name) {
      case "hello":
        return {};
      case "catalogState":
        return { state: `catalog${wal.catalog}` };
      case "publicationState":
        return { state: `publication${wal.publication}` };
      case "level":
        return { level: "logical" };
      case "bound":
        return { bound: "1GB" };
      case "place":
        return { server: wal.server, slot: SLOT, has_messages: true };
      case "end":
        return { server: wal.server, position: `${wal.end}` };
      case "flush":
        wal.append(wal.nextXid++, []);
        return {};
      case "table":
        return {
          oid: `${wal.oid}`,
          is_published: wal.isPublished,
          has_heirs: false,
          name: "kv",
          identity: '["key"]',
        };
      case "slotState":
        return slot === undefined ? null : stateOf(slot, wal);
      case "note":
        return wal.place === null ? null : { place: wal.place };
      case "forget":
        wal.place = null;
        return null;
      case "remember":
        wal.place = parameter;
        return null;
      case "endReader":
        if (slot !== undefined && slot.active !== 0) this.#server.endSession(slot.active);
        return {};
      case "xid":
        return { id: `${wal.nextXid++}` };
      case "isOver":
        return { is_over: this.#xmin > Number(parameter) };
      case "snapshot":
        return { snapshot: `${this.#xmin}:${wal.nextXid}:${this.#server.running().join(",")}` };
      case "oldestWriter":
        return this.#oldestWriter();
      // There are no temporary slots, and every table has a key for the log.
      case "endTemporary":
      case "withdraw":
      case "dropSlot":
      case "makeSlot":
        return null;
    }
  }

  get #xmin(): number {
    return Math.min(this.#wal.nextXid, ...this.#server.running());
  }

  #dropSlot([name = ""]: readonly string[]): Reply {
    const slot = this.#wal.slots.get(name);
    if (slot === undefined) {
      const message = `replication slot "${name}" does not exist`;
      return { error: { message, code: UNDEFINED_OBJECT } };
    }
    if (slot.active !== 0) {
      const message = `replication slot "${name}" is active for PID ${slot.active}`;
      return { error: { message, code: OBJECT_IN_USE } };
    }
    this.#wal.slots.delete(name);
    return { result: [] };
  }

  /** Makes a slot when all transactions that write now are in the log, or rolled back. Reads need not see them. */
  #makeSlot([name = ""]: readonly string[], session: number, say: (reply: Reply) => void): void {
    const before = this.#server.writing();
    this.#server.wait(session, () => {
      const now = this.#server.writing();
      if (before.some((each) => now.includes(each))) return false;
      if (this.#wal.slots.has(name)) {
        const message = `replication slot "${name}" already exists`;
        say({ error: { message, code: DUPLICATE_OBJECT } });
        return true;
      }
      const { confirmed } = this.#wal.makeSlot(name);
      say({ result: [{ confirmed: `${confirmed}` }] });
      return true;
    });
  }

  #oldestWriter(): LogRow | null {
    const [oldest] = this.#server.writing();
    if (oldest === undefined) return null;
    return { pid: 1, gid: null, transactions: 1, role: "origin", sec: 1 };
  }
}

function stateOf(slot: Slot, wal: Wal): LogRow {
  return {
    is_own: true,
    wal_status: slot.isLost ? "lost" : "reserved",
    active_pid: slot.active === 0 ? null : slot.active,
    confirmed: `${slot.confirmed}`,
    retained: wal.end - slot.confirmed,
    reason: null,
  };
}
