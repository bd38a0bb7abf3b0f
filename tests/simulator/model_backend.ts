import {
  changeOf,
  type Found,
  type Takeover,
  type Write,
  type WriteOutcome,
  type WriteResult,
} from "../../lib/databases/base/backend.ts";
import type { ChangeStream } from "../../lib/databases/base/changes.ts";
import { foundOf } from "../../lib/databases/base/found.ts";
import { DEFAULT_TABLE } from "../../lib/databases/base/table.ts";
import { PostgresBackend } from "../../lib/databases/postgres/backend.ts";
import { Peer } from "../../lib/peers/peer.ts";
import { reasonOf } from "../../lib/process/reason.ts";
import { latin1Bytes, latin1Text } from "../../store/base/bytes.ts";
import {
  type Answer,
  DATABASE_HOST,
  DATABASE_PORT,
  type ModelChange,
  type Statement,
  type StoredRow,
} from "./database.ts";

const URL = `postgres://${DATABASE_HOST}:${DATABASE_PORT}/app`;
const TYPES = { key: "bytea", value: "bytea" } as const;

/** A session of an origin: one statement at a time. */
interface Client {
  readonly peer: Peer;
  /** The number of its session; 0: it has answered nothing. */
  session: number;
}

/**
 * The backend of an origin before the model of PostgreSQL: that of PostgreSQL for the log, whose sessions are virtual,
 * and statements of the model for rows.
 */
export class ModelBackend extends PostgresBackend {
  readonly #timeoutMs: number;
  readonly #idle: Client[] = [];
  /** Has the lock of the active origin; null: none has been opened, or it was lost. */
  #origin: Client | null = null;
  /** Sessions that have not answered a commit, by token. */
  readonly #unanswered = new Map<number, number>();
  #isClosed = false;

  constructor(timeoutMs: number, connectionsMax: number) {
    const place = { url: URL, timeoutMs, searchPath: "public" };
    super(place, TYPES, DEFAULT_TABLE, { timeoutMs, connectionsMax });
    this.#timeoutMs = timeoutMs;
  }

  // --- sessions ------------------------------------------------------------------------------------

  async #open(): Promise<Client> {
    const options = { timeoutMs: this.#timeoutMs, login: null, caCert: null };
    const peer = await Peer.connect({ hostname: DATABASE_HOST, port: DATABASE_PORT }, options);
    return { peer, session: 0 };
  }

