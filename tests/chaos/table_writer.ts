import { DatabaseSync } from "node:sqlite";
import { Session } from "../../lib/databases/postgres/session.ts";
import type { TestDatabase } from "../support/servers/databases.ts";
import { pause } from "./disturbed.ts";

/** A program that writes to the table, and connects again when its connection breaks. */
export class TableWriter implements AsyncDisposable {
  readonly #database: TestDatabase;
  #session: Session | null = null;
  #file: DatabaseSync | null = null;

  constructor(database: TestDatabase) {
    this.#database = database;
  }

  async query(sql: string): Promise<readonly Readonly<Record<string, unknown>>[]> {
    const { url } = this.#database;
    if (url.startsWith("sqlite:")) {
      this.#file ??= new DatabaseSync(url.slice("sqlite:".length), { timeout: 10_000 });
      // Others have their turn.
      await pause(0);
      return this.#file.prepare(sql).all();
    }
    if (this.#session?.isLost) await this[Symbol.asyncDispose]();
    this.#session ??= await Session.open({ url, timeoutMs: 10_000 });
    return await this.#session.query(sql);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#file?.close();
    const session = this.#session;
    this.#session = null;
    await session?.close();
  }
}
