import { Lifecycle, LifecyclePhase } from "../../../lib/process/lifecycle.ts";
import type { LoadStart } from "../servers/native_in_process.ts";

/** Ends the thread that serves a load. */
export async function stopThread({ port, lifecycle }: LoadStart): Promise<void> {
  new Lifecycle(lifecycle).phase = LifecyclePhase.STOPPING;
  // A connection ends the wait of a thread that has nothing to do. It may have seen the phase by itself, and be gone.
  const woken = Deno.connect({ hostname: "127.0.0.1", port });
  await woken.then((connection) => connection.close(), () => {});
}
