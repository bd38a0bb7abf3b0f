import {
  authenticationTimedOut,
  connectionStalled,
  type EventSource,
  type TransportEvent,
} from "../net/transport.ts";

/** Limits on the time for which a client may do nothing. */
export interface ConnectionLimits {
  readonly sendTimeoutSec: number;
  /** 0: no limit. */
  readonly idleTimeoutSec: number;
  readonly authTimeoutSec: number;
}

/** A connection, as the time-outs see it. Times in milliseconds of the process's clock; null: it does not wait. */
export interface TimedConnection {
  /** When its peer last accepted a byte of unsent replies. */
  readonly sendingSinceMs: number | null;
  /** When it began to wait for bytes of its peer, with all replies sent. */
  readonly receivingSinceMs: number | null;
  /** Since when its peer has not authenticated. */
  readonly unauthenticatedSinceMs: number | null;
}

/** Returns the reason why a connection must be closed at `nowMs`, or null if it may stay. */
export function timeoutOf(
  connection: TimedConnection,
  limits: ConnectionLimits,
  nowMs: number,
  from: EventSource,
): TransportEvent | null {
  const { sendTimeoutSec, idleTimeoutSec, authTimeoutSec } = limits;
  const isOver = (sinceMs: number | null, timeoutSec: number): boolean =>
    sinceMs !== null && nowMs - sinceMs > timeoutSec * 1000;
  if (isOver(connection.sendingSinceMs, sendTimeoutSec)) {
    return connectionStalled(sendTimeoutSec, from);
  }
  if (isOver(connection.unauthenticatedSinceMs, authTimeoutSec)) {
    return authenticationTimedOut(authTimeoutSec, from);
  }
  if (idleTimeoutSec > 0 && isOver(connection.receivingSinceMs, idleTimeoutSec)) {
    return connectionIdle(idleTimeoutSec, from);
  }
  return null;
}

/** `--idle-timeout` closed a connection. */
function connectionIdle(timeoutSec: number, from: EventSource): TransportEvent {
  const reason = `sent nothing for ${timeoutSec} s (--idle-timeout)`;
  return {
    level: "info",
    event: "connection_idle",
    message: `connection closed: ${from.peer} ${reason}`,
    fields: { ...from, reason },
  };
}
