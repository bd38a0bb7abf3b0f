/// <reference lib="deno.worker" />
// The entry module of a thread that reads pages of a snapshot.
import { reasonOf } from "../process/reason.ts";
import { type PageReading, type ReadingMessage, readPages } from "./page_reading.ts";

self.onmessage = ({ data }: MessageEvent<PageReading>) => {
  let reason: string | null = null;
  try {
    for (const bytes of readPages(data)) say({ kind: "read", bytes });
  } catch (error) {
    reason = reasonOf(error);
  }
  say({ kind: "ended", reason });
  self.close();
};

function say(message: ReadingMessage): void {
  self.postMessage(message);
}
