import { assert, assertEquals } from "@std/assert";
import { ConversationSide } from "../support/sessions/conversation_side.ts";
import { parseStats } from "../support/sessions/side.ts";

const MIB = 1024 * 1024;

Deno.test("cache_memlimit raises the limit above -m, and lowers it again", () => {
  using side = new ConversationSide(["-m", "8", "-o", "memlimit_max=32"]);
  const peer = side.connect();
  const value = "x".repeat(10_000);
  const fill = (): void => {
    for (let n = 0; n < 6000; n++) peer.ask(`set key-${n} 0 0 10000\r\n${value}\r\n`);
  };
  const stats = (): Map<string, number> => parseStats(peer.ask("stats\r\n"));
  fill();
  const few = stats();
  assertEquals(few.get("limit_maxbytes"), 8 * MIB);
  assert(few.get("bytes")! < 8 * MIB);
  assertEquals(few.get("slab_global_page_pool"), 0);
  assertEquals(
    peer.ask("cache_memlimit 33\r\n"),
    "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n",
  );
  assertEquals(peer.ask("cache_memlimit 32\r\n"), "OK\r\n");
  fill();
  const many = stats();
  assertEquals(many.get("limit_maxbytes"), 32 * MIB);
  assert(many.get("bytes")! > 25 * MIB && many.get("bytes")! < 32 * MIB);
  side.check();
  assertEquals(peer.ask("cache_memlimit 10\r\n"), "OK\r\n");
  side.advanceNow(5);
  assert(stats().get("bytes")! < 10 * MIB);
});
