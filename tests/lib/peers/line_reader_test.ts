import { assertEquals, assertRejects } from "@std/assert";
import { LineReader, LineTooLongError } from "../../../lib/peers/line_reader.ts";
import { bytesOf, textOf } from "../../support/sessions/side.ts";

/** A reader of a connection that sends these pieces, one by each read, and then ends. */
function readerOf(pieces: readonly string[], lineLengthMax = 100): LineReader {
  const left = pieces.map(bytesOf);
  const read = (buffer: Uint8Array): Promise<number | null> => {
    const piece = left.shift();
    if (piece === undefined) return Promise.resolve(null);
    const part = piece.subarray(0, buffer.length);
    buffer.set(part);
    if (part.length < piece.length) left.unshift(piece.subarray(part.length));
    return Promise.resolve(part.length);
  };
  return new LineReader({ read }, lineLengthMax);
}

Deno.test("lines end with LF or CR LF, wherever the pieces are cut", async () => {
  const text = "one\r\ntwo\n\r\n\nthr\ree\r\n\r\r\n";
  for (let size = 1; size <= text.length; size++) {
    const pieces = text.match(new RegExp(`[^]{1,${size}}`, "g"))!;
    const reader = readerOf(pieces);
    const lines: (string | null)[] = [];
    for (let line; (line = await reader.line()) !== null;) lines.push(line);
    assertEquals(lines, ["one", "two", "", "", "thr\ree", "\r"], `${size}`);
    assertEquals(reader.isEmpty, true);
  }
});

Deno.test("a line without an end is no line, and its bytes stay", async () => {
  const reader = readerOf(["one\r\ntw", "o"]);
  assertEquals(await reader.line(), "one");
  assertEquals(reader.received(), null);
  assertEquals(reader.isEmpty, false);
  assertEquals(await reader.line(), null);
  assertEquals(textOf((await reader.block(3))!), "two");
});

Deno.test("received() takes only lines that are there", async () => {
  const reader = readerOf(["x\na\nb\nc"]);
  assertEquals(reader.received(), null);
  assertEquals(await reader.line(), "x");
  assertEquals([reader.received(), reader.received(), reader.received()], ["a", "b", null]);
  assertEquals(textOf((await reader.block(1))!), "c");
  assertEquals(await reader.line(), null);
});

Deno.test("a line may have its limit of bytes, and no more", async () => {
  const whole = `${"x".repeat(100)}\n`;
  assertEquals(await readerOf([whole]).line(), "x".repeat(100));
  assertEquals(await readerOf(["x".repeat(100), "\n"]).line(), "x".repeat(100));
  const error = await assertRejects(
    () => readerOf(["x".repeat(101), "x\n"]).line(),
    LineTooLongError,
  );
  assertEquals(error.message, "sends a line longer than 100 bytes");
});

Deno.test("blocks come from what was received and from later pieces; a short one is none", async () => {
  const reader = readerOf(["head\r\nab", "cd", "ef\r\nnext\r\n", "12"]);
  assertEquals(await reader.line(), "head");
  assertEquals(textOf((await reader.block(6))!), "abcdef");
  assertEquals((await reader.block(0))!.length, 0);
  assertEquals(await reader.line(), "");
  assertEquals(await reader.line(), "next");
  assertEquals(await reader.block(3), null);
});

Deno.test("lines longer than the buffer arrive whole, and bytes stand for characters below 256", async () => {
  const long = "\xe9\xff".repeat(40_000);
  const reader = readerOf(["first\n", `${long}\r\nlast\n`], 100_000);
  assertEquals(await reader.line(), "first");
  assertEquals(await reader.line(), long);
  assertEquals(await reader.line(), "last");
});
