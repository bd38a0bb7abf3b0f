import { assertEquals } from "@std/assert";
import { TokenQueue } from "../../../store/claims/token_queue.ts";
import { KEY_LENGTH_MAX } from "../../../store/limits.ts";
import { createSharedMemory, Memory } from "../../../store/memory/memory.ts";
import { TOKEN_QUEUE, TOKEN_RING_BYTES } from "../../../store/memory/token_layout.ts";
import {
  OWNER_TAG_LENGTH_MAX,
  PEER_LENGTH_MAX,
  TOKEN_RECORD as RECORD,
  TokenRecordType,
} from "../../../store/memory/token_record.ts";
import { queuedRecords } from "../../support/queued_records.ts";
import { randomFrom } from "../../support/random.ts";
import { drawSeed, withSeed } from "../../support/seed.ts";
import { storeOptions } from "../../support/store.ts";

const { GET, RELEASE } = TokenRecordType;
const DATA_MAX = KEY_LENGTH_MAX + OWNER_TAG_LENGTH_MAX + PEER_LENGTH_MAX;

interface Queue {
  /** The one that puts records. */
  readonly queue: TokenQueue;
  /** Another thread's view. */
  readonly journal: TokenQueue;
}

/** @param position Bytes of records that were put and taken before. */
function newQueue(position = 0): Queue {
  const memory = new Memory(createSharedMemory(storeOptions({ tokenPersistence: "journal" })));
  const words = new Int32Array(memory.shared.tokenQueue, 0, TOKEN_QUEUE.WORDS);
  words[TOKEN_QUEUE.HEAD] = position;
  words[TOKEN_QUEUE.TAIL] = position;
  return { queue: new TokenQueue(memory), journal: new TokenQueue(memory) };
}

/** Fills in what `put` expects of its caller. @param data Length of key, owner and peer together. */
function prepare({ record }: TokenQueue, data: number): void {
  const { bytes } = record;
  const key = Math.min(data, KEY_LENGTH_MAX);
  const owner = Math.min(data - key, OWNER_TAG_LENGTH_MAX);
  const peer = data - key - owner;
  bytes[RECORD.KEY_LENGTH] = key;
  bytes[RECORD.OWNER_LENGTH] = owner;
  bytes[RECORD.PEER_LENGTH] = peer;
  for (let at = 0; at < data; at++) bytes[RECORD.DATA + at] = (at * 7 + data) & 0xff;
}

/** The bytes of the record that was put last. */
function written({ record }: TokenQueue): Uint8Array {
  const { bytes } = record;
  const data = bytes[RECORD.KEY_LENGTH]! + bytes[RECORD.OWNER_LENGTH]! + bytes[RECORD.PEER_LENGTH]!;
  return bytes.slice(0, RECORD.DATA + data);
}

Deno.test("records come out as they were put in, round after round of the ring", () =>
  withSeed(drawSeed(), (seed) => {
    const random = randomFrom(seed);
    const below = (bound: number): number => Math.floor(random() * bound);
    // The second one passes the largest position.
    for (const position of [0, 2 ** 31 - TOKEN_RING_BYTES - 1, -5]) {
      const { queue, journal } = newQueue(position);
      const records = new Uint8Array(TOKEN_RING_BYTES / 2 + RECORD.DATA + DATA_MAX);
      for (let round = 0; round < 3; round++) {
        let length = 0;
        while (length < TOKEN_RING_BYTES / 2) {
          prepare(queue, below(DATA_MAX + 1));
          assertEquals(queue.put(GET, below(2 ** 31), below(2 ** 21), below(2 ** 31)), true);
          const record = written(queue);
          records.set(record, length);
          length += record.length;
        }
        assertEquals(journal.length, length);
        const { bytes } = queuedRecords(journal);
        assertEquals(bytes.findIndex((byte, at) => byte !== records[at]), -1, "the first byte");
        assertEquals(journal.take(length), queue.head);
      }
      assertEquals(journal.length, 0);
    }
  }));

Deno.test("a part of the records may be taken; the others stay", () => {
  const { queue, journal } = newQueue(-30);
  prepare(queue, 3);
  queue.put(GET, 1, 0, 0);
  const first = written(queue).length;
  prepare(queue, 268);
  queue.put(RELEASE, 2, 0, 0);
  const second = written(queue);
  assertEquals(journal.take(first), -30 + first);
  assertEquals(queuedRecords(journal).bytes, second);
});

Deno.test("the queue takes records up to its last byte", () => {
  const { queue, journal } = newQueue(12_345);
  let left = TOKEN_RING_BYTES;
  for (; left > 300; left -= RECORD.DATA + 250) {
    prepare(queue, 250);
    assertEquals(queue.put(GET, 1, 0, 0), true);
  }
  prepare(queue, left - RECORD.DATA + 1);
  assertEquals(queue.put(GET, 1, 0, 0), false, "one byte too many");
  prepare(queue, left - RECORD.DATA);
  assertEquals(queue.put(GET, 1, 0, 0), true);
  assertEquals(journal.length, TOKEN_RING_BYTES);
  prepare(queue, 0);
  assertEquals(queue.put(GET, 1, 0, 0), false);
  journal.take(RECORD.DATA);
  assertEquals(queue.put(GET, 1, 0, 0), true);
});

Deno.test("a lazy journal is woken for tokens, and for a release when the queue is half full", () => {
  const { queue, journal } = newQueue();
  const wakes = (type: TokenRecordType): boolean => {
    prepare(queue, 250);
    queue.put(type, 1, 0, 0);
    const { hasToWake } = queue;
    if (hasToWake) queue.wake();
    return hasToWake;
  };
  assertEquals(wakes(RELEASE), true);
  journal.isLazy = true;
  assertEquals(wakes(RELEASE), false);
  assertEquals(wakes(GET), true);
  while (!journal.isCrowded) assertEquals(wakes(RELEASE), false);
  assertEquals(wakes(RELEASE), true);
  journal.take(journal.length);
  assertEquals(wakes(RELEASE), false);
  journal.isLazy = false;
  assertEquals(wakes(RELEASE), true);
});

Deno.test("a lost record is told once, and wakes the journal", () => {
  const { queue, journal } = newQueue();
  assertEquals(journal.takeRecordsLost(), false);
  queue.loseRecord();
  assertEquals(queue.hasToWake, true);
  assertEquals([journal.takeRecordsLost(), journal.takeRecordsLost()], [true, false]);
  const { bell } = journal;
  queue.wake();
  assertEquals([queue.hasToWake, journal.bell], [false, bell + 1]);
});

Deno.test("what one thread declares of the queue, all threads see", () => {
  const { queue, journal } = newQueue();
  assertEquals([queue.isUnusable, journal.isStopping], [false, false]);
  journal.makeUnusable();
  const { bell } = journal;
  queue.stop();
  assertEquals([queue.isUnusable, journal.isStopping, journal.bell], [true, true, bell + 1]);
});
