/// <reference lib="deno.worker" />
// The entry module of the thread that writes the journal of update tokens.
import process from "node:process";
import { Cache } from "../../store/cache.ts";
import { journalRow, Memory } from "../../store/setup.ts";
import { Lifecycle } from "../process/lifecycle.ts";
import { createWaker } from "../net/transports.ts";
import { JournalLoop } from "./journal_loop.ts";
import type { JournalMessage, JournalStart } from "./journal_messages.ts";
import { reasonOf } from "../process/reason.ts";
import { StateError, StateFolder } from "./state_folder.ts";
import {
  DAMAGED_JOURNAL_NAME,
  highestIdIn,
  JOURNAL_NAME,
  type JournalContent,
  JournalError,
  readJournal,
  TokenJournal,
} from "./token_journal.ts";
import { TokenSet } from "./token_records.ts";

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
  cache.onReady = createWaker(start.member, new Lifecycle(start.lifecycle));
  let loop: JournalLoop | null;
  let folder: StateFolder;
  try {
    folder = new StateFolder(start.stateDir);
    loop = open(start, folder, cache);
  } catch (error) {
    say({ kind: "refused", reason: reasonOf(error) });
    return;
  }
  say({ kind: "ready" });
  if (loop === null) waitForStop(cache);
  else loop.run(() => performance.now());
  loop?.close();
  folder.close();
  say({ kind: "ended" });
  self.close();
}

/** Reads the journal. @returns Null when it cannot be read and `--token-recover` is `refuse`. */
function open(start: JournalStart, files: StateFolder, cache: Cache): JournalLoop | null {
  let content: JournalContent | null;
  try {
    content = readJournal(files);
  } catch (error) {
    if (!(error instanceof JournalError)) throw error;
    if (start.tokenRecover === "refuse") {
      refuseTokens(cache, start.stateDir, error);
      return null;
    }
    content = setAside(files, start.tokenRecover === "quarantine");
    reportSetAside(start, error);
  }
  reportDropped(start.stateDir, content);
  const journal = openJournal(files, content);
  reportStartFailure(start.stateDir, journal);
  const loop = new JournalLoop(cache, journal, (event) => say({ kind: "event", event }));
  loop.restore();
  return loop;
}

/** Renames a journal that cannot be read. Keeps the highest id of its readable parts. */
function setAside(files: StateFolder, isQuarantined: boolean): JournalContent {
  const tokens = new TokenSet();
  tokens.idLimit = highestIdIn(files);
  tokens.isQuarantined = isQuarantined;
  files.rename(JOURNAL_NAME, DAMAGED_JOURNAL_NAME);
  return { nodeId: crypto.randomUUID(), tokens, end: 0, dropped: 0 };
}

/** @throws StateError when there is no journal and none can be written. */
function openJournal(files: StateFolder, content: JournalContent | null): TokenJournal {
  try {
    return new TokenJournal(files, content, crypto.randomUUID());
  } catch (error) {
    // Without its journal the next start would not know that tokens may be out.
    if (content !== null) files.rename(DAMAGED_JOURNAL_NAME, JOURNAL_NAME);
    throw new StateError(`cannot write the journal of update tokens: ${reasonOf(error)}`);
  }
}

/** Puts all keys into quarantine: the server does not know which keys have tokens. */
function refuseTokens(cache: Cache, folder: string, error: JournalError): void {
  cache.journal.queue.makeUnusable();
  cache.enter();
  cache.journal.close(true);
  cache.leave();
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

function reportSetAside({ stateDir, tokenRecover }: JournalStart, error: JournalError): void {
  const then = tokenRecover === "quarantine" ? "; no key is cacheable until `quarantine off`" : "";
  warn(
    "journal_set_aside",
    `${stateDir}/${error.message}; kept as ${DAMAGED_JOURNAL_NAME}, ` +
      `its update tokens are forgotten${then}`,
    { reason: error.message },
  );
}

function reportDropped(folder: string, content: JournalContent | null): void {
  if (content === null || content.dropped === 0) return;
  const { end, dropped } = content;
  warn(
    "journal_end_dropped",
    `${folder}/${JOURNAL_NAME}: ${dropped} bytes at byte ${end} are no record, dropped: ` +
      "a write that a crash cut short, or damage to the last record before a crash of the machine",
    { at: end, bytes: dropped },
  );
}

function reportStartFailure(folder: string, { startFailure: reason }: TokenJournal): void {
  if (reason === "") return;
  warn(
    "journal_not_renewed",
    `cannot write a new ${folder}/${JOURNAL_NAME}: ${reason}; the server starts with the old one`,
    { reason },
  );
}

function warn(event: string, message: string, fields: Record<string, string | number>): void {
  say({ kind: "event", event: { level: "warning", event, message, fields } });
}

function waitForStop({ journal: { queue } }: Cache): void {
  for (let { bell } = queue; !queue.isStopping; bell = queue.bell) queue.wait(bell, 1000);
}

/** Ends the whole process: this thread may hold the mutex. */
function die(error: unknown): void {
  const text = error instanceof Error ? error.stack ?? error.message : String(error);
  Deno.stderr.writeSync(
    new TextEncoder().encode(`leased: the journal failed, stopping: ${text}\n`),
  );
  process.kill(process.pid, "SIGABRT");
}
