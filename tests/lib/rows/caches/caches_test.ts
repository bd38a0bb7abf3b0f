import { assertEquals, assertThrows } from "@std/assert";
import { cacheName, parseCachesFile } from "../../../../lib/rows/caches/caches_file.ts";
import { path } from "../../../support/servers/server_process.ts";
import { KetamaRing } from "../../../../lib/rows/caches/ketama.ts";

Deno.test("a file of caches has a cache on each line, weights, and comments", () => {
  const text = "# ours\n10.0.0.1:11211\n\n  [::1]:11212 3 # large\r\ncache.example:11211\t1000\n";
  const caches = parseCachesFile(text, "caches.txt");
  assertEquals(caches.map((cache) => [cacheName(cache), cache.weight]), [
    ["10.0.0.1:11211", 1],
    ["[::1]:11212", 3],
    ["cache.example:11211", 1000],
  ]);
});

Deno.test("contrib/caches.txt is a file of caches", () => {
  const text = Deno.readTextFileSync(path("contrib/caches.txt"));
  assertEquals(parseCachesFile(text, "caches.txt").map(({ weight }) => weight), [1, 2]);
});

Deno.test("mistakes in a file of caches are named with line and allowed form", () => {
  const form = "must be <host>:<port>, or <host>:<port> <weight>, with a port of 1..65535 " +
    "and a weight of 1..1000";
  const refused: readonly (readonly [text: string, message: string])[] = [
    ["a:1\nb\n", `caches.txt line 2: "b": ${form}`],
    ["a:0", `caches.txt line 1: "a:0": ${form}`],
    ["a:65536", `caches.txt line 1: "a:65536": ${form}`],
    ["a:1 0", `caches.txt line 1: "a:1 0": ${form}`],
    ["a:1 1001", `caches.txt line 1: "a:1 1001": ${form}`],
    ["a:1 2 3", `caches.txt line 1: "a:1 2 3": ${form}`],
    ["a:1\na:1 2", 'caches.txt line 2: "a:1 2": a:1 is named on line 1, too'],
    ["# nothing\n", "caches.txt: names no cache"],
    ["a\nb", `caches.txt line 1: "a": ${form}; caches.txt line 2: "b": ${form}`],
  ];
  for (const [text, message] of refused) {
    const error = assertThrows(() => parseCachesFile(text, "caches.txt"), RangeError);
    assertEquals(error.message, message);
  }
});

/** Keys of each cache, of 10,000 keys. */
function spread(weights: readonly number[]): number[] {
  const caches = weights.map((weight, cache) => ({ name: `10.0.1.${cache}:11211`, weight, cache }));
  const ring = new KetamaRing(caches);
  const counts = weights.map(() => 0);
  for (let key = 0; key < 10_000; key++) counts[ring.of(`key${key}`)!]!++;
  return counts;
}

Deno.test("ketama gives a cache keys by its weight, and moves only the keys of a cache that leaves", () => {
  const [light, heavy] = spread([1, 3]) as [number, number];
  assertEquals(Math.round(heavy / light), 3);
  const caches = ["a:1", "b:1", "c:1"].map((name) => ({ name, weight: 1, cache: name }));
  const three = new KetamaRing(caches);
  const two = new KetamaRing(caches.slice(0, 2));
  for (let key = 0; key < 1000; key++) {
    const before = three.of(`${key}`);
    if (before !== "c:1") assertEquals(two.of(`${key}`), before);
  }
  assertEquals(new KetamaRing([]).of("key"), undefined);
});
