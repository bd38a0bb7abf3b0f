import { assertEquals, assertThrows } from "@std/assert";
import {
  encodeRecord,
  recordEnd,
  type TokenRecord,
  TokenSet,
} from "../../../lib/journal/token_records.ts";
import { TokenRecordType } from "../../../store/setup.ts";
import { bytesOf } from "../../support/sessions/side.ts";

function token(id: number, key: string, owner = "", peer = ""): TokenRecord {
  return {
    id,
    key: bytesOf(key),
    owner: bytesOf(owner),
    peer: bytesOf(peer),
    sinceUnixSec: 1_700_000_000.25,
  };
}

/** Returns the records one behind the other. */
function joined(...records: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(records.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const record of records) {
    bytes.set(record, at);
    at += record.length;
  }
  return bytes;
}

/** Ids beyond 32 bits, and the longest parts. */
const A = token(2 ** 40 + 7, "a", "owner", "tcp:1");
const B = token(5, "k".repeat(250), "", "p".repeat(200));

const get = (record: TokenRecord): Uint8Array => encodeRecord(TokenRecordType.GET, record);
const release = (id: number): Uint8Array => encodeRecord(TokenRecordType.RELEASE, { id });

Deno.test("a token comes back from its record with all its parts, wherever the record stands", () => {
  const set = new TokenSet();
  const bytes = joined(get(A), get(B));
  // In a buffer that begins before.
  const within = new Uint8Array(bytes.length + 3);
  within.set(bytes, 3);
  set.apply(within.subarray(3));
  assertEquals(set.tokens, [A, B]);
  assertEquals([...set.ids], [A.id, 5]);
  assertEquals(recordEnd(bytes, 0), get(A).length);
  assertEquals(recordEnd(bytes, get(A).length), bytes.length);
});

Deno.test("records are applied in order, and once more without a change", () => {
  const set = new TokenSet();
  const limit = (id: number): Uint8Array => encodeRecord(TokenRecordType.ID_LIMIT, { id });
  const records = joined(
    limit(100),
    limit(50),
    get(A),
    get(B),
    release(5),
    release(999),
    encodeRecord(TokenRecordType.QUARANTINE_ON, {}),
  );
  for (let times = 0; times < 2; times++) {
    set.apply(records);
    assertEquals([...set.ids], [A.id]);
    assertEquals([set.idLimit, set.isQuarantined, set.highestId], [100, true, A.id]);
  }
  set.apply(encodeRecord(TokenRecordType.QUARANTINE_OFF, {}));
  assertEquals(set.isQuarantined, false);
  set.apply(release(A.id));
  assertEquals([set.tokens, set.highestId], [[], 100]);
});

Deno.test("records of one type may be passed over, the others are applied", () => {
  const set = new TokenSet();
  set.apply(joined(get(A), release(A.id), get(B)), TokenRecordType.RELEASE);
  assertEquals([...set.ids], [A.id, 5]);
  set.apply(joined(get(token(9, "c")), release(5)), TokenRecordType.GET);
  assertEquals([...set.ids], [A.id]);
});

Deno.test("a state is built again from its records", () => {
  const set = new TokenSet();
  set.idLimit = 2 ** 50;
  set.apply(joined(get(A), get(B)));
  for (const isQuarantined of [false, true]) {
    set.isQuarantined = isQuarantined;
    const other = new TokenSet();
    for (const record of set.encode()) other.apply(record);
    assertEquals(other.tokens, set.tokens);
    assertEquals([other.idLimit, other.isQuarantined], [2 ** 50, isQuarantined]);
  }
});

Deno.test("a record that is cut anywhere, or of an unknown type, is an error with its place", () => {
  const [first, second] = [get(A), get(B)];
  const bytes = joined(first, second);
  for (let length = 1; length < bytes.length; length++) {
    if (length === first.length) continue;
    const at = length < first.length ? 0 : first.length;
    const message = `a record at byte ${at} is cut short`;
    assertThrows(() => new TokenSet().apply(bytes.subarray(0, length)), RangeError, message);
  }
  const unknown = joined(first, encodeRecord(99 as TokenRecordType, {}));
  assertThrows(
    () => new TokenSet().apply(unknown),
    RangeError,
    `a record at byte ${first.length} has the unknown type 99`,
  );
});
