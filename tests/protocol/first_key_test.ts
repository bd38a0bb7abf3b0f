import { assertEquals } from "@std/assert";
import { addFirstKey } from "../../protocol/first_key.ts";
import { bytesOf, textOf } from "../support/sessions/side.ts";
import { ConversationSide } from "../support/sessions/conversation_side.ts";

/** A binary request: key length, extras' length, and what follows the header. */
function binary(keyLength: number, extrasLength: number, rest: string): string {
  const keyLengthBytes = String.fromCharCode(keyLength >> 8, keyLength & 255);
  return `\x80\0${keyLengthBytes}${String.fromCharCode(extrasLength)}${"\0".repeat(19)}${rest}`;
}

Deno.test("addFirstKey() finds the first request's key, if it is all there", () => {
  const { thread } = new ConversationSide();
  const { prefetch } = thread.cache;
  const start = 100;
  const found = (request: string): string | undefined => {
    // What lies behind the request is somebody else's.
    thread.input.bytes.fill("x".charCodeAt(0));
    thread.input.bytes.set(bytesOf(request), start);
    prefetch.clear();
    addFirstKey(thread, start, start + request.length);
    if (prefetch.count === 0) return undefined;
    const keyOffset = prefetch.keyOffset(0);
    return textOf(
      thread.input.bytes.subarray(keyOffset, keyOffset + prefetch.keyLength(0)),
    );
  };
  assertEquals(found("get key\r\n"), "key");
  assertEquals(found("mg key v\r\nmg other v\r\n"), "key");
  assertEquals(found("set key 0 0 1\r\nx\r\n"), "key");
  assertEquals(found(`get ${"k".repeat(250)}\r\n`), "k".repeat(250));
  assertEquals(found(`get ${"k".repeat(251)}\r\n`), undefined);
  for (const request of ["mn\r\n", "get \r\n", "get", "g", "\r\n", " "]) {
    assertEquals(found(request), undefined, request);
  }
  assertEquals(found(binary(3, 0, "key")), "key");
  assertEquals(found(binary(3, 8, "extras..keyvalue")), "key");
  assertEquals(found(binary(0, 8, "extras..")), undefined);
  assertEquals(found(binary(251, 0, "k".repeat(251))), undefined);
  assertEquals(found(binary(3, 8, "extras..ke")), undefined);
  assertEquals(found(binary(3, 0, "key").slice(0, 23)), undefined);
  assertEquals(found(binary(65535, 255, "key")), undefined);
});
