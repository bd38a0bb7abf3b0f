import { assert } from "@std/assert";
import { Libc, microsecondClock } from "../../../lib/net/native/libc.ts";
import { createClock, type TransportName } from "../../../lib/net/transports.ts";
import { TRANSPORTS } from "../../support/servers/server_process.ts";
import { needs } from "../../support/needs/needs.ts";

/** Of the runtime's clock, with room to spare. */
const RESOLUTION_US = 100;

const WORKER = `
  import { createClock } from "${import.meta.resolve("../../../lib/net/transports.ts")}";
  self.onmessage = ({ data }) => self.postMessage(createClock(data)());
`;

/** Reads the clock on a thread of its own. */
async function readElsewhere(name: TransportName): Promise<number> {
  const worker = new Worker(`data:text/javascript,${encodeURIComponent(WORKER)}`, {
    type: "module",
  });
  const { promise, resolve } = Promise.withResolvers<number>();
  worker.onmessage = ({ data }: MessageEvent<number>) => resolve(data);
  worker.postMessage(name);
  const nowMs = await promise;
  worker.terminate();
  return nowMs;
}

for (const name of TRANSPORTS) {
  Deno.test({
    name: `all threads have the same clock, ${name} transport`,
    // A thread keeps its clock, and with it the C library.
    sanitizeResources: false,
    fn: async () => {
      const clock = createClock(name);
      const before = clock();
      const elsewhere = await readElsewhere(name);
      const after = clock();
      assert(before <= elsewhere && elsewhere <= after, `${before} ${elsewhere} ${after}`);
    },
  });
}

/** The kernel's time since the boot, in milliseconds; it counts hundredths of a second. */
function uptimeMs(): number {
  return Number(Deno.readTextFileSync("/proc/uptime").split(" ")[0]) * 1000;
}

Deno.test({
  name: "the clock of the native transport counts the time of suspensions",
  ...needs("native", TRANSPORTS.includes("native")),
  sanitizeResources: false,
  fn: () => {
    const clock = createClock("native");
    const before = uptimeMs();
    const now = clock();
    assert(before <= now && now <= uptimeMs() + 10, `${before} ${now}`);
  },
});

Deno.test("the clock of latencies counts microseconds", {
  ...needs("native", TRANSPORTS.includes("native")),
}, () => {
  using libc = new Libc();
  const clockUs = new Float64Array(2);
  const readClock = microsecondClock(libc.calls, clockUs);
  const outerMs = performance.now();
  readClock();
  const innerMs = performance.now();
  const [beforeUs] = clockUs;
  assert(beforeUs! > 0);
  while (performance.now() < innerMs + 2);
  const leastUs = (performance.now() - innerMs) * 1000;
  readClock();
  const mostUs = (performance.now() - outerMs) * 1000;
  const passedUs = clockUs[0]! - beforeUs!;
  const isBetween = leastUs - RESOLUTION_US <= passedUs && passedUs <= mostUs + RESOLUTION_US;
  assert(isBetween, `${leastUs} ${passedUs} ${mostUs}`);
  assert(clockUs[1] === 0);
});
