import { assertEquals } from "@std/assert";
import { LifecyclePhase } from "../../../../lib/process/lifecycle.ts";
import { CallIo, type RoundIo } from "../../../../lib/net/native/round_io.ts";
import { serveInThisThread } from "../../../support/servers/native_in_process.ts";
import { ServerProcess } from "../../../support/servers/server_process.ts";
import { ConversationSide } from "../../../support/sessions/conversation_side.ts";

Deno.test({
  name: "a thread with nothing to do applies delayed hits before it sleeps",
  // A thread keeps the C library until it ends.
  sanitizeResources: false,
  async fn(): Promise<void> {
    // With two threads, reads go without the mutex and delay their hits.
    const { shared, thread: { settings } } = new ConversationSide(["-t", "2"]);
    let applied = 0;
    let roundsAwake = 0;
    await serveInThisThread({
      shared,
      settings,
      hooks: {},
      makeIo(libc, { cache, times }, lifecycle): RoundIo {
        const beginRound = times.beginRound.bind(times);
        times.beginRound = (sockets, tick) => {
          beginRound(sockets, tick);
          if (sockets !== 0 || !cache.hasDelayedHits) return;
          roundsAwake++;
          lifecycle.phase = LifecyclePhase.STOPPING;
        };
        const applyHits = cache.applyHits.bind(cache);
        cache.applyHits = () => {
          if (cache.hasDelayedHits) applied++;
          applyHits();
          if (applied > 0) lifecycle.phase = LifecyclePhase.STOPPING;
        };
        return new CallIo(libc);
      },
      load: new URL("../../../support/load/idle_load.ts", import.meta.url),
    });
    assertEquals([applied, roundsAwake], [1, 0]);
  },
});

Deno.test("a connection that sends much at a time is not taken for a silent one", async () => {
  await using server = await ServerProcess.start({ io: "native", args: ["--test-commands"] });
  using client = await server.connect();
  using other = await server.connect();
  /** Longer than a slot of the inbox: the next read goes past the slots. */
  const requests = 1000;
  const ask = (): Promise<void> => client.ask("mn\r\n".repeat(requests), "MN\r\n".repeat(requests));
  /** How many rows have seen nothing for long: listeners never do. */
  const silent = async (): Promise<number> => {
    await other.send("stats conns\r\n");
    const seconds = [...(await other.until("END\r\n")).matchAll(/:secs_since_last_cmd (\d+)/g)];
    return seconds.filter(([, each]) => Number(each) > 900).length;
  };
  await ask();
  await other.ask("debugtime 1000\r\n", "OK\r\n");
  const before = await silent();
  await ask();
  assertEquals(await silent(), before - 1);
});
