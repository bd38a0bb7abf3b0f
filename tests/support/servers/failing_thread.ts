// Starts a thread with a store that is none, and then waits for something that thread would have to give back.
import { Lifecycle } from "../../../lib/process/lifecycle.ts";
import type { WorkerStart } from "../../../lib/server/messages.ts";
import { Threads } from "../../../lib/server/threads.ts";
import { Stop } from "../../../lib/process/stop.ts";

const start = { threadIndex: 0, lifecycle: Lifecycle.createShared(1) } as unknown as WorkerStart;
const threads = new Threads(1, () => start, {
  shutdown: () => {},
  event: () => {},
  authenticate: () => {},
  died: () => {},
});
await threads.startFirst(new Stop(Deno.exit));
Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