  async #ask(client: Client, statement: Statement): Promise<Answer> {
    await client.peer.send(`${JSON.stringify(statement)}\n`);
    const answer: Answer = JSON.parse(await client.peer.line());
    client.session = answer.session;
    return answer;
  }

  /** Calls a function with a session, which is used again unless it fails. */
  async #with<Result>(use: (client: Client) => Promise<Result>): Promise<Result> {
    const client = this.#idle.pop() ?? await this.#open();
    try {
      const result = await use(client);
      if (this.#isClosed) client.peer.close();
      else this.#idle.push(client);
      return result;
    } catch (error) {
      client.peer.close();
      throw error;
    }
  }

  #query(statement: Statement): Promise<Answer> {
    return this.#with((client) => this.#ask(client, statement));
  }

  /** Asks by the session that has the lock. After it was lost, another one takes the lock again. */
  async #askOrigin(): Promise<Answer> {
    const client = this.#origin ??= await this.#open();
    try {
      return await this.#ask(client, { kind: "origin" });
    } catch (error) {
      client.peer.close();
      if (this.#origin === client) this.#origin = null;
      throw error;
    }
  }

  // --- the origin ----------------------------------------------------------------------------------

  override async lockOrigin(): Promise<boolean> {
    return (await this.#askOrigin()).isLocked!;
  }

  override async unlockOrigin(): Promise<void> {
    const client = this.#origin;
    if (client !== null) await this.#ask(client, { kind: "unlock" });
  }

  override async readEpoch(): Promise<number> {
    return (await this.#askOrigin()).epoch;
  }

  override async takeOver(rightMs = 0): Promise<Takeover> {
    const { epoch, servedMs } = await this.#query({ kind: "takeOver", rightMs });
    return { epoch, servedMs: servedMs!, mark: "" };
  }

  override noteNodes(): Promise<boolean> {
    return Promise.resolve(true);
  }

  override async noteEnd(epoch: number): Promise<void> {
    await this.#query({ kind: "noteEnd", epoch });
  }

  override noteMark(): Promise<boolean> {
    return Promise.resolve(false);
  }

  override check(): Promise<void> {
    return Promise.resolve();
  }

  // --- rows ----------------------------------------------------------------------------------------

  override async readMany(keys: readonly string[]): Promise<readonly Found[]> {
    const { rows, epoch } = await this.#query({ kind: "read", keys });
    return rows!.map((row) => foundIn(row, epoch));
  }

  override async writeGroup(
    writes: readonly Write[],
    epoch: number,
  ): Promise<readonly WriteResult[]> {
    let committing = 0;
    try {
      return await this.#with((client) =>
        this.#writeWith(client, writes, epoch, () => committing = client.session)
      );
    } catch (error) {
      const reason = reasonOf(error);
      if (committing === 0) return writes.map(() => ({ kind: "failed", reason }));
      for (const { tokenId } of writes) this.#unanswered.set(tokenId, committing);
      return writes.map(() => ({ kind: "unknown", reason }));
    }
  }

  /** @param commits Called before the transaction may be committed. */
  async #writeWith(
    client: Client,
    writes: readonly Write[],
    epoch: number,
    commits: () => void,
  ): Promise<readonly WriteResult[]> {
    const keys = [...new Set(writes.map(({ key }) => key))];
    const begun = await this.#ask(client, { kind: "begin", keys, epoch });
    if (begun.isFenced) return writes.map(() => ({ kind: "fenced", epoch: begun.epoch }));
    const rows = new Map(keys.map((key, at) => [key, foundIn(begun.rows![at]!, epoch)]));
    const changes: ModelChange[] = [];
    const results = writes.map(({ key, tokenId, edit }): WriteResult | null => {
      const { row, version } = rows.get(key)!;
      const change = changeOf(edit, row);
      if (change === null) return { kind: "refused", row };
      const made = change === "delete" ? null : { ...change, version: version + 1 };
      rows.set(key, { row: made, version: version + 1, epoch });
      const value = made === null ? null : latin1Text(made.data);
      changes.push({ key, tokenId, flags: made?.flags ?? 0, value });
      return null;
    });
    if (changes.length === 0) {
      await this.#ask(client, { kind: "rollBack" });
      return results.map((result) => result!);
    }
    commits();
    const { versions } = await this.#ask(client, { kind: "commit", changes });
    const made = versions!.values();
    return results.map((result) => result ?? { kind: "committed", version: made.next().value! });
  }

  override async outcome(tokenId: number): Promise<WriteOutcome> {
    const session = this.#unanswered.get(tokenId) ?? 0;
    try {
      const { applied } = await this.#query({ kind: "outcome", tokenId, session });
      this.#unanswered.delete(tokenId);
      return applied === null || applied === undefined
        ? { kind: "notApplied" }
        : { kind: "committed", version: applied };
    } catch (error) {
      return { kind: "unknown", reason: reasonOf(error) };
    }
  }

  override purgeExpired(): Promise<void> {
    return Promise.resolve();
  }

  override purgeApplied(): Promise<void> {
    return Promise.resolve();
  }

  override async close(): Promise<void> {
    this.#isClosed = true;
    this.#closeIdle();
    this.#origin?.peer.close();
    await super.close();
  }

  #closeIdle(): void {
    for (const { peer } of this.#idle.splice(0)) peer.close();
  }

  /** As the backend's own sessions, those of the model lead to the server of before, where there was a gap. */
  override async openChanges(evicts: boolean): Promise<ChangeStream> {
    const changes = await super.openChanges(evicts);
    if (changes.gap !== null) this.#closeIdle();
    return changes;
  }
}

function foundIn(row: StoredRow | null, epoch: number): Found {
  const stored = {
    flags: row?.flags ?? null,
    data: row === null || row.value === null ? null : latin1Bytes(row.value),
    version: row?.version ?? null,
    expires: null,
  };
  return foundOf(stored, epoch, 0);
}
