import { clockSec } from "../../store/clock.ts";
import { Activity, type ConnectionId, ConnectionKind } from "../../store/connections.ts";
import type { StatThread } from "../thread_context.ts";
import { WORK } from "../work_budget.ts";
import type { StatEntry } from "./entry.ts";

/** memcached's names for what connections do. */
const STATE_NAME: Record<Activity, string> = {
  [Activity.READING]: "conn_read",
  [Activity.WRITING]: "conn_mwrite",
  [Activity.WATCHING]: "conn_watch",
  [Activity.WAITING]: "conn_io_pending",
  [Activity.CLOSING]: "conn_closing",
  [Activity.VALUE]: "conn_nread",
  [Activity.SWALLOWING]: "conn_swallow",
};

/**
 * `stats conns`: listeners, then connections.
 *
 * @param asker The connection that asks: it is being served.
 */
export function* connectionStats(thread: StatThread, asker: ConnectionId): Generator<StatEntry> {
  const { connections, memory } = thread;
  const nowSec = clockSec(memory);
  let number = 0;
  for (const listener of connections.listeners()) {
    const isUdp = listener.startsWith("udp");
    if (isUdp) yield [`${number}:UDP`, "UDP"];
    yield [`${number}:addr`, listener];
    yield [`${number}:state`, isUdp ? "conn_read" : "conn_listening"];
    yield [`${number}:secs_since_last_cmd`, nowSec];
    number++;
  }
  for (const row of connections) {
    thread.work.spent += WORK.CLAIM_LINE;
    const id = number + row.index;
    if (row.kind === ConnectionKind.UDP) yield [`${id}:UDP`, "UDP"];
    yield [`${id}:addr`, row.peer];
    if (row.kind !== ConnectionKind.UDP) yield [`${id}:listen_addr`, row.listener];
    yield [`${id}:state`, row.id === asker ? "conn_parse_cmd" : STATE_NAME[row.activity]];
    yield [`${id}:secs_since_last_cmd`, nowSec - row.seenAtSec];
  }
}
