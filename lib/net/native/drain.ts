import { type Lifecycle, LifecyclePhase } from "../../lifecycle.ts";
import { DRAIN_GRACE_MS, DRAIN_MS_MAX } from "../transport.ts";

/**
 * While the process drains, finishes requests in progress and sends unsent replies, for DRAIN_MS_MAX at most.
 *
 * @param isBusy Whether there are any.
 * @param serve Serves the sockets that are ready; waits `timeoutMs` at most for one.
 */
export function drain(
  lifecycle: Lifecycle,
  isBusy: () => boolean,
  serve: (timeoutMs: number) => void,
): void {
  const startedMs = performance.now();
  while (lifecycle.phase === LifecyclePhase.DRAINING) {
    const drainedMs = performance.now() - startedMs;
    if (drainedMs > DRAIN_MS_MAX || (drainedMs > DRAIN_GRACE_MS && !isBusy())) return;
    serve(DRAIN_GRACE_MS / 4);
  }
}
