import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  JOURNAL_NAME,
  JournalError,
  readJournal,
  TokenJournal,
} from "../../../lib/journal/token_journal.ts";
import { encodeRecord, type TokenRecord } from "../../../lib/journal/token_records.ts";
import { TokenRecordType as RecordType } from "../../../store/memory/token_record.ts";
import { CrashingFiles, DiskError } from "../../support/crashing_files.ts";
import { randomFrom } from "../../support/random.ts";
import { drawSeed, withSeed } from "../../support/seed.ts";

const NODE = "6d1c5b6e-2f5c-4c43-9c0e-1f3c8ad2b001";
const OTHER_NODE = "00000000-0000-4000-8000-000000000000";
const encoder = new TextEncoder();

function token(id: number, key = `key${id}`): TokenRecord {
  return {
    id,
    key: encoder.encode(key),
    owner: encoder.encode(`owner:${id}`),
    peer: encoder.encode("127.0.0.1:5"),
    sinceUnixSec: 1_700_000_000 + id,
  };
}

const got = (id: number): Uint8Array => encodeRecord(RecordType.GET, token(id));
const released = (id: number): Uint8Array => encodeRecord(RecordType.RELEASE, token(id));

function ids(files: CrashingFiles): number[] {
  return [...readJournal(files)!.tokens.ids].sort((a, b) => a - b);
}

Deno.test("readJournal() gives what was appended, and null where there is no journal", () => {
  const files = new CrashingFiles();
  assertEquals(readJournal(files), null);
  const journal = new TokenJournal(files, null, NODE);
  journal.append(got(7), true);
  journal.append(encodeRecord(RecordType.ID_LIMIT, { id: 2 ** 52 }), true);
  journal.append(got(2 ** 40 + 1), false);
  journal.append(released(7), false);
  const content = readJournal(files)!;
  assertEquals(content.nodeId, NODE);
  assertEquals(content.tokens.idLimit, 2 ** 52);
  assertEquals(content.tokens.tokens, [token(2 ** 40 + 1)]);
});

Deno.test("a journal keeps its node's id and its tokens when it is opened again", () => {
  const files = new CrashingFiles();
  new TokenJournal(files, null, NODE).append(got(3), true);
  const journal = new TokenJournal(files, readJournal(files), OTHER_NODE);
  assertEquals(journal.nodeId, NODE);
  assertEquals(ids(files), [3]);
});

Deno.test("readJournal() drops the torn end of a journal, wherever it is cut", () => {
  const files = new CrashingFiles();
  const journal = new TokenJournal(files, null, NODE);
  journal.append(got(1), true);
  const length = files.bytes(JOURNAL_NAME).length;
  journal.append(got(2), true);
  const whole = files.bytes(JOURNAL_NAME);
  for (let end = length; end < whole.length; end++) {
    files.put(JOURNAL_NAME, whole.slice(0, end));
    assertEquals(ids(files), [1], `cut at byte ${end}`);
    const zeros = new Uint8Array(whole.length);
    zeros.set(whole.subarray(0, end));
    files.put(JOURNAL_NAME, zeros);
    assert(ids(files).includes(1), `zeros from byte ${end} on`);
  }
});

Deno.test("readJournal() drops a torn frame that was not synced, although a whole one follows", () => {
  const files = new CrashingFiles();
  const journal = new TokenJournal(files, null, NODE);
  journal.append(got(1), true);
  const start = files.bytes(JOURNAL_NAME).length;
  journal.append(got(2), false);
  const end = files.bytes(JOURNAL_NAME).length;
  journal.append(got(3), false);
  const whole = files.bytes(JOURNAL_NAME);
  for (let at = start; at < end; at++) {
    const torn = whole.slice();
    torn[at]! ^= 0x40;
    files.put(JOURNAL_NAME, torn);
    assertEquals(ids(files), [1], `byte ${at}`);
  }
});

Deno.test("readJournal() refuses a journal that is damaged before what was on the disk", () => {
  const files = new CrashingFiles();
  const journal = new TokenJournal(files, null, NODE);
  for (let id = 1; id <= 3; id++) journal.append(got(id), true);
  const whole = files.bytes(JOURNAL_NAME);
  const header = whole.indexOf(10) + 1;
  const frameBytes = 20 + got(3).length;
  for (let at = header; at < whole.length - frameBytes; at++) {
    const damaged = whole.slice();
    damaged[at]! ^= 0x40;
    files.put(JOURNAL_NAME, damaged);
    assertThrows(() => readJournal(files), JournalError, "is damaged at byte");
  }
});

