import { type Backend, type Found, SQLITE_MEMORY } from "../../databases/base/backend.ts";
import type { DatabaseOptions } from "../../databases/open_backend.ts";
import type { Views } from "../../databases/views/view.ts";
import type { MeteredLog } from "../meter/meter.ts";
import type { RowsOptions } from "../options.ts";
import type { OpenTruth } from "../meter/rows_meter.ts";
import { ActiveViews } from "./active_views.ts";

/** Opens the database of an origin. @throws The database's error. */
export type OpenDatabase = (
  options: RowsOptions & Pick<DatabaseOptions, "isReader">,
) => Promise<Backend>;

/** What an origin knows of its database. */
interface TruthParts {
  readonly options: RowsOptions;
  readonly openDatabase: OpenDatabase;
  /** Those that are served; null: there are none. */
  readonly views: Views | null;
  /** Of this origin: what is read under another one is no truth for it. */
  readonly epoch: number;
  readonly log: MeteredLog | null;
}

/** Reads the database by a connection of its own, which nothing else uses. */
export class OriginTruth implements OpenTruth {
  readonly log: MeteredLog | null;
  readonly #backend: Backend;
  readonly #epoch: number;
  readonly #views = new ActiveViews();

  private constructor(backend: Backend, { epoch, log }: TruthParts) {
    this.#backend = backend;
    this.#epoch = epoch;
    this.log = log;
  }

  /** @returns Null: only one connection sees this database. @throws The database's error. */
  static async open(parts: TruthParts): Promise<OriginTruth | null> {
    const { options, views, openDatabase } = parts;
    const { database } = options;
    if (database.kind === "sqlite" && database.path === SQLITE_MEMORY) return null;
    const backend = await openDatabase({ ...options, dbConnections: 1, isReader: true });
    const truth = new OriginTruth(backend, parts);
    try {
      if (views !== null) {
        await truth.#views.replace(views, await truth.#backend.prepareViews(views));
      }
      return truth;
    } catch (error) {
      await truth.close();
      throw error;
    }
  }

  isCurrent({ epoch }: Found): boolean {
    return epoch === this.#epoch;
  }

  async read(key: string): Promise<readonly Found[]> {
    const viewKey = this.#views.find(key);
    return viewKey === null
      ? await this.#backend.readMany([key])
      : await this.#views.read([viewKey, viewKey]);
  }

  async close(): Promise<void> {
    await this.#views.close();
    await this.#backend.close();
  }
}
