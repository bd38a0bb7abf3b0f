import { assertEquals, assertThrows } from "@std/assert";
import { cacheName, parseCachesFile } from "../../../../lib/rows/caches/caches_file.ts";
import { path } from "../../../support/servers/server_process.ts";

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
