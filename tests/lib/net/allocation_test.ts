import { assertEquals, assertLess } from "@std/assert";
import { IoUring, openRing } from "../../../lib/net/native/io_uring.ts";
import { RingIo } from "../../../lib/net/native/round_io.ts";
import { ROUNDS, WARM_UPS } from "../../support/load/allocation_load.ts";
import { ConversationSide } from "../../support/sessions/conversation_side.ts";
import {
  allocatedBytes,
  ALLOCATION_TRIES,
  BYTES_PER_REQUEST_MAX,
  FEED_OPTIONS,
  REQUEST_COUNT,
  REQUESTS,
} from "../../support/load/feed_loop.ts";
import { serverOptions } from "../../support/command_line.ts";
import { Certificates } from "../../support/servers/certificates.ts";
import { IO_URING_MISSING } from "../../support/servers/io_uring.ts";
import {
  type InProcessServer,
  serveInThisThread,
} from "../../support/servers/native_in_process.ts";
import { TRANSPORTS } from "../../support/servers/server_process.ts";
import { needs } from "../../support/needs/needs.ts";

/** The smallest ring of a thread that serves one connection: every receive and send goes through it. */
const RING_ENTRIES = 64;
/** Loads at most, while they find too much. */
const LOADS_MAX = 3;

const hasNative = TRANSPORTS.includes("native");

testAllocations("the native transport", hasNative, () => serveLoad({}));
testAllocations("the native transport with io_uring", IO_URING_MISSING === "", () =>
  serveLoad({
    makeIo: (libc, thread) =>
      new RingIo(new IoUring(libc, openRing(libc, RING_ENTRIES)), libc, thread, 1),
  }));
testAllocations("TLS over the native transport", hasNative, async () => {
  using certificates = new Certificates();
  const { certPath, keyPath } = certificates.make("localhost");
  const { tls } = serverOptions(
    ...["-Z", "-o", `ssl_chain_cert=${certPath},ssl_key=${keyPath}`],
  );
  return await serveLoad({ tls });
});

function testAllocations(name: string, isPossible: boolean, serve: () => Promise<number[]>): void {
  Deno.test({
    name: `${name} allocates nothing for requests, sockets included`,
    // A thread keeps the C library until it ends.
    sanitizeResources: false,
    ...needs("native", isPossible),
    async fn(t): Promise<void> {
      const names = Object.keys(REQUESTS);
      let least = names.map(() => Infinity);
      const isTooMuch = (bytes: number): boolean => bytes >= BYTES_PER_REQUEST_MAX;
      // On a busy machine the engine is still compiling when the first load is over.
      for (let load = 0; load < LOADS_MAX && least.some(isTooMuch); load++) {
        const marks = (await serve()).slice(WARM_UPS);
        assertEquals(marks.length, names.length * ALLOCATION_TRIES * 3);
        least = least.map((before) => Math.min(before, leastOf(marks)));
      }
      for (const [index, name] of names.entries()) {
        await t.step(name, () => assertLess(least[index]!, BYTES_PER_REQUEST_MAX));
      }
    },
  });
}

/** Takes the marks of a kind of request. @returns The fewest bytes that one request has allocated. */
function leastOf(marks: number[]): number {
  let least = Infinity;
  for (let attempt = 0; attempt < ALLOCATION_TRIES; attempt++) {
    const [first, second, third] = marks.splice(0, 3) as [number, number, number];
    const bytes = third - second - (second - first);
    least = Math.min(least, bytes / (ROUNDS * REQUEST_COUNT));
  }
  return least;
}

/** Serves the load in this thread. Returns what had been allocated at each look at the statistics. */
async function serveLoad(how: Pick<InProcessServer, "makeIo" | "tls">): Promise<number[]> {
  const marks: number[] = [];
  const { shared, thread: { settings } } = new ConversationSide(FEED_OPTIONS);
  await serveInThisThread({
    shared,
    settings,
    hooks: {
      processState: () => {
        marks.push(allocatedBytes());
        return { userMicroseconds: 0, systemMicroseconds: 0, accepting: true };
      },
    },
    ...how,
    load: new URL("../../support/load/allocation_load.ts", import.meta.url),
  });
  return marks;
}