Deno.test("a changed bit of the last synced record is damage once its mark is written", () => {
  for (const isStopped of [false, true]) {
    const files = new CrashingFiles();
    const journal = new TokenJournal(files, null, NODE);
    journal.append(got(1), true);
    const start = files.length(JOURNAL_NAME);
    journal.append(got(2), true);
    const end = files.length(JOURNAL_NAME);
    if (isStopped) journal.close();
    else journal.mark();
    const marked = files.bytes(JOURNAL_NAME);
    if (isStopped) files.crash(() => 0);
    assertEquals(ids(files), [1, 2]);
    for (let at = start; at < end; at++) {
      const damaged = marked.slice();
      damaged[at]! ^= 0x40;
      files.put(JOURNAL_NAME, damaged);
      assertThrows(() => readJournal(files), JournalError, `is damaged at byte ${start}`);
    }
  }
});

Deno.test("readJournal() counts the bytes of the end that it drops, without reserved zeros", () => {
  const files = new CrashingFiles();
  const journal = new TokenJournal(files, null, NODE);
  journal.append(got(1), true);
  const end = files.length(JOURNAL_NAME);
  const torn = new Uint8Array(end + 100);
  torn.set(files.bytes(JOURNAL_NAME));
  files.put(JOURNAL_NAME, torn.slice());
  assertEquals(readJournal(files)!.dropped, 0);
  torn[end + 6] = 1;
  files.put(JOURNAL_NAME, torn);
  const { end: found, dropped } = readJournal(files)!;
  assertEquals([found, dropped], [end, 7]);
});

Deno.test("a start that cannot write a new file continues in the old one, behind its last good frame", () => {
  const files = new CrashingFiles();
  new TokenJournal(files, null, NODE).append(got(1), true);
  const torn = new Uint8Array(files.length(JOURNAL_NAME) + 40);
  torn.set(files.bytes(JOURNAL_NAME));
  torn.fill(0x4c, -40);
  files.put(JOURNAL_NAME, torn);
  files.failAfter(1, () => 0, 1);
  const journal = new TokenJournal(files, readJournal(files), OTHER_NODE);
  assertEquals(journal.startFailure, "write");
  journal.append(got(2), true);
  files.crash(() => 0);
  assertEquals([readJournal(files)!.nodeId, ids(files)], [NODE, [1, 2]]);
  assertEquals(readJournal(files)!.dropped, 0);
});

Deno.test("a start that continues in the old file removes what an unfinished write left there", () => {
  const files = new CrashingFiles();
  const journal = new TokenJournal(files, null, NODE);
  journal.append(got(1), true);
  const end = files.length(JOURNAL_NAME);
  journal.append(got(2), false);
  journal.append(got(3), false);
  // A crash has left the later of two frames that were not synced.
  const torn = files.bytes(JOURNAL_NAME).slice();
  torn[end + 30]! ^= 1;
  files.put(JOURNAL_NAME, torn);
  assertEquals(ids(files), [1]);
  files.failAfter(1, () => 0, 1);
  const again = new TokenJournal(files, readJournal(files), NODE);
  assertEquals(again.startFailure, "write");
  // A frame as long as the torn one.
  again.append(got(4), true);
  assertEquals(ids(files), [1, 4]);
});

Deno.test("a start on a disk that refuses everything keeps the tokens, and writes them later", () => {
  const files = new CrashingFiles();
  new TokenJournal(files, null, NODE).append(got(1), true);
  files.failAfter(0);
  const journal = new TokenJournal(files, readJournal(files), OTHER_NODE);
  assertThrows(() => journal.append(got(2), true), DiskError);
  files.failAfter(Infinity);
  journal.append(got(3), true);
  assertEquals(ids(files), [1, 3]);
  const empty = new CrashingFiles();
  empty.failAfter(0);
  assertThrows(() => new TokenJournal(empty, null, NODE), DiskError);
});

