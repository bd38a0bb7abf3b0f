import { problemOf, resultOf, tooLarge } from "../base/found.ts";
import { reasonOf } from "../../process/reason.ts";
import { isCanonical, type ParameterType, textOf } from "../views/parameter_type.ts";
import { type BrokenView, mistakesOf, type View, Views, ViewsError } from "../views/view.ts";
import { type KeyColumns, ViewMapping } from "../views/view_mapping.ts";
import type { Found, InspectedViews, PreparedViews, ViewKey } from "../base/backend.ts";
import type { TableNames } from "../base/table.ts";
import { catalogState, catalogWords, type Followed } from "./catalog_state.ts";
import { Pool } from "./pool.ts";
import { isRefusal, type ResultRow, type Session } from "./session.ts";
import { type InspectedPostgresView, inspectView, statementOf } from "./view_inspection.ts";

const BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
const EPOCH = "SELECT epoch FROM leased_proxy";
/** Time-outs of statements that the inspection of a view may take. */
const STATEMENTS_IN_INSPECTION = 2;

/** How values of views are made. */
export interface ViewReading {
  /** Most bytes of a value. */
  readonly bytesMax: number;
  readonly nowUnixMs: () => number;
}

/** Views of PostgreSQL: their queries, in sessions of their own, so that a slow one keeps no row waiting. */
export class PostgresViews implements PreparedViews {
  readonly #pool: Pool;
  readonly #views: Views;
  readonly #names: TableNames;
  readonly #reading: ViewReading;
  readonly #words: string;
  #followed: Followed;
  #broken: readonly BrokenView[] = [];
  #byView: ReadonlyMap<View, InspectedPostgresView> = new Map();
  /** Which of the broken ones is looked at next. */
  #turn = 0;

  private constructor(
    pool: Pool,
    views: Views,
    names: TableNames,
    reading: ViewReading,
  ) {
    this.#pool = pool;
    this.#views = views;
    this.#names = names;
    this.#reading = reading;
    this.#words = catalogWords(names, views);
    this.#followed = { words: this.#words, mapping: new ViewMapping(Views.NONE), state: "" };
  }

  /** No views: the catalog counts as far as the table of rows depends on it. */
  static none(pool: Pool, names: TableNames, reading: ViewReading): PostgresViews {
    return new PostgresViews(pool, Views.NONE, names, reading);
  }

  /** @throws ViewsError names what the server refuses, and what its log would not have. */
  static async prepare(
    pool: Pool,
    views: Views,
    names: TableNames,
    reading: ViewReading,
  ): Promise<PostgresViews> {
    const prepared = new PostgresViews(pool, views, names, reading);
    await prepared.inspect();
    const { broken } = prepared;
    if (broken.length > 0) throw new ViewsError(views.path, mistakesOf(broken));
    return prepared;
  }

  get broken(): readonly BrokenView[] {
    return this.#broken;
  }

  /** Which keys the changes of tables concern, and the state of the catalog for which that was found. */
  get followed(): Followed {
    return this.#followed;
  }

