import { resultOf } from "../base/found.ts";
import { reasonOf } from "../../process/reason.ts";
import { isCanonical, textOf } from "../views/parameter_type.ts";
import { type View, type ViewMistake, Views, ViewsError } from "../views/view.ts";
import { ViewMapping } from "../views/view_mapping.ts";
import type {
  Found,
  InspectedView,
  InspectedViews,
  PreparedViews,
  ViewKey,
} from "../base/backend.ts";
import type { TableNames } from "../base/table.ts";
import { Pool } from "./pool.ts";
import { isRefusal, type ResultRow, type Session } from "./session.ts";
import { inspectView, statementOf } from "./view_inspection.ts";

const BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
const EPOCH = "SELECT epoch FROM leased_proxy";
/** Time-outs of statements that the inspection of a view may take. */
const STATEMENTS_IN_INSPECTION = 2;

/** Views of PostgreSQL: their queries, in sessions of their own, so that a slow one keeps no row waiting. */
export class PostgresViews implements PreparedViews {
  /** Which keys the changes of tables concern, by the tables' numbers. */
  mapping = new ViewMapping(Views.NONE);
  readonly #pool: Pool;
  readonly #views: Views;
  readonly #names: TableNames;
  readonly #nowUnixMs: () => number;
  #byView: ReadonlyMap<View, InspectedView> = new Map();

  /** `inspect` makes it ready. */
  constructor(
    pool: Pool,
    views: Views,
    names: TableNames,
    nowUnixMs: () => number,
  ) {
    this.#pool = pool;
    this.#views = views;
    this.#names = names;
    this.#nowUnixMs = nowUnixMs;
  }

  /**
   * Learns the types of parameters, and which tables changes name.
   *
   * @throws ViewsError names what the server refuses, and what its log would not have.
   */
  async inspect(): Promise<void> {
    const views = this.#views;
    const oids = new Map<string, string>();
    const { inspected, mistakes } = await inspectViews(
      this.#pool,
      views,
      this.#names,
      oids,
    );
    if (mistakes.length > 0) throw new ViewsError(views.path, mistakes);
    this.mapping = new ViewMapping(views, (name) => oids.get(name)!);
    this.#byView = new Map(inspected.map((each) => [each.view, each]));
  }

  async readMany(keys: readonly ViewKey[]): Promise<readonly Found[]> {
    const found = await this.#pool.use((session) => this.#read(session, keys));
    if (found !== null) return found;
    // One of them fails: the others have an answer.
    return await Promise.all(keys.map(async (key) => (await this.readMany([key]))[0]!));
  }

  /** @returns Null: a view has failed, and which one is not known. */
  async #read(session: Session, keys: readonly ViewKey[]): Promise<Found[] | null> {
    const [, asked, ...results] = await settled([
      session.query(BEGIN),
      session.query(EPOCH),
      ...keys.map((key) => this.#query(session, key)),
      session.query("COMMIT"),
    ]);
    if (asked!.reason !== null) throw asked!.reason;
    const epoch = Number(asked!.value![0]!["epoch"]);
    const failed = results.find(({ reason }) => reason !== null)?.reason ?? null;
    if (failed !== null && !isRefusal(failed)) throw failed;
    if (failed !== null && keys.length > 1) return null;
    return keys.map(({ view }, index) => {
      if (failed !== null) {
        return {
          ...resultOf(null, view, epoch, 0),
          problem: `view ${view.name}: ${reasonOf(failed)}`,
        };
      }
      return this.#found(results[index]!.value!, view, epoch);
    });
  }

  #query(session: Session, { view, values }: ViewKey): Promise<readonly ResultRow[]> {
    const { types } = this.#byView.get(view)!;
    if (!values.every((value, index) => isCanonical(value, types[index]!))) {
      return Promise.resolve([]);
    }
    return session.query(statementOf(view), values.map((value) => textOf(value)));
  }

  #found([row]: readonly ResultRow[], view: View, epoch: number): Found {
    const data = row?.["data"] as Uint8Array | null | undefined;
    return resultOf(data ?? null, view, epoch, this.#nowUnixMs());
  }

  /** Its sessions are the backend's. */
  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** Asks the server of all views. @param oids Receives the tables that their changes name. */
async function inspectViews(
  pool: Pool,
  views: Views,
  names: TableNames,
  oids: Map<string, string>,
): Promise<InspectedViews> {
  const mistakes: ViewMistake[] = [];
  const inspected: InspectedView[] = [];
  for (const view of views.all) {
    const found = await pool.use(
      (session) => inspectView(session, view, names, oids, mistakes),
      STATEMENTS_IN_INSPECTION,
    );
    if (found !== null) inspected.push(found);
  }
  return { inspected, mistakes };
}

/** Asks a server of views, without making anything. @throws The server's error. */
export async function inspectPostgresViews(
  url: string,
  views: Views,
  names: TableNames,
  timeoutMs: number,
): Promise<InspectedViews> {
  const pool = new Pool({ url, timeoutMs }, 1);
  try {
    return await inspectViews(pool, views, names, new Map());
  } finally {
    await pool.close();
  }
}

interface Settled {
  readonly value: readonly ResultRow[] | null;
  readonly reason: unknown;
}

/** Waits for all statements, also after one has failed. */
async function settled(queries: readonly Promise<readonly ResultRow[]>[]): Promise<Settled[]> {
  const results = await Promise.allSettled(queries);
  return results.map((result) =>
    result.status === "fulfilled"
      ? { value: result.value, reason: null }
      : { value: null, reason: result.reason }
  );
}
