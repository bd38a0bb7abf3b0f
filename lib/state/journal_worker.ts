/// <reference lib="deno.worker" />
// The entry module of the thread that writes the journal of update tokens.
import process from "node:process";
import { Cache } from "../../store/cache.ts";
import { journalRow, Memory } from "../../store/setup.ts";
import { FolderFiles } from "./journal_files.ts";
import { JournalLoop } from "./journal_loop.ts";
import type { JournalMessage, JournalStart } from "./journal_messages.ts";
import { lockStateFolder, reasonOf } from "./state_folder.ts";
import {
  DAMAGED_JOURNAL_NAME,
  JOURNAL_NAME,
  type JournalContent,
  JournalError,
  readJournal,
  TokenJournal,
} from "./token_journal.ts";

self.onmessage = ({ data }: MessageEvent<JournalStart>) => {
  try {
    run(data);
  } catch (error) {
    die(error);
  }
};

function say(message: JournalMessage): void {
  self.postMessage(message);
}

function run(start: JournalStart): void {
  const cache = new Cache(new Memory(start.shared, journalRow(start.shared.options)));
  cache.mutex.nowMs = () => performance.now();
  cache.onReady = (threadIndex) => say({ kind: "wake", threadIndex });
  let loop: JournalLoop | null;
  let lock: Deno.FsFile;
  try {
    lock = lockStateFolder(start.folder);
    loop = open(start, cache);
  } catch (error) {
    say({ kind: "refused", reason: reasonOf(error) });
    return;
  }
  say({ kind: "ready" });
  if (loop === null) waitForStop(cache);
  else loop.run();
  lock.close();
  say({ kind: "ended" });
  self.close();
}

/** Reads the journal. @returns Null when it cannot be read and nobody has said what to do. */
function open(start: JournalStart, cache: Cache): JournalLoop | null {
  const files = new FolderFiles(start.folder);
  let content: JournalContent | null;
  try {
    content = readJournal(files);
  } catch (error) {
    if (!(error instanceof JournalError)) throw error;
    if (start.recover === "refuse") {
      refuseTokens(cache, start.folder, error);
      return null;
    }
    files.rename(JOURNAL_NAME, DAMAGED_JOURNAL_NAME);
    content = null;
    if (start.recover === "quarantine") quarantine(cache);
    reportSetAside(start, error);
  }
  const journal = new TokenJournal(files, content, crypto.randomUUID());
  const loop = new JournalLoop(cache, journal, (event) => say({ kind: "event", event }));
  loop.restore();
  return loop;
}

function quarantine(cache: Cache): void {
  cache.enter();
  cache.tokens.quarantine(true);
  cache.leave();
}

/** Nobody knows which keys have tokens: no key is cacheable. */
function refuseTokens(cache: Cache, folder: string, error: JournalError): void {
  cache.journal.queue.makeUnusable();
  quarantine(cache);
  say({
    kind: "event",
    event: {
      level: "error",
      event: "journal_unreadable",
      message: `${folder}/${error.message}; update tokens and all stores are refused: ` +
        "start again with --token-recover=quarantine, or =drop if no writer is at work",
      fields: { reason: error.message },
    },
  });
}

function reportSetAside({ folder, recover }: JournalStart, error: JournalError): void {
  const then = recover === "quarantine" ? "; no key is cacheable until `quarantine off`" : "";
  say({
    kind: "event",
    event: {
      level: "warning",
      event: "journal_set_aside",
      message: `${folder}/${error.message}; kept as ${DAMAGED_JOURNAL_NAME}, ` +
        `its update tokens are forgotten${then}`,
      fields: { reason: error.message },
    },
  });
}

function waitForStop({ journal: { queue } }: Cache): void {
  while (!queue.isStopping) queue.wait(queue.head, 1000);
}

/** Ends the whole process: this thread may hold the mutex. */
function die(error: unknown): void {
  const text = error instanceof Error ? error.stack ?? error.message : String(error);
  Deno.stderr.writeSync(
    new TextEncoder().encode(`leased: the journal failed, stopping: ${text}\n`),
  );
  process.kill(process.pid, "SIGABRT");
}