  /**
   * Learns the types of parameters, which tables changes name, and which views are broken.
   *
   * @returns Whether a view is broken that was not.
   */
  async inspect(): Promise<boolean> {
    // First: a change of the catalog in between is found later.
    const state = await this.#pool.use((session) => catalogState(session, this.#words));
    const oids = new Map<string, string>();
    const { inspected, broken } = await inspectViews(
      this.#pool,
      this.#views.all,
      this.#names,
      oids,
    );
    const before = new Set(this.#broken.map(({ view }) => view));
    const now = new Set(broken.map(({ view }) => view));
    const fit = new Views(this.#views.all.filter((view) => !now.has(view)));
    const columns = columnsByOid(inspected, oids);
    const mapping = new ViewMapping(fit, (name) => oids.get(name)!, columns);
    this.#followed = { words: this.#words, mapping, state };
    this.#broken = broken;
    this.#byView = new Map(inspected.map((each) => [each.view, each]));
    return [...now].some((view) => !before.has(view));
  }

  /**
   * Looks at one of the broken views, each time at the next: rights and some settings are in no state of the catalog.
   *
   * @returns Its name, if it fits again; null: it does not.
   */
  async findMended(): Promise<string | null> {
    const views = [...new Set(this.#broken.map(({ view }) => view))];
    const view = views[this.#turn++ % views.length];
    if (view === undefined) return null;
    const { broken } = await inspectViews(this.#pool, [view], this.#names, new Map());
    return broken.length === 0 ? view.name : null;
  }

  async readMany(keys: readonly ViewKey[]): Promise<readonly Found[]> {
    const found = await this.#pool.use((session) => this.#read(session, keys));
    if (found !== null) return found;
    // One of them fails: the others have an answer.
    return await Promise.all(keys.map(async (key) => (await this.readMany([key]))[0]!));
  }

  /** @returns Null: a view has failed, and which one is not known. */
  async #read(session: Session, keys: readonly ViewKey[]): Promise<Found[] | null> {
    const { bytesMax } = this.#reading;
    // Before the transaction, which a text that is no value would end.
    const checks = await settled(keys.map((key) => this.#isAsked(session, key)));
    const [, asked, ...results] = await settled([
      session.query(BEGIN),
      session.query(EPOCH),
      ...keys.map(({ view, values }, index) =>
        checks[index]!.value === true
          ? session.query(statementOf(view, bytesMax), values.map((value) => textOf(value)))
          : Promise.resolve([])
      ),
      session.query("COMMIT"),
    ]);
    if (asked!.reason !== null) throw asked!.reason;
    const epoch = Number(asked!.value![0]!["epoch"]);
    const failed = [...checks, ...results].find(({ reason }) => reason !== null)?.reason ?? null;
    if (failed !== null && !isRefusal(failed)) throw failed;
    if (failed !== null && keys.length > 1) return null;
    return keys.map(({ view }, index) => {
      if (failed !== null) return problemOf(view, reasonOf(failed), epoch);
      return this.#found(results[index]!.value!, view, epoch);
    });
  }

  /** Whether the query is asked for a key: whether its texts are those that changes of rows have. */
  async #isAsked(session: Session, key: ViewKey): Promise<boolean> {
    const inspected = this.#byView.get(key.view);
    if (inspected === undefined) return false;
    const { types, check } = inspected;
    if (!key.values.every((value, index) => isCanonical(value, types[index]!))) return false;
    return await check.accepts(session, key);
  }

  #found([row]: readonly ResultRow[], view: View, epoch: number): Found {
    const { bytesMax, nowUnixMs } = this.#reading;
    if (row?.["isTooLarge"]) return problemOf(view, tooLarge(bytesMax), epoch);
    const data = row?.["data"] as Uint8Array | null | undefined;
    const found = resultOf(data ?? null, view, epoch, nowUnixMs());
    const broken = this.#broken.find((each) => each.view === view);
    if (broken === undefined) return found;
    return this.#byView.has(view)
      ? { ...found, isKept: false }
      : problemOf(view, broken.reason, epoch);
  }

  /** Its sessions are the backend's. */
  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** Asks the server of views. @param oids Receives the tables that their changes name. */
async function inspectViews(
  pool: Pool,
  views: readonly View[],
  names: TableNames,
  oids: Map<string, string>,
): Promise<{ inspected: InspectedPostgresView[]; broken: BrokenView[] }> {
  const broken: BrokenView[] = [];
  const inspected: InspectedPostgresView[] = [];
  for (const view of views) {
    const complain = (reason: string): void => void broken.push({ view, reason });
    const found = await pool.use(
      (session) => inspectView(session, view, names, oids, complain),
      STATEMENTS_IN_INSPECTION,
    );
    if (found !== null) inspected.push(found);
  }
  return { inspected, broken };
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
    return await inspectViews(pool, views.all, names, new Map());
  } finally {
    await pool.close();
  }
}

/** Returns the columns of views by the numbers of their tables. */
function columnsByOid(
  inspected: readonly InspectedPostgresView[],
  oids: ReadonlyMap<string, string>,
): KeyColumns {
  const found = new Map<string, Map<string, ParameterType>>();
  for (const [table, columns] of inspected.flatMap(({ columns }) => [...columns])) {
    const oid = oids.get(table)!;
    found.set(oid, new Map([...found.get(oid) ?? [], ...columns]));
  }
  return found;
}

interface Settled<Value> {
  readonly value: Value | null;
  readonly reason: unknown;
}

/** Waits for all answers, also after one has failed. */
async function settled<Value>(answers: readonly Promise<Value>[]): Promise<Settled<Value>[]> {
  const results = await Promise.allSettled(answers);
  return results.map((result) =>
    result.status === "fulfilled"
      ? { value: result.value, reason: null }
      : { value: null, reason: result.reason }
  );
}
