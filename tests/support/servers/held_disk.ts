// Starts the server with the arguments given, on a disk that a test holds: as long as the file `held` is in the state
// directory, no sync of the journal returns. The server says so when one begins to wait.

const JOURNAL_WORKER = /\/lib\/journal\/journal_worker\.ts$/;

globalThis.Worker = class extends Worker {
  constructor(url: string | URL, options?: WorkerOptions) {
    const isJournal = JOURNAL_WORKER.test(`${url}`);
    super(isJournal ? new URL("./held_journal_worker.ts", import.meta.url) : url, options);
  }
};
await import("../../../main.ts");
