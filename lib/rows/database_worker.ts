/// <reference lib="deno.worker" />
// The entry module of the thread that speaks to the database, or to an origin.
import { reasonOf } from "../process/reason.ts";
import type { RowsCommand, RowsMessage, RowsStart } from "./messages.ts";
import { NodeThread } from "./nodes/node_thread.ts";
import { OriginThread } from "./origin/origin_thread.ts";
import { StartError } from "./origin/start_error.ts";

let thread: OriginThread | NodeThread | null = null;

self.onmessage = ({ data }: MessageEvent<RowsCommand>) => {
  switch (data.kind) {
    case "start":
      void begin(data.start);
      return;
    case "reload":
      return thread?.reload();
    case "stop":
      return thread?.stop();
  }
};

// The lock of an SQLite file must not end before the process: a thread that fails goes on until the process has ended.
self.addEventListener("error", (event) => {
  event.preventDefault();
  say({ kind: "died", reason: event.message });
});
self.addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  say({ kind: "died", reason: reasonOf(event.reason) });
});

function say(message: RowsMessage): void {
  self.postMessage(message);
}

async function begin(start: RowsStart): Promise<void> {
  try {
    thread = await open(start);
  } catch (error) {
    const isUsage = error instanceof StartError && error.isUsage;
    return say({ kind: "refused", reason: reasonOf(error), isUsage });
  }
  say({ kind: "ready" });
  const mark = await thread.run();
  say({ kind: "ended", mark });
  self.close();
}

/** @throws StartError */
async function open(start: RowsStart): Promise<OriginThread | NodeThread> {
  const { options } = start;
  if (!("origins" in options)) return await OriginThread.open(start, options, say);
  try {
    return await NodeThread.open(start, options, say);
  } catch (error) {
    throw new StartError("cannot become a node", error);
  }
}
