import type { Cache } from "../../store/cache.ts";
import { openCache } from "../../store/row_cache.ts";
import { databaseRow, Memory } from "../../store/setup.ts";
import { Lifecycle } from "../process/lifecycle.ts";
import { createClock, createWaker } from "../net/transports.ts";
import type { RowsStart } from "./messages.ts";

/** Opens the store for the database thread: with its clocks, and with what wakes the serving threads. */
export function openRowCache({ shared, lifecycle, member }: RowsStart): Cache {
  const cache = openCache(new Memory(shared, databaseRow(shared.options)));
  cache.mutex.nowMs = () => performance.now();
  cache.onReady = createWaker(member, new Lifecycle(lifecycle));
  cache.rows!.right.nowMs = createClock(member.transport);
  return cache;
}
