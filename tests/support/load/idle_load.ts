/// <reference lib="deno.worker" />
// A client that reads a value, and is silent until the server stops.
import { Lifecycle, LifecyclePhase } from "../../../lib/process/lifecycle.ts";
import type { LoadStart } from "../servers/native_in_process.ts";
import { Client } from "../servers/server_process.ts";
import { stopThread } from "./stop_thread.ts";

self.onmessage = async ({ data }: MessageEvent<LoadStart>) => {
  self.postMessage(await drive(data).then(() => "", (error) => String(error)));
  self.close();
};
self.postMessage("ready");

async function drive(start: LoadStart): Promise<void> {
  try {
    using client = new Client(await Deno.connect({ hostname: "127.0.0.1", port: start.port }));
    await client.ask("set k 0 0 1\r\nv\r\n", "STORED\r\n");
    await client.ask("get k\r\n", "VALUE k 0 1\r\nv\r\nEND\r\n");
    await new Lifecycle(start.lifecycle).reaches(LifecyclePhase.STOPPING);
  } finally {
    await stopThread(start);
  }
}