Deno.test("readJournal() refuses another version, and a file that is no journal", () => {
  const files = new CrashingFiles();
  files.put(JOURNAL_NAME, encoder.encode(`leased update tokens 2 ${NODE}\n`));
  assertThrows(() => readJournal(files), JournalError, "has version 2; this program understands");
  for (const text of ["", "leased", "something else\n", "leased update tokens x y\n"]) {
    files.put(JOURNAL_NAME, encoder.encode(text));
    assertThrows(() => readJournal(files), JournalError, "no first line");
  }
});

Deno.test("one file is open until the journal is closed, whichever call to the disk fails", () => {
  for (const failures of [1, 2, Infinity]) {
    for (let calls = 0, isOver = false; !isOver; calls++) {
      const files = new CrashingFiles();
      new TokenJournal(files, null, NODE).close();
      files.failAfter(calls, undefined, failures);
      const before = files.calls;
      const journal = new TokenJournal(files, readJournal(files), NODE);
      const steps = [
        () => journal.append(got(1), true),
        () => journal.append(got(2), false),
        () => journal.sync(),
        () => journal.mark(),
        () => journal.append(released(1), false),
        () => journal.append(got(3), true),
      ];
      for (const step of steps) {
        try {
          step();
        } catch (error) {
          assert(error instanceof DiskError);
        }
        assert(files.openFiles <= 1, `${files.openFiles} files after ${calls} calls`);
      }
      isOver = files.calls - before < calls;
      journal.close();
      assertEquals(files.openFiles, 0, `${failures} failures after ${calls} calls`);
    }
  }
});

Deno.test("after a failure of the disk the next record is in a new file", () => {
  const failOnce = (files: CrashingFiles): void => files.failAfter(0, undefined, 1);
  const failures: Record<string, (files: CrashingFiles, journal: TokenJournal) => TokenJournal> = {
    "a sync": (files, journal) => {
      journal.append(got(1), false);
      failOnce(files);
      assertThrows(() => journal.sync(), DiskError);
      return journal;
    },
    "a mark": (files, journal) => {
      journal.append(got(1), true);
      failOnce(files);
      journal.mark();
      return journal;
    },
    "an append": (files, journal) => {
      failOnce(files);
      assertThrows(() => journal.append(released(9), false), DiskError);
      return journal;
    },
    "a start that continues in the old file": (files, journal) => {
      journal.close();
      const open = files.open.bind(files);
      files.open = (name, at) => {
        const file = open(name, at);
        failOnce(files);
        return file;
      };
      const content = readJournal(files);
      failOnce(files);
      return new TokenJournal(files, content, NODE);
    },
  };
  for (const [what, fail] of Object.entries(failures)) {
    const files = new CrashingFiles();
    const journal = fail(files, new TokenJournal(files, null, NODE));
    const { created } = files;
    journal.append(got(2), true);
    assertEquals(files.created - created, 1, what);
    journal.append(got(3), true);
    assertEquals(files.created - created, 1, what);
    assertEquals(ids(files).slice(-2), [2, 3], what);
  }
});

Deno.test("a journal that is mostly history is rewritten", () => {
  const files = new CrashingFiles();
  const journal = new TokenJournal(files, null, NODE);
  let longest = 0;
  for (let id = 1; id <= 40_000; id++) {
    journal.append(got(id), false);
    if (id > 10) journal.append(released(id - 10), false);
    journal.tidy();
    longest = Math.max(longest, files.length(JOURNAL_NAME));
  }
  assertEquals(ids(files).length, 10);
  assert(longest < (1 << 20) + 1000, `${longest}`);
});

Deno.test("a journal that cannot be rewritten is tried again when it has grown by a mebibyte", () => {
  const files = new CrashingFiles();
  const journal = new TokenJournal(files, null, NODE);
  const record = got(1);
  while (files.length(JOURNAL_NAME) <= 1 << 20) journal.append(record, false);
  files.failAfter(0);
  const tries: number[] = [];
  for (let round = 0; round < 3; round++) {
    const { calls } = files;
    journal.tidy();
    tries.push(files.calls - calls);
  }
  assertEquals(tries, [1, 0, 0]);
  files.failAfter(Infinity);
  const length = files.length(JOURNAL_NAME);
  while (files.length(JOURNAL_NAME) <= length + (1 << 20)) journal.append(record, false);
  journal.tidy();
  assertEquals([files.created, files.length(JOURNAL_NAME) < 1000], [2, true]);
});

