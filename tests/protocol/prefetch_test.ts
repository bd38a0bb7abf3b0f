import { assertEquals, assertNotEquals } from "@std/assert";
import {
  PacketKind,
  prefetchGets,
  prefetchLines,
  prefetchPackets,
} from "../../protocol/prefetch.ts";
import type { ThreadContext } from "../../protocol/thread_context.ts";
import { ByteRegion } from "../../store/base/bytes.ts";
import { packetText } from "../support/sessions/binary_text.ts";
import { ConversationSide } from "../support/sessions/conversation_side.ts";
import { bytesOf, textOf } from "../support/sessions/side.ts";

const START = 100;
const LONGEST = "k".repeat(250);
const { thread } = new ConversationSide();

type Collect = (thread: ThreadContext, start: number, end: number) => number;

/** The keys that are collected among these requests, and how many bytes of them were looked at. */
function collected(collect: Collect, requests: string): [keys: string[], length: number] {
  const { prefetch } = thread.cache;
  const { bytes } = thread.input;
  // Behind the requests are bytes of others.
  bytes.fill("x".charCodeAt(0));
  bytes.set(bytesOf(requests), START);
  const next = collect(thread, START, START + requests.length);
  const keys = Array.from({ length: prefetch.count }, (_, index) => {
    const keyOffset = prefetch.keyOffset(index);
    return textOf(bytes.subarray(keyOffset, keyOffset + prefetch.keyLength(index)));
  });
  return [keys, next - START];
}

Deno.test("prefetchGets() collects complete get lines of one key", () => {
  const keys = (requests: string): string[] => collected(prefetchGets, requests)[0];
  assertEquals(collected(prefetchGets, "get a\r\nget b\r\nset c 0 0 1\r\n"), [["a", "b"], 14]);
  assertEquals(keys(`get ${LONGEST}\r\nget a\r\n`), [LONGEST, "a"]);
  for (
    const rest of ["get b", "get b\r", "get b c\r\n", `get ${LONGEST}k\r\n`, "get \r\n", "get\r\n"]
  ) {
    assertEquals(collected(prefetchGets, `get a\r\n${rest}`), [["a"], 7], rest);
    assertEquals(collected(prefetchGets, rest), [[], 0], rest);
  }
  assertEquals(keys("get a\r\n".repeat(40)).length, 32);
});

Deno.test("prefetchLines() collects sets and meta commands up to the first guess that is neither", () => {
  const keys = (requests: string): string[] => collected(prefetchLines, requests)[0];
  assertEquals(keys("set a 0 0 3\r\nxyz\r\nset b 0 0 1\r\nx\r\nget c\r\n"), ["a", "b"]);
  assertEquals(keys("mg a v\r\nms b 2 T0\r\nxy\r\nmd c\r\nmn\r\nmg d\r\n"), ["a", "b", "c"]);
  assertEquals(keys(`mg ${LONGEST} v\r\nmg ${LONGEST}k v\r\n`), [LONGEST]);
  // The rest of a value is yet to arrive.
  assertEquals(keys("set a 0 0 1000\r\nset b 0 0 1\r\nx\r\n"), ["a"]);
  for (const request of ["get a\r\n", "set \r\n", "set a", "mg", "mn\r\n", "\r\n", " ", ""]) {
    assertEquals(keys(request), [], request);
  }
  assertEquals(keys("mg a\r\n".repeat(40)).length, 32);
});

Deno.test("prefetchPackets() collects requests of one kind whose keys have arrived", () => {
  const [GET, SET, NOOP] = [0, 1, 10];
  const kinds = new Uint8Array(256);
  kinds[GET] = PacketKind.KEY_ONLY;
  kinds[SET] = PacketKind.KEYED;
  const [gets, sets] = [PacketKind.KEY_ONLY, PacketKind.KEYED].map(
    (kind): Collect => (thread, start, end) => prefetchPackets(thread, start, end, kinds, kind),
  );
  const get = (key: string): string => packetText({ opcode: GET, key });
  const set = (key: string, extras: string, value: string): string =>
    packetText({ opcode: SET, key, extras, value });
  assertEquals(collected(gets!, get("a") + get("bc") + set("d", "", "")), [["a", "bc"], 51]);
  assertEquals(collected(sets!, set("a", "extras..", "v") + set("b", "", "")), [["a", "b"], 59]);
  assertEquals(collected(gets!, get(LONGEST))[0], [LONGEST]);
  const noGets = [
    get(""),
    get(`${LONGEST}k`),
    get("abc").slice(0, -1),
    get("a").slice(0, 23),
    packetText({ opcode: GET, key: "a", extras: "e" }),
    packetText({ opcode: GET, key: "a", value: "v" }),
    packetText({ opcode: NOOP }),
    "get a\r\n",
  ];
  for (const request of noGets) assertEquals(collected(gets!, request), [[], 0]);
  assertEquals(collected(sets!, set("abc", "extras..", "v").slice(0, 34))[0], []);
  assertEquals(collected(sets!, set("abc", "extras..", "value").slice(0, 36))[0], ["abc"]);
});

Deno.test("Prefetch.hashOf() knows the hashes of its keys, and computes those of all others", () => {
  const { prefetch, links } = thread.cache;
  const { input } = thread;
  const requests = "mg one v\r\nmg second v\r\nmg third v\r\n";
  const offsets = ["one", "second", "third"].map((key) => START + requests.indexOf(key));
  collected(prefetchLines, requests);
  const hashes = ["one", "second", "third"].map((key, index) =>
    links.index.hash(input, offsets[index]!, key.length)
  );
  assertEquals(prefetch.hashOf(input, offsets[0]!, 3), hashes[0]);
  // Changed behind its back, to see where a hash comes from.
  input.bytes.fill("y".charCodeAt(0), START);
  assertEquals(prefetch.lengthAt(offsets[0]!), 3);
  assertEquals(prefetch.hashOf(input, offsets[0]!, 3), hashes[0]);
  assertNotEquals(prefetch.hashOf(input, offsets[0]!, 2), hashes[0]);
  assertEquals(prefetch.lengthAt(offsets[0]! + 1), 0);
  assertEquals(prefetch.hashOf(input, offsets[2]!, 5), hashes[2], "the second was left out");
  const other = new ByteRegion(new ArrayBuffer(input.bytes.length));
  assertEquals(prefetch.hashOf(other, offsets[2]!, 5), links.index.hash(other, offsets[2]!, 5));
  prefetch.clear();
  assertEquals(prefetch.lengthAt(offsets[2]!), 0);
  assertNotEquals(prefetch.hashOf(input, offsets[2]!, 5), hashes[2]);
});

Deno.test("feed() forgets the keys of a group, so that no later input is taken for it", () => {
  const side = new ConversationSide();
  const connection = side.connect();
  connection.ask("set k1 0 0 1\r\na\r\nset k2 0 0 1\r\nb\r\nset k3 0 0 1\r\nc\r\n");
  assertEquals(side.thread.cache.prefetch.count, 0);
  assertEquals(
    connection.ask("mg k3 v\r\nmg k1 v\r\nmg k2 v\r\nmn\r\n"),
    "VA 1\r\nc\r\nVA 1\r\na\r\nVA 1\r\nb\r\nMN\r\n",
  );
});
