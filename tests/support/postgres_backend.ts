import * as postgres from "../../lib/databases/postgres/backend.ts";
import type { Change, PostgresSettings } from "../../lib/databases/base/backend.ts";
import { Session } from "../../lib/databases/postgres/session.ts";
import { DEFAULT_TABLE } from "../../lib/databases/base/table.ts";
import { type RowBackend, withSingleRows } from "./single_rows.ts";
import { sharedPostgres } from "./servers/databases.ts";
import { HAS_POSTGRES, type PostgresServer } from "./servers/postgres.ts";
import { until } from "./servers/server_process.ts";
import { needs } from "./needs/needs.ts";

export const SETTINGS: PostgresSettings = { connectionsMax: 4, timeoutMs: 5000 };
export const SHORT: PostgresSettings = { connectionsMax: 4, timeoutMs: 500 };
export const KEY = "k";

export function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

export async function openPostgres(
  ...args: Parameters<typeof postgres.openPostgres>
): Promise<RowBackend> {
  return withSingleRows(await postgres.openPostgres(...args));
}

export function set(text: string): Change {
  return { flags: 0, data: bytes(text) };
}

/**
 * Resolves when so many sessions of the database wait for a lock.
 *
 * @param session Asks the server. Must be in no transaction, which would see no change.
 */
export async function untilLocked(session: Session, count: number): Promise<void> {
  await until(async () => {
    const [row] = await session.query(
      "SELECT count(*)::int AS count FROM pg_stat_activity " +
        "WHERE datname = current_database() AND wait_event_type = 'Lock'",
    );
    return row!["count"] === count;
  });
}

/** A test over an empty database. */
export function testPostgres(
  name: string,
  run: (url: string, server: PostgresServer) => Promise<void>,
): void {
  Deno.test(`PostgreSQL: ${name}`, needs("PostgreSQL", HAS_POSTGRES), async () => {
    const server = await sharedPostgres();
    await run(await server.createDatabase(), server);
  });
}

export async function withBackend(
  url: string,
  run: (backend: RowBackend, epoch: number) => Promise<void>,
  settings = SETTINGS,
): Promise<void> {
  const backend = await openPostgres(url, DEFAULT_TABLE, settings);
  try {
    await run(backend, (await backend.takeOver()).epoch);
  } finally {
    await backend.close();
  }
}

export async function withSession(
  url: string,
  run: (session: Session) => Promise<void>,
): Promise<void> {
  const session = await Session.open({ url, timeoutMs: 60_000 });
  try {
    await run(session);
  } finally {
    await session.close();
  }
}

export async function withSessions(
  url: string,
  run: (one: Session, other: Session) => Promise<void>,
): Promise<void> {
  await withSession(url, (one) => withSession(url, (other) => run(one, other)));
}
