import { assertEquals, assertLess } from "@std/assert";
import { bindNative } from "../../../lib/net/native/bind.ts";
import { NativeThread } from "../../../lib/net/native/thread.ts";
import type { TransportOptions } from "../../../lib/net/transport.ts";
import { Lifecycle, LifecyclePhase } from "../../../lib/lifecycle.ts";
import type { TlsSettings } from "../../../protocol/settings.ts";
import { ThreadContext } from "../../../protocol/thread_context.ts";
import { ThreadProtocols } from "../../../protocol/thread_protocols.ts";
import { type AllocationLoad, ROUNDS, WARM_UPS } from "../../support/load/allocation_load.ts";
import { waitingFor } from "../../support/waiting.ts";
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
import { TRANSPORTS } from "../../support/servers/server_process.ts";

const OPTIONS: TransportOptions = {
  threads: 1,
  backlog: 16,
  maxconnsFast: true,
  idleTimeoutSec: 0,
  sendTimeoutSec: 60,
  lockIdleTimeoutSec: 0,
  authTimeoutSec: 30,
  udpReplyMaxBytes: 4096,
  tls: null,
};

function testAllocation(name: string, serve: () => Promise<number[]>): void {
  Deno.test({
    name,
    // A thread keeps the C library until it ends.
    sanitizeResources: false,
    ignore: !TRANSPORTS.includes("native"),
    async fn(t): Promise<void> {
      const marks = (await serve()).slice(WARM_UPS);
      const names = Object.keys(REQUESTS);
      assertEquals(marks.length, names.length * ALLOCATION_TRIES * 3);
      for (const name of names) {
        await t.step(name, () => {
          let least = Infinity;
          for (let attempt = 0; attempt < ALLOCATION_TRIES; attempt++) {
            const [first, second, third] = marks.splice(0, 3) as [number, number, number];
            const bytes = third - second - (second - first);
            least = Math.min(least, bytes / (ROUNDS * REQUEST_COUNT));
          }
          assertLess(least, BYTES_PER_REQUEST_MAX);
        });
      }
    },
  });
}

testAllocation(
  "the native transport allocates nothing for requests, sockets included",
  () => serveLoad(null),
);

testAllocation("TLS over the native transport allocates nothing for requests", async () => {
  using certificates = new Certificates();
  const { certPath, keyPath } = certificates.make("localhost");
  const { settings } = serverOptions(
    ...["-Z", "-o", `ssl_chain_cert=${certPath},ssl_key=${keyPath}`],
  );
  return await serveLoad(settings.tls);
});

/**
 * Serves the load in this thread. Returns what had been allocated at each look at the statistics.
 *
 * @param tls Null: plain.
 */
async function serveLoad(tls: TlsSettings | null): Promise<number[]> {
  const options = { ...OPTIONS, tls };
  const marks: number[] = [];
  const { shared, thread: { settings } } = new ConversationSide(FEED_OPTIONS);
  const hooks = {
    shutdown: () => {},
    processState: () => {
      marks.push(allocatedBytes());
      return { userMicroseconds: 0, systemMicroseconds: 0, accepting: true };
    },
    tokensDropped: () => {},
    authenticate: () => {},
  };
  const address = { kind: "tcp", hostname: "127.0.0.1", port: 0, protocol: "auto" } as const;
  const host = bindNative([tls === null ? address : { ...address, tls: "tls" }], options);
  const lifeShared = Lifecycle.createShared(1);
  const thread = new ThreadContext(shared, settings, hooks);
  const transport = new NativeThread({
    thread,
    protocols: new ThreadProtocols(thread),
    threadIndex: 0,
    options,
    lifecycle: new Lifecycle(lifeShared),
    workerData: host.workerData(0),
    report: () => {},
  });
  const worker = new Worker(new URL("../../support/load/allocation_load.ts", import.meta.url), {
    type: "module",
    name: "allocation load",
  });
  await waitingFor("the load worker", new Promise((resolve) => worker.onmessage = resolve));
  const [listen] = host.listens;
  if (listen?.kind !== "tcp") throw new Error("Cannot know the port");
  const load: AllocationLoad = { port: listen.port, lifecycle: lifeShared, tls: tls !== null };
  host.listen();
  worker.postMessage(load);
  transport.open();
  new Lifecycle(lifeShared).phase = LifecyclePhase.RUNNING;
  transport.serve();
  host.close();
  worker.terminate();
  return marks;
}