Deno.test("a journal that nothing is written to does not grow: it has one mark", () => {
  const files = new CrashingFiles();
  const journal = new TokenJournal(files, null, NODE);
  journal.append(got(1), true);
  journal.mark();
  const length = files.length(JOURNAL_NAME);
  for (let second = 0; second < 5; second++) journal.mark();
  journal.close();
  assertEquals(files.length(JOURNAL_NAME), length);
});

Deno.test("records behind a torn one, which a start has dropped, do not come back behind the next record", () => {
  const files = new CrashingFiles();
  const first = new TokenJournal(files, null, NODE);
  first.append(got(1), true);
  const start = files.bytes(JOURNAL_NAME).length;
  first.append(got(2), false);
  first.append(got(3), false);
  const torn = files.bytes(JOURNAL_NAME);
  torn[start + 30]! ^= 1;
  files.put(JOURNAL_NAME, torn);
  const content = readJournal(files);
  // No new file can be made: the old one is continued.
  files.failAfter(0, undefined, 1);
  const journal = new TokenJournal(files, content, NODE);
  assertEquals([journal.startFailure, content!.dropped], ["create", torn.length - start]);
  journal.append(got(4), true);
  assertEquals(ids(files), [1, 4]);
});

Deno.test("a release that could not be written is written later", () => {
  const files = new CrashingFiles();
  const journal = new TokenJournal(files, null, NODE);
  journal.append(got(1), true);
  files.failAfter(0);
  assertThrows(() => journal.append(released(1), false), DiskError);
  assert(journal.isUnsynced);
  assertThrows(() => journal.sync(), DiskError);
  files.failAfter(Infinity);
  journal.sync();
  assert(!journal.isUnsynced);
  assertEquals(ids(files), []);
});

/**
 * Random appends on a disk where any call may fail or write only a part, and that loses at a crash what was not synced.
 *
 * @returns Crashes seen.
 */
function torture(seed: number, steps: number): number {
  const random = randomFrom(seed);
  const below = (bound: number): number => Math.floor(random() * bound);
  const files = new CrashingFiles();
  // Promised and not released, perhaps released, and never promised but perhaps in the file.
  const out = new Set<number>();
  const known = new Set<number>();
  let journal: TokenJournal | null = null;
  let nextId = 1;
  let crashes = 0;
  for (let step = 0; step < steps; step++) {
    files.failAfter(below(4) === 0 ? below(6) : Infinity, below);
    if (journal === null || below(8) === 0) {
      if (journal !== null) {
        crashes++;
        files.crash(below);
      }
      files.failAfter(Infinity);
      const content = readJournal(files);
      const found = new Set(content?.tokens.ids ?? []);
      for (const id of out) assert(found.has(id), `seed ${seed}: token ${id} is missing`);
      for (const id of found) {
        assert(known.has(id), `seed ${seed}: token ${id} was never asked for`);
      }
      // A token that came back though it was released or never promised is out until somebody releases it.
      for (const id of found) out.add(id);
      if (below(2) === 0) files.failAfter(below(6), below);
      try {
        journal = new TokenJournal(files, content, NODE);
      } catch (error) {
        assert(error instanceof DiskError);
        journal = null;
        if (content === null) out.clear();
      }
      continue;
    }
    const releasing = out.size > 0 && below(2) === 0;
    if (releasing) {
      const id = [...out][below(out.size)]!;
      out.delete(id);
      attempt(() => journal!.append(released(id), below(3) === 0));
      journal.tidy();
    } else {
      const id = nextId++;
      known.add(id);
      if (attempt(() => journal!.append(got(id), true))) out.add(id);
    }
  }
  return crashes;
}

function attempt(act: () => void): boolean {
  try {
    act();
    return true;
  } catch (error) {
    assert(error instanceof DiskError, String(error));
    return false;
  }
}

Deno.test("no token that was promised is missing after a crash, whatever fails before it", () => {
  return withSeed(drawSeed(), (seed) => {
    let crashes = 0;
    for (let run = 0; run < 300; run++) crashes += torture(seed + run, 120);
    assert(crashes > 1000, `${crashes} crashes`);
  });
});
