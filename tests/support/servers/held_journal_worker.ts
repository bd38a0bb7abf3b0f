/// <reference lib="deno.worker" />
// The journal's thread of held_disk.ts.
import type { JournalStart } from "../../../lib/journal/journal_messages.ts";

/** Time between two looks at the file that holds the disk. */
const LOOK_MS = 2;

let folder = "";
const { syncDataSync } = Deno.FsFile.prototype;
Deno.FsFile.prototype.syncDataSync = function (): void {
  if (isHeld()) Deno.stderr.writeSync(new TextEncoder().encode("a sync is held\n"));
  const word = new Int32Array(new SharedArrayBuffer(4));
  while (isHeld()) Atomics.wait(word, 0, 0, LOOK_MS);
  syncDataSync.call(this);
};

function isHeld(): boolean {
  try {
    Deno.statSync(`${folder}/held`);
    return true;
  } catch {
    return false;
  }
}

self.onmessage = async ({ data }: MessageEvent<JournalStart>) => {
  ({ stateDir: folder } = data);
  await import("../../../lib/journal/journal_worker.ts");
  self.dispatchEvent(new MessageEvent("message", { data }));
};
