import { assertEquals, assertThrows } from "@std/assert";
import {
  decodeChecksums,
  type DecodedStart,
  decodeStart,
  type Description,
  encodeChecksums,
  encodeStart,
  MAGIC,
  partChecksum,
} from "../../../lib/snapshot/snapshot_format.ts";
import { CLOCK_MS_MAX, tableBytes } from "../../../store/setup.ts";
import { SavedStore } from "../../support/saved_store.ts";
import { bytesOf } from "../../support/sessions/side.ts";
import { TestStore } from "../../support/store.ts";

const PIECES = 3;
const PAGES_BYTES = 12_345;

/** Returns the description of a small store's snapshot. */
function describe(changed: Partial<Description> = {}): Description {
  using store = new TestStore({ memoryLimitBytes: 2 ** 20, itemSizeMaxBytes: 2 ** 16 });
  const { header } = new SavedStore(store.cache);
  return { writtenBy: "1.2.3", writtenUnixMs: Date.now(), store: header, ...changed };
}

const DESCRIPTION = describe();
const TABLES = new Uint8Array(tableBytes(DESCRIPTION.store)).fill(7);

/** Returns the start of a file, and its whole length. */
function startOf(
  description: Description = DESCRIPTION,
): readonly [Uint8Array<ArrayBuffer>, number] {
  const bytes = encodeStart(description, TABLES, PIECES, PAGES_BYTES);
  return [bytes, bytes.length + PAGES_BYTES + (PIECES + 2) * 4];
}

function decode(bytes: Uint8Array<ArrayBuffer>, fileBytes: number): DecodedStart {
  return decodeStart((at, length) => bytes.slice(at, at + length), fileBytes);
}

function refusal(bytes: Uint8Array<ArrayBuffer>, fileBytes: number): string {
  return assertThrows(() => decode(bytes, fileBytes), Error).message;
}

Deno.test("the start of a snapshot is read as it was written, with the places of its parts", () => {
  const rows = { prefixes: ["a:", ""], options: "{}", mark: "m" };
  for (const description of [DESCRIPTION, describe({ rows })]) {
    const [bytes, fileBytes] = startOf(description);
    const { places, pieces, description: read } = decode(bytes, fileBytes);
    assertEquals(read, { ...description, rows: description.rows ?? null });
    assertEquals(pieces, PIECES);
    assertEquals([places.tables % 8, places.pages % 4096], [0, 0]);
    assertEquals(bytes.subarray(places.tables, places.tables + TABLES.length), TABLES);
    assertEquals(bytes.length, places.pages);
    assertEquals(places.checksums, places.pages + PAGES_BYTES);
    assertEquals(places.end, fileBytes);
  }
});

Deno.test("a file of another kind, a changed byte of the start, and a length that is wrong are refused", () => {
  const [bytes, fileBytes] = startOf();
  const changed = (at: number, value?: number): Uint8Array<ArrayBuffer> =>
    bytes.with(at, value ?? bytes[at]! ^ 1) as Uint8Array<ArrayBuffer>;
  assertEquals(refusal(new Uint8Array(), 0), "it is no snapshot");
  for (let at = 0; at < MAGIC.length; at++) {
    assertEquals(refusal(changed(at), fileBytes), "it is no snapshot");
  }
  assertEquals(refusal(bytes.slice(0, MAGIC.length), 16), "it is truncated");
  assertEquals(refusal(bytes.slice(0, 47), 47), "it is truncated");
  assertEquals(refusal(bytes.slice(0, 100), 100), "it is truncated");
  assertEquals(
    refusal(changed(16, 2), fileBytes),
    "it has format 2, and this version reads format 1",
  );
  // Of the number of pieces, the checksum, the length of the pages, and the description.
  for (const at of [24, 28, 31, 32, 39, 40, 47, 48, 60]) {
    assertEquals(refusal(changed(at), fileBytes), "its start is damaged", `${at}`);
  }
  assertEquals(refusal(changed(23, 1), fileBytes), "its start is damaged");
  for (const length of [fileBytes - 1, fileBytes + 1]) {
    assertEquals(
      refusal(bytes, length),
      `it is truncated: it has ${length} bytes instead of ${fileBytes}`,
    );
  }
});

Deno.test("a description that cannot be true is refused, though its checksum is right", () => {
  const reasonOf = (changed: object): string =>
    refusal(...startOf({ ...DESCRIPTION, ...changed } as Description));
  const version = "the version that has written it is damaged";
  for (const writtenBy of ["", "a b", "x".repeat(65), 5, null, "\u00e9"]) {
    assertEquals(reasonOf({ writtenBy }), version, `${writtenBy}`);
  }
  const time = "the time at which it was written is damaged";
  for (const writtenUnixMs of [-1, 0.5, "1", null]) assertEquals(reasonOf({ writtenUnixMs }), time);
  const old = "it is too old: the store's clock ends";
  const { clockMs } = DESCRIPTION.store;
  const oldest = Date.now() + clockMs - CLOCK_MS_MAX;
  if (oldest > 0) {
    assertEquals(reasonOf({ writtenUnixMs: oldest - 60_000 }), old);
    decode(...startOf({ ...DESCRIPTION, writtenUnixMs: oldest + 60_000 }));
  }
  const rows = "its description of rows is damaged";
  const good = { prefixes: ["a"], options: "{}", mark: "m" };
  for (const changed of [{ prefixes: "a" }, { prefixes: [1] }, { options: 1 }, { mark: null }]) {
    assertEquals(reasonOf({ rows: { ...good, ...changed } }), rows);
  }
  decode(...startOf({ ...DESCRIPTION, rows: { ...good, prefixes: [] } }));
});

Deno.test("checksums are of their parts and places, and of each other", () => {
  const part = bytesOf("a piece");
  assertEquals(partChecksum(part, 1), partChecksum(part, 1));
  assertEquals(partChecksum(part, 1) === partChecksum(part, 2), false);
  assertEquals(partChecksum(part, 0) === partChecksum(bytesOf("a piecf"), 0), false);
  const sums = [1, 0xffff_ffff, partChecksum(part, 3)];
  const bytes = encodeChecksums(sums);
  assertEquals(bytes.length, 16);
  assertEquals([...decodeChecksums(bytes)!], sums);
  for (let at = 0; at < bytes.length; at++) {
    assertEquals(
      decodeChecksums(bytes.with(at, bytes[at]! ^ 0x80) as Uint8Array<ArrayBuffer>),
      null,
    );
  }
});
