import { assertEquals } from "@std/assert";
import type { CacheClient } from "../../../../lib/rows/caches/cache_client.ts";
import { CacheList } from "../../../../lib/rows/flows/cache_list.ts";
import { Flows } from "../../../../lib/rows/flows/flows.ts";
import type { Flow } from "../../../../lib/rows/flows/steps.ts";
import { TokenStates } from "../../../../lib/rows/flows/token_states.ts";
import { RowCommands } from "../../../../lib/rows/origin/row_commands.ts";
import type { StepRunner } from "../../../../lib/rows/origin/step_runner.ts";
import { latin1Bytes, latin1Text } from "../../../../store/base/bytes.ts";

const EPOCH = 1;
const NAME = "127.0.0.1:1";

/** A database without rows. */
const NO_ROWS = {
  run: (flow: Flow<CacheClient, unknown>) => {
    flow.next();
    return Promise.resolve(flow.next([{ row: null, version: 0, epoch: EPOCH }]).value);
  },
} as unknown as StepRunner;

Deno.test("uget: listed caches may keep rows, those that join or leave must not", async () => {
  const caches = new CacheList<CacheClient>(() => {
    throw new Error("no cache was noted before");
  });
  const flows = new Flows(caches, new TokenStates(EPOCH, 1, 1), 0);
  const forget = (): Promise<boolean> => Promise.resolve(false);
  const commands = new RowCommands(flows, NO_ROWS, forget, null, null, () => true);
  const { signal } = new AbortController();
  const seen: string[] = [];
  const look = async (): Promise<void> => {
    const reply = await commands.execute(latin1Bytes(`uget @${NAME} k\n`), () => {}, signal);
    const [, mark] = /^NONE k 0 ([CN])\r\nEND\r\n$/.exec(latin1Text(reply)) ?? [];
    seen.push(`${caches.named(NAME)?.state ?? "no member"}: ${mark}`);
  };
  const target = { name: NAME, weight: 1, cache: {} as CacheClient };
  for (const targets of [[target], []]) {
    const change = flows.changeCaches(targets);
    for (let yielded = change.next(); !yielded.done;) {
      await look();
      const isNote = yielded.value.kind === "noteCaches";
      yielded = change.next(isNote ? { kind: "noted", epoch: seen.length } : undefined);
    }
    await look();
  }
  assertEquals(seen, [
    ...["no member: N", "joining: N", "joining: N", "listed: C"],
    ...["leaving: N", "leaving: N", "no member: N", "no member: N"],
  ]);
});
